"""What is known of the hours of a day counts in the forecast of a running copy too, also after a restart."""

import json
from dataclasses import replace

import pytest

from recoveryd.forecast.view import ForecastView
from recoveryd.kernel.states import State
from recoveryd.recovery.forecasting import ForecastQuestion, LaneWork, Stretch, ask, hours_of
from recoveryd.recovery.model import Plan
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.recovery.spec import CaughtUp, Latest
from recoveryd.replay.plan import make_plan
from tests.builders.core import NOW_MS, STATUS, command, make_facts, make_spec
from tests.builders.world import PARAMS, World

HOUR_S = 3_600
BACKLOG, REPLAY, NIGHT, DAY = 400_000, 100, 60, 99
HOURS = (float(NIGHT), *[float(DAY)] * 20, *[float(NIGHT)] * 3)  # the last hour of a night comes first


def at_night(hourly: tuple[float, ...] = HOURS) -> PlanFacts:
    """One partition of some hours, planned at the rate at which it is copied then."""
    facts = make_facts((BACKLOG,), bytes_per_s=REPLAY * 100.0, rate_source="measured")
    [row] = facts.source_partitions
    row = replace(row, first_ms=NOW_MS - 86_400_000, last_ms=NOW_MS, recent_at=BACKLOG - 600 * NIGHT)
    return replace(facts, source_partitions=(row,), hourly=hourly)


def running(facts: PlanFacts) -> World:
    world = World(facts, speed=REPLAY)
    world.live_per_s = NIGHT
    world.feed(command("replay", spec=make_spec(stop=CaughtUp())))
    world.run_until(State.RUNNING)
    return world


def forecast_of(world: World) -> ForecastView:
    found = world.recovery().progress.forecast
    assert found is not None
    assert found.rate_source == "measured"
    return found


def test_a_copy_that_follows_is_not_promised_what_its_plan_denied() -> None:
    world = running(at_night())
    planned = world.recovery().plan.forecast
    world.second(90)
    found = forecast_of(world)
    assert found.eta_seconds.mid == pytest.approx(planned.eta_seconds.mid, rel=0.05)
    world.restart_daemon()
    world.second(90)
    assert forecast_of(world).eta_seconds.mid == pytest.approx(planned.eta_seconds.mid, rel=0.05)


def test_without_hours_the_present_rate_stands() -> None:
    world = running(at_night(hourly=()))
    world.second(90)
    left = world.recovery().progress.lag_records
    assert forecast_of(world).eta_seconds.mid == pytest.approx(left / (REPLAY - NIGHT), rel=0.05)


def question(hourly: tuple[float, ...] = HOURS, age_s: float = 0.0, records: int = BACKLOG) -> ForecastQuestion:
    lanes = (LaneWork((Stretch(0, float(records), 86_400.0, float(NIGHT)),), float(REPLAY), 0.0),)
    return ForecastQuestion(lanes, True, hourly=hourly, hourly_age_s=age_s)


@pytest.mark.parametrize("hours", [1, 5, 23, 24, 49])
def test_hours_that_were_asked_for_a_while_ago_begin_where_the_day_is_now(hours: int) -> None:
    passed = hours % 24
    turned = question((*HOURS[passed:], *HOURS[:passed]))
    assert ask(question(age_s=hours * HOUR_S)).forecast.seconds == ask(turned).forecast.seconds


def test_an_hour_that_has_begun_counts_for_what_is_left_of_it() -> None:
    """The hour of the night is over by half, and after it 1 record/s is gained instead of 40."""
    taken = [ask(question(age_s=age_s, records=100_000)).forecast.seconds for age_s in (0, HOUR_S / 2, HOUR_S)]
    assert taken == [2_500, 1_800 + 28_000, 20 * HOUR_S + 700]


def test_a_clock_behind_the_plan_takes_its_hours_from_the_first_on() -> None:
    assert ask(question(age_s=-HOUR_S)).forecast.seconds == ask(question()).forecast.seconds


def test_lanes_that_are_left_are_given_their_part_of_the_hours() -> None:
    def lane(partition: int, live: float) -> LaneWork:
        return LaneWork((Stretch(partition, 1_000.0, 0.0, live),), 100.0)

    assert hours_of([lane(0, 30.0), lane(1, 10.0)], (80.0, 400.0), 80.0) == (40.0, 200.0)
    assert hours_of([lane(0, 80.0)], (80.0, 400.0), 80.0) == (80.0, 400.0)
    assert hours_of([lane(0, 0.0)], (80.0, 400.0), 0.0) == (80.0, 400.0)


def test_the_hours_are_kept_with_a_plan_that_follows_and_are_no_part_of_its_hash() -> None:
    def planned(facts: PlanFacts, stop: CaughtUp | Latest) -> Plan:
        plan = make_plan(make_spec(stop=stop), facts, PARAMS)
        assert isinstance(plan, Plan)
        return plan

    following = planned(at_night(), CaughtUp())
    assert following.hourly == HOURS
    assert following.hash == planned(at_night(hourly=()), CaughtUp()).hash
    assert planned(at_night(hourly=()), CaughtUp()).hourly is None
    assert planned(at_night(), Latest()).hourly is None


def test_a_plan_of_a_release_that_kept_no_hours_is_read() -> None:
    recovery = running(at_night()).recovery()
    document = json.loads(STATUS.encode(recovery)[1])
    assert STATUS.read(document) == recovery
    del document["internal"]["plan"]["hourly"]
    assert STATUS.read(document) == replace(recovery, plan=replace(recovery.plan, hourly=None))


def test_a_plan_of_some_partitions_is_given_their_part_of_the_hours() -> None:
    alone = at_night()
    [row] = alone.source_partitions
    assert alone.source is not None
    both = replace(
        alone,
        source=replace(alone.source, partitions=2, ends={0: BACKLOG, 1: BACKLOG}),
        source_partitions=(row, replace(row, partition=1)),
        hourly=tuple(2 * rate for rate in HOURS),
    )
    spec = make_spec(stop=CaughtUp())
    some = replace(spec, source=replace(spec.source, partitions=(0,)))
    wanted, found = make_plan(spec, alone, PARAMS), make_plan(some, both, PARAMS)
    assert isinstance(wanted, Plan)
    assert isinstance(found, Plan)
    assert found.eta_seconds == wanted.eta_seconds
