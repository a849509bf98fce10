"""The controller on a simulated cluster without noise: it settles below its target and does not overshoot."""

import math
from dataclasses import replace

import pytest

from recoveryd.live.law.memory import HOURS, Memory
from recoveryd.live.law.types import ControllerState
from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.policies import PERIOD_S, Controlled
from recoveryd.simulation.run import simulate
from recoveryd.simulation.scenarios import World

PARAMS = ModelParams(noise=0.0, signal_drop=0.0, backlog=100_000.0, horizon_s=4_000)
TARGET_UTILISATION = 1 - 0.008 / (0.6 * 0.2)  # where the latency is at 0.6 of its SLO
LIVE_WORK = 40.0


def world(capacity_after: float, at_s: int, live_after: float = 20.0) -> World:
    """Constant traffic with one step `at_s` seconds after the replay's start."""
    calm, rest_s = PARAMS.warm_up_s + at_s, PARAMS.horizon_s - at_s
    return World(
        (100.0,) * calm + (capacity_after,) * rest_s,
        (20.0,) * calm + (live_after,) * rest_s,
        (40.0,) * (calm + rest_s),
        (True,) * (calm + rest_s),
    )


@pytest.mark.parametrize("delay_s", [2.0, 10.0, 30.0])
def test_the_start_overshoots_by_less_than_a_fifth_and_breaks_no_slo(delay_s: float) -> None:
    params = ModelParams(noise=0.0, signal_drop=0.0, backlog=100_000.0, horizon_s=4_000, signal_delay_s=delay_s)
    trace = simulate(world(100.0, 4_000), Controlled(params), 1, params)
    final = 100 * TARGET_UTILISATION - LIVE_WORK
    assert trace.finished_s is not None
    assert max(trace.rate) <= 1.2 * final
    assert max(trace.latency_s) <= params.slo_latency_s
    settled = trace.rate[1_200 : trace.finished_s]
    assert min(settled) >= 0.85 * final
    assert max(settled) - min(settled) <= 0.1 * final, "it rests, it does not hunt"


def test_more_capacity_is_taken_without_overshoot() -> None:
    trace = simulate(world(150.0, 1_000), Controlled(PARAMS), 1, PARAMS)
    final = 150 * TARGET_UTILISATION - LIVE_WORK
    assert trace.finished_s is not None
    assert 0.8 * final <= max(trace.rate[1_000 : trace.finished_s]) <= 1.2 * final


def test_less_capacity_costs_one_loop_of_violation_and_settles_lower() -> None:
    trace = simulate(world(70.0, 1_000), Controlled(PARAMS), 1, PARAMS)
    assert trace.finished_s is not None
    late = [at for at, p99 in enumerate(trace.latency_s) if p99 > PARAMS.slo_latency_s]
    assert late[0] == 1_000
    assert len(late) <= 30
    settled = trace.rate[1_600 : trace.finished_s]
    safe = 70 * 0.96 - LIVE_WORK
    assert 0.6 * safe <= min(settled) <= max(settled) <= safe


@pytest.mark.parametrize("signal_delay_s", [1.0, 3.0, 10.0])
@pytest.mark.parametrize("safe", [30.0, 60.0])
def test_where_nothing_is_harmed_what_was_safe_is_kept_for_one_loop_delay_and_then_doubled_per_loop_delay(
    safe: float, signal_delay_s: float
) -> None:
    params = replace(
        PARAMS, capacity=2_000.0, commit_every_s=1, slice_s=2, signal_delay_s=signal_delay_s, signal_jitter_s=0.0
    )
    policy = Controlled(params)
    policy.state = ControllerState(memory=Memory(dict.fromkeys(range(HOURS), safe)))
    trace = simulate(world(2_000.0, -params.warm_up_s), policy, 1, params)
    assert policy.decision is not None
    delay_s = policy.decision.loop_delay_ms / 1_000
    early = trace.rate[: int(delay_s) - PERIOD_S]  # lanes have copied from the first second on
    assert set(early) == {safe}
    at_most_s = next(at for at, rate in enumerate(trace.rate) if rate == params.replay_max)
    assert at_most_s <= delay_s * (1 + math.log2(params.replay_max / safe)) + PERIOD_S


def test_a_burst_of_live_traffic_displaces_the_replay_before_latency_says_so() -> None:
    trace = simulate(world(100.0, 1_000, live_after=30.0), Controlled(PARAMS), 1, PARAMS)
    before, after = trace.rate[999], trace.rate[1_025]
    assert before - after >= 0.9 * 1.5 * 10.0
