"""Tells the daemon once a second how a lane or the driver is doing. Hints only: nothing waits for them and they prove
nothing.

Records go through a small producer of their own, without transactions and with a bounded queue; when the cluster does
not take them they are dropped. A report that must not get lost (the driver's last one) is flushed by its sender.
"""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from recoveryd_jobs.clients import make_sender
from recoveryd_jobs.contract import ControlSpec, DriverHeartbeat, LaneHeartbeat, encode, progress_key

INTERVAL_S = 1.0
_CLOSE_TIMEOUT_S = 3.0
_ONLY_PARTITION = 0  # also of a topic that was given more: the daemon hears this one, and ends when it sees others

Report = LaneHeartbeat | DriverHeartbeat

_log = logging.getLogger("recoveryd.progress")


class ProgressSender:
    """Sends `snapshot()` every second, and at once after `nudge()`, from its own thread, until `close`."""

    def __init__(self, control: ControlSpec, client_id: str, lane: int | None, snapshot: Callable[[], Report]) -> None:
        self._topic = control.progress_topic
        self._lane = lane
        self._snapshot = snapshot
        self._producer: Producer | None = make_sender(control.client, client_id)  # None = closed
        self._wake = threading.Event()
        self._closing = False
        self._has_complained = False
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def nudge(self) -> None:
        """Ask for a heartbeat at once, because something changed that the daemon waits for."""
        self._wake.set()

    def send_now(self, timeout_s: float) -> bool:
        """Send a snapshot and wait until the broker has it; False when that takes longer than `timeout_s`."""
        producer = self._producer
        self._send()
        try:
            return producer is not None and bool(producer.flush(timeout_s) == 0)
        except KafkaException:
            return False

    def close(self) -> None:
        """Send the last snapshot, wait a moment for it to arrive, then close.

        The lane holds its sender, and the sender holds the lane. Only a garbage collection would free the two, and a
        worker of Spark that waits for its next task makes none: so the client is let go here, or it would stay
        connected.
        """
        self._closing = True
        self._wake.set()
        self._thread.join(_CLOSE_TIMEOUT_S)
        self.send_now(_CLOSE_TIMEOUT_S)
        self._producer = None

    def _run(self) -> None:
        while not self._closing:
            self._send()
            self._wake.wait(INTERVAL_S)
            self._wake.clear()

    def _send(self) -> None:
        producer = self._producer
        if producer is None:
            return
        report = dataclasses.replace(self._snapshot(), sent_ms=time.time_ns() // 1_000_000)
        raw = encode(report)
        try:
            key = progress_key(report.recovery, self._lane)
            producer.produce(self._topic, raw, key, _ONLY_PARTITION, on_delivery=self._on_delivery)
            producer.poll(0)
        except BufferError:
            return
        except KafkaException as raised:
            self._complain(f"{raised.args[0].str()} ({len(raw)} bytes)")

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._complain(error.str())

    def _complain(self, why: str) -> None:
        """Once: the daemon takes whoever stays silent for dead, and his log should say why he was."""
        if not self._has_complained:
            self._has_complained = True
            _log.warning("a report to %s was not sent: %s", self._topic, why)
