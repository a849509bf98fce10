"""What workflows hear: what planning asked for, and what became of steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from recoveryd.units.facts import PartitionEnds
from recoveryd.workflows.model.facts import Found
from recoveryd.workflows.model.workflow import Undo


class Outcome(StrEnum):
    """`not_yet`: nothing is wrong, it is to be asked again. `left`: something is left to change, and
    nothing is under way: of a try that only looked, or whose time was over.
    """

    DONE = "done"
    NOT_YET = "not_yet"
    FAILED = "failed"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class WorkflowFacts:
    """`version` of the workflow that asked; None in histories of an earlier release."""

    workflow: str
    found: Found
    version: int | None = None


UNTRIED: Final = "untried"  # in the evidence of a step: up to this try it did not come so far as to change anything
START_FAILED: Final = "start_failed"  # in the evidence of a start: it was asked for, and what was started is not well


@dataclass(frozen=True, slots=True)
class StepReported:
    """What became of one try of a step."""

    workflow: str
    step: str
    try_number: int
    outcome: Outcome
    why: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict)
    members: tuple[str, ...] = ()  # in words, of a group that is not empty yet
    undo: tuple[Undo, ...] = ()  # what the step saw or did that can be put back
    logs: Mapping[str, Mapping[int, PartitionEnds]] = field(
        default_factory=dict
    )  # by topic, where each begins and ends
    left: int | None = None  # of something that is waited for, how much is left
    is_under_way: bool = False  # of an application that is waited for: somebody else is at it, and no person is needed
    code: str = ""  # of one that failed
    is_retriable: bool = False  # of one that failed
    found: Found | None = None  # what the cluster said of a unit, for the core to judge; not kept

    @property
    def is_untried(self) -> bool:
        """Whether it failed before it came so far as to change anything, like all tries before it."""
        return self.evidence.get(UNTRIED) == self.try_number


@dataclass(frozen=True, slots=True)
class GatheringFailed:
    workflow: str
    code: str
    message: str
    is_retriable: bool
    version: int | None = None
