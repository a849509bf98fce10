"""What a watch does with `then: {"stop": unit}` once its condition held: the application is stopped by whoever controls
it.

How it ran is looked at and journaled first. Then it is asked to stop, again and again, until a report says that it is
stopped; asking twice is harmless. That it did not stop in time is said only by a daemon that has asked and heard of it
since it knows all commands: it may have stopped while none ran, or while nobody was asked.
"""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.noun import changed
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.kernel.states import State
from recoveryd.units.approvals import ApprovedVerb, approval_of_all
from recoveryd.units.model import ControlKind
from recoveryd.watches.draft import WatchDraft
from recoveryd.watches.effects import StopApplication
from recoveryd.watches.events import UnitStopReported
from recoveryd.watches.model import UnitStop, UnitStopState, Watch
from recoveryd.watches.outcome import end
from recoveryd.watches.params import WatchParams
from recoveryd.watches.spec import StopUnit, UntilTime, WatchSpec

ASK_EVERY_MS = 5_000


def refuse_stop(spec: WatchSpec, then: StopUnit, source: str, params: WatchParams) -> Refused | None:
    """A unit that is not there, that nobody can stop from here, of which less is watched than it reads, or that
    `source` may not have stopped: nobody is asked when the condition holds, so that an approver has to send the watch.
    """
    unit = params.units.get(then.unit)
    if unit is None:
        hint = nearest_name(then.unit, frozenset(params.units)) if params.units else "the config has no units"
        return Refused(Code.UNKNOWN_UNIT, f"then.stop: the config has no unit {then.unit!r}", hint)
    if unit.control is ControlKind.MANUAL:
        message = f"then.stop: {unit.name} has control: manual, so only people stop it"
        return Refused(Code.INVALID_VALUE, message, "Give it another control, or have a webhook called.")
    if (spec.cluster, spec.group) != (unit.cluster, unit.consumer_group):
        message = f"then.stop: {unit.name} reads as {unit.consumer_group} on {unit.cluster}, not as {spec.group}"
        return Refused(Code.INVALID_VALUE, message, "Watch the group of the unit that is to be stopped.")
    left = sorted({*unit.positioned} - set(spec.topics))
    if left and not isinstance(spec.until, UntilTime):
        message = f"topics: {unit.name} reads {left[0]} as well, and is not done while records lie there"
        return Refused(Code.INVALID_VALUE, message, "Watch all topics that the unit reads.")
    approval = approval_of_all(params.approvals, ApprovedVerb.WATCH, unit, params.units)
    refusal = None if approval is None else approval.refusal_of_sender(source)
    if refusal is not None:
        hint = f"Let one of them send the watch, or have a webhook called instead of stopping {unit.name}."
        return Refused(Code.NOT_AN_APPROVER, f"then.stop: {refusal}", hint)
    return None


def begin_stop(draft: WatchDraft, watch: Watch, unit: str, why: str) -> None:
    """The condition held. `watch` has its evidence. What was allowed when it began may not be any more: units and their
    approvers change.
    """
    refused = refuse_stop(watch.spec, StopUnit(unit), watch.command.source, draft.params)
    if refused is not None:
        end(draft, watch, State.FAILED, f"{why}; {unit} is not stopped: {refused.message}", refused.code)
        return
    stop = UnitStop(unit, UnitStopState.PENDING, draft.now_ms)
    draft.reason = f"{why}; stops {unit}"
    ask(draft, draft.put_watch(changed(watch, draft.now_ms, why=draft.reason, unit_stop=stop)))


def ask(draft: WatchDraft, watch: Watch) -> None:
    stop = watch.unit_stop
    assert stop is not None
    question = draft.watches.seen_of(watch.id).asked + 1
    draft.see_watch(watch.id, called_ms=draft.now_ms, asked=question)
    draft.effect(StopApplication(watch.id, stop.unit, stop.wanted_ms, question, stop.before))


def ask_again(draft: WatchDraft, watch: Watch) -> None:
    """As time passes, and after a restart."""
    stop, seen = watch.unit_stop, draft.watches.seen_of(watch.id)
    if stop is None or draft.now_ms - seen.called_ms < ASK_EVERY_MS:
        return
    unit = draft.params.units.get(stop.unit)
    wait_ms = draft.params.stop_wait_ms if unit is None else unit.wait_ms(draft.params.stop_wait_ms)
    if seen.is_answered and draft.now_ms - (stop.told_ms or stop.wanted_ms) >= wait_ms:
        stop = replace(stop, state=UnitStopState.FAILED, ended_ms=draft.now_ms)
        why = f"its condition held, but {stop.unit} did not stop in time: {stop.message or 'nothing was heard'}"
        end(draft, replace(watch, unit_stop=stop), State.FAILED, why, Code.UNIT_NOT_STOPPED)
        return
    ask(draft, watch)


def ask_anew(draft: WatchDraft) -> None:
    """Nobody is asked until all commands are known. Then each application is asked for at once, and what was heard
    before says nothing of it any more, nor does what answers an earlier question.
    """
    for watch in draft.watches.live.values():
        if watch.unit_stop is not None:
            draft.see_watch(watch.id, void=draft.watches.seen_of(watch.id).asked, called_ms=0)


def on_unit_stop_reported(draft: WatchDraft, event: UnitStopReported) -> None:
    watch = draft.watches.live.get(event.watch)
    stop = None if watch is None else watch.unit_stop
    if watch is None or stop is None:
        return  # it ended meanwhile
    if stop.before is None and event.before is not None and not draft.has_read:
        return  # it is looked at once more, by who may then have it stopped
    if draft.has_read:
        draft.see_watch(watch.id, answered=event.question)
    if event.is_stopped and stop.before is not None:
        done = replace(stop, state=UnitStopState.STOPPED, ended_ms=draft.now_ms, message=event.message)
        draft.notice("unit_stopped", watch.id, {"unit": stop.unit, "why": event.message})
        end(draft, replace(watch, unit_stop=done), State.COMPLETED, f"its condition held, and {stop.unit} is stopped")
    elif stop.before is None and event.before is not None:
        known = replace(stop, before=dict(event.before), told_ms=draft.now_ms)
        ask(draft, draft.put_watch(changed(watch, draft.now_ms, unit_stop=known)))
    elif event.message != stop.message:
        told = replace(stop, message=event.message)
        why = f"its condition held; {stop.unit} is not stopped yet: {event.message}"
        draft.put_watch(changed(watch, draft.now_ms, why=why, unit_stop=told))
