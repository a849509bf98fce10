"""What a step that is not done yet waits for, since when, and for how long it may. Pure: `machine.waiting` does the
waiting.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.times import format_time_ms
from recoveryd.units.control import TOLD
from recoveryd.workflows.machine.readiness import NEAR_SINCE, near_longest_s
from recoveryd.workflows.model.actions import (
    ANSWERED_BY_PEOPLE,
    CHANGES,
    RESTORING,
    Action,
    AskChoice,
    AwaitCaughtUp,
    AwaitReady,
    LookAtTopics,
    LookAtUnit,
    RollBackChildren,
    RunChildren,
    TakeSnapshot,
)
from recoveryd.workflows.model.events import UNTRIED, StepReported
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.workflow import WaitingFor, Workflow, WorkflowStep

# In the evidence of a step.
GREEN_SINCE = "green_since_ms"  # of one that holds
GREEN_SEEN = "green_seen_ms"  # of one that holds: when all was seen to be well, of the last looks
LOOKED = "looked_ms"  # of one that waits for a group to get on: when it was looked at last, to a minute
REFUSED_SINCE = "refused_since_ms"  # of one whose copies live traffic refuses: when it first did
REFUSED_LAST = "refused_last_ms"  # and when it last did
RESTORING_SINCE = "restoring_since_ms"  # of one that may restore its state: when it was first seen to

UNSEEN_MS = 900_000  # so long nobody looks, as where no daemon leads, and a hold begins anew
_LOOKED_EVERY_MS = 60_000
_TIMES = frozenset({GREEN_SINCE, GREEN_SEEN, LOOKED, REFUSED_SINCE, REFUSED_LAST, RESTORING_SINCE})
_WITHOUT_DEADLINE = frozenset({"recoveries"})  # these have limits of their own
_LIVE = "live"  # what is protected is over its SLO
_ANSWER = "answer"  # of a cluster that is asked once, and waited for only as long as it gives none
_BY_PEOPLE = frozenset({"ack", "choice"})  # who can answer whatever a cluster does
GIVEN_UP = {
    "group_empty": Code.GROUP_NOT_EMPTY,
    "ack": Code.ACK_EXPIRED,
    "choice": Code.ACK_EXPIRED,
    "ready": Code.NOT_CAUGHT_UP,
    "gates": Code.GATES_NOT_GREEN,
    _LIVE: Code.LIVE_OVER_SLO,
}


def waited_for(
    waiting: WaitingFor | None, step: WorkflowStep, event: StepReported, now_ms: int, params: WorkflowParams
) -> WaitingFor:
    """What it waits for after this report. Where something is left that grows less, the deadline begins anew with each
    progress. Time in which nobody looked at it does not count. `waiting`: before the report, None = it begins to wait.
    """
    kind = _LIVE if event.code == Code.LIVE_OVER_SLO.value else _waiting_kind(step.action)
    is_other = waiting is not None and waiting.kind != kind and _LIVE in {waiting.kind, kind}
    waiting = None if waiting is None or waiting.kind == _ANSWER or is_other else waiting
    deadline_ms = _deadline_ms(kind, waiting, step, event, now_ms, params)
    return WaitingFor(
        kind,
        step.name,
        since_ms=waiting.since_ms if waiting is not None else now_ms,
        deadline_ms=None if kind in _WITHOUT_DEADLINE else deadline_ms,
        members=event.members,
        left=event.left if waiting is None or _was_near_longer(step, event) else _least(event.left, waiting.left),
        is_under_way=event.is_under_way,
    )


def _deadline_ms(
    kind: str, waiting: WaitingFor | None, step: WorkflowStep, event: StepReported, now_ms: int, params: WorkflowParams
) -> int:
    """Whoever may be restoring state has a day in all, and longer only with progress. When that is over, or its members
    have gone, the usual time begins, but none that ends later: one that is started again and again would be waited for
    without an end.
    """
    hold_ms = _hold_ms(step.action)
    is_moving = waiting is not None and event.left is not None and (waiting.left is None or event.left < waiting.left)
    is_moving = is_moving or (hold_ms > 0 and event.evidence.get(GREEN_SINCE) != step.evidence.get(GREEN_SINCE))
    is_moving = is_moving or _is_nearer(step, event)
    anew_ms = now_ms + hold_ms + _patience_ms(kind, {}, params)
    kept_ms = anew_ms
    if waiting is not None and waiting.deadline_ms is not None and not is_moving:
        kept_ms = waiting.deadline_ms + _unseen_ms(step, now_ms)
    since_ms = _restoring_since_ms(step, event, now_ms)
    if _is_restoring(event.evidence) and since_ms is not None:
        return max(kept_ms, since_ms + _patience_ms(kind, event.evidence, params))
    return min(kept_ms, anew_ms) if _is_restoring(step.evidence) else kept_ms


def with_time_of(workflow: Workflow, now_ms: int, params: WorkflowParams, *, is_set: bool) -> Workflow:
    """With what it waits for as a daemon that begins to lead finds it. No deadline is later than one that begins now,
    as after a clock was set back; if the clock was set while the daemon led (`is_set`), all begin now.
    """
    step, waiting, ending = workflow.step, workflow.waiting_for, workflow.ending
    if step is not None and waiting is not None:
        workflow = workflow.with_step(replace(step, evidence=_with_times(step.evidence, now_ms, is_set=is_set)))
    if step is not None and waiting is not None and waiting.deadline_ms is not None:
        patience_ms = _patience_ms(_patience_kind(waiting.kind, step.action), step.evidence, params)
        latest_ms = now_ms + _hold_ms(step.action) + patience_ms
        until_ms = latest_ms if is_set else min(waiting.deadline_ms, latest_ms)
        workflow = replace(workflow, waiting_for=replace(waiting, deadline_ms=until_ms))
    if ending is not None and ending.deadline_ms is not None and not ending.is_last_try:
        latest_ms = now_ms + params.closing_deadline_ms
        until_ms = latest_ms if is_set else min(ending.deadline_ms, latest_ms)
        workflow = replace(workflow, ending=replace(ending, deadline_ms=until_ms))
    return workflow


def _with_times(evidence: Mapping[str, object], now_ms: int, *, is_set: bool) -> dict[str, object]:
    """Of a hold, the time for which its gates were seen green ends now if the clock was set under it; what a clock that
    is behind saw while nobody led says nothing.
    """
    since_ms, seen_ms = evidence.get(GREEN_SINCE), evidence.get(GREEN_SEEN)
    if is_set and isinstance(since_ms, int) and isinstance(seen_ms, int):
        green = {GREEN_SINCE: now_ms - (seen_ms - since_ms), GREEN_SEEN: now_ms}
        return {name: found for name, found in {**evidence, **green}.items() if name != LOOKED}
    times = [at_ms for name in _TIMES if isinstance(at_ms := evidence.get(name), int)]
    is_true = not is_set and max(times, default=now_ms) <= now_ms
    return {name: found for name, found in evidence.items() if is_true or name not in _TIMES}


def outlasts(step: WorkflowStep, event: StepReported, *, is_look: bool) -> bool:
    """Whether a step that failed so goes on to its deadline, however often: nothing is changed by asking again. What
    changes something is tried a few times, unless it is only looked how far it came, and so is what breaks by a defect
    of recoveryd.
    """
    is_harmless = is_look or type(step.action) not in CHANGES
    return event.is_retriable and is_harmless and event.code != Code.INVARIANT_BROKEN.value


def unanswered(
    waiting: WaitingFor | None, step: WorkflowStep, event: StepReported, now_ms: int, params: WorkflowParams
) -> WaitingFor:
    """What it waits for after a look that was not answered: as before, until the same deadline."""
    known = waiting
    if known is None:
        kind = _patience_kind(_ANSWER, step.action)
        only_looks = type(step.action) in CHANGES or isinstance(step.action, TakeSnapshot | LookAtTopics | LookAtUnit)
        deadline_ms = now_ms + _patience_ms(kind, step.evidence, params)
        known = WaitingFor(_ANSWER if only_looks else kind, step.name, now_ms, deadline_ms)
    since_ms = now_ms if known.unanswered_since_ms is None else known.unanswered_since_ms
    return replace(known, unanswered_since_ms=since_ms, last_error=event.why)


def told_unanswered(waiting: WaitingFor, step: WorkflowStep) -> str:
    """What was heard last of what it waits for, if anything was, and since when nothing is."""
    assert waiting.unanswered_since_ms is not None
    silent = f"no answer since {format_time_ms(waiting.unanswered_since_ms)}: {waiting.last_error}"
    return f"{step.why}; {silent}" if step.why else silent


def given_up_unanswered(waiting: WaitingFor, event: StepReported) -> str:
    """The code of a wait that nobody answered to its deadline."""
    return GIVEN_UP[waiting.kind].value if waiting.kind in _BY_PEOPLE else event.code or Code.STEP_FAILED.value


def evidence_after(waiting: WaitingFor, step: WorkflowStep, event: StepReported, now_ms: int) -> Mapping[str, Any]:
    """The step's evidence after this report. A start that was told stays so, whatever was seen besides."""
    kept = {name: found for name, found in step.evidence.items() if name == TOLD}
    seen = {**kept, **event.evidence} if event.evidence else step.evidence
    if waiting.kind != "ready":
        return seen
    since_ms = _restoring_since_ms(step, event, now_ms)
    times = {LOOKED: _looked_ms(step, now_ms)} | ({} if since_ms is None else {RESTORING_SINCE: since_ms})
    return {**seen, **times}


def _looked_ms(step: WorkflowStep, now_ms: int) -> int:
    """When it is said to have been looked at: not with each look, which would be a version of its own."""
    last = step.evidence.get(LOOKED)
    return last if isinstance(last, int) and 0 <= now_ms - last < _LOOKED_EVERY_MS else now_ms


def _unseen_ms(step: WorkflowStep, now_ms: int) -> int:
    """For how long nobody has looked at what it waits for, as where no daemon led; 0 if somebody did all the time."""
    last = step.evidence.get(LOOKED)
    gap_ms = now_ms - last if isinstance(last, int) else 0
    return gap_ms if gap_ms > 2 * _LOOKED_EVERY_MS else 0


def _restoring_since_ms(step: WorkflowStep, event: StepReported, now_ms: int) -> int | None:
    """Since when it is known that it may be restoring its state; time in which nobody looked at it does not count."""
    known = step.evidence.get(RESTORING_SINCE)
    if isinstance(known, int):
        return known + _unseen_ms(step, now_ms)
    return now_ms if _is_restoring(event.evidence) else None


def is_near(event: StepReported) -> bool:
    """Whether a group that is to be near for a while is so now. Then it is given up only when it leaves."""
    return event.evidence.get(NEAR_SINCE) is not None


def _is_nearer(step: WorkflowStep, event: StepReported) -> bool:
    """Of a group that is to be near for a while: whether it is so for the first time, or was so for longer than before.
    One that comes and goes all the time alike would never be given up otherwise.
    """
    is_first = step.evidence.get(NEAR_SINCE) is None and is_near(event) and not near_longest_s(event.evidence)
    return is_first or _was_near_longer(step, event)


def _was_near_longer(step: WorkflowStep, event: StepReported) -> bool:
    """And is not any more: what is left of a burst of records is no less than nothing, and counts anew."""
    return near_longest_s(event.evidence) > near_longest_s(step.evidence)


def _least(left: int | None, so_far: int | None) -> int | None:
    known = [each for each in (left, so_far) if each is not None]
    return min(known) if known else None


def _waiting_kind(action: Action) -> str:
    if type(action) in ANSWERED_BY_PEOPLE:
        return "ack"
    if isinstance(action, AskChoice):
        return "choice"
    if isinstance(action, RunChildren | RollBackChildren):
        return "recoveries"
    if isinstance(action, LookAtUnit):
        return "choice" if action.verbs else "gates"
    return "ready" if isinstance(action, AwaitCaughtUp | AwaitReady) else "group_empty"


def _patience_kind(kind: str, action: Action) -> str:
    """The kind of wait that lasts as long as one of this kind."""
    if kind != _ANSWER:
        return kind
    return "ack" if type(action) in CHANGES else _waiting_kind(action)  # a hold is in its way, and lasts for long


def _hold_ms(action: Action) -> int:
    return action.hold_ms if isinstance(action, LookAtUnit | AwaitReady) else 0


def _is_restoring(evidence: Mapping[str, object]) -> bool:
    """Of an application that may still be reading back its state: nobody can see how far it is."""
    return evidence.get(RESTORING) is True


def _patience_ms(kind: str, evidence: Mapping[str, object], params: WorkflowParams) -> int:
    """`evidence` of the step by then. Whoever restores state gets as much time as a person."""
    if kind in {"ack", "choice", "gates"} or (kind == "ready" and _is_restoring(evidence)):
        return params.ack_wait_ms
    return params.ready_wait_ms if kind in {"ready", _LIVE} else params.empty_wait_ms


def without_refusals(evidence: Mapping[str, object]) -> Mapping[str, object]:
    """Without since when live traffic refuses what it wants: that begins anew."""
    return {name: found for name, found in evidence.items() if name not in {REFUSED_SINCE, REFUSED_LAST}}


def without_try(evidence: Mapping[str, object]) -> Mapping[str, object]:
    """Without what is another with each look."""
    return {name: found for name, found in evidence.items() if name != UNTRIED}
