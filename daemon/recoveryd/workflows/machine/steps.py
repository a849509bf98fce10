"""One step after the other: begin it, hear of it, ask again, go on or stand with a reason. Nothing here knows what a
step does.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.workflows.machine.around import around_of
from recoveryd.workflows.machine.children import (
    FAILED,
    asked_anew,
    has_children,
    look_at_children,
    look_at_rollback,
    steer_children,
)
from recoveryd.workflows.machine.closing import is_over, told_try, with_deadline, without
from recoveryd.workflows.machine.deciding import appends, has_to_be_decided, told_appended, with_decision
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.guarding import guarded
from recoveryd.workflows.machine.holding import are_known, held_from, held_from_steps
from recoveryd.workflows.machine.patience import (
    GIVEN_UP,
    evidence_after,
    given_up_unanswered,
    outlasts,
    told_unanswered,
    unanswered,
    waited_for,
    without_try,
)
from recoveryd.workflows.machine.readiness import look_at_readiness
from recoveryd.workflows.machine.undoing import (
    puts_back,
    restore_step,
    told_left_stopped,
    told_lost,
    told_stopped,
    without_unbegun,
)
from recoveryd.workflows.model.actions import (
    CHANGES,
    Action,
    AskChoice,
    AskPerson,
    AwaitReady,
    LookAtUnit,
    RollBackChildren,
    RunChildren,
    Settle,
)
from recoveryd.workflows.model.effects import take_step
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import (
    NOT_ENDED,
    TAKEN,
    Ending,
    Rest,
    StepState,
    WaitingFor,
    Workflow,
    WorkflowStep,
)

_LOOKS: Mapping[type, Callable[[WorkflowDraft, Workflow, WorkflowStep], StepReported]] = {
    RunChildren: look_at_children,
    RollBackChildren: look_at_rollback,
    AwaitReady: look_at_readiness,
}


def go_on(draft: WorkflowDraft, workflow: Workflow) -> None:
    """Begin the next step, or end: there is none left."""
    step = workflow.step
    if step is None:
        _end(draft, workflow)
    elif step.state is not StepState.PENDING or _waits_for_holds(draft, workflow, step):
        return
    elif not _fails_by_hold(draft, workflow, step):
        draft.notice("step_started", workflow.id, {"step": step.name, "why": f"step {step.name} begins"})
        draft.hear(workflow.id, step, step.tries)
        _take(draft, replace(workflow, rest=None), replace(step, state=StepState.RUNNING, began_ms=draft.now_ms))


def _is_held_back(workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether a hold is in the way of it. What was changed for a time only is put back in any case: it is not the
    topic's owner who asked for it.
    """
    return type(step.action) in CHANGES and workflow.state is not State.CLOSING


def _held(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> Refused | None:
    """On the way back, and where it takes away only what it made itself, by what this step touches: what stays as it is needs
    nobody's leave.
    """
    if workflow.is_rolling_back or _is_back(step.action):
        return held_from_steps(draft, workflow, (step,))
    return held_from(draft, workflow, workflow.plan)


def take_anew(draft: WorkflowDraft, workflow: Workflow) -> None:
    """As if the present step began now: somebody mended what it stood at."""
    step = workflow.step
    if step is not None and step.state in TAKEN:
        if _fails_by_hold(draft, workflow, step):
            return
        # A start that was asked for of what appends is not asked for anew: a person is asked first.
        is_kept = bool(step.tries) and bool(appends(draft.params.units, step))
        began_ms = step.began_ms if is_kept else draft.now_ms
        draft.hear(workflow.id, step, step.tries)  # nothing that was looked at before counts
        anew = asked_anew(draft, workflow, replace(step, began_ms=began_ms))
        workflow = draft.revise(workflow.with_step(anew))
    take_again(draft, workflow)


def take_again(draft: WorkflowDraft, workflow: Workflow) -> None:
    """Ask for the present step once more: it was not done yet, nothing was heard of it, or this daemon is new. Where somebody
    holds a topic that it changes, or called the change off, it is only looked how far the last try came.
    """
    step = workflow.step
    if step is None or step.state not in TAKEN:
        go_on(draft, workflow)
    elif _waits_for_holds(draft, workflow, step):
        return
    elif not _is_at_rest(workflow, step):
        _take(draft, workflow, step, is_look=_is_look(draft, workflow, step))
    elif not _fails_by_hold(draft, workflow, step):
        _take(draft, workflow, step)


def _is_look(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether it is only looked how far the last try came, however often that takes."""
    return _is_called_off(workflow, step) or _is_only_looked_at(draft, workflow, step)


def _is_called_off(workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether a stop or a pause came while a change was under way, of which nothing was heard: what is left of it is not made."""
    return workflow.state in {State.STOPPING, State.PAUSING} and type(step.action) in CHANGES


def _is_only_looked_at(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether somebody holds a topic that a step changes, of whose last try is not known how far it came."""
    is_held_back = _is_held_back(workflow, step) and not _is_at_rest(workflow, step)
    return is_held_back and _held(draft, workflow, step) is not None


def _waits_for_holds(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether a hold may be in the way that this daemon has not read yet. It goes on once all are known."""
    is_waiting = _is_held_back(workflow, step) and not are_known(draft)
    if is_waiting:
        draft.due(workflow.id, draft.now_ms)
    return is_waiting


def _fails_by_hold(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether somebody holds a topic that a step has not changed yet: then it ends here."""
    held = _held(draft, workflow, step) if _is_held_back(workflow, step) else None
    if held is not None:
        fail(draft, workflow, step, held.message, held.code.value)
    return held is not None


def _is_at_rest(workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether nothing of it is under way, as was heard of its last try."""
    return workflow.rest == _rest_of(step)


def _rest_of(step: WorkflowStep) -> Rest:
    return Rest(step.name, step.tries)


def on_step(draft: WorkflowDraft, event: StepReported) -> None:
    workflow = draft.workflows.live.get(event.workflow)
    step = None if workflow is None else workflow.step
    if workflow is None or step is None or not _is_awaited(draft, workflow, step, event):
        return  # of an earlier try, or of somebody who ended meanwhile
    if workflow.state is State.PAUSED:
        return  # what was looked at before the pause is looked at again after it
    draft.hear(workflow.id, step, event.try_number)
    guarded(draft, workflow, lambda draft, workflow: take_report(draft, workflow, step, event))


def _is_awaited(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> bool:
    """Of a change only its last try. A look may take longer than it is waited for, and so may the next one: each is heard that
    is newer than the last that was.
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
    elif _is_nothing_begun(draft, workflow, step, event) and _has_to_rest(draft, workflow):
        return  # to try it again would make the change that was called off
    elif outlasts(step, event, is_look=_is_look(draft, workflow, step)):
        _wait_unanswered(draft, workflow, step, event)
    elif event.is_retriable and step.failures < draft.params.tries_most - 1:
        seen = event.evidence or step.evidence
        is_unchanged = event.is_untried and type(step.action) in CHANGES
        workflow = replace(workflow, rest=_rest_of(step)) if is_unchanged else workflow
        draft.revise(workflow.with_step(replace(step, why=event.why, evidence=seen, failures=step.failures + 1)))
        draft.due(workflow.id, draft.now_ms + draft.params.look_every_ms * 2 ** (step.failures + 1))
        draft.reason = f"{step.name}: {event.why}; tried again"
    else:
        fail(draft, workflow, step, event.why, event.code or Code.STEP_FAILED.value)


def fail(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, why: str, code: str) -> None:
    """It stands here, with a reason; what was changed before can be put back."""
    told = f"{step.name}: {why}"
    if workflow.state is State.CLOSING:
        if why != step.why:
            draft.notice("step_failed", workflow.id, {"step": step.name, "why": why, "code": code})
        if is_over(workflow, draft.now_ms):
            leave(draft, workflow, step, why)
            return
        draft.revise(workflow.with_step(replace(step, why=why, failures=0)), why=f"{told}; {told_try(workflow)}")
        draft.due(workflow.id, draft.now_ms + draft.params.close_every_ms)
        return
    if isinstance(step.action, RunChildren) and has_children(draft, workflow):
        _stop_others_first(draft, workflow, step, why, code)
        return
    ended = replace(step, state=StepState.FAILED, why=why, ended_ms=draft.now_ms)
    draft.notice("step_failed", workflow.id, {"step": step.name, "why": why, "code": code})
    failed = workflow.with_step(ended)
    end(draft, failed, Ending(State.FAILED, "; ".join((told, *_told_after(draft, failed))), code))


def _told_after(draft: WorkflowDraft, failed: Workflow) -> Iterator[str]:
    """How it leaves things, for whoever goes on with them. On the way back the answer to `rollback` said the rest."""
    stopped = stopped_by(draft, failed)
    if failed.is_rolling_back:
        yield from filter(None, (stopped,))
        return
    can_go_back = puts_back(failed, draft.kind_of(failed).undo(failed))
    back = "`rollback` puts back what was changed" if can_go_back else ""
    yield from filter(None, (told_lost(failed), stopped, told_appended(draft.params.units, failed), back))


def stopped_by(draft: WorkflowDraft, workflow: Workflow) -> str:
    """What it leaves stopped if it ends now, in words."""
    if workflow.is_rolling_back:
        return told_left_stopped(workflow, draft.kind_of(workflow).undo(workflow))
    return told_stopped(workflow)


def leave(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, why: str) -> None:
    """What this step should have put back stays changed; what there is besides is still put back."""
    failed = workflow.with_step(replace(step, state=StepState.FAILED, why=why, ended_ms=draft.now_ms))
    after = without(failed, step, why)
    assert after.ending is not None
    end(draft, after, after.ending)


def _stop_others_first(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, why: str, code: str) -> None:
    """What it began beside would go on with nobody who waits for it."""
    noted = replace(step, why=why, evidence={**step.evidence, FAILED: {"why": why, "code": code}})
    steered = steer_children(draft, workflow.with_step(noted), "stop")
    draft.revise(steered, why=f"{step.name}: {why}; what began beside it is stopped first")
    draft.due(workflow.id, draft.now_ms + draft.params.look_every_ms)


def end(draft: WorkflowDraft, workflow: Workflow, ending: Ending) -> None:
    """Into its last state; before that, put back what was changed for its own time only. What it began has ended, so nothing is
    wanted of that any more: a stop that nobody has read would end what a rollback begins there.
    """
    workflow = replace(without_unbegun(workflow), steering=None)
    restore = restore_step(workflow)
    if restore is None:
        data = {"code": ending.code} if ending.code else {}
        report = draft.kind_of(workflow).report(workflow, ending, draft.now_ms)
        ended = {"error_code": ending.code, "waiting_for": None, "ending": None, "report": report}
        draft.move(workflow, ending.state, ending.why, data, **ended)
        if ending.code == Code.ESCALATED.value:
            told = {"why": ending.why, "code": ending.code, "unit": workflow.unit, "report": report}
            draft.notice("runbook_escalated", workflow.id, told)
        return
    steps = tuple(replace(s, state=StepState.SKIPPED) if s.state in NOT_ENDED else s for s in workflow.steps)
    until = with_deadline(ending, draft.now_ms, draft.params.closing_deadline_ms)
    closing = replace(workflow, steps=(*steps, restore), ending=until, waiting_for=None)
    why = f"{ending.why}; temporary changes are put back"
    is_new = workflow.state is not State.CLOSING
    go_on(draft, draft.move(closing, State.CLOSING, why) if is_new else draft.revise(closing, why=why))


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


def wait(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> None:
    """Not yet: ask again in a while, until the deadline."""
    if _can_rest(draft, workflow, step) and _has_to_rest(draft, workflow):
        return
    waiting = workflow.waiting_for
    waits_for = waited_for(waiting, step, event, draft.now_ms, draft.params)
    if waits_for.deadline_ms is not None and draft.now_ms >= waits_for.deadline_ms:
        fail(draft, workflow, step, f"{event.why}, and was waited for long enough", GIVEN_UP[waits_for.kind].value)
        return
    seen = evidence_after(waits_for, step, event, draft.now_ms)
    waits = workflow.with_step(replace(step, state=StepState.WAITING, why=event.why, evidence=seen, failures=0))
    waits = replace(waits, rest=_rest_of(step)) if type(step.action) in CHANGES else waits
    if workflow.state is State.RUNNING or waits_for != waiting or without_try(seen) != without_try(step.evidence):
        _tell_wait(draft, waits, waits_for, event.why)
    elif waits.rest != workflow.rest:
        draft.put(waits)  # that it rests is known to the next daemon, and is no version of its own
    is_slow = isinstance(step.action, LookAtUnit) and step.action.hold_ms > 0  # each look asks the cluster
    every_ms = draft.params.close_every_ms if is_slow else draft.params.look_every_ms
    draft.due(workflow.id, draft.now_ms + every_ms)


def _wait_unanswered(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> None:
    """The look was not answered: what it is for is waited for all the same, and looked at less and less often."""
    params, waiting = draft.params, workflow.waiting_for
    waits_for = unanswered(waiting, step, event, draft.now_ms, params)
    why = told_unanswered(waits_for, step)
    if waits_for.deadline_ms is not None and draft.now_ms >= waits_for.deadline_ms:
        fail(draft, workflow, step, f"{why}; it was waited for long enough", given_up_unanswered(waits_for, event))
        return
    waits = workflow.with_step(replace(step, state=StepState.WAITING, failures=step.failures + 1))
    is_news = waiting is None or replace(waits_for, last_error=waiting.last_error) != waiting
    if workflow.state is State.RUNNING or is_news:
        _tell_wait(draft, waits, waits_for, why)
    else:
        # The next daemon need not begin with short times, and what the last error says may change: no version of its own.
        draft.put(replace(waits, waiting_for=waits_for))
    later_ms = params.look_every_ms * 2 ** min(step.failures + 1, 10)
    draft.due(workflow.id, draft.now_ms + min(later_ms, params.unanswered_every_ms))
    draft.reason = f"{step.name}: {why}"


def _tell_wait(draft: WorkflowDraft, waits: Workflow, waits_for: WaitingFor, why: str) -> None:
    """It waits from now on, or for something else than before."""
    if waits.state is State.RUNNING:
        told = {"step": waits_for.step, "why": why, "for": waits_for.kind, "members": list(waits_for.members)}
        draft.notice("step_waiting", waits.id, told)
        draft.move(waits, State.WAITING, why, waiting_for=waits_for)
    else:
        draft.revise(waits, waiting_for=waits_for, why=why if waits.state is State.WAITING else waits.why)


def _left(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> None:
    """It was only looked how far it came: what is left is called off if the hold is still there, else it is done now."""
    seen = workflow.with_step(replace(step, state=StepState.RUNNING, failures=0)).with_undo(event.undo)
    seen = replace(seen, rest=_rest_of(step), waiting_for=None)
    draft.reason = f"{step.name}: {event.why}"
    rested = draft.move(seen, State.RUNNING, event.why) if workflow.state is State.WAITING else draft.revise(seen)
    if not _has_to_rest(draft, rested):
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
        begun = replace(step, tries=step.tries + 1)
        told = look(draft, draft.put(workflow.with_step(begun)), begun)
        take_report(draft, draft.workflows.live[workflow.id], begun, told)
        return
    begun = replace(step, tries=step.tries + 1)
    if step.state is StepState.WAITING:
        draft.put(workflow.with_step(begun))  # asked every few seconds: no version of its own
    else:
        draft.revise(workflow.with_step(begun))
    draft.effect(take_step(workflow, begun, is_look=is_look))
    draft.due(workflow.id, draft.now_ms + draft.params.no_answer_ms)


def is_changing(workflow: Workflow) -> bool:
    """Whether something is being changed now, of which it has to be heard first. Not one that waits: to take its step once
    more would make the change that somebody has just called off.
    """
    step = workflow.step
    if step is None or step.state not in TAKEN or type(step.action) not in CHANGES or workflow.state is State.PAUSED:
        return False
    return not _is_at_rest(workflow, step)


def _can_rest(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether it was to be heard of something first, and nothing is under way any more."""
    if isinstance(step.action, RollBackChildren):
        return not has_children(draft, workflow)
    return type(step.action) in CHANGES


def _is_nothing_begun(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> bool:
    """Whether no try of it came so far as to change anything, so that there is nothing to look for."""
    return event.is_retriable and event.is_untried and _can_rest(draft, workflow, step)


def _has_to_rest(draft: WorkflowDraft, workflow: Workflow) -> bool:
    """Whether a stop or a pause waited only until it is known that nothing is being changed; then it takes place."""
    if workflow.stop is not None:
        end(draft, workflow, Ending(State.STOPPED, workflow.why, workflow.error_code))
    elif workflow.state is State.PAUSING:
        draft.move(workflow, State.PAUSED, workflow.why, waiting_for=None)
    else:
        return False
    return True


def _end(draft: WorkflowDraft, workflow: Workflow) -> None:
    last = workflow.steps[-1].why
    if not workflow.is_rolling_back:
        end(draft, workflow, Ending(State.COMPLETED, "; ".join(filter(None, (last, told_stopped(workflow))))))
        return
    steps = tuple(
        replace(s, state=StepState.UNDONE) if type(s.action) in CHANGES and not _is_back(s.action) else s
        for s in workflow.steps
    )
    end(draft, replace(workflow, steps=steps), Ending(State.ROLLED_BACK, last))


def _is_back(action: Action) -> bool:
    return bool(getattr(action, "is_back", False))
