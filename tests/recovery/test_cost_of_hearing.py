"""The cost of heartbeats of a recovery with many partitions, in counts instead of time."""

from dataclasses import replace

import pytest

from recoveryd.kernel.draft import Draft
from recoveryd.kernel.states import State
from recoveryd.live.events import OffsetsSampled, TopicSample
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery import forecast_run, quotas
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.forecasting import ForecastQuestion, LaneWork, Stretch, ask
from recoveryd.recovery.lane_shares import allowances, lane_shares
from recoveryd.recovery.observed import Heard, Observed
from recoveryd.recovery.on_observations import on_offsets
from recoveryd.recovery.recoveries import Recoveries
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import Limits
from recoveryd.recovery.stops.caught_up import evaluate_caught_up
from recoveryd_jobs.contract import LaneHeartbeat, LanePosition
from tests.builders.core import NOW_MS, command, make_facts, make_spec
from tests.builders.records import make_plan, make_recovery
from tests.builders.world import PARAMS, World
from tests.patience import Counted, lines_of

MINUTE_S = 60


def running() -> World:
    world = World(make_facts((100_000, 100_000)))
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(3 * MINUTE_S)
    return world


def journaled(world: World, seconds: int) -> int:
    before = world.recovery().version
    world.second(seconds)
    return world.recovery().version - before


def test_progress_that_moves_is_journaled_every_two_seconds() -> None:
    assert journaled(running(), 40) == 20


def test_progress_that_says_the_same_again_is_journaled_as_a_sign_of_life_only() -> None:
    world = running()
    app = world.applications["r1"]
    app.stuck = set(range(len(app.lanes)))
    world.second(2 * MINUTE_S)  # the pace in the forecast's samples falls for a while
    signs = MINUTE_S * 1000 // PARAMS.same_status_ms
    assert signs <= journaled(world, MINUTE_S) <= signs + 2
    app.stuck = set()
    assert journaled(world, 40) == 20


@pytest.mark.parametrize("is_moving", [False, True])
def test_a_forecast_goes_over_its_partitions_as_often_for_many_as_for_few(*, is_moving: bool) -> None:
    def visits(partitions: int) -> int:
        Counted.visits = 0
        stretches = Counted(Stretch(p, 1_000.0, 60.0, live=1.0) for p in range(partitions))
        ask(ForecastQuestion((LaneWork(stretches, 50_000.0),), is_moving, hourly=(5.0,) * 24))
        return Counted.visits

    assert visits(100) == visits(2)


def test_zero_lag_is_looked_for_once_in_the_positions_of_a_lane_however_many_there_are() -> None:
    def visits(partitions: int) -> int:
        recovery = make_recovery(plan=make_plan(*((p, 0, None) for p in range(partitions))))
        rows = Counted(LanePosition(p, 1_000, None, "copying") for p in range(partitions))
        beat = LaneHeartbeat("r1", 1, 0, 1, "copying", False, 0.0, 0.0, rows, "")
        ends = dict.fromkeys(range(partitions), 1_000)
        sample = TopicSample("main", "flights", recovery.plan.source.topic_id, {}, ends, ends, NOW_MS, partitions)
        seen = Observed(lanes={0: Heard(beat, NOW_MS - 100)})
        Counted.visits = 0
        assert evaluate_caught_up(recovery, seen, SampleHistory((sample,)), NOW_MS, PARAMS) is not None
        return Counted.visits

    assert visits(100) == visits(2)


def test_until_a_lane_has_three_samples_of_its_pace_the_rates_of_partitions_are_looked_at_with_each_sample_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = []
    monkeypatch.setattr(forecast_run, "sampled_rates", lambda *asked: looks.append(asked) or {})
    world = World(make_facts((100_000, 100_000)))
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(19)
    assert world.recovery().progress.forecast is None
    assert len(looks) == 2


def test_a_topic_more_in_a_sample_costs_the_same_however_many_recoveries_there_are() -> None:
    def lines(recoveries: int, topics: int) -> int:
        plan, world = make_plan((0, 0, 10)), World()
        found = {f"r{n}": make_recovery(f"r{n}", state=State.RUNNING, plan=plan) for n in range(recoveries)}
        kept = world.state.of(RECOVERY)
        state = world.state.having(RECOVERY, replace(kept, recoveries=Recoveries(found)))
        samples = tuple(TopicSample("main", f"t{n}", "id", {}, {0: 9}, {0: 9}, NOW_MS, 1) for n in range(topics))
        draft = Draft(state, NOW_MS, world.decider._views).view(RecoveryDraft)
        return lines_of(lambda: on_offsets(draft, OffsetsSampled(samples)))

    assert lines(20, 50) - lines(20, 5) == lines(2, 50) - lines(2, 5)


def test_shares_are_told_by_one_look_at_the_partitions_however_many_lanes_there_are() -> None:
    def visits(lanes: int) -> tuple[int, int]:
        plan = make_plan(*((p, 0, 1_000) for p in range(lanes)))
        recovery = make_recovery(plan=replace(plan, partitions=Counted(plan.partitions)))
        Counted.visits = 0
        assert len(lane_shares(recovery, Observed())) == lanes
        of_shares, Counted.visits = Counted.visits, 0
        assert len(allowances(recovery)) == lanes
        return of_shares, Counted.visits

    assert visits(40) == visits(2)


def test_the_share_of_one_broker_is_worked_out_when_positions_or_leaders_change_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(quotas, "lane_shares", lambda *told: asked.append(told) or lane_shares(*told))
    world = World(make_facts((100_000, 100_000)), replace(PARAMS, quotas_enabled=True))
    world.leaders, world.target_partitions = {0: 1, 1: 2}, 2
    world.feed(command("replay", spec=make_spec(limits=Limits(max_bytes_per_s=1e6))))
    world.run_until(State.RUNNING)
    world.second(MINUTE_S)
    assert world.quotas == {"r1": 0.75e6}
    app = world.applications["r1"]
    app.stuck = set(range(len(app.lanes)))
    asked.clear()
    world.second(9)
    assert asked == []
    world.leaders = {0: 1, 1: 1}
    world.second(6)
    assert (len(asked), world.quotas) == (1, {"r1": 1.5e6})
    app.stuck = set()
    asked.clear()
    world.second(9)
    assert len(asked) == 9 * len(app.lanes)
