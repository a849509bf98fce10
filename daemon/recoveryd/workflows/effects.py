"""What workflows want from the world."""

from dataclasses import dataclass

from recoveryd.workflows.actions import Action, SetOffsets
from recoveryd.workflows.model import Undo, Workflow, WorkflowStep
from recoveryd.workflows.spec import ResetSpec


@dataclass(frozen=True, slots=True)
class GatherGroup:
    """Ask the cluster what the plan needs → GroupGathered or GatheringFailed. `topics`: those of the unit, None = those
    on which the group has a commit.
    """

    workflow: str
    spec: ResetSpec
    topics: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class TakeStep:
    """Do what the action says, or find it done → StepReported."""

    workflow: str
    step: str
    try_number: int
    action: Action
    rows: tuple[Undo, ...] = ()  # of SetOffsets


def take_step(workflow: Workflow, step: WorkflowStep) -> TakeStep:
    rows = workflow.undo if isinstance(step.action, SetOffsets) else ()
    return TakeStep(workflow.id, step.name, step.tries, step.action, rows)
