"""What was seen of a unit while it was watched for a while. None means not known, never none."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.units.diagnosis.forms import Form
from recoveryd.units.facts import Group, PartitionEnds, UnitTopic
from recoveryd.units.internal_topics import InternalTopics


@dataclass(frozen=True, slots=True)
class UnitLook:
    """One moment. The group was asked before the logs, so that it cannot look as if it were beyond their ends.

    `ends` of every topic of the unit; `stable`: how far a reader of committed records gets.
    """

    at_ms: int
    group: Group | None
    ends: Mapping[str, Mapping[int, PartitionEnds]] = field(default_factory=dict)
    stable: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replicas:
    """Partitions of a topic that nobody leads, those that take no writes with acks=all, and those of which a replica is
    behind.
    """

    leaderless: tuple[int, ...] = ()
    not_writable: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota on a client id of the unit's members. `clients`: how many of their ids it applies to, each by itself."""

    on: str
    name: str
    value: float
    clients: int = 1


@dataclass(frozen=True, slots=True)
class NextRecord:
    """The record that a partition stands before, and some that were processed before it. `offset` is where it lies."""

    topic: str
    partition: int
    offset: int
    form: Form
    earlier: tuple[Form, ...] = ()


@dataclass(frozen=True, slots=True)
class OtherWork:
    """A recovery at work on a topic of the unit."""

    recovery: str
    state: str
    topic: str
    reads: bool


@dataclass(frozen=True, slots=True)
class Watched:
    """`groups` in the order of the looks, the first and the last one included. `brokers` that lead partitions of
    inputs.

    `quotas` None: could not be asked. `bytes_per_record` as records lie in the logs of the inputs. `read_out`: topic
    and partition of those behind whose offset nothing lies that a reader of committed records gets.
    """

    first: UnitLook
    last: UnitLook
    groups: tuple[Group | None, ...]
    topics: Mapping[str, UnitTopic] = field(default_factory=dict)
    internal: InternalTopics = InternalTopics()
    replicas: Mapping[str, Replicas] = field(default_factory=dict)
    next_records: tuple[NextRecord, ...] = ()
    read_out: frozenset[tuple[str, int]] = frozenset()
    quotas: tuple[Quota, ...] | None = ()
    brokers: int = 1
    bytes_per_record: float | None = None
    work: tuple[OtherWork, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return (self.last.at_ms - self.first.at_ms) / 1000
