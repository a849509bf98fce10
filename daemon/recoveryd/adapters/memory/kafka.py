"""A Kafka cluster as plain values: topics with ids, logs with starts and ends, transactional ids with epochs.

Only what the ports can notice is modelled. A transaction is written in one call, so it is never half visible; an open
one is modelled by `hold`, which keeps the last stable offset where it is.
"""

import base64
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code

# What a broker answers for a topic's configs when nobody set them; only those that planning looks at.
DEFAULT_CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
}


class MemoryFenced(Exception):  # noqa: N818  (named for what happened)
    """The transactional id was initialised again by somebody else."""


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def size_bytes(self) -> int:
        pairs = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + pairs


@dataclass(slots=True)
class MemoryLog:
    """`records[i]` has offset i; those below `start` are deleted. `held_at`: offset of the first open transaction."""

    records: list[MemoryRecord] = field(default_factory=list)
    start: int = 0
    held_at: int | None = None

    @property
    def high_watermark(self) -> int:
        return len(self.records)

    @property
    def last_stable(self) -> int:
        return len(self.records) if self.held_at is None else self.held_at

    def read(self, start: int, stop: int | None = None) -> list[MemoryRecord]:
        """Committed records of [start, stop)."""
        end = self.last_stable if stop is None else min(stop, self.last_stable)
        return self.records[max(start, self.start) : end]

    def first_at(self, time_ms: int) -> int:
        """Offset of the first record at or after a time, -1 when there is none."""
        found = (i for i in range(self.start, len(self.records)) if self.records[i].timestamp_ms >= time_ms)
        return next(found, -1)


@dataclass(slots=True)
class MemoryTopic:
    name: str
    topic_id: str
    logs: list[MemoryLog]
    configs: dict[str, str]

    def log(self, partition: int) -> MemoryLog:
        return self.logs[partition]


class MemoryBroker:
    """One cluster. Set `is_reachable` to False and every question raises `ClusterProblem`."""

    def __init__(self) -> None:
        self.is_reachable = True
        self._topics: dict[str, MemoryTopic] = {}
        self._epochs: dict[str, int] = {}

    def create(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> MemoryTopic:
        """Replaces nothing: a topic that exists is returned as it is."""
        if name not in self._topics:
            topic_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            logs = [MemoryLog() for _ in range(partitions)]
            self._topics[name] = MemoryTopic(name, topic_id, logs, {**DEFAULT_CONFIGS, **(configs or {})})
        return self._topics[name]

    def find(self, name: str) -> MemoryTopic | None:
        self.ask()
        return self._topics.get(name)

    def topic(self, name: str) -> MemoryTopic:
        """Raises `ClusterProblem` when there is none."""
        found = self.find(name)
        if found is None:
            raise ClusterProblem(f"{name} does not exist.", code=Code.OWN_TOPIC_MISSING, retriable=False)
        return found

    def delete(self, name: str) -> None:
        self._topics.pop(name, None)

    def append(self, name: str, records: Iterable[MemoryRecord], partition: int = 0) -> int:
        """Returns the offset of the first."""
        log = self.topic(name).log(partition)
        first = log.high_watermark
        log.records.extend(records)
        return first

    def init_transactions(self, transactional_id: str) -> int:
        """Fence whoever held the id; the epoch returned is needed to write."""
        self.ask()
        self._epochs[transactional_id] = self._epochs.get(transactional_id, 0) + 1
        return self._epochs[transactional_id]

    def write(self, transactional_id: str, epoch: int, records: Sequence[tuple[str, int, MemoryRecord]]) -> None:
        """All of (topic, partition, record), or nothing. Raises `MemoryFenced`."""
        self.ask()
        if self._epochs.get(transactional_id) != epoch:
            raise MemoryFenced(transactional_id)
        logs = [self.topic(topic).log(partition) for topic, partition, _record in records]
        for log, (_topic, _partition, record) in zip(logs, records, strict=True):
            log.records.append(record)

    def ask(self) -> None:
        if not self.is_reachable:
            raise ClusterProblem("The cluster did not answer in time.")
