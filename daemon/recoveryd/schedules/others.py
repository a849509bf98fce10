"""Where a schedule that is made again goes on, if others copied on from where its last run ended, as `recoveryctl
retry` does: behind them, so that nothing is copied twice. Where that cannot be said exactly, it is not made. One that
is new begins where its command says, and its answer tells who copied that already.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.recovery.model import PlannedPartition, Recovery
from recoveryd.schedules.carry import has_lost, is_from_the_beginning, place
from recoveryd.schedules.firing import is_run_of
from recoveryd.schedules.model import LastEnd, Schedule
from recoveryd.schedules.spec import ScheduledCommand

_ANEW: Final = "Choose another id, and say with `first` where its first run starts."


def end_behind_others(schedule: Schedule, recoveries: Mapping[str, Recovery]) -> LastEnd | Refused | None:
    """Where the next run of `schedule`, which has ended, would start; None = at the beginning that its command
    names.
    """
    end = schedule.last_end
    for copy in _begun_since(schedule, recoveries):
        found = _behind(schedule, copy, end)
        if isinstance(found, Refused):
            return found
        end = found
    return end


def _begun_since(schedule: Schedule, recoveries: Mapping[str, Recovery]) -> Iterable[Recovery]:
    """Copies of others between the same topics since its last run, in the order in which they were begun."""
    if schedule.last_run is None:
        return ()
    last = recoveries.get(schedule.last_end.recovery) if schedule.last_end is not None else None
    since_ms = schedule.last_run.fired_ms if last is None else last.created_ms
    found = (r for r in recoveries.values() if r.created_ms >= since_ms and _is_beside(schedule, r))
    return sorted(found, key=lambda r: (r.created_ms, r.control_offset))


def copied_already(schedule: Schedule, recoveries: Mapping[str, Recovery]) -> str:
    """The newest recovery that has copied what the first run of `schedule` begins with into the same target, or ""."""
    command = schedule.spec.command
    if schedule.last_end is not None or not is_from_the_beginning(command):
        return ""
    copies = [r for r in recoveries.values() if r.started_ms is not None and _is_between_the_same(command, r)]
    return max(copies, key=lambda r: (r.created_ms, r.control_offset)).id if copies else ""


def _is_beside(schedule: Schedule, recovery: Recovery) -> bool:
    if recovery.state is State.PLANNED or is_run_of(schedule.id, recovery.command.id):
        return False
    return _is_between_the_same(schedule.spec.command, recovery)


def _is_between_the_same(command: ScheduledCommand, recovery: Recovery) -> bool:
    spec = recovery.spec
    if not spec.copies:
        return False
    source, target = spec.source, spec.target
    is_same_source = (source.cluster, source.topic) == place(command, "source")
    return is_same_source and (target.cluster, target.topic) == place(command, "target")


def _behind(schedule: Schedule, copy: Recovery, end: LastEnd | None) -> LastEnd | Refused | None:
    plan = copy.plan
    is_over, known = copy.is_terminal, {} if end is None else end.offsets
    if (is_over and (plan is None or copy.started_ms is None)) or _is_of_others(copy, end):
        return end
    rows = () if plan is None else tuple(p for p in plan.partitions if _may_pass(p, known.get(p.partition)))
    if plan is not None and not rows:
        return end
    if not is_over:
        message = f"{copy.id} copies on from there, and is {copy.state.value}"
        hint = "Wait until it has ended, or stop it; or choose another id."
        return Refused(Code.ID_IN_USE, f"schedule {schedule.id} was ended, but {message}", hint)
    if not copy.is_position_exact:
        message = f"schedule {schedule.id} was ended, and nobody knows exactly where {copy.id} ended, which copied on"
        return Refused(Code.ID_IN_USE, message, _ANEW)
    if has_lost(copy):
        message = f"schedule {schedule.id} was ended, and records are gone that {copy.id} was to copy, which copied on"
        return Refused(Code.ID_IN_USE, message, _ANEW)
    return _advanced(schedule, copy, rows, end)


def _leaves_out_the_same(copy: Recovery, end: LastEnd) -> bool:
    """Whether records that `copy` left out by their time are left out by the next run as well."""
    return copy.plan is not None and copy.plan.from_time_ms == end.since_ms is not None


def _is_of_others(copy: Recovery, end: LastEnd | None) -> bool:
    """Whether its topics are not those of the last run, which had the same names."""
    plan = copy.plan
    if plan is None or end is None:
        return False
    is_same_target = end.target_topic_id in {"", plan.target.topic_id}
    return end.topic_id != plan.source.topic_id or not is_same_target


def _may_pass(planned: PlannedPartition, known: int | None) -> bool:
    """Whether its range has something that lies behind the end of the last run there."""
    return planned.stop is None or planned.stop > max(planned.start, known or 0)


def _advanced(
    schedule: Schedule, copy: Recovery, rows: Iterable[PlannedPartition], end: LastEnd | None
) -> LastEnd | Refused | None:
    offsets = {} if end is None else dict(end.offsets)
    progress = {row.partition: row for row in copy.progress.partitions}
    for planned in rows:
        reached = progress.get(planned.partition)
        if reached is None or reached.position <= max(planned.start, offsets.get(planned.partition, 0)):
            continue
        # A partition that no run knows is taken from its beginning.
        is_seamless = planned.start <= offsets.get(planned.partition, planned.log_start)
        if end is None or not is_seamless or (reached.filtered and not _leaves_out_the_same(copy, end)):
            copied = f"partition {planned.partition} from {planned.start:,} to {reached.position:,}"
            message = f"schedule {schedule.id} was ended, and {copy.id} has copied {copied} since"
            return Refused(Code.ID_IN_USE, f"{message}, behind which it cannot go on", _ANEW)
        offsets[planned.partition] = reached.position
    if end is None or offsets == end.offsets:
        return end
    return replace(end, offsets=offsets, recovery=copy.id)
