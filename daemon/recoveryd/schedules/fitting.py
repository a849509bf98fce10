"""Whether the next run of a schedule will be over before the one after it is due, by how long the last ones took.

Runs grow with what they read, so what is expected is the larger of the usual duration and of where a line through the
last ones leads. Runs that were completed count, and those that went on until their deadline: they took that long at
least.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from recoveryd.forecast.estimate import CountSample, ols_slope
from recoveryd.kernel.states import State
from recoveryd.kernel.times import format_time_ms
from recoveryd.schedules.draft import ScheduleDraft
from recoveryd.schedules.due import next_due_ms
from recoveryd.schedules.model import RunForecast, Schedule, ScheduleRun

RUNS_KEPT: Final = 5
# Those that counts.completed has. What failed or was stopped early did not take as long as its work takes.
_DONE: Final = frozenset({"completed", "planned", "accepted"})
_LINE_LEAST: Final = 3  # two runs make a line of any difference


def expected_ms(durations_ms: Sequence[int]) -> int:
    """Of the next run, from those of the last ones in their order; there is at least one."""
    usual = median(durations_ms)
    if len(durations_ms) < _LINE_LEAST:
        return round(max(durations_ms))
    slope = ols_slope([CountSample(number, took) for number, took in enumerate(durations_ms)])
    middle = (len(durations_ms) - 1) / 2
    ahead = sum(durations_ms) / len(durations_ms) + slope * (len(durations_ms) - middle)
    return round(max(usual, ahead))


def with_forecast(draft: ScheduleDraft, schedule: Schedule, run: ScheduleRun) -> Schedule:
    """The schedule after this run, which has ended. Tells when the next one is not expected to fit
    any more, or again.
    """
    if run.ended_ms is None or not _took_its_time(run, run.ended_ms):
        return schedule
    took_ms = run.ended_ms - run.fired_ms
    if took_ms < 0:  # the clock was set back in between
        return schedule
    took = (*schedule.durations_ms, took_ms)[-RUNS_KEPT:]
    schedule = replace(schedule, durations_ms=took)
    spec, first_ms = schedule.spec, schedule.next_run_ms
    then_ms = None if first_ms is None else next_due_ms(spec.cron, spec.time_zone, first_ms)
    if first_ms is None or then_ms is None:
        return replace(schedule, forecast=None)
    expected, interval_ms = expected_ms(took), then_ms - first_ms
    found = RunForecast(expected < interval_ms, expected, interval_ms, len(took))
    if found.fits is not (schedule.forecast is None or schedule.forecast.fits):
        _tell(draft, schedule, found, first_ms)
    return replace(schedule, forecast=found)


def _took_its_time(run: ScheduleRun, ended_ms: int) -> bool:
    if run.outcome == State.STOPPED.value:
        return run.deadline_ms is not None and ended_ms >= run.deadline_ms
    return run.outcome in _DONE


def _tell(draft: ScheduleDraft, schedule: Schedule, found: RunForecast, next_ms: int) -> None:
    due = format_time_ms(next_ms)
    verdict = "is expected to fit again" if found.fits else "is not expected to be over in time"
    why = f"the run due at {due} {verdict}: {found.expected_ms / 1000:,.0f} s of {found.interval_ms / 1000:,.0f} s"
    told = {
        "next_run": due,
        "fits": found.fits,
        "expected_s": found.expected_ms / 1000,
        "interval_s": found.interval_ms / 1000,
        "overrun": schedule.spec.overrun,
        "why": why,
    }
    draft.notice("schedule_overrun_expected", schedule.id, told)
    draft.reason = why
