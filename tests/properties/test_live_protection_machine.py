"""With any telemetry: no step raises an exception, missing telemetry never increases a rate, and grants never exceed
the budget.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd.kernel.events import Event, SignalReceived
from recoveryd.kernel.states import TERMINAL
from recoveryd.live.events import ReaderSampled, ReadingTaken
from recoveryd.live.freshness import Reading
from recoveryd.live.lag.window import LagSample
from recoveryd.live.signals import HealthSignal, LagSignal
from recoveryd.live.signals import SignalledPartition as SignalSample
from recoveryd.live.slice import LIVE
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import Limits
from tests.builders.core import NOW_MS, command, make_spec
from tests.builders.live_world import BOARD, LAG, LATENCY, LiveWorld, make_params
from tests.builders.world import illegal_moves

VALUES = st.one_of(st.floats(), st.floats(0.0, 1.0), st.just(0.01), st.just(0.3))
TIMES = st.one_of(st.integers(-600_000, 60_000), st.integers(-3_000, 0), st.just(0))
OFFSETS = st.one_of(st.none(), st.integers(-5, 10_000), st.just(2**63))
NAMES = st.sampled_from(["produce_latency", LAG.name, "other"])
LOOKS = st.tuples(OFFSETS, TIMES, OFFSETS, TIMES)
STEPS = st.one_of(
    st.tuples(st.just("reading"), st.sampled_from(["main", "zz"]), NAMES, VALUES, TIMES),
    st.tuples(st.just("look"), st.lists(st.tuples(st.integers(0, 2), LOOKS), max_size=3)),
    st.tuples(st.just("lag"), st.lists(st.tuples(st.integers(0, 2), OFFSETS, OFFSETS, TIMES), max_size=3)),
    st.tuples(st.just("health"), NAMES, st.one_of(st.none(), VALUES), st.sampled_from(["s", "ms", ""]), TIMES),
    st.tuples(st.just("command"), st.sampled_from(["pause", "resume", "throttle", "stop"]), st.sampled_from(["r1", "r2"])),
    st.tuples(st.just("replay"), st.sampled_from([None, "controller", "unlimited"]), st.integers(0, 2)),
    st.tuples(st.just("time"), st.integers(1, 40)),
    st.tuples(st.just("well"), st.integers(1, 60)),
    st.tuples(st.just("restart")),
)  # fmt: skip


def event_of(step: tuple, now_ms: int) -> Event | None:  # type: ignore[type-arg]  # noqa: PLR0911  (one per kind)
    kind, *rest = step
    if kind == "reading":
        domain, name, value, at = rest
        return ReadingTaken(domain, Reading(name, value, now_ms + at))
    if kind == "look":
        rows = tuple((p, LagSample(a, now_ms + at, e, now_ms + to)) for p, (a, at, e, to) in rest[0])
        return ReaderSampled(BOARD, (0, 1), rows)
    if kind == "lag":
        samples = tuple(SignalSample(p, a, e, now_ms + at) for p, a, e, at in rest[0])
        return SignalReceived(0, now_ms, LagSignal("main", "board", "departures", samples))
    if kind == "health":
        name, value, unit, at = rest
        return SignalReceived(0, now_ms, HealthSignal("main", name, value, unit, "ok", now_ms + at))
    if kind == "command":
        return command(rest[0], rest[1], f"{rest[0]}{now_ms}", mode="controller")
    if kind == "replay":
        spec = make_spec(limits=Limits(mode=rest[0], tier=rest[1], weight=1.0 + rest[1]))
        return command("replay", "r1", f"c{now_ms}", spec=spec)
    return None


def check(world: LiveWorld) -> None:
    protecting = world.state.of(LIVE).protecting
    decision = protecting.decisions.get("main")
    if decision is None:
        return
    granted = [g.bytes_per_s for g in protecting.grants.values()]
    assert all(rate is not None and rate >= 0 for rate in granted)
    assert sum(rate or 0.0 for rate in granted) <= decision.rate_bytes_per_s * 1.0001
    assert decision.rate_bytes_per_s <= world.params.control.max_bytes_per_s
    for recovery in world.state.of(RECOVERY).recoveries.values():
        assert not (recovery.held and recovery.state in TERMINAL and recovery.stop is None)


@settings(max_examples=120, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_nothing_that_is_said_breaks_a_step_or_the_budget(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    world = LiveWorld(make_params(LATENCY, LAG))
    healthy, world.latency_s = world.latency_s, None
    world.feed(command("replay"))
    for step in steps:
        event = event_of(step, world.now_ms)
        if event is not None:
            world.feed(event)
        elif step[0] == "restart":
            world.restart_daemon()
        else:
            world.latency_s = healthy if step[0] == "well" else None
            world.live(step[1])
        check(world)
    assert illegal_moves(world) == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 120), st.lists(st.tuples(st.integers(1, 30), VALUES, st.integers(-900_000, -30_000)), max_size=8))
def test_missing_or_old_telemetry_never_raises_a_rate(healthy_s: int, old: list[tuple[int, float, int]]) -> None:
    world = LiveWorld(make_params(LATENCY))
    world.live(70)
    world.feed(command("replay"))
    world.live(10 + healthy_s)
    world.latency_s = None
    world.live(6)
    rates = [world.directive_rate]
    for seconds, value, at in old:
        # Older than the newest known reading, or from before the silence: not about the present.
        world.feed(ReadingTaken("main", Reading("produce_latency", value, min(world.now_ms + at, NOW_MS + 60_000))))
        for _ in range(seconds):
            world.live(1)
            rates.append(world.directive_rate)
    assert rates == sorted(rates, reverse=True)
