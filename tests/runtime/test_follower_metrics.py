"""Metrics of a recovery that follows the live head: what is made of a lag is only there while every end is known."""

from dataclasses import replace

import pytest

from recoveryd.kernel.states import State
from recoveryd.live.params import LOOK_COUNTS_LEAST_MS
from recoveryd.live.slice import LIVE, LiveSlice
from recoveryd.recovery.spec import CaughtUp, Never
from tests.builders.core import BOOK, command, make_facts, make_spec
from tests.builders.world import World

LAG = ("replay", "flights", "r1")
OF_LAGS = {
    ("lag_records", *LAG),
    ("lag_seconds", *LAG),
    ("recovery_progress_ratio", "r1"),
    ("recovery_offsets", "r1", "left"),
    ("partition_stop_offset", "r1", "0"),
    ("partition_stop_offset", "r1", "1"),
}


def shown(world: World, late_ms: int = 0) -> dict[tuple[str, ...], float]:
    samples = BOOK.gauges(world.state, world.now_ms + late_ms)
    return {(s.metric.name.removeprefix("recoveryd_"), *s.labels): s.value for s in samples}


def of_lags(world: World, late_ms: int = 0) -> set[tuple[str, ...]]:
    return set(shown(world, late_ms)) & (OF_LAGS | {("recovery_eta_seconds", "r1")})


def behind() -> World:
    """It copies ten records a second of twelve that come in, for a minute."""
    world = World(make_facts((20, 20)), speed=10)
    world.live_per_s = 12
    world.feed(command("replay", spec=make_spec(stop=Never())))
    world.run_until(State.RUNNING)
    world.second(60 + 5 - world.now_ms // 1_000 % 5)
    return world


def test_while_every_end_is_known_lag_and_progress_are_told() -> None:
    world = behind()
    found = shown(world)
    left = sum(world.ends.values()) - sum(world.receipts["r1"].values())
    assert found["lag_records", *LAG] == left > 0
    assert found["lag_seconds", *LAG] == pytest.approx(left / 2 / 12, abs=2)
    assert 0 < found["recovery_progress_ratio", "r1"] < 1
    assert of_lags(world) >= OF_LAGS


def test_where_one_end_is_not_known_there_is_no_lag_of_zero_but_none() -> None:
    world = behind()
    whole = world.sample

    def partial():
        event = whole()
        return replace(event, topics=tuple(replace(t, high_watermark={0: t.high_watermark[0]}) for t in event.topics))

    world.sample = partial  # type: ignore[method-assign]
    world.second(5)
    assert of_lags(world) == {("partition_stop_offset", "r1", "0")}
    assert shown(world)["recovery_state", "r1", "running"] == 1
    assert shown(world)["rate_achieved_bytes_per_second", "r1"] > 0
    world.sample = whole  # type: ignore[method-assign]
    world.second(5)
    assert of_lags(world) >= OF_LAGS


def test_where_the_source_cannot_be_looked_at_the_lag_of_before_goes() -> None:
    world = behind()
    world.sees_source = False
    world.second(LOOK_COUNTS_LEAST_MS // 1000 - 5)
    assert of_lags(world) >= OF_LAGS, "a look may be late"
    world.second(10)
    assert of_lags(world) == set()
    assert of_lags(world, late_ms=3_000_000) == set()
    world.sees_source = True
    world.second(5)
    assert of_lags(world) >= OF_LAGS


def test_before_the_first_look_nothing_is_known() -> None:
    world = behind()
    world.state = world.state.having(LIVE, LiveSlice())
    assert of_lags(world) == set()


def test_once_its_copy_is_over_nothing_is_left_whatever_comes_in() -> None:
    world = World(make_facts((20, 20)), speed=50)
    world.live_per_s, world.verify_s = 3, 40
    world.feed(command("replay", spec=make_spec(stop=CaughtUp())))
    world.run_until(State.VERIFYING)
    world.second(20)
    assert world.recovery().state is State.VERIFYING
    found = shown(world)
    assert (found["lag_records", *LAG], found["lag_seconds", *LAG]) == (0, 0)
    world.sees_source = False
    world.second(15)
    assert shown(world)["lag_records", *LAG] == 0
    ended = world.run_until(State.COMPLETED)
    assert (ended.progress.lag_records, shown(world)["lag_records", *LAG]) == (0, 0)


def test_a_copy_that_was_stopped_leaves_no_lag_behind_an_end_that_goes_on() -> None:
    world = behind()
    assert shown(world)["lag_records", *LAG] > 0
    world.feed(command("stop", offset=1))
    stopped = world.run_until(State.STOPPED)
    assert stopped.progress.lag_records
    assert {name for name in shown(world) if name[0].startswith("lag_")} == set()


def test_what_a_stopped_copy_left_of_a_pinned_range_is_told_for_an_hour() -> None:
    world = World(make_facts((2_000, 2_000)), speed=10)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(10)
    world.feed(command("stop", offset=1))
    stopped = world.run_until(State.STOPPED)
    left = 4_000 - sum(world.receipts["r1"].values())
    assert shown(world)["lag_records", *LAG] == stopped.progress.lag_records == left > 0
