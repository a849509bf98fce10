"""Fills a topic with the flights, fast and always in the same way: the same records in the same order in every
partition.

Keyed records go where Java's default partitioner would put them (murmur2 of the key); records without key go to the
partitions in turn. An idempotent producer keeps the order.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

from recoveryd_sandbox.errors import SandboxError, SeedRefused
from recoveryd_sandbox.flights import FLIGHTS_TOTAL, Flight, flights
from recoveryd_sandbox.probe import PLAIN
from recoveryd_sandbox.topics import Topics

TOPIC_CONFIG = {
    "retention.ms": "-1",
    "compression.type": "lz4",
}  # the records are of 2013: any retention would end them

_POLL_EVERY_RECORDS = 500
_FLUSH_DEADLINE_S = 240.0
_FULL_QUEUE_POLL_S = 0.2


@dataclass(frozen=True)
class SeedReport:
    """What the topic holds of this seed. `written` is False when everything was there before and nothing was sent.

    `bytes` are keys and values before compression; 0 when nothing was sent.
    """

    topic: str
    partitions: int
    records: int
    bytes: int
    seconds: float
    written: bool


def seed(
    bootstrap: str,
    topic: str = "flights",
    partitions: int = 4,
    limit: int | None = None,
    repeat: int = 1,
    append: bool = False,
    client: Mapping[str, str] = PLAIN,
) -> SeedReport:
    """Writes the first `limit` flights (all without it), `repeat` times over, creating `topic` when needed.

    A topic that holds exactly as many records already is left alone. One that holds any other number, or has another
    number of partitions, raises `SeedRefused`; `append=True` writes in any case. Raises `SandboxError` when Kafka
    fails.
    """
    topics = Topics(bootstrap, client)
    records = repeat * min(FLIGHTS_TOTAL, FLIGHTS_TOTAL if limit is None else limit)
    before = 0
    if not topics.create(topic, partitions, TOPIC_CONFIG):
        ends = topics.end_offsets(topic)
        before = sum(ends)
        if len(ends) != partitions:
            raise SeedRefused(f"Topic {topic} exists with {len(ends)} partitions, not {partitions}.", _HINT)
        if before == records and not append:
            return SeedReport(topic, partitions, records, 0, 0.0, written=False)
        if before > 0 and not append:
            raise SeedRefused(f"Topic {topic} has had {before} records, which is not this seed of {records}.", _HINT)
    started_s = time.monotonic()
    sent_bytes = _send({**client, "bootstrap.servers": bootstrap}, topic, partitions, _repeated(limit, repeat))
    arrived = sum(topics.end_offsets(topic)) - before
    if arrived != records:
        raise SandboxError(
            f"Topic {topic} got {arrived} records instead of {records}; does something else write to it?"
        )
    return SeedReport(topic, partitions, records, sent_bytes, time.monotonic() - started_s, written=True)


_HINT = "Take another topic name, delete the topic, or say that you want to append."


def _repeated(limit: int | None, repeat: int) -> Iterator[Flight]:
    for _ in range(repeat):
        yield from flights(limit)


def _send(client: Mapping[str, str], topic: str, partitions: int, records: Iterator[Flight]) -> int:
    """Produces all records and waits for every acknowledgement. Returns the bytes of keys and values."""
    failures: list[KafkaError] = []

    def note_failure(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            **client,
            "client.id": "recoveryd-sandbox-seed",
            "enable.idempotence": True,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 131_072,
            "delivery.report.only.error": True,
            "on_delivery": note_failure,
            "log_level": 0,
        }
    )
    produce, poll = producer.produce, producer.poll
    sent_bytes = without_key = 0
    for index, (key, timestamp_ms, value) in enumerate(records):
        while True:
            try:
                if key is None:
                    produce(topic, value, None, without_key % partitions, timestamp=timestamp_ms)
                else:
                    produce(topic, value, key, timestamp=timestamp_ms)
                break
            except BufferError:
                poll(_FULL_QUEUE_POLL_S)
        if key is None:
            without_key += 1
        else:
            sent_bytes += len(key)
        sent_bytes += len(value)
        if index % _POLL_EVERY_RECORDS == 0:
            poll(0)
    left = producer.flush(_FLUSH_DEADLINE_S)
    if left or failures:
        why = failures[0].str() if failures else f"{left} records not acknowledged after {_FLUSH_DEADLINE_S:.0f} s"
        raise SandboxError(f"Could not fill topic {topic}: {why}.")
    return sent_bytes
