"""A foreign application: a consumer group that reads cold data slowly, then as fast as it can, and a producer that
writes meanwhile.
"""

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.e2e import clients
from tests.e2e.background import JOIN_S, Background
from tests.e2e.clients import client, writer
from tests.e2e.log_reader import QUIET

_COMMIT_EVERY_S = 0.5


class ForeignGroup(Background):
    """Reads `topic` from its start at `records_per_s` (None = as fast as it can), and commits twice a second."""

    def __init__(self, bootstrap: str, topic: str, group: str, records_per_s: float | None) -> None:
        super().__init__()
        self.records_per_s = records_per_s
        self._topic = topic
        self._consumer = Consumer({
            **client(bootstrap), **QUIET, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "enable.auto.offset.store": True,
        })  # fmt: skip

    def run(self) -> None:
        self._consumer.subscribe([self._topic])
        committed_s = time.monotonic()
        read = False
        while not self.ended.is_set():
            limit = self.records_per_s
            messages = self._consumer.consume(500 if limit is None else max(1, int(limit / 10)), timeout=0.1)
            read = read or any(message.error() is None for message in messages)
            if limit is not None:
                time.sleep(0.1)  # the pace of the application, not a wait for something
            if read and time.monotonic() - committed_s >= _COMMIT_EVERY_S:
                committed_s, read = time.monotonic(), not self._commits()
        self._consumer.close()

    def _commits(self) -> bool:
        """Whether it did: while the group finds itself anew, the next time does."""
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException:
            return False
        return True


class LiveWriter(Background):
    """Writes `records_per_s` to each partition of a topic until its context ends."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, records_per_s: float) -> None:
        super().__init__()
        self._producer = writer(bootstrap, linger_ms=100)
        self._topic = topic
        self._partitions = partitions
        self._pause_s = 1 / records_per_s

    def run(self) -> None:
        while not self.ended.wait(self._pause_s):
            for partition in range(self._partitions):
                self._producer.produce(self._topic, b"live", partition=partition)
            self._producer.poll(0)
        self._producer.flush(JOIN_S)


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commits offsets for a group without members."""
    consumer = Consumer({**client(bootstrap), **QUIET, "group.id": group, "enable.auto.commit": False})
    clients.commit(consumer, [TopicPartition(topic, p, n) for p, n in offsets.items()])
    consumer.close()
