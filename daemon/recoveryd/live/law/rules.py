"""Rules 1 to 6 of the controller, each a small function from what is known to a `Move`; `choose` tries them in order of
severity.

Rates in bytes/s. The bounds [floor, ceiling], what is published and all memory are in `controller`; nothing here
remembers anything.
"""

import math

from recoveryd.live.law.additive import halve, step_up
from recoveryd.live.law.assessment import Assessment
from recoveryd.live.law.moves import Move, at_floor, bounds, cut_to, displaced, elapsed_ms, limited
from recoveryd.live.law.types import ControllerParams, ControllerState, Inputs, Law, Rule


def choose(state: ControllerState, seen: Assessment, inputs: Inputs, now_ms: int, params: ControllerParams) -> Move:
    """The move of the first rule that applies."""
    floor, ceiling = bounds(inputs)
    if not params.protections:
        return Move(ceiling, Rule.PROTECT, "no live traffic is listed to be protected", ceiling + displaced(state))
    if seen.lost or seen.unseen or seen.stale:
        return _decay(state, seen, floor, now_ms, params)
    is_budget = params.effective_law is Law.BUDGET
    cut = _guard(state, seen, floor, now_ms, params) if is_budget else halve(state, seen, floor, params)
    if cut is not None:
        return cut
    if seen.gated or not seen.pressures:
        late = ", ".join(seen.gated[:3]) or "the protected signals"
        return Move(state.rate, Rule.GATE, f"waits for samples of {late} taken since the last cut")
    if not seen.news:
        return Move(state.rate, Rule.GATE, "no new sample since the last step")
    return _steer(state, seen, inputs, now_ms, params) if is_budget else step_up(state, seen, inputs, now_ms, params)


def _decay(state: ControllerState, seen: Assessment, floor: float, now_ms: int, params: ControllerParams) -> Move:
    """1. What is not known cannot be protected: x0.8 per period down to the floor; pause after five minutes."""
    if seen.lost:
        why = f"{seen.lost[0]} was last measured over {params.lost_after_ms / 60_000:.0f} min ago: pauses"
        return Move(0.0, Rule.STALE, why, min(state.budget, displaced(state)), True, _remembered(state), True)
    if seen.unseen:
        why = f"{seen.unseen[0]} was never measured without a replay: stays at the floor"
        return Move(floor, Rule.STALE, why, min(state.budget, floor + displaced(state)))
    periods = min(2.0, elapsed_ms(state.stepped_ms, now_ms) / params.period_ms)
    rate = max(floor, state.rate * params.stale_factor**periods)
    why = f"{seen.stale[0]} is older than {seen.delay_ms / 1000:.0f} s: the rate decays to the floor"
    return Move(rate, Rule.STALE, why, min(state.budget, rate + displaced(state)), True, _remembered(state))


def _remembered(state: ControllerState) -> float | None:
    """The comfortable rate, set to the present rate when signals become stale; a rate that was never congested has
    none, and starts slowly again.
    """
    if state.is_stale or state.comfortable is None:
        return state.comfortable
    return max(state.comfortable, state.rate)


def _guard(
    state: ControllerState, seen: Assessment, floor: float, now_ms: int, params: ControllerParams
) -> Move | None:
    """3. At the SLO: cut by how far it is exceeded, by 30 % at least. One cut per loop delay, since only samples taken
    after the last cut count.
    """
    z = seen.z
    if z is None or (z < 1 and seen.severity < params.raw_guard):
        return None
    worst = max(seen.pressures, key=lambda p: (p.z, p.severity))
    if state.rate <= floor:
        return at_floor(state, worst)
    factor = min(0.7, max(0.25, 1 / max(seen.severity, 1e-9)))
    since_last_ms = math.inf if state.guarded_ms is None else now_ms - state.guarded_ms
    comfortable = 0.75 * state.rate if since_last_ms > 2 * seen.delay_ms else state.comfortable
    return cut_to(state, max(floor, state.rate * factor), worst, comfortable)


def _steer(state: ControllerState, seen: Assessment, inputs: Inputs, now_ms: int, params: ControllerParams) -> Move:
    """4 to 6, when every protected signal is fresh, measured since the last cut and below its SLO."""
    z = seen.z or 0.0
    share = min(1.0, elapsed_ms(state.informed_ms, now_ms) / seen.delay_ms)
    error = params.target - z
    if error < -params.dead_band:
        return _track(state, error, share * params.gain_down, params)
    if error <= params.dead_band:
        return Move(state.rate, Rule.TRACK, f"pressure {z:.2f} is near the target {params.target:g}: hold")
    limit = limited(state, inputs, params)
    if limit is not None:
        return limit
    return _recover(state, z, share, inputs, params) or _track(state, error, share * params.gain_up, params)


def _recover(state: ControllerState, z: float, share: float, inputs: Inputs, params: ControllerParams) -> Move | None:
    """4. Far below the target: double per loop delay; after congestion only up to the comfortable rate."""
    most = math.inf if state.comfortable is None else state.comfortable
    if z >= params.comfort_share * params.target or state.rate >= most:
        return None
    start = params.start_share * bounds(inputs)[1]
    rate = min(most, max(state.rate * 2**share, start if state.rate <= 0 else 0.0))
    what = "slow start" if state.comfortable is None else "recovery"
    why = f"pressure {z:.2f} is far below the target {params.target:g}: {what}"
    return Move(rate, Rule.SLOW_START, why, rate + displaced(state))


def _track(state: ControllerState, error: float, gain: float, params: ControllerParams) -> Move:
    """5. Multiply the budget by exp(gain * error): an integral controller on its logarithm; gains per loop delay."""
    factor = min(params.step_most, max(params.step_least, math.exp(gain * error)))
    budget = state.budget * factor
    why = f"pressure {params.target - error:.2f}, target {params.target:g}: budget x{factor:.3f}"
    return Move(budget - displaced(state), Rule.TRACK, why, budget)
