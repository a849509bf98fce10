"""How long pause and stop of a running replay take, from the command to the status that says so, with a short ledger
and with a long one.

A real daemon and a real application. The recovery is paused, its application ended and its ledger made long by receipts
written in bulk; the next attempt reads them once, and is measured after that. Receipts of others are in the same
partition, half of them before the first recovery's and half among them. What was stopped is over, so each repetition
takes a recovery of its own, of which the first brings most of the others' receipts.
"""

import contextlib
import os
import signal
import time
from typing import Any

from confluent_kafka import Producer

from bench.bed import Bed
from bench.control import ControlWriter, command, encoded, replay
from bench.daemon_process import DaemonProcess, Home, leading
from bench.ledger import FEW, FLAT, MANY, OTHERS, Filler, foreign_receipt
from bench.result import Report, Row, Series
from recoveryd_jobs import contract
from recoveryd_sandbox.daemon_process import pids_naming

NAME = "pausing"
_SOURCE, _MORE = "bench.pausing", 200_000
_RATE = 5_000
_DEADLINE_S = 600.0
_PAUSE, _STOP = "pause", "stop"


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    scale = 100 if quick else 1
    many, others = MANY // scale, OTHERS // scale
    _fill_source(bed, many + _MORE)
    home = Home(bed, "pausing")
    found = {FEW: Series("s"), many: Series("s")}
    with leading(home) as daemon:
        for own, series in found.items():
            for turn in range(repeat):
                recovery = _Recovery(bed, daemon, own, 2 * own if turn else others // 2)
                recovery.make()
                series.add(_PAUSE, recovery.seconds_until(_PAUSE, "paused"))
                recovery.resume()
                series.add(_STOP, recovery.seconds_until(_STOP, "stopped"))
    rows = tuple(
        Row(f"{verb} of a replay with {many:,} receipts", found[many].sample(verb), f"{FEW:,} receipts",
            found[FEW].sample(verb),
            ratio_at_most=FLAT)
        for verb in (_PAUSE, _STOP)
    )  # fmt: skip
    note = (
        f"from the command handed to the producer to the status by HTTP; {others:,} receipts of others and more in the "
        "same partition"
    )
    return [Report("Pause and stop of a long recovery", rows, (note,))]


def _fill_source(bed: Bed, count: int) -> None:
    bed.create(_SOURCE, 1)
    producer = Producer({"bootstrap.servers": bed.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    for number in range(count):
        while True:
            try:
                producer.produce(_SOURCE, b"%d" % number, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_DEADLINE_S):
        raise RuntimeError("the source could not be filled")


class _Recovery:
    """A recovery with `own` receipts in partition 0 of the receipts topic, which all receipts here use."""

    def __init__(self, bed: Bed, daemon: DaemonProcess, own: int, others: int) -> None:
        self._bed, self._daemon, self._own, self._others = bed, daemon, own, others
        names = daemon.home.names
        self._writer = ControlWriter(bed.bootstrap, names.control)
        self._filler = Filler(bed.bootstrap, names.receipts, 0)
        self._id = self._target = ""

    def make(self) -> None:
        """Start it; returns when it runs and its lane has read the long ledger."""
        for _ in range(self._others // 2):
            self._put_foreign()
        self._id = self._name()
        self._target = f"bench.out.{self._id}"
        order = replay(self._id, _SOURCE, self._target, verify="none", limits={"max_records_per_s": _RATE})
        self._writer.send([encoded(order)])
        self._await("running", lambda s: self._position(s) > 0)
        self.seconds_until(_PAUSE, "paused")
        self._end_application()
        at = self._position(self._status())
        self._lengthen(at)
        self.resume(at + self._own)
        self.resume(
            at + self._own + 2 * _RATE
        )  # by then a head was written after the long ledger, and the daemon knows it

    def seconds_until(self, verb: str, state: str) -> float:
        order = encoded(command(verb, self._id, {}))
        began_s = time.monotonic()
        self._writer.send([order])
        self._await(state)
        return time.monotonic() - began_s

    def resume(self, beyond: int = 0) -> None:
        """Resume; returns when it runs and something was copied."""
        status = self._status()
        beyond = max(beyond, self._position(status))
        if status["state"] == "paused":
            self._writer.send([encoded(command("resume", self._id, {}))])
        self._await("running", lambda s: self._position(s) > beyond)

    def _name(self) -> str:
        """A name whose receipts belong in partition 0."""
        partitions = len(
            self._bed.admin.list_topics(self._daemon.home.names.receipts)
            .topics[self._daemon.home.names.receipts]
            .partitions
        )
        while contract.receipts_partition(name := self._bed.unique("long"), partitions):
            pass
        return name

    def _end_application(self) -> None:
        folder = str(self._daemon.work / self._id)
        for pid in pids_naming(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._daemon.wait_for(lambda: not pids_naming(folder), "let go of the application", _DEADLINE_S)

    def _lengthen(self, at: int) -> None:
        """Write receipts of one offset each, which say that no visible record was there."""
        ids = self._bed.topic_id(_SOURCE), self._bed.topic_id(self._target)
        every = max(1, self._others // 2 // self._own)
        for number in range(self._own):
            receipt = contract.Receipt(
                self._daemon.home.scope, self._id, 0, 1, 1_000 + number, 0, at + number, at + number + 1, 0, 0, 1, 0, 0,
                (), *ids, 1
            )  # fmt: skip
            self._filler.put(receipt.key.encode(), contract.encode(receipt))
            for _ in range(every):
                self._put_foreign()
        self._filler.flush()

    def _put_foreign(self) -> None:
        self._filler.put(*foreign_receipt(self._daemon.home.scope))

    def _status(self) -> dict[str, Any]:
        return self._daemon.status(self._id) or {"state": "", "progress": {"partitions": []}}

    @staticmethod
    def _position(status: dict[str, Any]) -> int:
        return sum(int(p["position"]) for p in status["progress"]["partitions"])

    def _await(self, state: str, also: Any = lambda _status: True) -> None:
        def is_so() -> bool:
            status = self._status()
            if status["state"] == "failed":
                raise RuntimeError(f"{self._id} failed: {status['why']}")
            return bool(status["state"] == state and also(status))

        self._daemon.wait_for(is_so, f"show {self._id} {state}", _DEADLINE_S)
