"""Damages a copy and its ledger by hand, behind the product's back. Nothing of the product is used."""

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.e2e.follower import Document
from tests.e2e.log_reader import QUIET
from tests.e2e.stack import Stack

_TIMEOUT_S = 30.0


class Plain(NamedTuple):
    """A record as it is written, or read with its `offset`."""

    partition: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1


def fill(bootstrap: str, topic: str, records: Iterable[Plain]) -> int:
    """Write these records; the offset of the last one."""
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET, "linger.ms": 5})
    offsets: list[int] = []
    for record in records:
        headers = list(record.headers) or None
        producer.produce(
            topic, record.value, record.key, record.partition, timestamp=record.time_ms, headers=headers,
            on_delivery=lambda _, message: offsets.append(message.offset() or 0),
        )  # fmt: skip
    assert producer.flush(_TIMEOUT_S) == 0
    return offsets[-1] if offsets else -1


class Tampering:
    """Hands on the target and the receipts of one paused recovery."""

    def __init__(self, stack: Stack, recovery: str, target: str) -> None:
        self._stack, self._recovery, self._target = stack, recovery, target

    def stored(self, partition: int) -> list[Plain]:
        """What a committed reader sees of a target partition."""
        return [
            Plain(partition, m.key(), m.value(), m.timestamp()[1], tuple(m.headers() or ()), m.offset())
            for m in self._read(self._target, partition)
        ]

    def write(self, records: Iterable[Plain]) -> int:
        return fill(self._stack.bootstrap, self._target, records)

    def receipt(self) -> Document:
        """The newest receipt that copied more than ten records in one run."""
        return self._newest()[1]

    def rewrite_receipt(self, change: Callable[[Document], Document]) -> None:
        """Put what `change` makes of `receipt()` in its place."""
        home, receipt, key = self._newest()
        producer = Producer({"bootstrap.servers": self._stack.bootstrap, **QUIET})
        producer.produce(self._stack.receipts_topic, json.dumps(change(receipt)).encode(), key, home)
        assert producer.flush(_TIMEOUT_S) == 0

    def _newest(self) -> tuple[int, Document, bytes]:
        found: list[tuple[int, Document, bytes]] = []
        admin = Consumer({"bootstrap.servers": self._stack.bootstrap, **QUIET, "group.id": "tampering"})
        partitions = admin.list_topics(self._stack.receipts_topic, timeout=_TIMEOUT_S).topics
        admin.close()
        for partition in partitions[self._stack.receipts_topic].partitions:
            for message in self._read(self._stack.receipts_topic, partition):
                receipt = json.loads(message.value() or b"{}")
                if receipt.get("recovery") != self._recovery or not receipt["targets"]:
                    continue
                [*_, (_, count)] = receipt["targets"][0]["runs"]
                if len(receipt["targets"][0]["runs"]) == 1 and count > 10:
                    found.append((partition, receipt, message.key() or b""))
        return found[-1]

    def _read(self, topic: str, partition: int) -> list[object]:
        consumer = Consumer({
            "bootstrap.servers": self._stack.bootstrap, **QUIET, "group.id": "tampering", "isolation.level": "read_committed",
            "enable.partition.eof": True, "enable.auto.commit": False, "auto.offset.reset": "earliest",
        })  # fmt: skip
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[object] = []
        while True:
            message = consumer.poll(_TIMEOUT_S)
            assert message is not None, f"{topic} was not read to its end"
            if message.error() is not None:
                break
            found.append(message)
        consumer.close()
        return found
