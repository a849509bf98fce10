"""A step is not done yet, or the look for it was not answered: it is asked for again after a while, until its deadline.
What it waits for, and for how long it may, is in `patience`. Nothing is given up before it is known what was sent while
no daemon ran: who is waited for may have answered in time.
"""

from dataclasses import replace

from recoveryd.kernel.states import State
from recoveryd.workflows.machine.changing import can_rest, rest_of
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.ends import end, fail
from recoveryd.workflows.machine.patience import (
    GIVEN_UP,
    evidence_after,
    given_up_unanswered,
    is_near,
    told_unanswered,
    unanswered,
    waited_for,
    without_try,
)
from recoveryd.workflows.model.actions import CHANGES, LookAtUnit
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.workflow import Ending, StepState, WaitingFor, Workflow, WorkflowStep


def wait(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> None:
    """Not yet: ask again in a while, until the deadline."""
    if can_rest(draft, workflow, step) and has_to_rest(draft, workflow):
        return
    waiting = workflow.waiting_for
    waits_for = waited_for(waiting, step, event, draft.now_ms, draft.params)
    if _is_over(draft, waits_for) and not is_near(event):
        fail(draft, workflow, step, f"{event.why}, and was waited for long enough", GIVEN_UP[waits_for.kind].value)
        return
    seen = evidence_after(waits_for, step, event, draft.now_ms)
    waits = workflow.with_step(replace(step, state=StepState.WAITING, why=event.why, evidence=seen, failures=0))
    waits = replace(waits, rest=rest_of(step)) if type(step.action) in CHANGES else waits
    if workflow.state is State.RUNNING or waits_for != waiting or without_try(seen) != without_try(step.evidence):
        _tell_wait(draft, waits, waits_for, event.why)
    elif waits.rest != workflow.rest:
        draft.put(waits)  # that it rests is known to the next daemon, and is no version of its own
    is_slow = isinstance(step.action, LookAtUnit) and step.action.hold_ms > 0  # each look asks the cluster
    every_ms = draft.params.close_every_ms if is_slow else draft.params.look_every_ms
    draft.due(workflow.id, draft.now_ms + every_ms)


def wait_unanswered(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> None:
    """The look was not answered: what it is for is waited for all the same, and looked at less and less often."""
    params, waiting = draft.params, workflow.waiting_for
    waits_for = unanswered(waiting, step, event, draft.now_ms, params)
    why = told_unanswered(waits_for, step)
    if _is_over(draft, waits_for):
        fail(draft, workflow, step, f"{why}; it was waited for long enough", given_up_unanswered(waits_for, event))
        return
    waits = workflow.with_step(replace(step, state=StepState.WAITING, failures=step.failures + 1))
    is_news = waiting is None or replace(waits_for, last_error=waiting.last_error) != waiting
    if workflow.state is State.RUNNING or is_news:
        _tell_wait(draft, waits, waits_for, why)
    else:
        # The next daemon need not begin with short times, and what the last error says may change: no version of its
        # own.
        draft.put(replace(waits, waiting_for=waits_for))
    later_ms = params.look_every_ms * 2 ** min(step.failures + 1, 10)
    draft.due(workflow.id, draft.now_ms + min(later_ms, params.unanswered_every_ms))
    draft.reason = f"{step.name}: {why}"


def _is_over(draft: WorkflowDraft, waits_for: WaitingFor) -> bool:
    return draft.has_read and waits_for.deadline_ms is not None and draft.now_ms >= waits_for.deadline_ms


def _tell_wait(draft: WorkflowDraft, waits: Workflow, waits_for: WaitingFor, why: str) -> None:
    """It waits from now on, or for something else than before."""
    if waits.state is State.RUNNING:
        told = {"step": waits_for.step, "why": why, "for": waits_for.kind, "members": list(waits_for.members)}
        draft.notice("step_waiting", waits.id, told)
        draft.move(waits, State.WAITING, why, waiting_for=waits_for)
    else:
        draft.revise(waits, waiting_for=waits_for, why=why if waits.state is State.WAITING else waits.why)


def has_to_rest(draft: WorkflowDraft, workflow: Workflow) -> bool:
    """Whether a stop or a pause waited only until it is known that nothing is being changed; then it takes place."""
    if workflow.stop is not None:
        end(draft, workflow, Ending(State.STOPPED, workflow.why, workflow.error_code))
    elif workflow.state is State.PAUSING:
        draft.move(workflow, State.PAUSED, workflow.why, waiting_for=None)
    else:
        return False
    return True
