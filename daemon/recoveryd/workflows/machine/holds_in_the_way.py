"""Held topics, as a step meets them that changes something: it waits until all holds are known, it fails before its
first try, and after that it is only looked how far the last one came. Which hold it is, `holding` finds.
"""

from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.workflows.machine.changing import is_at_rest, is_called_off
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.ends import fail, is_back
from recoveryd.workflows.machine.holding import held_from, held_from_steps
from recoveryd.workflows.model.actions import CHANGES, RunChildren
from recoveryd.workflows.model.workflow import NOT_ENDED, Workflow, WorkflowStep


def waits_for_holds(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether a hold may be in the way that this daemon has not read yet. It goes on once all are known."""
    is_waiting = _is_held_back(workflow, step) and not draft.has_read
    if is_waiting:
        draft.due(workflow.id, draft.now_ms)
    return is_waiting


def fails_by_hold(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether somebody holds a topic that a step has not changed yet: then it ends here."""
    held = _held(draft, workflow, step) if _is_held_back(workflow, step) else None
    if held is not None:
        fail(draft, workflow, step, held.message, held.code.value)
    return held is not None


def is_only_look(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether it is only looked how far the last try came, however often that takes."""
    return is_called_off(workflow, step) or _is_only_looked_at(draft, workflow, step)


def _is_only_looked_at(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether somebody holds a topic that a step changes, of whose last try is not known how far it came."""
    is_held_back = _is_held_back(workflow, step) and not is_at_rest(workflow, step)
    return is_held_back and _held(draft, workflow, step) is not None


def _is_held_back(workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether a hold is in the way of it. What was changed for a time only is put back in any case: it is not the
    topic's owner who asked for it.
    """
    return type(step.action) in CHANGES and workflow.state is not State.CLOSING


def _held(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> Refused | None:
    """On the way back, and where it takes away only what it made itself, by what this step touches: what stays as it is
    needs nobody's leave. Before something is copied, also by what that reads, since without it the change is of no use.
    """
    if workflow.is_rolling_back or is_back(step.action):
        return held_from_steps(draft, workflow, (step,))
    has_to_copy = any(isinstance(s.action, RunChildren) and s.state in NOT_ENDED for s in workflow.steps)
    return held_from(draft, workflow, workflow.plan, workflow.reads if has_to_copy else ())
