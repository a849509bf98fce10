"""Names and settings of recoveryd's own topics, defined only here.

`recoveryctl topics apply` creates the topics, the daemon checks them at its start, and all other code takes names from
`TopicNames`. The records on these topics are in the other modules of `recoveryd.wire`; the adapters create topics.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from recoveryd_jobs.contract import REPORT_BYTES_MAX

DEFAULT_PREFIX = "recovery."
DEFAULT_RECEIPTS_PARTITIONS = 8
PARTITIONS = "partitions"  # the setting of a difference in their number

# Above what the codec accepts, so that a command which is too large comes in: in binary mode it gets an answer, in
# structured mode, in which only its value says who sent it, a dead letter.
MAX_CONTROL_RECORD_BYTES = 2 * 1024 * 1024
MAX_DEAD_LETTER_BYTES = 4 * 1024 * 1024
MAX_STATUS_RECORD_BYTES = 8 * 1024 * 1024
MAX_RECORD_BYTES = 8 * 1024 * 1024  # what clients of own topics must accept

ONLY_PARTITION = 0  # of a topic that must have one, and where recoveryd writes also when somebody gave it more

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

# Nobody reads the canary's records. Segments are still few, because creating one is work for the broker that the canary
# would measure.
_CANARY_KEPT_MS = _HOUR_MS // 6
_CANARY_SEGMENT_BYTES = 1024 * 1024  # the least that brokers take


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names of the own topics under one prefix. `receipts` lives on each target cluster, the others on the cluster
    `main`.
    """

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

    A topic that is not `is_required` may be missing or wrong: the daemon then works without the feature that needs it.
    `partitions` of one that is `per_broker` is how many each broker of the cluster shall lead; more are well too.
    """

    name: str
    partitions: int
    configs: Mapping[str, str]
    on_targets: bool = False
    is_required: bool = True
    per_broker: bool = False

    @property
    def is_single(self) -> bool:
        """Whether the order of all its records counts, so that it must have one partition."""
        return self.partitions == 1 and not self.on_targets and self.is_required

    def on_brokers(self, brokers: int) -> "OwnTopic":
        """The topic for a cluster of so many brokers."""
        return replace(self, partitions=self.partitions * max(1, brokers)) if self.per_broker else self


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
        OwnTopic(names.progress, 1, {**_deleted_after(_DAY_MS), "max.message.bytes": str(REPORT_BYTES_MAX)}),
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
            per_broker=True,
        ),
    )


def differences(wanted: OwnTopic, partitions: int, configs: Mapping[str, str]) -> tuple[TopicDifference, ...]:
    """How an existing topic differs from the wanted one. `configs` are its effective configs; those that the broker did
    not tell are not compared.

    Fatal are a wrong cleanup policy, because records would be lost, and more partitions for a topic that must have one,
    because the order would be lost.
    """
    found = []
    is_enough = wanted.per_broker and partitions > wanted.partitions
    if partitions != wanted.partitions and not is_enough:
        is_fatal = wanted.is_single
        found.append(TopicDifference(wanted.name, PARTITIONS, str(wanted.partitions), str(partitions), is_fatal))
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
    # Only closed segments are compacted, and every start reads one of these topics: keep segments short. A forgotten
    # record leaves a tombstone, which is kept for an hour after it was first compacted; a reader from the beginning
    # needs minutes.
    return {
        "cleanup.policy": "compact",
        "segment.ms": str(_HOUR_MS),
        "segment.bytes": str(32 * 1024 * 1024),
        "min.cleanable.dirty.ratio": "0.1",
        "max.compaction.lag.ms": str(lag_ms),
        "delete.retention.ms": str(_HOUR_MS),
    }
