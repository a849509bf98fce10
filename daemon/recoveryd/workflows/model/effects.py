"""What workflows want from the world."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.workflows.model.actions import (
    Action,
    AwaitCaughtUp,
    AwaitStarted,
    CreateTopics,
    DeleteTopics,
    LookAtTopics,
    RecreateTopics,
    SetConfigs,
    SetOffsets,
    SetQuotas,
)
from recoveryd.workflows.model.facts import WantedFacts
from recoveryd.workflows.model.workflow import (
    ConfigUndo,
    OffsetUndo,
    QuotaUndo,
    TopicUndo,
    Undo,
    UndoState,
    Workflow,
    WorkflowStep,
)


@dataclass(frozen=True, slots=True)
class GatherForWorkflow:
    """Ask the clusters what the plan needs → WorkflowFacts or GatheringFailed. `version` of the workflow, so that an
    answer to an earlier one of the same id, or to a question before its approval, is told apart. `cluster`: where the
    workflow works.
    """

    workflow: str
    wanted: WantedFacts
    version: int | None = None
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class TakeStep:
    """Do what the action says, or find it done → StepReported. `rows`: what can be put back of that which the action is
    about. `since_ms`: when the step began. `seen`: the evidence of an earlier look. `is_look`: change nothing, and tell
    what earlier tries did, of which nothing was heard.
    """

    workflow: str
    step: str
    try_number: int
    action: Action
    rows: tuple[Undo, ...] = ()
    since_ms: int = 0
    seen: Mapping[str, object] = field(default_factory=dict)
    is_look: bool = False


def take_step(workflow: Workflow, step: WorkflowStep, *, is_look: bool = False) -> TakeStep:
    rows, since_ms = _rows_of(workflow, step.action), step.began_ms or workflow.updated_ms
    return TakeStep(workflow.id, step.name, step.tries, step.action, rows, since_ms, step.evidence, is_look)


def _is_open(row: OffsetUndo, action: SetOffsets | AwaitStarted | AwaitCaughtUp | LookAtTopics) -> bool:
    topics = action.topics if isinstance(action, SetOffsets) else ()
    return row.group == action.group and row.state is UndoState.OPEN and (not topics or row.name in topics)


def _rows_of(workflow: Workflow, action: Action) -> tuple[Undo, ...]:
    match action:
        case SetOffsets() | AwaitStarted() | AwaitCaughtUp(brings_state=True) | LookAtTopics():
            return tuple(r for r in workflow.undo if isinstance(r, OffsetUndo) and _is_open(r, action))
        case CreateTopics() | DeleteTopics() | RecreateTopics():
            return tuple(r for r in workflow.undo if isinstance(r, TopicUndo) and r.cluster == action.cluster)
        case SetConfigs():
            return tuple(r for r in workflow.undo if isinstance(r, ConfigUndo) and r.cluster == action.cluster)
        case SetQuotas():
            return tuple(r for r in workflow.undo if isinstance(r, QuotaUndo) and r.cluster == action.cluster)
        case _:
            return ()
