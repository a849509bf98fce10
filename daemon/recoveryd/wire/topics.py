"""Names and settings of recoveryd's own topics: the one place where they are written down.

`recoveryctl topics apply` creates from here, the daemon checks against here at start, and everybody else asks `TopicNames` for a name. What the
records on these topics look like lives in the other modules of `recoveryd.wire`; how a topic is created lives in the adapters.
"""

from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_PREFIX = "recovery."
DEFAULT_RECEIPTS_PARTITIONS = 8

MAX_CONTROL_RECORD_BYTES = (
    2 * 1024 * 1024
)  # above what the codec accepts, so that a command too large is answered, not lost
MAX_DEAD_LETTER_BYTES = 4 * 1024 * 1024
MAX_STATUS_RECORD_BYTES = 8 * 1024 * 1024
MAX_RECORD_BYTES = 8 * 1024 * 1024  # what producers and consumers of own topics must be able to carry

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

# Nobody reads the canary's records. Few segments all the same: making one is work for the broker, which the canary would measure.
_CANARY_KEPT_MS = _HOUR_MS // 6
_CANARY_SEGMENT_BYTES = 1024 * 1024  # the least that brokers take


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names of the own topics under one prefix. `receipts` lives on each target cluster, the others on the cluster `main`."""

    prefix: str = DEFAULT_PREFIX

    @property
    def control(self) -> str:
        return f"{self.prefix}control.v1"

    @property
    def status(self) -> str:
        return f"{self.prefix}status.v1"

    @property
    def events(self) -> str:
        return f"{self.prefix}events.v1"

    @property
    def directives(self) -> str:
        return f"{self.prefix}directives.v1"

    @property
    def progress(self) -> str:
        return f"{self.prefix}progress.v1"

    @property
    def receipts(self) -> str:
        return f"{self.prefix}receipts.v1"

    @property
    def dlq(self) -> str:
        return f"{self.prefix}control.v1.dlq"

    @property
    def canary(self) -> str:
        return f"{self.prefix}canary.v1"

    @property
    def all(self) -> tuple[str, ...]:
        names = (self.control, self.status, self.events, self.directives, self.progress, self.receipts, self.dlq)
        return (*names, self.canary)


@dataclass(frozen=True, slots=True)
class OwnTopic:
    """A topic as recoveryd wants it. `on_targets`: needed on every cluster that is a target, not only on `main`.

    Without one that is not `is_required` the daemon works, only without what the topic is for; nothing about it is fatal.
    """

    name: str
    partitions: int
    configs: Mapping[str, str]
    on_targets: bool = False
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """One setting of an existing topic that is not as wanted. With a `fatal` one the daemon does not start."""

    topic: str
    setting: str
    wanted: str
    found: str
    fatal: bool


def own_topics(names: TopicNames, receipts_partitions: int = DEFAULT_RECEIPTS_PARTITIONS) -> tuple[OwnTopic, ...]:
    """Every own topic with partitions and configs, in the order they should be created."""
    return (
        OwnTopic(
            names.control,
            1,
            {
                **_deleted_after(14 * _DAY_MS),
                "message.timestamp.type": "LogAppendTime",
                "max.message.bytes": str(MAX_CONTROL_RECORD_BYTES),
            },
        ),
        OwnTopic(names.status, 1, {**_compacted(_HOUR_MS), "max.message.bytes": str(MAX_STATUS_RECORD_BYTES)}),
        OwnTopic(names.events, 1, {**_deleted_after(90 * _DAY_MS), "max.message.bytes": str(MAX_RECORD_BYTES)}),
        OwnTopic(names.directives, 1, _compacted(_HOUR_MS)),
        OwnTopic(names.progress, 1, {**_deleted_after(_DAY_MS), "max.message.bytes": str(MAX_RECORD_BYTES)}),
        OwnTopic(
            names.receipts,
            receipts_partitions,
            {**_compacted(_DAY_MS), "max.message.bytes": str(MAX_RECORD_BYTES)},
            on_targets=True,
        ),
        OwnTopic(names.dlq, 1, {**_deleted_after(30 * _DAY_MS), "max.message.bytes": str(MAX_DEAD_LETTER_BYTES)}),
        OwnTopic(
            names.canary,
            1,
            {
                **_deleted_after(_CANARY_KEPT_MS),
                "segment.ms": str(_CANARY_KEPT_MS // 2),
                "segment.bytes": str(_CANARY_SEGMENT_BYTES),
            },
            is_required=False,
        ),
    )


def differences(wanted: OwnTopic, partitions: int, configs: Mapping[str, str]) -> tuple[TopicDifference, ...]:
    """What of an existing topic is not as wanted. `configs` are its effective ones; those the broker did not tell are not judged.

    Fatal are the cleanup policy, because truth would vanish, and the count of a topic that must have one partition, because order would.
    """
    found = []
    if partitions != wanted.partitions:
        is_fatal = wanted.partitions == 1 and not wanted.on_targets and wanted.is_required
        found.append(TopicDifference(wanted.name, "partitions", str(wanted.partitions), str(partitions), is_fatal))
    for setting, value in wanted.configs.items():
        actual = configs.get(setting)
        if actual is not None and actual != value:
            is_fatal = setting == "cleanup.policy" and wanted.is_required
            found.append(TopicDifference(wanted.name, setting, value, actual, is_fatal))
    return tuple(found)


def _deleted_after(retention_ms: int) -> dict[str, str]:
    # Only closed segments are deleted: a segment spans a small part of the retention.
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "segment.ms": str(min(_DAY_MS, retention_ms // 24)),
    }


def _compacted(lag_ms: int) -> dict[str, str]:
    # Only closed segments are compacted, and reading one of these topics is part of every start: keep them short. What was forgotten leaves a tombstone, which
    # goes an hour after it was first compacted: a reader from the beginning is through within minutes.
    return {
        "cleanup.policy": "compact",
        "segment.ms": str(_HOUR_MS),
        "segment.bytes": str(32 * 1024 * 1024),
        "min.cleanable.dirty.ratio": "0.1",
        "max.compaction.lag.ms": str(lag_ms),
        "delete.retention.ms": str(_HOUR_MS),
    }
