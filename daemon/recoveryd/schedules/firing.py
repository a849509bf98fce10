"""What happens when a time has come: at most one command for each due time, whatever dies in between.

A firing is journaled with the command's id, which is made from the schedule and the due time, and with its whole data;
then it is sent. Until it was read from the control topic it is sent again from time to time. A second copy has the same
id and content, so it is answered as a duplicate and nothing else happens.

Due times that passed while no daemon ran are made up for by one run. A due time at which the last run still goes on is
left out, or queued: one at most.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.effects import SendCommand, WakeAt
from recoveryd.kernel.noun import changed
from recoveryd.kernel.states import CommandRef
from recoveryd.kernel.times import format_duration_ms, format_time_ms, parse_duration_ms, parse_time_ms
from recoveryd.schedules.carry import with_start
from recoveryd.schedules.draft import ScheduleDraft
from recoveryd.schedules.due import is_zone, last_due_ms, next_due_ms
from recoveryd.schedules.failing import fail
from recoveryd.schedules.model import Schedule, ScheduleRun
from recoveryd.schedules.spec import QUEUE

LATE_MS = 60_000
# A run's id is the schedule's with its due time, `.20261122t0200` in UTC.
MAX_ID_CHARS = 63 - len(".20261122t0200")
_NAMES: Final = {"savepoint": "name"}  # by verb, the field with a name that nothing has yet


def fire_what_is_due(draft: ScheduleDraft, schedule: Schedule) -> None:
    """Take the next step of a schedule whose run was looked at already. A new leader first reads what came while none
    led: the command that was sent, or one that ends the schedule.
    """
    if not draft.has_read:
        return
    if schedule.run is not None and schedule.run.control_offset < 0:
        send(draft, schedule)  # it may still be refused, so nothing is left out because of it
        return
    if schedule.is_terminal:
        return
    if schedule.run is None and schedule.queued_ms is not None:
        schedule = _fire(draft, replace(schedule, queued_ms=None), schedule.queued_ms)
    due_ms = schedule.next_run_ms
    if due_ms is None:
        _look_again(draft, schedule)
        return
    if draft.now_ms < due_ms:
        draft.effect(WakeAt(due_ms))
        return
    spec = schedule.spec
    last_ms = last_due_ms(spec.cron, spec.time_zone, due_ms, draft.now_ms)
    then_ms = _next_ms(draft, schedule, max(last_ms, draft.now_ms))
    ahead = replace(schedule, next_run_ms=then_ms)
    if _was_fired(draft, schedule, last_ms) or last_ms < schedule.created_ms <= draft.now_ms:
        # The due time was journaled by a clock that was behind.
        draft.put_schedule(changed(ahead, draft.now_ms, why=f"the clock was set: {_told(then_ms)}"))
    elif schedule.run is not None:
        _overrun(draft, ahead, last_ms)
    else:
        _fire(draft, ahead, last_ms, first_missed_ms=due_ms)
    if then_ms is not None:
        draft.effect(WakeAt(then_ms))


def _look_again(draft: ScheduleDraft, schedule: Schedule) -> None:
    """No time was due when it was looked at last: the machine may have lost the zone, and have it again."""
    spec, due_ms = schedule.spec, _next_ms(draft, schedule, draft.now_ms)
    if due_ms is not None:
        draft.put_schedule(changed(schedule, draft.now_ms, why=_told(due_ms), next_run_ms=due_ms))
        draft.effect(WakeAt(due_ms))
    elif schedule.queued_ms is None:
        is_known = is_zone(spec.time_zone)
        what = f"{spec.cron!r} is never due again" if is_known else f"this machine knows no time zone {spec.time_zone}"
        fail(draft, schedule, Code.INVALID_VALUE, f"{what}: nothing is sent any more")


def look_at_clock(draft: ScheduleDraft, schedule: Schedule) -> None:
    """A due time was journaled by a clock that may have been far ahead: nobody would wait for it, since it comes when
    the right clock gets there.
    """
    spec, wanted_ms = schedule.spec, schedule.next_run_ms
    first_ms = next_due_ms(spec.cron, spec.time_zone, draft.now_ms)
    second_ms = None if first_ms is None else next_due_ms(spec.cron, spec.time_zone, first_ms)
    if wanted_ms is None or second_ms is None or wanted_ms <= second_ms:
        return
    due_ms = _next_ms(draft, schedule, draft.now_ms)
    if due_ms is not None and due_ms < wanted_ms:
        draft.put_schedule(
            changed(schedule, draft.now_ms, why=f"the clock was set: {_told(due_ms)}", next_run_ms=due_ms)
        )


def _told(due_ms: int | None) -> str:
    return "no run is due" if due_ms is None else f"the next run is due at {format_time_ms(due_ms)}"


def _next_ms(draft: ScheduleDraft, schedule: Schedule, after_ms: int) -> int | None:
    """The next due time that was not fired, as it may have been before a clock was set back."""
    spec = schedule.spec
    due_ms = next_due_ms(spec.cron, spec.time_zone, after_ms)
    while due_ms is not None and _was_fired(draft, schedule, due_ms):
        due_ms = next_due_ms(spec.cron, spec.time_zone, due_ms)
    return due_ms


def _was_fired(draft: ScheduleDraft, schedule: Schedule, due_ms: int) -> bool:
    if due_ms == schedule.queued_ms or any(
        r is not None and r.due_ms == due_ms for r in (schedule.run, schedule.last_run)
    ):
        return True
    origin = getattr(draft.find(run_id(schedule.id, due_ms)), "command", None)
    return isinstance(origin, CommandRef) and origin.id == command_id(schedule.id, due_ms)


def _overrun(draft: ScheduleDraft, schedule: Schedule, due_ms: int) -> None:
    run = schedule.run
    assert run is not None
    told = {"due": format_time_ms(due_ms), "recovery": run.recovery, "next_run": _text(schedule.next_run_ms)}
    if schedule.spec.overrun == QUEUE and schedule.queued_ms is None:
        why = f"{run.recovery} still goes on: the run due at {told['due']} begins when it ends"
        draft.notice("schedule_queued", schedule.id, {**told, "why": why})
        draft.put_schedule(changed(schedule, draft.now_ms, why=why, queued_ms=due_ms))
    else:
        waits = ", and one run waits already" if schedule.queued_ms is not None else ""
        why = f"{run.recovery} still goes on{waits}: the run due at {told['due']} is left out"
        draft.notice("schedule_skipped", schedule.id, {**told, "reason": "overrun", "why": why})
        counts = replace(schedule.counts, skipped=schedule.counts.skipped + 1)
        draft.put_schedule(changed(schedule, draft.now_ms, why=why, counts=counts))
    draft.reason = why


def _fire(draft: ScheduleDraft, schedule: Schedule, due_ms: int, first_missed_ms: int | None = None) -> Schedule:
    spec, now_ms = schedule.spec, draft.now_ms
    deadline_ms = None if spec.max_runtime_ms is None else now_ms + spec.max_runtime_ms
    data = with_name(spec.command.verb, with_start(spec.command.data, schedule.last_end), due_ms)
    if spec.max_runtime_ms is not None and deadline_ms is not None:
        data = with_limits(data, spec.max_runtime_ms, deadline_ms, now_ms)
    due = format_time_ms(due_ms)
    subject = spec.command.subject or run_id(schedule.id, due_ms)
    run = ScheduleRun(due_ms, now_ms, command_id(schedule.id, due_ms), subject, deadline_ms, data)
    is_late = first_missed_ms is not None and (first_missed_ms < due_ms or now_ms - due_ms > LATE_MS)
    late = " late" if is_late else ""
    why = f"sends {spec.command.verb} {subject}, due at {due}{late}"
    counts = replace(schedule.counts, fired=schedule.counts.fired + 1, late=schedule.counts.late + is_late)
    fired = draft.put_schedule(changed(schedule, now_ms, run=run, counts=counts, why=why))
    told = {
        "due": due,
        "verb": spec.command.verb,
        "recovery": subject,
        "command_id": run.command_id,
        "missed_since": format_time_ms(first_missed_ms) if is_late and first_missed_ms is not None else None,
        "next_run": _text(schedule.next_run_ms),
        "why": why,
    }
    draft.notice("schedule_fired", schedule.id, told, schedule.command.id)
    draft.reason = why
    _send_now(draft, fired, run)
    return fired


def send(draft: ScheduleDraft, schedule: Schedule) -> None:
    """Send the command of the run once more, if nothing was heard of it for some time."""
    run = schedule.run
    if run is None:
        return
    sent_ms = draft.schedules.sent_ms.get(schedule.id)
    if sent_ms is None or draft.now_ms - sent_ms >= draft.params.send_again_ms:
        _send_now(draft, schedule, run)


def _send_now(draft: ScheduleDraft, schedule: Schedule, run: ScheduleRun) -> None:
    draft.sent(schedule.id)
    origin = schedule.command
    draft.effect(
        SendCommand(
            about=schedule.id,
            verb=schedule.spec.command.verb,
            subject=run.recovery,
            data=run.data,
            id=run.command_id,
            source=origin.source,
            at_ms=run.fired_ms,
        )
    )


def command_id(schedule_id: str, due_ms: int) -> str:
    """The id of the command for this due time, the same however often it is made."""
    return f"{_of(schedule_id)}{format_time_ms(due_ms)}"


def is_run_of(schedule_id: str, command_id: str) -> bool:
    """Whether the command is one that this schedule sent."""
    return command_id.startswith(_of(schedule_id))


def _of(schedule_id: str) -> str:
    return f"schedule:{schedule_id}:"


def run_id(schedule_id: str, due_ms: int) -> str:
    """The id of what the run begins: `nightly.20261122t0200`, in UTC, so that no two due times share one."""
    return f"{schedule_id}{_stamp(due_ms)}"


def with_name(verb: str, data: Mapping[str, object], due_ms: int) -> dict[str, object]:
    """The data with a name that no other run has, where the command gives one to something new: each run after the
    first would be refused.
    """
    field = _NAMES.get(verb, "")
    name = data.get(field)
    return {**data, field: f"{name}{_stamp(due_ms)}"} if isinstance(name, str) else dict(data)


def _stamp(due_ms: int) -> str:
    text = format_time_ms(due_ms)
    return f".{text[0:4]}{text[5:7]}{text[8:10]}t{text[11:13]}{text[14:16]}"


def with_limits(data: Mapping[str, object], max_runtime_ms: int, deadline_ms: int, now_ms: int) -> dict[str, object]:
    """The data with the limits of a run. Limits that the command has already hold where they are tighter; what is none
    is left for the command's own form to refuse.
    """
    found = data.get("limits")
    limits: dict[str, Any] = dict(found) if isinstance(found, Mapping) else {}
    runtime, deadline = limits.get("max_runtime"), limits.get("deadline")
    if limits != (found or {}) or not all(isinstance(limit, str | None) for limit in (runtime, deadline)):
        return dict(data)
    if runtime is not None:
        max_runtime_ms = min(max_runtime_ms, parse_duration_ms(runtime))
    if deadline is not None:
        deadline_ms = min(deadline_ms, _moment(deadline, now_ms))
    limits |= {"max_runtime": format_duration_ms(max_runtime_ms), "deadline": format_time_ms(deadline_ms)}
    return {**data, "limits": limits}


def _moment(text: str, now_ms: int) -> int:
    """A deadline as a command has it: a time, or a duration from now."""
    try:
        return now_ms + parse_duration_ms(text)
    except ValueError:
        return parse_time_ms(text)


def _text(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_time_ms(time_ms)


def has_work(schedule: Schedule, now_ms: int, *, run_goes_on: bool) -> bool:
    """Whether it is due, or follows a run. One that waits for its time, or for a run that waits for people, has nothing
    to do.
    """
    is_due = schedule.next_run_ms is not None and schedule.next_run_ms <= now_ms
    return is_due or (schedule.run is None and schedule.queued_ms is not None) or run_goes_on
