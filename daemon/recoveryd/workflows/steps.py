"""One step after the other: begin it, hear of it, ask again, go on or stand with a reason. Nothing here knows what a
step does.
"""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.workflows.draft import WorkflowDraft
from recoveryd.workflows.effects import take_step
from recoveryd.workflows.events import Outcome, StepReported
from recoveryd.workflows.holding import held_from
from recoveryd.workflows.model import StepState, WaitingFor, Workflow, WorkflowStep
from recoveryd.workflows.reset import NOTE, PUT_BACK, SET, with_positions

_TAKEN = frozenset({StepState.RUNNING, StepState.WAITING})


def go_on(draft: WorkflowDraft, workflow: Workflow) -> None:
    """Begin the next step, or end: there is none left."""
    step = workflow.step
    if step is None:
        _end(draft, workflow)
    elif step.state is not StepState.PENDING:
        return
    elif step.name in {SET, PUT_BACK} and (held := held_from(draft, workflow, workflow.plan)):
        fail(draft, workflow, step, held.message, held.code.value)
    else:
        draft.notice("step_started", workflow.id, {"step": step.name, "why": f"step {step.name} begins"})
        _take(draft, workflow, replace(step, state=StepState.RUNNING, began_ms=draft.now_ms))


def take_again(draft: WorkflowDraft, workflow: Workflow) -> None:
    """Ask for the present step once more: it was not done yet, nothing was heard of it, or this daemon is new."""
    step = workflow.step
    if step is not None and step.state in _TAKEN:
        _take(draft, workflow, step)
    else:
        go_on(draft, workflow)


def on_step(draft: WorkflowDraft, event: StepReported) -> None:
    workflow = draft.workflows.live.get(event.workflow)
    step = None if workflow is None else workflow.step
    if workflow is None or step is None or (step.name, step.tries) != (event.step, event.try_number):
        return  # of an earlier try, or of somebody who ended meanwhile
    if event.outcome is Outcome.DONE:
        _done(draft, workflow, step, event)
    elif event.outcome is Outcome.NOT_YET:
        _wait(draft, workflow, step, event)
    elif event.is_retriable and step.tries < draft.params.tries_most:
        draft.revise(workflow.with_step(replace(step, why=event.why)))
        draft.due(workflow.id, draft.now_ms + draft.params.look_every_ms * 2**step.tries)
        draft.reason = f"{step.name}: {event.why}; tried again"
    else:
        fail(draft, workflow, step, event.why, event.code or Code.STEP_FAILED.value)


def fail(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, why: str, code: str) -> None:
    """It stands here, with a reason; what was changed before can be put back."""
    ended = replace(step, state=StepState.FAILED, why=why, ended_ms=draft.now_ms)
    draft.notice("step_failed", workflow.id, {"step": step.name, "why": why, "code": code})
    told = f"{step.name}: {why}"
    if any(u.was_set is not None for u in workflow.undo) and not workflow.is_rolling_back:
        told += "; `rollback` puts back what was changed"
    draft.move(workflow.with_step(ended), State.FAILED, told, {"code": code}, error_code=code, waiting_for=None)


def _take(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> None:
    begun = replace(step, tries=step.tries + 1)
    draft.revise(workflow.with_step(begun))
    draft.effect(take_step(workflow, begun))
    draft.due(workflow.id, draft.now_ms + draft.params.no_answer_ms)


def _done(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> None:
    ended = replace(step, state=StepState.DONE, why=event.why, evidence=dict(event.evidence), ended_ms=draft.now_ms)
    draft.notice("step_done", workflow.id, {"step": step.name, "why": event.why, "evidence": dict(event.evidence)})
    draft.reason = f"{step.name}: {event.why}"
    after = replace(workflow.with_step(ended), waiting_for=None)
    if step.name == NOTE:
        after = with_positions(after, event.undo)
    elif event.undo:
        after = replace(after, undo=event.undo)
    if after.stop is not None:
        draft.move(after, State.STOPPED, after.why)
        return
    went_on = draft.move(after, State.RUNNING, event.why) if after.state is State.WAITING else draft.revise(after)
    go_on(draft, went_on)


def _wait(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> None:
    waiting = workflow.waiting_for
    since_ms = waiting.since_ms if waiting is not None else draft.now_ms
    deadline_ms = since_ms + draft.params.empty_wait_ms
    if draft.now_ms >= deadline_ms:
        fail(draft, workflow, step, f"{event.why}, and was waited for long enough", Code.GROUP_NOT_EMPTY.value)
        return
    now = WaitingFor("group_empty", step.name, since_ms, deadline_ms, event.members)
    waits = workflow.with_step(replace(step, state=StepState.WAITING, why=event.why))
    if workflow.state is State.WAITING:
        if now != waiting:
            draft.revise(waits, waiting_for=now, why=event.why)
    else:
        draft.notice("step_waiting", workflow.id, {"step": step.name, "why": event.why, "members": list(event.members)})
        draft.move(waits, State.WAITING, event.why, waiting_for=now)
    draft.due(workflow.id, draft.now_ms + draft.params.look_every_ms)


def _end(draft: WorkflowDraft, workflow: Workflow) -> None:
    last = workflow.steps[-1].why
    if workflow.is_rolling_back:
        draft.move(workflow, State.ROLLED_BACK, last)
    else:
        draft.move(workflow, State.COMPLETED, last)
