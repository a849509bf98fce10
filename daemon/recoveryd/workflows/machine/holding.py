"""Held topics (`recoveryd.holds`): a workflow changes nothing where somebody holds the topic. Looked at when its plan is
made and again before it changes something.
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
from recoveryd.workflows.model.workflow import OffsetUndo, UndoState, Workflow, WorkflowPlan, WorkflowStep

_OF_TOPICS = frozenset({"offset", "topic", "config"})


def held_from(draft: WorkflowDraft, workflow: Workflow, plan: WorkflowPlan | None) -> Refused | None:
    """The refusal that names the hold in the way of this plan, or None."""
    topics = dict.fromkeys(change.name for change in plan.changes if change.what in _OF_TOPICS) if plan else ()
    holds = draft.draft.view(HoldDraft).holds
    return refuse_held(holds, [(workflow.spec.cluster, topic) for topic in topics])


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
