"""Source data for end-to-end tests, plain and as nasty as Kafka allows, written with plain producers. The checker reads
it back itself.
"""

import asyncio
import threading
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from tests.builders.history import Draft, create_topics, produce, transactional
from tests.e2e.clients import writer
from tests.e2e.log_reader import await_markers

BASE_MS = 1_700_000_000_000
_FLUSH_S = 120.0
_STOP_DEADLINE_S = 120.0


def fill_plain(
    bootstrap: str,
    topic: str,
    partitions: int,
    records_each: int,
    *,
    value_bytes: int = 100,
    start_ms: int = BASE_MS,
    compression: str = "lz4",
) -> None:
    """Creates the topic; each partition gets `records_each` unique records, one per second of CreateTime from
    `start_ms` on.
    """
    create_topics(bootstrap, {topic: partitions})
    producer = writer(bootstrap, linger_ms=20, compression_type=compression)
    write_plain(producer, topic, range(partitions), range(records_each), value_bytes=value_bytes, start_ms=start_ms)


def write_plain(
    producer: Producer,
    topic: str,
    partitions: Iterable[int],
    numbers: Iterable[int],
    *,
    value_bytes: int = 100,
    start_ms: int = BASE_MS,
) -> None:
    places = list(partitions)
    for number in numbers:
        for partition in places:
            value = f"{partition}-{number}-".encode().ljust(value_bytes, b"x")
            headers = (("n", str(number).encode()),) if number % 10 == 0 else ()
            produce(
                producer, topic, Draft(partition, f"k{number % 997}".encode(), value, headers, start_ms + number * 1000)
            )
    assert producer.flush(_FLUSH_S) == 0


def nasty_drafts(partition: int, count: int) -> list[Draft]:
    """Null and empty keys and values, tombstones, repeated, null and empty headers, times -1, far future, far past and
    not monotone.
    """
    now_ms = int(time.time() * 1000)
    times = (BASE_MS, -1, 1, BASE_MS + 500, BASE_MS - 86_400_000, now_ms + 3_000_000, BASE_MS, 2_000_000_000_000)
    headers: Sequence[Any] = (
        (), (("a", b"1"), ("a", None), ("b", b""), ("a", b"1")), (("", b""),), (("z", bytes(range(256))),), (("é", "ü".encode()), ("a", None)),
    )  # fmt: skip
    keys = (b"k", None, b"", b"k", b"\x00\xff")
    drafts = []
    for number in range(count):
        body = f"{partition}-{number}".encode()
        value = (body, None, b"", body * 50, body, b"\x00" * 7 + body)[number % 6]
        key = keys[number % 5]
        named = None if key is None else key + str(number // 5).encode() if key else b""
        drafts.append(Draft(partition, named, value, headers[number % len(headers)], times[number % len(times)]))
    return drafts


def fill_nasty(bootstrap: str, topic: str, records_each: int = 400) -> None:
    """Four partitions: 0 interleaved transactions, one of them aborted; 1 plain, with a marker-only tail; 2 empty; 3
    only aborted records.

    The topic takes any CreateTime. Time 0 is added by `add_time_zero`, because librdkafka cannot write it.
    """
    create_topics(bootstrap, {topic: 4}, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    good, bad = transactional(bootstrap, f"{topic}-good"), transactional(bootstrap, f"{topic}-bad")
    drafts = nasty_drafts(0, records_each)
    step = max(1, len(drafts) // 4)
    for start in range(0, len(drafts), step):
        good.begin_transaction()
        bad.begin_transaction()
        for draft in drafts[start : start + step]:
            produce(good, topic, draft)
            good.flush(_FLUSH_S) if draft.key is None else good.poll(0)
            produce(bad, topic, Draft(0, b"aborted", b"never " + (draft.value or b""), draft.headers, BASE_MS))
            bad.poll(0)
        bad.flush(_FLUSH_S)
        good.flush(_FLUSH_S)
        bad.abort_transaction(_FLUSH_S)
        good.commit_transaction(_FLUSH_S)
    good.begin_transaction()
    for draft in nasty_drafts(1, records_each):
        produce(good, topic, draft)
    good.commit_transaction(_FLUSH_S)
    bad.begin_transaction()
    for number in range(20):
        produce(bad, topic, Draft(1, b"tail", str(number).encode(), (), BASE_MS))
        produce(bad, topic, Draft(3, b"only", str(number).encode(), (), BASE_MS))
    bad.flush(_FLUSH_S)
    bad.abort_transaction(_FLUSH_S)
    await_markers(bootstrap, topic)


def add_time_zero(bootstrap: str, topic: str, partition: int, count: int = 3) -> None:
    """Records with CreateTime 0, the first millisecond of the epoch."""

    async def write() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await producer.start()
        try:
            for number in range(count):
                await producer.send_and_wait(topic, b"zero-%d" % number, partition=partition, timestamp_ms=0)
        finally:
            await producer.stop()

    asyncio.run(write())


class LiveProducer:
    """Writes unique records to all partitions of a topic, `records_per_s` in sum, until closed."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, records_per_s: float) -> None:
        self._producer = writer(bootstrap, linger_ms=5)
        self._topic = topic
        self._partitions = partitions
        self._pause_s = partitions / records_per_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"live-{topic}", daemon=True)
        self.written = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(_STOP_DEADLINE_S)
        assert self._producer.flush(_FLUSH_S) == 0

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(self._pause_s):
            for partition in range(self._partitions):
                value = f"live-{partition}-{number}".encode()
                produce(self._producer, self._topic, Draft(partition, value, value, (), int(time.time() * 1000)))
                self.written += 1
            self._producer.poll(0)
            number += 1
