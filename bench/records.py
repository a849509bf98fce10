"""The data sets: a million real flights as JSON, records of exactly 1 kB and 100 B, a gigabyte of them as a changelog,
and a thousand small partitions. Made once per run on the run's own broker.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count, islice

from confluent_kafka import KafkaError, Message, Producer

from bench.bed import Bed
from recoveryd_sandbox.flights import flights
from recoveryd_sandbox.seed import TOPIC_CONFIG, seed

PARTITIONS = 4
CODEC = "lz4"
_KILOBYTE = 1000
_KEYS = 10_000
_BLOB_FLIGHTS = 20_000
_FIRST_MS = 1_357_034_400_000
_FLUSH_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class DataSet:
    """A filled topic: the offsets of each partition are [0, ends[p]) without gaps."""

    name: str
    topic: str
    ends: tuple[int, ...]
    bytes_each: int = 0

    @property
    def records(self) -> int:
        return sum(self.ends)


def make_flights(bed: Bed, *, quick: bool) -> DataSet:
    """1,010,328 records of about 350 bytes with the key (about 330 without); a third of that when quick."""
    topic = "bench.flights"
    report = seed(bed.bootstrap, topic, PARTITIONS, repeat=1 if quick else 3)
    return DataSet(f"{report.records:,} flights", topic, tuple(bed.ends(topic, PARTITIONS)))


def make_kilobyte(bed: Bed, *, quick: bool) -> DataSet:
    """600,000 records with values of 1,000 bytes cut from the flights, so that they compress like real data."""
    return _make_cut(bed, Cut("bench.kilobyte", "1 kB", 100_000 if quick else 600_000, _KILOBYTE))


def make_small(bed: Bed, *, quick: bool) -> DataSet:
    """3,000,000 records with values of 100 bytes."""
    return _make_cut(bed, Cut("bench.small", "100 B", 300_000 if quick else 3_000_000, 100))


def make_changelog(bed: Bed, topic: str, *, quick: bool) -> DataSet:
    """A gigabyte of values of 1,000 bytes, each with a key of its own, as compaction leaves them."""
    records = 20_000 if quick else 1_000_000
    more = {"cleanup.policy": "compact", "segment.bytes": str(2**30)}
    return _make_cut(bed, Cut(topic, "1 kB", records, _KILOBYTE, more=more, keys=records))


def make_many(bed: Bed, *, quick: bool) -> DataSet:
    """500 records of 100 bytes in each of 1,000 partitions, with small index files, because each partition maps its own
    into memory.
    """
    partitions = 100 if quick else 1000
    return _make_cut(bed, Cut("bench.many", "100 B", partitions * 500, 100, partitions, SMALL_INDEX))


def make_wide(bed: Bed, *, quick: bool) -> DataSet:
    """2,000 records of 100 bytes in each of 200 partitions; keys of their own send them to all partitions of a
    target.
    """
    partitions = 40 if quick else 200
    return _make_cut(
        bed, Cut("bench.wide", "100 B", partitions * 2_000, 100, partitions, SMALL_INDEX, partitions * 2_000)
    )


SMALL_INDEX = {"segment.index.bytes": "262144"}


@dataclass(frozen=True, slots=True)
class Cut:
    """`records` values of `size` bytes each, cut from the flights."""

    topic: str
    what: str
    records: int
    size: int
    partitions: int = PARTITIONS
    more: Mapping[str, str] = field(default_factory=dict)
    keys: int = _KEYS


def _make_cut(bed: Bed, cut: Cut) -> DataSet:
    topic, records = cut.topic, cut.records
    bed.create(topic, cut.partitions, {**TOPIC_CONFIG, **cut.more})
    blob = b"".join(flight.value for flight in flights(_BLOB_FLIGHTS))
    failures: list[KafkaError] = []

    def note(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({
        "bootstrap.servers": bed.bootstrap, "enable.idempotence": True, "compression.type": CODEC, "linger.ms": 20,
        "batch.size": 1_000_000, "queue.buffering.max.kbytes": 131_072, "queue.buffering.max.messages": 1_000_000,
        "delivery.report.only.error": True, "on_delivery": note,
    })  # fmt: skip
    room = len(blob) - cut.size
    for number in islice(count(), records):
        at = number * 331 % room
        while True:
            try:
                producer.produce(
                    topic, blob[at : at + cut.size], f"key-{number % cut.keys}", number % cut.partitions,
                    timestamp=_FIRST_MS + number,
                )  # fmt: skip
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(_FLUSH_DEADLINE_S) or failures:
        raise RuntimeError(f"{topic} could not be filled: {failures[:1]}")
    return DataSet(f"{records:,} of {cut.what}", topic, tuple(bed.ends(topic, cut.partitions)), cut.size)


def settle(seconds: float = 1.0) -> None:
    """Let the broker finish its work after a large write before something is timed."""
    time.sleep(seconds)
