"""Reads the status topic from its beginning and then follows it. Never joins a group, commits nothing."""

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from recoveryd.client.book import HoldBook
from recoveryd.sight import ClusterSight

_AT_ONCE: Final = 1_000
_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001
_AGAIN: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001


class HoldsUnknown(RuntimeError):  # noqa: N818  (named for what happened)
    """The status topic could not be read to its end in time, so nobody knows what is held."""


class HoldFollower:
    """`book` is the newest known state. While the topic is read anew from its beginning (it was deleted and created
    again), it is the one from before.
    """

    def __init__(self, properties: Mapping[str, Any], topic: str, cluster: str) -> None:
        self.book = HoldBook(cluster)
        self._topic = topic
        self._cluster = cluster
        self._next: HoldBook | None = None
        self._behind: set[int] = set()
        self._properties = {
            **properties,
            "group.id": "recoveryd-client",  # the library wants one; it is not used
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
        self._consumer, self._sight = Consumer(self._properties), ClusterSight()

    def read(self, within_s: float) -> None:
        """Read it whole. Raises `HoldsUnknown`."""
        deadline_s = time.monotonic() + within_s
        self._begin(within_s)
        while self._next is not None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise HoldsUnknown(f"{self._topic} could not be read to its end within {within_s:.0f} s")
            self.follow(min(left_s, 0.5))

    def follow(self, timeout_s: float = 0.0) -> None:
        """Take what is there, waiting for the first record only. Errors of the network mend themselves; what is known
        stays known.
        """
        for message in self._consumer.consume(_AT_ONCE, timeout_s or 0.001):
            error = message.error()
            self._sight.note(error, time.monotonic())
            if error is None:
                (self._next or self.book).apply(message.key(), message.value())
            elif error.code() == _END:
                self._reached(message.partition())
            elif error.code() in _AGAIN:
                self._again()
                return
        if self._sight.is_lost(time.monotonic()):
            self._again()

    def close(self) -> None:
        self._consumer.close()

    def _reached(self, partition: int | None) -> None:
        self._behind -= {partition}
        if self._next is not None and not self._behind:
            self.book, self._next = self._next, None

    def _begin(self, timeout_s: float) -> None:
        try:
            found = self._consumer.list_topics(self._topic, timeout=timeout_s).topics[self._topic]
        except KafkaException as error:
            raise HoldsUnknown(f"{self._topic} could not be found: {error.args[0]}") from error
        if found.error is not None or not found.partitions:
            raise HoldsUnknown(f"{self._topic} could not be found: {found.error or 'it has no partitions'}")
        self._from_beginning(set(found.partitions))

    def _again(self) -> None:
        """From the beginning: offsets mean something else now, or the client is blind. Until the end is reached, what
        was known is used. With a new consumer: one that is assigned once more while a broker comes back may hear
        nothing more (librdkafka 2.16).
        """
        partitions = {place.partition for place in self._consumer.assignment()}
        self._consumer.close()
        self._consumer, self._sight = Consumer(self._properties), ClusterSight()
        self._from_beginning(partitions)

    def _from_beginning(self, partitions: set[int]) -> None:
        self._behind, self._next = partitions, HoldBook(self._cluster)
        self._consumer.assign([TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in sorted(partitions)])
