"""One step after the other: begin it, hear of it, ask again, go on or stand with a reason. Nothing here knows what a
step does.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.units.control import TOLD
from recoveryd.workflows.machine.around import around_of
from recoveryd.workflows.machine.asking import ask_for, begin
from recoveryd.workflows.machine.changing import is_at_rest, is_nothing_begun, rest_of
from recoveryd.workflows.machine.children.looking import (
    asked_again,
    asked_anew,
    look_at_children,
    look_at_rollback,
    while_unread,
)
from recoveryd.workflows.machine.deciding import appends, has_to_be_decided, with_decision
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.ends import complete, end, fail
from recoveryd.workflows.machine.guarding import guarded
from recoveryd.workflows.machine.holds_in_the_way import fails_by_hold, is_only_look, waits_for_holds
from recoveryd.workflows.machine.patience import outlasts, without_refusals
from recoveryd.workflows.machine.readiness import look_at_readiness
from recoveryd.workflows.machine.waiting import has_to_rest, wait, wait_unanswered
from recoveryd.workflows.model.actions import (
    CHANGES,
    AskChoice,
    AskPerson,
    AwaitReady,
    RollBackChildren,
    RunChildren,
    Settle,
)
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import TAKEN, Ending, StepState, Workflow, WorkflowStep

_LOOKS: Mapping[type, Callable[[WorkflowDraft, Workflow, WorkflowStep], StepReported]] = {
    RunChildren: look_at_children,
    RollBackChildren: look_at_rollback,
    AwaitReady: look_at_readiness,
}


def go_on(draft: WorkflowDraft, workflow: Workflow) -> None:
    """Begin the next step, or end: there is none left."""
    step = workflow.step
    if step is None:
        complete(draft, workflow)
    elif step.state is not StepState.PENDING or waits_for_holds(draft, workflow, step):
        return
    elif not fails_by_hold(draft, workflow, step):
        _take(draft, *begin(draft, workflow, step))


def take_anew(draft: WorkflowDraft, workflow: Workflow) -> None:
    """As if the present step began now: somebody mended what it stood at."""
    step = workflow.step
    if step is not None and step.state in TAKEN:
        if fails_by_hold(draft, workflow, step):
            return
        # A start that was asked for of what appends is not asked for anew: a person is asked first.
        is_kept = bool(step.tries) and bool(appends(draft.params.units, step))
        began_ms = step.began_ms if is_kept else draft.now_ms
        draft.hear(workflow.id, step, step.tries)  # nothing that was looked at before counts
        begun = replace(step, began_ms=began_ms, evidence=without_refusals(step.evidence))
        anew = asked_anew(draft, workflow, begun)
        workflow = draft.revise(workflow.with_step(anew))
    take_again(draft, workflow)


def take_again(draft: WorkflowDraft, workflow: Workflow) -> None:
    """Ask for the present step once more: it was not done yet, nothing was heard of it, or this daemon is new. Where
    somebody holds a topic that it changes, or called the change off, it is only looked how far the last try came.
    """
    step = workflow.step
    if step is None or step.state not in TAKEN:
        go_on(draft, workflow)
    elif waits_for_holds(draft, workflow, step):
        return
    elif not is_at_rest(workflow, step):
        _take(draft, workflow, step, is_look=is_only_look(draft, workflow, step))
    elif not fails_by_hold(draft, workflow, step):
        _take(draft, workflow, step)


def on_step(draft: WorkflowDraft, event: StepReported) -> None:
    workflow = draft.workflows.live.get(event.workflow)
    step = None if workflow is None else workflow.step
    if workflow is None or step is None or not _is_awaited(draft, workflow, step, event):
        return  # of an earlier try, or of somebody who ended meanwhile
    if workflow.state is State.PAUSED:
        # What was looked at before the pause is looked at again after it, but a start that was told stays so.
        if TOLD in event.evidence:
            draft.put(workflow.with_step(replace(step, evidence={**step.evidence, TOLD: event.evidence[TOLD]})))
        return
    draft.hear(workflow.id, step, event.try_number)
    guarded(draft, workflow, lambda draft, workflow: take_report(draft, workflow, step, event))


def _is_awaited(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> bool:
    """Of a change only its last try. A look may take longer than it is waited for, and so may the next one: each is
    heard that is newer than the last that was.
    """
    if step.name != event.step or type(step.action) in CHANGES:
        return (step.name, step.tries) == (event.step, event.try_number)
    name, last = draft.workflows.heard.get(workflow.id, ("", 0))
    return (last if name == step.name else 0) < event.try_number <= step.tries


def take_report(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> None:
    if event.found is not None:
        event = draft.kind_of(workflow).judge(workflow, step, event, around_of(draft, workflow))
    if event.outcome is Outcome.FAILED and event.undo:
        workflow = workflow.with_undo(event.undo)  # what it changed before it failed
    if has_to_be_decided(draft.params.units, step, event):
        asked = with_decision(draft.params.units, workflow, step, event)
        is_waiting = asked.state is State.WAITING
        go_on(draft, draft.move(asked, State.RUNNING, event.why) if is_waiting else draft.revise(asked))
    elif event.outcome is Outcome.DONE:
        done(draft, workflow, step, event)
    elif event.outcome is Outcome.NOT_YET:
        wait(draft, workflow, step, event)
    elif event.outcome is Outcome.LEFT:
        _left(draft, workflow, step, event)
    elif is_nothing_begun(draft, workflow, step, event) and has_to_rest(draft, workflow):
        return  # to try it again would make the change that was called off
    elif outlasts(step, event, is_look=is_only_look(draft, workflow, step)):
        wait_unanswered(draft, workflow, step, event)
    elif event.is_retriable and step.failures < draft.params.tries_most - 1:
        seen = event.evidence or step.evidence
        is_unchanged = event.is_untried and type(step.action) in CHANGES
        workflow = replace(workflow, rest=rest_of(step)) if is_unchanged else workflow
        draft.revise(workflow.with_step(replace(step, why=event.why, evidence=seen, failures=step.failures + 1)))
        draft.due(workflow.id, draft.now_ms + draft.params.look_every_ms * 2 ** (step.failures + 1))
        draft.reason = f"{step.name}: {event.why}; tried again"
    else:
        fail(draft, workflow, step, event.why, event.code or Code.STEP_FAILED.value)


def done(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> None:
    ended = replace(step, state=StepState.DONE, why=event.why, evidence=dict(event.evidence), ended_ms=draft.now_ms)
    after = draft.kind_of(workflow).after_step(replace(workflow.with_step(ended), waiting_for=None), ended, event)
    if isinstance(after, Refused):
        fail(draft, workflow, step, after.message, after.code.value)
        return
    draft.notice("step_done", workflow.id, {"step": step.name, "why": event.why, "evidence": dict(event.evidence)})
    draft.reason = f"{step.name}: {event.why}"
    if after.ending is not None:
        end(draft, after, after.ending)
    elif after.stop is not None:
        end(draft, after, Ending(State.STOPPED, _with_change(after.why, step, event), after.error_code))
    elif after.state is State.PAUSING:
        draft.move(after, State.PAUSED, _with_change(after.why, step, event))
    else:
        is_waiting = after.state is State.WAITING
        go_on(draft, draft.move(after, State.RUNNING, event.why) if is_waiting else draft.revise(after))


def _with_change(why: str, step: WorkflowStep, event: StepReported) -> str:
    """Why it rests, and what was changed all the same, since that was under way."""
    return f"{why}; {step.name} was under way, and is done: {event.why}" if type(step.action) in CHANGES else why


def _left(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> None:
    """It was only looked how far it came: what is left is called off if the hold is still there, else it is
    done now.
    """
    seen = workflow.with_step(replace(step, state=StepState.RUNNING, failures=0)).with_undo(event.undo)
    seen = replace(seen, rest=rest_of(step), waiting_for=None)
    draft.reason = f"{step.name}: {event.why}"
    rested = draft.move(seen, State.RUNNING, event.why) if workflow.state is State.WAITING else draft.revise(seen)
    if not has_to_rest(draft, rested):
        take_again(draft, rested)


def _take(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, *, is_look: bool = False) -> None:
    if isinstance(step.action, AskPerson | AskChoice):
        asked = StepReported(workflow.id, step.name, step.tries, Outcome.NOT_YET, step.action.question)
        wait(draft, workflow.with_step(step), step, asked)
        return
    if isinstance(step.action, Settle):
        told = StepReported(workflow.id, step.name, step.tries, Outcome.DONE, step.action.told)
        done(draft, workflow.with_step(step), step, told)
        return
    look = _LOOKS.get(type(step.action))
    if look is not None:
        workflow, step = asked_again(draft, workflow, step)
        begun = while_unread(draft, replace(step, tries=step.tries + 1))
        told = look(draft, draft.put(workflow.with_step(begun)), begun)
        take_report(draft, draft.workflows.live[workflow.id], begun, told)
        return
    ask_for(draft, workflow, step, is_look=is_look)
