"""The same game day on the simulator's measured plant, where that was measured under the same live traffic: how long
the copy takes there under the controller, to compare it with what was seen. Pure.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from recoveryd.live.law.types import ControllerState
from recoveryd.simulation.measured import UNLIMITED, measured_params
from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.policies import Controlled, control_params
from recoveryd.simulation.response import Response
from recoveryd.simulation.run import simulate
from recoveryd.simulation.scenarios import Scenario as WorldKind
from recoveryd.simulation.scenarios import World, make_world
from recoveryd_sandbox.gameday.judge import Verdict
from recoveryd_sandbox.gameday.scenario import Scenario

WITHIN = 0.25
SEEDS = tuple(range(9))
_PERIOD_S, _SLICE_S = 2, 2  # of the signals, and until lanes have followed a raise
_DELAY_S = 1.0
_LOOP_DELAY_MS = 8_000  # as the game day's daemon is told, until it has measured it


def is_comparable(scenario: Scenario, response: Response) -> bool:
    """Whether the plant was measured under this live traffic, and with this work of the broker."""
    load = scenario.load
    is_steady = load.swing is None and load.reader_records_per_s is None and scenario.cores is None
    is_same = (load.live_records_per_s, scenario.target_compression) == (
        response.live_records_per_s,
        response.target_compression,
    )
    return is_steady and is_same


def simulated_s(scenario: Scenario, response: Response, copied_bytes: float, runs: int) -> float:
    """Seconds that the copy takes: of each seed the median of so many runs one after the other, of which each remembers
    what was safe in those before it; of all seeds the median. Raises `ValueError` where one does not end.
    """
    unlimited = response.unlimited_bytes_per_s / UNLIMITED
    slos = scenario.slos
    params = replace(
        measured_params(replace(response, slo_p99_ms=slos.p99_s * 1000, slo_lag_s=slos.lag_s)),
        backlog=copied_bytes / unlimited,
        replay_max=scenario.most / unlimited,
        signal_period_s=_PERIOD_S,
        signal_delay_s=_DELAY_S,
        signal_drop=0.0,
        slice_s=_SLICE_S,
        has_live_signal=True,
    )
    return median(_runs_s(scenario, params, seed, runs) for seed in SEEDS)


def _runs_s(scenario: Scenario, params: ModelParams, seed: int, runs: int) -> float:
    took: list[float] = []
    state = ControllerState()
    for turn in range(runs):
        policy = Controlled(params, replace(control_params(params), loop_delay_ms=_LOOP_DELAY_MS))
        policy.state = ControllerState(memory=state.memory)
        trace = simulate(_world(scenario, params, seed + 100 * turn, took), policy, seed + 100 * turn, params)
        if trace.finished_s is None:
            raise ValueError(f"the simulated copy does not end within {params.horizon_s} s")
        state = policy.state
        took.append(float(trace.finished_s))
    return median(took)


def _world(scenario: Scenario, params: ModelParams, seed: int, took: Sequence[float]) -> World:
    """Steady traffic; the broker is slow when the share of the last copy is reached at which it is slowed."""
    world, slow = make_world(WorldKind.STEADY, seed, params), scenario.slow_broker
    if slow is None:
        return world
    copy_s = took[-1] if took else params.backlog / UNLIMITED
    first = params.warm_up_s + int(slow.at * copy_s)
    last = first + slow.lasts // 1000
    left = 1 - slow.stop / slow.cycle
    return replace(world, capacity=tuple(c * left if first <= at < last else c for at, c in enumerate(world.capacity)))


def judge_simulated(scenario: Scenario, response: Response, seen_s: float, copied_bytes: float, runs: int) -> Verdict:
    """Whether the simulator says what was seen. `seen_s`: the median of the copies under the controller."""
    told_s = simulated_s(scenario, response, copied_bytes, runs)
    part = told_s / seen_s
    return Verdict(
        1 - WITHIN <= part <= 1 + WITHIN,
        f"the simulator says {told_s:.0f} s for the copy, which took {seen_s:.0f} s (within {WITHIN:.0%})",
    )
