"""What measurements run on: one broker of their own in a temporary folder, and simple calls about its topics.

Everything is removed at the end, after Ctrl-C too. It has the sandbox's own settings, except that deleted topics leave
the disk at once, because a run makes fifty copies of a million records.
"""

import itertools
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from recoveryd_sandbox.broker import Broker

_TIMEOUT_S = 30.0
KEEP = {"retention.ms": "-1"}
_NO_LEADER_YET = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError._NOENT,  # noqa: SLF001  (the library's own codes begin with an underscore)
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
}
_OVERRIDES = {"file.delete.delay.ms": "1000", "log.cleaner.backoff.ms": "1000"}


class Topics:
    """Topics of a cluster that is up already."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int, config: Mapping[str, str] = KEEP) -> str:
        """Create the topic and return its id."""
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config))])[topic].result(_TIMEOUT_S)
        return self.topic_id(topic)

    def delete(self, *topics: str) -> None:
        for answer in self.admin.delete_topics(list(topics)).values():
            answer.result(_TIMEOUT_S)

    def topic_id(self, topic: str) -> str:
        """Raises KafkaException when the topic does not show up within half a minute."""
        give_up_s = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                found = self.admin.describe_topics(TopicCollection([topic]))[topic].result(_TIMEOUT_S)
                return str(found.topic_id)
            except KafkaException:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(0.02)

    def ends(self, topic: str, partitions: int) -> list[int]:
        """High watermarks: the ends of what was produced, committed or not."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, p): latest for p in range(partitions)}
        answers = self.admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_TIMEOUT_S
        )
        found = {where.partition: answer.result(_TIMEOUT_S).offset for where, answer in answers.items()}
        return [found[p] for p in range(partitions)]

    def produced(self, topic: str, partitions: int) -> int:
        """Sum of high watermarks; 0 while the topic does not exist or has no leader yet. Takes a few milliseconds."""
        if topic not in self.admin.list_topics(timeout=_TIMEOUT_S).topics:
            return 0
        try:
            return sum(self.ends(topic, partitions))
        except KafkaException as error:
            if error.args[0].code() in _NO_LEADER_YET:
                return 0
            raise


class Bed(Topics):
    """Use as a context manager, and only inside of it. Names given out by `unique` are never given out again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recoveryd-bench-"))
        self._broker = Broker(self.folder / "kafka", overrides=_OVERRIDES)
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        try:
            self._broker.start()
        except BaseException:
            self._end()
            raise
        super().__init__(self._broker.bootstrap)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end()

    @property
    def broker_pid(self) -> int:
        return self._broker.pid

    def unique(self, stem: str) -> str:
        return f"{stem}-{next(self._numbers)}"

    def _end(self) -> None:
        self._broker.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
