"""Commands about schedules: `schedule`, which makes one, and `unschedule` or `stop`, which end it."""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.effects import WakeAt
from recoveryd.kernel.events import CommandReceived
from recoveryd.kernel.noun import changed
from recoveryd.kernel.refusals import not_in_this_state, too_many
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.kernel.times import format_time_ms
from recoveryd.schedules.carry import continues
from recoveryd.schedules.draft import ScheduleDraft
from recoveryd.schedules.due import next_due_ms
from recoveryd.schedules.firing import MAX_ID_CHARS
from recoveryd.schedules.model import Schedule
from recoveryd.schedules.others import copied_already, end_behind_others
from recoveryd.schedules.spec import EndSchedule, ScheduleSpec, StartSchedule

ACTIVE_MOST = 200


def on_schedule(draft: ScheduleDraft, event: CommandReceived, command: StartSchedule) -> None:
    """Begin the schedule or refuse it; answered at once."""
    meta, spec = command.meta, command.spec
    known = draft.schedules.get(meta.subject)
    if known is not None and not known.is_terminal:
        end = f"`recoveryctl schedule remove {known.id} --reason TEXT`"
        hint = f"End it first with {end}; its runs then go on where they stopped."
        draft.answer(event, "rejected", f"schedule {known.id} exists already", Code.ID_IN_USE.value, hint)
        return
    next_ms = next_due_ms(spec.cron, spec.time_zone, draft.now_ms)
    last_end = end_behind_others(known, draft.recoveries) if known and continues(known, spec.command) else None
    refusal = _refuse_id(draft, command) or _refuse(draft, spec, next_ms)
    refusal = refusal or (last_end if isinstance(last_end, Refused) else None)
    if refusal is not None or next_ms is None:
        assert refusal is not None
        draft.refuse(event, refusal)
        return
    next_run = format_time_ms(next_ms)
    schedule = Schedule(
        id=meta.subject,
        state=State.RUNNING,
        why=f"waits for its first run at {next_run}",
        version=known.version + 1 if known else 1,
        created_ms=draft.now_ms,
        updated_ms=draft.now_ms,
        command=CommandRef(meta.id, meta.source, meta.reason),
        spec=spec,
        next_run_ms=next_ms,
        last_end=None if isinstance(last_end, Refused) else last_end,
    )
    draft.put_schedule(schedule)
    begins = f"{schedule.id} sends {spec.command.verb}, first at {next_run}"
    where = _said_behind(known, schedule) or _said_again(draft, schedule)
    draft.answer(event, "accepted", "; ".join(filter(None, (begins, where))))
    told = {
        "why": meta.reason,
        "cron": spec.cron,
        "time_zone": spec.time_zone,
        "verb": spec.command.verb,
        "next_run": next_run,
    }
    draft.notice("schedule_started", schedule.id, told, meta.id)
    draft.effect(WakeAt(next_ms))


def _said_behind(known: Schedule | None, schedule: Schedule) -> str:
    """Which copy of others it goes on behind, if one was begun since its last run."""
    before, now = known.last_end if known else None, schedule.last_end
    return f"it goes on behind {now.recovery}" if now is not None and now is not before else ""


def _said_again(draft: ScheduleDraft, schedule: Schedule) -> str:
    """Who has copied already what its first run will append to the same target."""
    copied = copied_already(schedule, draft.recoveries)
    if not copied:
        return ""
    return f"its first run appends again what {copied} copied into that topic, unless `first` says where that ended"


def _refuse_id(draft: ScheduleDraft, command: StartSchedule) -> Refused | None:
    schedule_id = command.meta.subject
    known = draft.schedules.get(schedule_id)
    if known is not None and known.run is not None:
        message = f"schedule {schedule_id} was ended, but its run {known.run.recovery} still goes on"
        return Refused(Code.ID_IN_USE, message, "Wait until the run has ended, or stop it; or choose another id.")
    if known is not None and (why := _why_not_behind(known)):
        message = f"schedule {schedule_id} cannot go on: {why}"
        return Refused(Code.ID_IN_USE, message, "Choose another id, and say with `first` where its first run starts.")
    ends = draft.ends(command.sent) if command.sent is not None else ""
    if len(schedule_id) > (most := MAX_ID_CHARS - len(ends)):
        of = f"that of a schedule of {command.spec.command.verb}" if ends else "a schedule's"
        message = f"the id {schedule_id} has {len(schedule_id)} characters, {of} has at most {most}"
        what = ", and what they begin has theirs in its own" if ends else ""
        return Refused(
            Code.INVALID_SUBJECT, message, f"Choose a shorter one: the ids of its runs add the due time{what}."
        )
    return None


def _why_not_behind(known: Schedule) -> str:
    """Why nothing goes on where the last run of this schedule, which has ended, did; "" = it does."""
    code = known.end_code or known.error_code  # an earlier release kept the second only
    whys = {
        Code.LAST_END_UNKNOWN.value: "nobody knows where its last run ended",
        Code.DATA_LOST.value: "records that its last run was to copy are gone",
        Code.SOURCE_CUT_BACK.value: "the log of its source was cut back",
    }
    return whys.get(code or "", "")


def _refuse(draft: ScheduleDraft, spec: ScheduleSpec, next_ms: int | None) -> Refused | None:
    if next_ms is None:
        message = f"data.cron: {spec.cron!r} is never due"
        return Refused(Code.INVALID_VALUE, message, "Name a day that exists, for instance `0 2 1 * *`.")
    if len(draft.schedules.live) >= ACTIVE_MOST:
        return too_many(Code.TOO_MANY_SCHEDULES, "schedules", len(draft.schedules.live), ACTIVE_MOST)
    return None


def end_schedule(draft: ScheduleDraft, event: CommandReceived, command: EndSchedule | StopCommand) -> None:
    """End the schedule. A run that goes on is a recovery of its own and is left alone."""
    schedule = draft.schedules.get(command.meta.subject)
    assert schedule is not None  # the kernel has checked that the subject is a schedule
    if schedule.is_terminal:
        draft.refuse(event, not_in_this_state(command.verb, schedule.id, schedule.state.value))
        return
    run = schedule.run
    rest = f"; its run {run.recovery} goes on" if run is not None else ""
    draft.answer(event, "accepted", f"{schedule.id} sends nothing any more{rest}")
    why = f"ended by {command.meta.who}{rest}"
    stop = Stop(StopReason.OPERATOR, None, draft.now_ms)
    ended = replace(schedule, state=State.STOPPED, stop=stop, next_run_ms=None, queued_ms=None)
    draft.put_schedule(changed(ended, draft.now_ms, why=why))
    told = {"from": schedule.state.value, "to": State.STOPPED.value, "why": why}
    draft.notice("schedule_stopped", schedule.id, told, command.meta.id)
