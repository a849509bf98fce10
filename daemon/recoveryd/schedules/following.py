"""What became of a run: its command's answer, and the end of what it began.

The command is recognised by its id and source when it is read from the control topic, from then on by its offset there.
"""

from dataclasses import replace
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import RefusedCommand
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.events import CommandNotSent, CommandReceived
from recoveryd.kernel.noun import changed
from recoveryd.kernel.states import ENDED, TERMINAL, CommandRef, State, Stop, StopReason
from recoveryd.kernel.times import format_time_ms
from recoveryd.recovery.model import Recovery
from recoveryd.schedules.carry import barrier, end_of, is_incremental
from recoveryd.schedules.draft import ScheduleDraft
from recoveryd.schedules.failing import fail
from recoveryd.schedules.fitting import with_forecast
from recoveryd.schedules.model import RunAnswer, RunCounts, Schedule, ScheduleRun

ACCEPTED: Final = "accepted"
_BARRIERS: Final = {
    Code.LAST_END_UNKNOWN: "where {} ended is not known exactly, so no run can start there",
    Code.DATA_LOST: "records that {} was to copy are gone, and no run passes over them by itself",
    Code.SOURCE_CUT_BACK: "{} cannot begin where the last run ended, and what is written there now is not what was",
    Code.VERIFICATION_MISMATCH: "what {} copied is not what its source holds, so no run is put behind it",
}
_REASONS: Final = {
    Code.LAST_END_UNKNOWN: StopReason.TARGET_UNAVAILABLE,
    Code.DATA_LOST: StopReason.DATA_LOST,
    Code.SOURCE_CUT_BACK: StopReason.DATA_LOST,
}
_COUNTED: Final = {
    State.COMPLETED.value: "completed",
    State.PLANNED.value: "completed",
    ACCEPTED: "completed",
    State.STOPPED.value: "stopped",
    "rejected": "refused",
    "expired": "refused",
    "duplicate": "refused",
}


def hear(draft: ScheduleDraft, event: object) -> None:
    """Note that a command of a run was read, and its answer."""
    if isinstance(event, CommandReceived):
        _read(draft, event)
    for answer in draft.answers:
        for schedule in list(draft.schedules.live.values()):
            run = schedule.run
            if run is None or run.answer is not None or run.control_offset < 0:
                continue
            # The offset alone is not enough: the control topic may have been made anew since.
            if (answer.control_offset, answer.command_id) == (run.control_offset, run.command_id):
                told = RunAnswer(answer.kind, answer.code, answer.message)
                why = f"{run.recovery}: {answer.message}"
                draft.put_schedule(changed(schedule, draft.now_ms, run=replace(run, answer=told), why=why))


def _read(draft: ScheduleDraft, event: CommandReceived) -> None:
    command = event.command
    about = command if isinstance(command, RefusedCommand) else command.meta
    for schedule in list(draft.schedules.live.values()):
        run = schedule.run
        if run is None or (run.command_id, schedule.command.source) != (about.id, about.source):
            continue
        if run.control_offset < 0:
            draft.put_schedule(changed(schedule, draft.now_ms, run=replace(run, control_offset=event.offset)))


def on_not_sent(draft: ScheduleDraft, event: CommandNotSent) -> None:
    """Say so; the command is sent again in its time, unless the daemon itself would refuse it."""
    schedule = draft.schedules.live.get(event.about)
    if schedule is None or schedule.run is None or schedule.run.command_id != event.command_id:
        return
    if schedule.run.control_offset >= 0:
        return
    if not event.retriable:
        answer = RunAnswer("rejected", event.code, event.message)
        _ended(draft, schedule, replace(schedule.run, answer=answer), answer.kind, answer.message)
        return
    why = f"{schedule.run.recovery} could not be sent and is tried again: {event.message}"
    if why != schedule.why:
        draft.notice("schedule_not_sent", schedule.id, {"code": event.code, "message": event.message, "why": why})
        draft.put_schedule(changed(schedule, draft.now_ms, why=why))
    draft.reason = why


def follow(draft: ScheduleDraft, schedule: Schedule) -> Schedule:
    """The schedule, without its run if that has ended."""
    run = schedule.run
    if run is None or run.control_offset < 0:
        return schedule
    if run.answer is not None and run.answer.kind != ACCEPTED:
        return _ended(draft, schedule, run, run.answer.kind, run.answer.message)
    if schedule.spec.command.subject is not None:
        return schedule if run.answer is None else _ended(draft, schedule, run, ACCEPTED, run.answer.message)
    noun = draft.find(run.recovery)
    if noun is None or not _began(noun, schedule, run):
        # What an accepted command began has ended and is forgotten already, or it began nothing.
        return schedule if run.answer is None else _ended(draft, schedule, run, ACCEPTED, run.answer.message)
    if noun.state in ENDED:
        return _ended(draft, schedule, run, noun.state.value, getattr(noun, "why", ""), noun)
    return schedule


def _began(noun: Noun, schedule: Schedule, run: ScheduleRun) -> bool:
    """Whether the run's command made this noun."""
    origin = getattr(noun, "command", None)
    return isinstance(origin, CommandRef) and (origin.id, origin.source) == (run.command_id, schedule.command.source)


def _ended(
    draft: ScheduleDraft, schedule: Schedule, run: ScheduleRun, outcome: str, why: str, noun: Noun | None = None
) -> Schedule:
    over = replace(run, outcome=outcome, why=why, ended_ms=draft.now_ms, data={})
    said = f"{run.recovery} is {outcome}: {why}"
    code = getattr(noun, "error_code", None) or (run.answer.code if run.answer else "") or None
    told = {
        "due": format_time_ms(over.due_ms),
        "recovery": run.recovery,
        "outcome": outcome,
        "answer": run.answer.kind if run.answer else None,
        "code": code,
        "why": said,
    }
    draft.notice("schedule_run_ended", schedule.id, told, run.command_id)
    draft.reason = said
    schedule = replace(schedule, run=None, last_run=over, counts=_counted(schedule.counts, outcome))
    if is_incremental(schedule.spec.command):
        began = noun if isinstance(noun, Recovery) else None
        if began is not None and began.is_position_exact:
            schedule = replace(schedule, last_end=end_of(began, schedule.last_end))
        if (found := barrier(code, began)) is not None:
            return _goes_no_further(draft, schedule, over, found)
    schedule = with_forecast(draft, schedule, over)
    why = schedule.why if schedule.state in TERMINAL else said  # why it has ended says more than how its last run did
    return draft.put_schedule(changed(schedule, draft.now_ms, why=why))


def _goes_no_further(draft: ScheduleDraft, schedule: Schedule, run: ScheduleRun, code: Code) -> Schedule:
    """End the schedule: its next run may not simply start where this one ended."""
    if code is not Code.VERIFICATION_MISMATCH:  # where that ended is known: whoever makes it again goes on there
        schedule = replace(schedule, end_code=code.value)
    if schedule.state in TERMINAL:
        return draft.put_schedule(changed(schedule, draft.now_ms))
    why = f"{_BARRIERS[code].format(run.recovery)}: {run.why}"
    reason = _REASONS.get(code)
    stop = None if reason is None else Stop(reason, None, draft.now_ms, {"recovery": run.recovery})
    return fail(draft, schedule, code, why, stop)


def counted_as(outcome: str) -> str:
    """The count of `RunCounts` that a run with this outcome belongs to."""
    return _COUNTED.get(outcome, "failed")


def _counted(counts: RunCounts, outcome: str) -> RunCounts:
    name = counted_as(outcome)
    return replace(counts, **{name: getattr(counts, name) + 1})
