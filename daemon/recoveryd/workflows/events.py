"""What workflows hear: what planning asked for, and what became of steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from recoveryd.units.facts import Group
from recoveryd.workflows.model import Undo
from recoveryd.workflows.positions import PartitionLook


class Outcome(StrEnum):
    """`not_yet`: nothing is wrong, it is to be asked again."""

    DONE = "done"
    NOT_YET = "not_yet"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class GroupGathered:
    """The group as it is now (None = there is none), and the partitions of the topics that are meant, with what was
    looked up for the wanted time. `missing`: topics that do not exist. `topic_ids` by name.
    """

    workflow: str
    group: Group | None
    looks: tuple[PartitionLook, ...] = ()
    missing: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepReported:
    """`members` in words, of a group that is not empty yet. `undo`: what the step saw that can be put back. `code` and
    `is_retriable` of one that failed.
    """

    workflow: str
    step: str
    try_number: int
    outcome: Outcome
    why: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    undo: tuple[Undo, ...] = ()
    code: str = ""
    is_retriable: bool = False


@dataclass(frozen=True, slots=True)
class GatheringFailed:
    workflow: str
    code: str
    message: str
    is_retriable: bool
