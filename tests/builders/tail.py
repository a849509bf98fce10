"""A topic that is asked again and again while it grows. One reader stays on it and reads each record once: a new one
for each question would cost more than what is asked about.
"""

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

T = TypeVar("T")

_FETCH_WAIT_MS = 250  # a record comes at once nevertheless
_BATCH_RECORDS = 1_000
_MEET_TIMEOUT_S = 120.0


class Tail(Generic[T]):
    """All records of a topic of one partition, from its beginning, decoded; deletions are left out. `position`: the
    offset up to which it was read. Not thread-safe.
    """

    def __init__(self, client: dict[str, Any], topic: str, decode: Callable[[bytes], T]) -> None:
        self._client, self._topic, self._decode = client, topic, decode
        self._reader: Consumer | None = None
        self._found: list[T] = []
        self.position = 0

    @property
    def so_far(self) -> list[T]:
        """What was read until now."""
        return list(self._found)

    def up_to(self, end: int, deadline_s: float) -> list[T]:
        """Everything before the offset `end`."""
        give_up_s = time.monotonic() + deadline_s
        while self.position < end:
            assert time.monotonic() < give_up_s, f"{self._topic} was read to {self.position}, not to {end}"
            self.read_on(0.1)
        return self.so_far

    def read_on(self, timeout_s: float) -> None:
        """Takes what is there, and waits for more only if there is nothing."""
        if self._reader is None:
            self._reader = self._begun()
        for message in self._reader.consume(1, timeout_s) + self._reader.consume(_BATCH_RECORDS, 0):
            error = message.error()
            if error is None:
                self.position = message.offset() + 1
                if message.value() is not None:
                    self._found.append(self._decode(message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                self.position = max(self.position, message.offset())  # the end may lie behind a transaction's marker

    def _begun(self) -> Consumer:
        """Only now, since many topics are asked nothing."""
        reader = Consumer({
            **self._client, "group.id": "reader", "isolation.level": "read_committed", "enable.auto.commit": False,
            "enable.partition.eof": True, "auto.offset.reset": "error", "fetch.wait.max.ms": _FETCH_WAIT_MS, "log_level": 0,
        })  # fmt: skip
        # Partitions assigned before the client is connected wait for a timer of a second.
        reader.list_topics(self._topic, timeout=_MEET_TIMEOUT_S)
        reader.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
        return reader
