"""A following recovery that ends by the data: past an event time, or when no record comes any more."""

from recoveryd.kernel.states import State, StopReason
from recoveryd.recovery.spec import CaughtUp, Limits, Never
from tests.builders.core import NOW_MS, command, make_facts, make_spec
from tests.builders.world import World


def following(limits: Limits, *, live: int = 0, speed: int = 50, ends: tuple[int, ...] = (100, 50)) -> World:
    world = World(make_facts(ends), speed=speed)
    world.live_per_s = live
    world.feed(command("replay", spec=make_spec(stop=Never(), limits=limits)))
    world.run_until(State.RUNNING)
    return world


def test_an_idle_source_ends_it_after_the_time_that_was_asked_for() -> None:
    world = following(Limits(idle_ms=30_000))
    world.second(29)
    assert world.recovery().state is State.RUNNING
    stopped = world.run_until(State.STOPPED, seconds=30)
    assert stopped.stop.reason is StopReason.IDLE
    assert stopped.stop.evidence["idle_s"] >= 30
    assert stopped.stop.evidence["partitions"] == 2
    assert [(r.stop, r.unexplained) for r in stopped.completeness] == [(100, 0), (50, 0)]


def test_without_the_limit_an_idle_source_is_followed_until_told() -> None:
    world = following(Limits())
    world.second(200)
    assert world.recovery().state is State.RUNNING


def test_a_source_that_still_gets_records_is_not_idle() -> None:
    world = following(Limits(idle_ms=30_000), live=1)
    world.second(200)
    assert world.recovery().state is State.RUNNING


def test_silence_of_the_samples_is_no_idleness() -> None:
    world = following(Limits(idle_ms=30_000))
    world.sample = lambda: type(World.sample(world))(())
    world.second(120)
    assert world.recovery().state is State.RUNNING


def test_it_ends_when_every_partition_is_past_the_event_time_or_idle_at_its_end() -> None:
    world = following(Limits(event_time_ms=NOW_MS + 60_000), live=10, ends=(100, 0))
    world.ends[1] = 0
    world.event_times = {0: lambda at: NOW_MS + at * 100}
    ends = world.ends

    def grow_only_the_first() -> None:
        ends[1] = 0

    for _ in range(58):
        grow_only_the_first()
        world.second()
        assert world.recovery().state is State.RUNNING
    for _ in range(60):
        grow_only_the_first()
        world.second()
    stopped = world.recovery()
    assert (stopped.state, stopped.stop.reason) == (State.STOPPED, StopReason.EVENT_TIME)
    assert stopped.stop.evidence == {"until_ms": NOW_MS + 60_000, "idle_partitions": [1]}


def test_one_partition_before_the_event_time_holds_it_open() -> None:
    world = following(Limits(event_time_ms=NOW_MS + 5_000), live=10)
    world.event_times = {0: lambda at: NOW_MS + at * 100, 1: lambda _at: NOW_MS}
    world.second(150)
    assert world.recovery().state is State.RUNNING


def test_zero_lag_still_ends_a_caught_up_replay_first() -> None:
    world = World(make_facts((100, 50)), speed=50)
    world.feed(command("replay", spec=make_spec(stop=CaughtUp(), limits=Limits(idle_ms=3_600_000))))
    assert world.run_until(State.COMPLETED).stop.reason is StopReason.ZERO_LAG
