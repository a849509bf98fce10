"""What a cluster says of a unit at one moment. Gathered anew for each plan and each question; nothing of it is kept.

None always means not known, never none: an answer that a user has no right to, or a broker does not give, is not an
empty one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from recoveryd.units.internal_topics import InternalTopics


class GroupType(StrEnum):
    """How Kafka coordinates a group; which offsets may be changed, and how, depends on it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    STREAMS = "streams"
    SHARE = "share"
    CONNECT = "connect"  # of the workers of Kafka Connect; what a sink connector reads has a consumer group of its own
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Member:
    """`instance_id` of a static member: it stays in the group until its session times out, although its process is
    gone.

    `topics` it reads; `partitions` it holds now, by topic, where that is told.
    """

    id: str
    client_id: str
    host: str
    instance_id: str | None = None
    topics: frozenset[str] = frozenset()
    partitions: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def __str__(self) -> str:
        static = f", static {self.instance_id}" if self.instance_id is not None else ""
        return f"{self.client_id} on {self.host}{static}"


@dataclass(frozen=True, slots=True)
class Committed:
    """`offset` is the next record to read. `metadata` and `leader_epoch` are the application's own and are kept on the
    way back.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupPart:
    """A sub-topology of a group of the `streams` protocol, as its members told it to the broker: whole names of topics.

    `sources` are topics of others, `repartitions_read` and `changelogs` its own internal ones; what it writes to
    outputs is not told.
    """

    id: str
    sources: frozenset[str] = frozenset()
    repartitions_written: frozenset[str] = frozenset()
    repartitions_read: frozenset[str] = frozenset()
    changelogs: frozenset[str] = frozenset()

    @property
    def internal(self) -> frozenset[str]:
        return self.repartitions_written | self.repartitions_read | self.changelogs


@dataclass(frozen=True, slots=True)
class Group:
    """`state` as Kafka names it. `is_streams`: whether its members speak the protocol of Streams; None of a group
    without members, where nobody can tell. `parts` only of the `streams` protocol, also when it has no members.

    A share group has no commits: its `committed` are start offsets, in front of which everything is done with.
    """

    id: str
    type: GroupType
    state: str
    members: tuple[Member, ...] = ()
    committed: Mapping[str, Mapping[int, Committed]] = field(default_factory=dict)
    is_streams: bool | None = None
    parts: tuple[GroupPart, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def internal_topics(self) -> frozenset[str]:
        """Those that the broker itself knows as the group's own."""
        return frozenset(topic for part in self.parts for topic in part.internal)

    @property
    def sources(self) -> frozenset[str]:
        """What it reads of others, where the broker tells it."""
        return frozenset(topic for part in self.parts for topic in part.sources)


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """Kafka's own log start and high watermark of one partition."""

    log_start: int
    high_watermark: int

    @property
    def records_most(self) -> int:
        return self.high_watermark - self.log_start


@dataclass(frozen=True, slots=True)
class UnitTopic:
    """`configs` are those that differ from the broker's, and the few that rules look at."""

    name: str
    id: str
    ends: Mapping[int, PartitionEnds]
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        return len(self.ends)

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.configs.get("cleanup.policy", "delete")

    @property
    def retention_ms(self) -> int | None:
        """How long records stay, if there is no bound of size; None = for ever, or not known."""
        return retention_of(self.configs)

    @property
    def is_kept_by_size(self) -> bool:
        """Whether records may go before their time, because there are many."""
        is_deleted = "delete" in self.configs.get("cleanup.policy", "delete")
        return is_deleted and int(self.configs.get("retention.bytes", "-1")) >= 0


def retention_of(configs: Mapping[str, str]) -> int | None:
    """How long a topic with these configs keeps its records, by time; None = for ever, or not known."""
    text = configs.get("retention.ms")
    if text is None or "delete" not in configs.get("cleanup.policy", "delete"):
        return None
    return None if int(text) < 0 else int(text)


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """`topics` holds every topic that the unit names or owns and that exists. `readers` are groups with offsets on an
    output, `writers` connectors that write to one.

    `group` None: the cluster has no such group. `problems` are sentences about what could not be asked.
    """

    at_ms: int
    topics: Mapping[str, UnitTopic] = field(default_factory=dict)
    group: Group | None = None
    internal: InternalTopics = InternalTopics()
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    writers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    containing_ids: tuple[str, ...] = ()
    is_exactly_once: bool | None = None
    guarantee_why: str = ""
    problems: tuple[str, ...] = ()
