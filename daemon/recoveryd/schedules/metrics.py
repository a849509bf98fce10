"""The metrics about schedules, and their values."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from recoveryd.kernel.metrics import Measures, Sample, count_states, counter, gauge, newest_ends
from recoveryd.kernel.state import CoreState
from recoveryd.schedules.draft import SCHEDULES
from recoveryd.schedules.following import counted_as
from recoveryd.schedules.model import KIND, RunCounts, Schedule

DUE_TIMES: Final = counter(
    "recoveryd_schedule_due_total",
    "Due times of schedules: fired, of those late (after a time without a daemon), or skipped because the last run "
    "still went on.",
    "result",
)
RUNS: Final = counter("recoveryd_schedule_runs_total", "Runs of schedules that ended.", "outcome")
RUN_ENDED: Final = gauge(
    "recoveryd_schedule_run_ended_timestamp_seconds",
    "When the last run of a schedule ended, of all whose last run has this outcome the newest.",
    "outcome",
)
OVERDUE_SECONDS: Final = gauge(
    "recoveryd_schedule_overdue_seconds",
    "How long the most overdue schedule has been due, or waits until the command that it sends is read; 0 while none is.",
)
OVERRUN_EXPECTED: Final = gauge(
    "recoveryd_schedule_overrun_expected",
    "Schedules whose next run is not expected to be over before the one after it is due.",
)
_RESULTS: Final = ("fired", "late", "skipped")
_OUTCOMES: Final = ("completed", "stopped", "failed", "refused")


def make_measures() -> Measures:
    return Measures(
        metrics=(DUE_TIMES, RUNS, RUN_ENDED, OVERDUE_SECONDS, OVERRUN_EXPECTED),
        first=(
            *(Sample(DUE_TIMES, (result,), 0) for result in _RESULTS),
            *(Sample(RUNS, (outcome,), 0) for outcome in _OUTCOMES),
        ),
        gauges=_gauges,
        increments=_increments,
    )


def _gauges(state: CoreState, now_ms: int) -> Iterator[Sample]:
    known = state.of(SCHEDULES)
    yield from count_states([KIND], Counter((schedule.kind, schedule.state) for schedule in known))
    late = [s for s in known.live.values() if not s.is_terminal and s.forecast is not None and not s.forecast.fits]
    yield Sample(OVERRUN_EXPECTED, (), len(late))
    waiting = [since_ms for schedule in known.live.values() for since_ms in _waits_since_ms(schedule)]
    if waiting:
        yield Sample(OVERDUE_SECONDS, (), max(0, now_ms - min(waiting)) / 1000)
    last = (schedule.last_run for schedule in known)
    ends = ((counted_as(run.outcome), run.ended_ms) for run in last if run is not None and run.ended_ms is not None)
    yield from newest_ends(RUN_ENDED, ends)


def _waits_since_ms(schedule: Schedule) -> Iterator[int]:
    """When it is due next, and since when the command of its run has not been read: the next time may be far away."""
    if schedule.next_run_ms is not None:
        yield schedule.next_run_ms
    if schedule.run is not None and schedule.run.control_offset < 0:
        yield schedule.run.fired_ms


def _increments(before: CoreState, after: CoreState) -> Iterator[Sample]:
    known = before.of(SCHEDULES)
    if after.of(SCHEDULES) is known:
        return
    for schedule in after.of(SCHEDULES):
        earlier = known.get(schedule.id)
        if earlier is schedule:
            continue
        is_same = earlier is not None and earlier.created_ms == schedule.created_ms  # else an old id is used again
        was = earlier.counts if earlier is not None and is_same else RunCounts()
        for metric, names in ((DUE_TIMES, _RESULTS), (RUNS, _OUTCOMES)):
            for name in names:
                yield Sample(metric, (name,), max(0, getattr(schedule.counts, name) - getattr(was, name)))
