"""Whether the next run of a schedule is expected to fit: the expectation from the last runs, and when it is told."""

import pytest
from pydantic import TypeAdapter

from recoveryd.kernel.draft import Draft
from recoveryd.kernel.states import State
from recoveryd.kernel.written import DurationMs
from recoveryd.schedules.draft import ScheduleDraft
from recoveryd.schedules.fitting import RUNS_KEPT, expected_ms, with_forecast
from recoveryd.schedules.model import RunForecast, ScheduleRun
from recoveryd.schedules.params import ScheduleParams
from tests.schedules.world import ScheduleWorld


@pytest.mark.parametrize(
    ("took", "expected"),
    [
        ((40,), 40),
        ((40, 30), 40),
        ((10, 20, 30), 40),
        ((10, 20, 30, 40, 50), 60),
        ((30, 30, 90, 30, 30), 42),  # one long run alone does not make the next one as long
        ((50, 40, 30), 40),  # nor do shorter ones make it shorter than usual
    ],
)
def test_the_larger_of_the_usual_and_of_where_the_last_runs_lead_is_expected(
    took: tuple[int, ...], expected: int
) -> None:
    assert expected_ms(took) == expected


@pytest.mark.scenario("S-WIKI-6a")
@pytest.mark.parametrize(("cron", "fits"), [("* * * * *", False), ("0 * * * *", True)])
def test_after_a_run_it_is_said_whether_the_next_one_is_expected_to_fit(cron: str, fits: bool) -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=60)  # a run takes about three minutes
    world.add(cron)
    assert world.schedule().forecast is None
    world.minutes(1 if cron[0] == "*" else 61)
    run = world.runs()[0]
    world.run_until(State.COMPLETED, recovery_id=run, seconds=600)
    world.second(2)
    forecast = world.schedule().forecast
    assert forecast is not None
    assert (forecast.fits, forecast.runs, forecast.interval_ms) == (fits, 1, 60_000 if cron[0] == "*" else 3_600_000)
    assert 100_000 < forecast.expected_ms < 400_000
    assert [notice.data["fits"] for notice in world.told("schedule_overrun_expected")] == ([] if fits else [False])
    world.restart(down_s=1)
    assert world.schedule().forecast == forecast


def test_a_run_that_ended_before_it_began_by_a_clock_that_was_set_tells_nothing_and_can_be_read_again() -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=60)
    world.add("0 * * * *")
    schedule = world.schedule()
    run = ScheduleRun(0, 1_000_000, "c", "r", outcome="completed", ended_ms=990_000)
    assert with_forecast(None, schedule, run).durations_ms == ()  # type: ignore[arg-type]
    odd = RunForecast(True, -3_312, 60_000, 1)
    written = TypeAdapter(RunForecast).dump_python(odd, mode="json")
    assert written["expected_ms"] == "0ms"
    assert TypeAdapter(DurationMs).validate_python("-3312ms") == 0


def test_it_is_told_once_and_rests_on_the_last_runs_only() -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=60)
    world.add("* * * * *")
    world.minutes(40)
    schedule = world.schedule()
    assert schedule.counts.completed > RUNS_KEPT
    assert len(schedule.durations_ms) == RUNS_KEPT
    assert len(world.told("schedule_overrun_expected")) == 1


@pytest.mark.parametrize("outcome", ["failed", "stopped", "rejected", "expired", "duplicate"])
def test_runs_that_did_not_do_their_work_do_not_make_the_next_one_look_short(outcome: str) -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=60)
    world.add("0 * * * *")
    world.minutes(61)
    world.run_until(State.COMPLETED, recovery_id=world.runs()[0], seconds=600)
    world.second(2)
    before = world.schedule()
    assert (len(before.durations_ms), before.counts.completed) == (1, 1)
    over = ScheduleRun(world.now_ms, world.now_ms, "c", "r", outcome=outcome, ended_ms=world.now_ms + 2_000)
    draft = ScheduleDraft(
        Draft(world.state, world.now_ms, {}), ScheduleParams(), lambda _state, _id: None, lambda _draft, _command: ""
    )
    assert with_forecast(draft, before, over) == before


def test_a_run_that_somebody_stopped_does_not_count() -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=60)
    world.add("* * * * *")
    world.minutes(1)
    world.command("stop", world.runs()[0])
    world.run_until(State.STOPPED, recovery_id=world.runs()[0], seconds=100)
    world.second(2)
    assert (world.schedule().counts.stopped, world.schedule().durations_ms) == (1, ())


def test_a_run_that_went_on_until_its_deadline_took_that_long_at_least() -> None:
    world = ScheduleWorld(ends=(10_000, 0), speed=10)
    world.add("* * * * *", max_runtime="75s")
    world.minutes(1)
    world.run_until(State.STOPPED, recovery_id=world.runs()[0], seconds=100)
    world.second(2)
    [took] = world.schedule().durations_ms
    assert took >= 75_000
    [told] = world.told("schedule_overrun_expected")
    assert (told.data["fits"], told.data["interval_s"]) == (False, 60)
