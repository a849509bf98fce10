"""Live traffic: real flights at a steady rate, with the present time, and how quickly Kafka takes them.

This produce latency is what a replay must not spoil, so it is measured as an application would see it: from
`produce` to the acknowledgement of each record. The pace follows the clock and not the broker: a slow broker makes
latencies long, and the traffic stays the same.
"""

import hashlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer

from recoveryd_sandbox.flights import Flight, flights
from recoveryd_sandbox.probe import PLAIN
from recoveryd_sandbox.topics import Topics

TOPIC_CONFIG = {"retention.ms": "-1"}

_DISTINCT_FLIGHTS_MAX = 20_000  # enough variety, quick to load
_LATENCIES_KEPT_MAX = 20_000
_TICK_S, _TELL_S = 0.01, 1.0
_BREATH_S = 0.002
_CATCH_UP_MAX_S = 1.0  # after the machine slept, do not send everything that was missed at once
_FLUSH_DEADLINE_S, _BURST_DEADLINE_S = 120.0, 240.0
_READ_RECORDS, _READ_S, _COMMIT_S = 5_000, 0.2, 1.0
_JOIN_DEADLINE_S = _FLUSH_DEADLINE_S + 5.0


@dataclass(frozen=True)
class LiveStats:
    """Counts since the start; latencies of the last 20,000 acknowledged records, `None` before the first."""

    acked_records: int
    failed_records: int
    seconds: float
    latency_p50_ms: float | None
    latency_p99_ms: float | None

    @property
    def records_per_s(self) -> float:
        return self.acked_records / self.seconds if self.seconds > 0 else 0.0


class LiveProducer:
    """Produces `records_per_s` flights to `topic` from a thread of its own, creating the topic when needed.

    As a context manager it starts on entry and stops on exit. `stop` waits until every record is acknowledged or
    failed.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str = "flights.live",
        records_per_s: float = 200.0,
        partitions: int = 4,
        client: Mapping[str, str] = PLAIN,
    ) -> None:
        if records_per_s <= 0:
            raise ValueError(f"records_per_s must be above 0, not {records_per_s}")
        self._bootstrap = bootstrap
        self._client = {**client, "bootstrap.servers": bootstrap}
        self._producer = {
            **self._client,
            "client.id": "recoveryd-sandbox-live",
            "acks": "all",
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "queue.buffering.max.messages": 100_000,
            "log_level": 0,
        }
        self._topic = topic
        self._records_per_s = records_per_s
        self._partitions = partitions
        self._samples: list[Flight] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox-live", daemon=True)
        self._lock = threading.Lock()
        self._latencies_ms: deque[float] = deque(maxlen=_LATENCIES_KEPT_MAX)
        self._recent_ms: deque[float] = deque(maxlen=_LATENCIES_KEPT_MAX)
        self._acked = self._failed = 0
        self._started_s = self._ended_s = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Creates the topic and starts the traffic. Raises `SandboxError` when Kafka does not answer. Call it once."""
        Topics(self._bootstrap, self._client).create(self._topic, self._partitions, TOPIC_CONFIG)
        self._samples = list(flights(_DISTINCT_FLIGHTS_MAX))
        self._started_s = time.monotonic()
        self._thread.start()

    def stop(self) -> LiveStats:
        """Ends the traffic and returns the final counts; a second call returns them again."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_DEADLINE_S)
        return self.stats()

    def burst(self, records: int) -> None:
        """Beside the steady rate, so many records at once, from a second producer; returns when all are acknowledged or
        failed. They count, but not among the latencies, which would show how long they queued here.
        """
        producer = Producer({**self._producer, "on_delivery": self._count_delivery})
        for sample in itertools.islice(itertools.cycle(self._samples), records):
            self._send(producer, sample)
            producer.poll(0)
        unanswered = producer.flush(_BURST_DEADLINE_S)
        with self._lock:
            self._failed += unanswered

    def change_rate(self, records_per_s: float) -> None:
        """From now on so many. Thread-safe."""
        self._records_per_s = records_per_s

    def stats(self) -> LiveStats:
        """The present counts. Thread-safe."""
        with self._lock:
            ordered = sorted(self._latencies_ms)
            acked, failed = self._acked, self._failed
        ended_s = self._ended_s or time.monotonic()
        seconds = ended_s - self._started_s if self._started_s else 0.0
        return LiveStats(acked, failed, seconds, _quantile(ordered, 0.5), _quantile(ordered, 0.99))

    def recent_p99_ms(self) -> float | None:
        """Of the records acknowledged since the last call; None when there were none. Thread-safe."""
        with self._lock:
            ordered = sorted(self._recent_ms)
            self._recent_ms.clear()
        return _quantile(ordered, 0.99)

    def _run(self) -> None:
        producer = Producer({**self._producer, "on_delivery": self._note_delivery})
        samples = itertools.cycle(self._samples)
        origin_s, sent, per_s = time.monotonic(), 0, self._records_per_s
        while not self._stop.is_set():
            if per_s != self._records_per_s:
                origin_s, sent, per_s = time.monotonic(), 0, self._records_per_s
            next_due_s = origin_s + (sent + 1) / per_s - time.monotonic()
            # The callback that measures latency runs in `poll`, so the wait is there. It is never shorter than a
            # breath: at thousands of records per second a loop from record to record would keep a core busy with
            # waiting.
            producer.poll(min(_TICK_S, max(_BREATH_S, next_due_s)))
            elapsed_s = time.monotonic() - origin_s
            missed_s = elapsed_s - sent / per_s
            if missed_s > _CATCH_UP_MAX_S:
                origin_s += missed_s
                continue
            for _ in range(int(elapsed_s * per_s) - sent):
                self._send(producer, next(samples))
                sent += 1
        unanswered = producer.flush(_FLUSH_DEADLINE_S)
        with self._lock:
            self._failed += unanswered
        self._ended_s = time.monotonic()

    def _send(self, producer: Producer, sample: Flight) -> None:
        try:
            producer.produce(self._topic, _with_time(sample.value, datetime.now(UTC)), sample.key)
        except BufferError:  # the queue is full: the record is lost, as it would be to a real application
            with self._lock:
                self._failed += 1
            producer.poll(_TICK_S)

    def _count_delivery(self, error: KafkaError | None, _message: Message) -> None:
        with self._lock:
            self._acked += error is None
            self._failed += error is not None

    def _note_delivery(self, error: KafkaError | None, message: Message) -> None:
        latency_s = message.latency()
        with self._lock:
            if error is not None:
                self._failed += 1
                return
            self._acked += 1
            if latency_s is not None:
                self._latencies_ms.append(latency_s * 1000.0)
                self._recent_ms.append(latency_s * 1000.0)


def produce(
    bootstrap: str,
    topic: str,
    records_per_s: float,
    seconds: float | None,
    on_tick: Callable[[LiveStats], None] = lambda _: None,
    client: Mapping[str, str] = PLAIN,
) -> LiveStats:
    """Produce live traffic for `seconds`, or without it until Ctrl-C, and return the final counts.

    `on_tick` is called with the present counts about once a second.
    """
    with LiveProducer(bootstrap, topic, records_per_s, client=client) as live:
        ends_at_s = None if seconds is None else time.monotonic() + seconds
        try:
            while ends_at_s is None or time.monotonic() < ends_at_s:
                time.sleep(_TELL_S if ends_at_s is None else max(0.0, min(_TELL_S, ends_at_s - time.monotonic())))
                on_tick(live.stats())
        except KeyboardInterrupt:
            pass  # the intended end of traffic without a set time
        return live.stop()


class LiveReader:
    """Reads a topic in a group from its end on and commits each second: the protected group of the demo and the game
    day. `slow_down` makes it take no more than so many records per second, until `hurry`. With `work_s` it computes for
    so many seconds of a core per record, so whatever else uses the cores makes it slower.
    """

    def __init__(self, bootstrap: str, topic: str, group: str, work_s: float = 0.0) -> None:
        self._work_s = work_s
        self._records_per_s: float | None = None
        self._behind_s = 0.0
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox-live-reader", daemon=True)
        self._config = {
            "bootstrap.servers": bootstrap,
            "client.id": "recoveryd-sandbox-board",
            "group.id": group,
            "auto.offset.reset": "latest",
            "enable.auto.commit": False,
            "log_level": 0,
        }

    def start(self) -> None:
        """Call it once."""
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_DEADLINE_S)

    def slow_down(self, records_per_s: float) -> None:
        """Thread-safe."""
        self._records_per_s = records_per_s

    def behind_s(self) -> float:
        """How old the newest record was when it was read. Thread-safe."""
        return self._behind_s

    def hurry(self) -> None:
        """From now on as fast as it can. Thread-safe."""
        self._records_per_s = None

    def _run(self) -> None:
        consumer = Consumer(self._config)
        consumer.subscribe([self._topic])
        committed_s, has_read = time.monotonic(), False
        while not self._stop.is_set():
            most_per_s, began_s = self._records_per_s, time.monotonic()
            record_s = max(self._work_s, 1 / most_per_s if most_per_s else 0.0)
            wanted = max(1, int(_READ_S / record_s)) if record_s else _READ_RECORDS
            records = [message for message in consumer.consume(wanted, _READ_S) if message.error() is None]
            if records:
                self._behind_s = time.time() - records[-1].timestamp()[1] / 1000
            if self._work_s:
                _compute(records, self._work_s)
            has_read |= bool(records)
            if most_per_s is not None:
                self._stop.wait(max(0.0, began_s + _READ_S - time.monotonic()))
            if has_read and time.monotonic() - committed_s >= _COMMIT_S:
                consumer.commit(asynchronous=True)
                committed_s, has_read = time.monotonic(), False
        consumer.close()


def _compute(records: Sequence[Message], work_s: float) -> None:
    """Something with each record, until this thread has had so many seconds of a core for each."""
    until_s = time.thread_time() + len(records) * work_s
    for value in itertools.cycle([message.value() or b"" for message in records]):
        if time.thread_time() >= until_s:
            return
        hashlib.sha256(value)


def _with_time(value: bytes, now: datetime) -> bytes:
    """The flight's JSON with one more field, `sent_at`: when it was handed to Kafka, ms precision, UTC."""
    stamp = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value[:-1] + b',"sent_at":"' + stamp.encode("ascii") + b'"}'


def _quantile(ordered: list[float], share: float) -> float | None:
    """Nearest-rank quantile of sorted values; `None` when there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
