"""What passes with time: a step or a question of which nothing was heard, a wait that is due, an approval that nobody
gave, and ended ones to forget. Nothing ends by its time before it is known what was sent while no daemon ran: what a
person said may lie there.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.effects import WakeAt
from recoveryd.kernel.keeping import overdue
from recoveryd.kernel.states import State
from recoveryd.workflows.machine.children.steering import remind_children
from recoveryd.workflows.machine.closing import is_over, with_last_try, without_last_try
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.ends import leave
from recoveryd.workflows.machine.guarding import guarded
from recoveryd.workflows.machine.patience import with_time_of
from recoveryd.workflows.machine.planning import approval_ends_ms, ask_again, for_approval, refuse
from recoveryd.workflows.machine.steps import take_again
from recoveryd.workflows.model.actions import RollBackChildren, RunChildren
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.size import ENDED_BYTES_MOST, noted_bytes
from recoveryd.workflows.model.workflow import Workflow

_LOOKING = frozenset({State.RUNNING, State.WAITING, State.PAUSING, State.STOPPING})


def keep_time(draft: WorkflowDraft) -> None:
    for workflow in tuple(draft.workflows.live.values()):
        guarded(draft, workflow, _look_at_clock, refuse)


def take_over_time(draft: WorkflowDraft, *, is_set: bool) -> None:
    """Of a daemon that begins to lead: the clock may have been set since, and `is_set` if its own was."""
    for workflow in tuple(draft.workflows.live.values()):
        if workflow.state is State.AWAITING_APPROVAL:
            since_ms = min(workflow.updated_ms, draft.now_ms)
            waits_for = None if workflow.approved else for_approval(since_ms, draft.params)
            timed = replace(workflow, updated_ms=since_ms, waiting_for=waits_for)
        else:
            timed = with_time_of(workflow, draft.now_ms, draft.params, is_set=is_set)
        if timed != workflow:
            draft.put(timed)


def look_soon(draft: WorkflowDraft) -> None:
    """Something ended in this step, which sees recoveries as they were before it. Those that wait for it look in the
    next.
    """
    ended = draft.draft.ended
    waiting = [w.id for w in draft.workflows.live.values() if w.state in _LOOKING and _waits_for(w, ended)]
    for workflow_id in waiting:
        draft.due(workflow_id, draft.now_ms)
    if waiting:
        draft.effect(WakeAt(draft.now_ms))


def _waits_for(workflow: Workflow, ended: Collection[str]) -> bool:
    action = None if workflow.step is None else workflow.step.action
    return isinstance(action, RunChildren | RollBackChildren) and any(run.recovery in ended for run in action.runs)


def _look_at_clock(draft: WorkflowDraft, workflow: Workflow) -> None:
    if workflow.state is State.AWAITING_APPROVAL and not workflow.approved:
        if draft.has_read and draft.now_ms >= approval_ends_ms(draft, workflow):
            code = Code.APPROVAL_EXPIRED.value
            draft.move(workflow, State.EXPIRED, "nobody approved it in time", {"code": code}, error_code=code)
    elif draft.now_ms < draft.workflows.due_ms.get(workflow.id, 0):
        return
    elif workflow.state is State.PAUSED:
        remind_children(draft, workflow)
        draft.due(workflow.id, draft.now_ms + draft.params.remind_every_ms)
    elif workflow.state in {State.PLANNING, State.AWAITING_APPROVAL}:
        ask_again(draft, workflow)
    elif workflow.state is State.CLOSING:
        _put_back(draft, workflow)
    else:
        take_again(draft, workflow)


def _put_back(draft: WorkflowDraft, workflow: Workflow) -> None:
    """What is put back is tried once more when it was tried for long enough, as nobody may have led."""
    if not draft.has_read:
        further = without_last_try(workflow)
        take_again(draft, workflow if further is workflow else draft.revise(further))
    elif workflow.ending is not None and workflow.ending.is_last_try and workflow.step is not None:
        leave(draft, workflow, workflow.step, "nothing was heard of the last try")
    elif is_over(workflow, draft.now_ms):
        take_again(draft, draft.revise(with_last_try(workflow)))
    else:
        take_again(draft, workflow)


def forget_old(draft: WorkflowDraft) -> None:
    known = draft.workflows
    late = (workflow.id for workflow in overdue(draft, known.forgettable, draft.params))
    due = dict.fromkeys((*late, *_too_large(known)))  # both begin with the oldest
    kept = _begun_by(w for w in known if w.id not in due) if due else ()
    if gone := [workflow for workflow in due if workflow not in kept]:
        draft.forget(gone)


def _too_large(known: Workflows) -> Iterator[str]:
    """The oldest, until what the others noted is little enough: the number of them alone bounds no memory."""
    left = known.noted_bytes
    for workflow in known.forgettable.values():
        if left <= ENDED_BYTES_MOST:
            return
        left -= noted_bytes(workflow)
        yield workflow.id


def _begun_by(workflows: Iterable[Workflow]) -> set[str]:
    """Ids of what these began, which a rollback of them has to find: what is forgotten would be taken for put back."""
    actions = (step.action for workflow in workflows for step in workflow.steps)
    return {run.recovery for action in actions if isinstance(action, RunChildren) for run in action.runs}
