"""Held topics (`recoveryd.holds`): a workflow changes nothing where somebody holds the topic. Looked at when its plan
is made and again before it changes something.
"""

from collections.abc import Iterable

from recoveryd.holds.draft import HoldDraft
from recoveryd.holds.held import refuse_held
from recoveryd.kernel.refused import Refused
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.model.actions import (
    CreateTopics,
    DeleteTopics,
    RecreateTopics,
    SetConfigs,
    SetOffsets,
)
from recoveryd.workflows.model.workflow import (
    Change,
    OffsetUndo,
    UndoState,
    Workflow,
    WorkflowPlan,
    WorkflowStep,
)

_OF_TOPICS = frozenset({"offset", "topic", "config"})


def held_from(
    draft: WorkflowDraft, workflow: Workflow, plan: WorkflowPlan | None, reads: Iterable[str]
) -> Refused | None:
    """The refusal that names the hold in the way of this plan, or None. `reads`: topics that it will have copied."""
    topics = dict.fromkeys(_topic_of(change) for change in plan.changes if change.what in _OF_TOPICS) if plan else ()
    holds, cluster = draft.draft.view(HoldDraft).holds, workflow.spec.cluster
    return refuse_held(holds, [(cluster, topic) for topic in topics], [(cluster, topic) for topic in reads])


def _topic_of(change: Change) -> str:
    return change.name.partition(" ")[0] if change.what == "config" else change.name


def held_from_steps(draft: WorkflowDraft, workflow: Workflow, steps: Iterable[WorkflowStep]) -> Refused | None:
    """The refusal that names the hold in the way of what these steps change, or None."""
    topics = dict.fromkeys(topic for step in steps for topic in _touched(workflow, step))
    holds = draft.draft.view(HoldDraft).holds
    return refuse_held(holds, [(workflow.spec.cluster, topic) for topic in topics])


def _touched(workflow: Workflow, step: WorkflowStep) -> Iterable[str]:
    match step.action:
        case SetOffsets(group=group):
            rows = (row for row in workflow.undo if isinstance(row, OffsetUndo) and row.group == group)
            return (row.name for row in rows if row.state is UndoState.OPEN and row.is_changed)
        case DeleteTopics(topics=named):
            return named
        case SetConfigs(configs=configs):
            return configs
        case CreateTopics(topics=forms) | RecreateTopics(topics=forms):
            return (form.name for form in forms)
        case _:
            return ()
