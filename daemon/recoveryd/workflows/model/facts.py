"""What a plan has to know, and what was found. Gathered anew for each plan, and once more when it was approved."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.units.facts import Group, PartitionEnds, UnitFacts
from recoveryd.workflows.model.actions import TopicForm
from recoveryd.workflows.model.colliding import Names
from recoveryd.workflows.model.positions import PartitionLook, To


@dataclass(frozen=True, slots=True)
class GroupWanted:
    """Where a group is, and where the position `to` lies. `topics`: by name the partitions that are meant, empty = all
    of it; None = every topic on which the group has a commit.
    """

    cluster: str
    group: str
    to: To
    topics: Mapping[str, tuple[int, ...]] | None


@dataclass(frozen=True, slots=True)
class WantedFacts:
    """What is asked of the clusters for a plan. Topics and client ids stand with their cluster in front."""

    groups: tuple[GroupWanted, ...] = ()
    units: tuple[str, ...] = ()  # of which all is asked that their clusters say
    topics: tuple[tuple[str, str], ...] = ()  # that are looked at besides
    counted: tuple[tuple[str, str], ...] = ()  # topics of which the visible records are counted
    internal: bool = False  # whether the internal topics of these units are looked at as well
    quotas: tuple[tuple[str, str], ...] = ()  # client ids whose byte rates are asked for
    contracts: tuple[str, ...] = ()  # units of which only what their contracts need is asked, if the clusters tell it
    copied_as: str = ""  # what names of copies of internal topics begin with, which are looked at too; empty = none are
    names_on: str = (
        ""  # the cluster of which all names of topics are wanted, because some are to be made; empty = none are
    )
    with_sizes: bool = False  # whether it is asked how many bytes copies of the topics would be
    with_readers: bool = True  # whether it is asked who else reads the outputs of the units


@dataclass(frozen=True, slots=True)
class GroupFound:
    """The group as it is now (None = there is none), and the partitions of the topics that are meant, with what was
    looked up for the wanted time. `missing`: topics that do not exist. `topic_ids` by name.
    """

    group: Group | None
    looks: tuple[PartitionLook, ...] = ()
    missing: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicFound:
    """`form` as it could be made again. `bytes_at_most` as the plan of a copy would have it, None = not asked, or not
    known.
    """

    id: str
    form: TopicForm
    ends: Mapping[int, PartitionEnds]
    bytes_at_most: int | None = None

    @property
    def records_most(self) -> int:
        return sum(ends.records_most for ends in self.ends.values())


@dataclass(frozen=True, slots=True)
class Found:
    """`groups` in the order of the question. `topics`: None = it does not exist. `counts`: visible records; a topic too
    large to be counted is absent. `quotas`: how much a client id may read per second, None = nothing is set for it by
    itself. `names`: of all topics of a cluster, as far as they may be seen.
    """

    groups: tuple[GroupFound, ...] = ()
    units: Mapping[str, UnitFacts] = field(default_factory=dict)
    topics: Mapping[str, TopicFound | None] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    at_ms: int = 0
    quotas: Mapping[str, float | None] = field(default_factory=dict)
    names: Names = field(default_factory=dict)
