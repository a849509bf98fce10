"""AIMD (additive increase, multiplicative decrease): the simple alternative, and the law of deployments that measure no
produce latency.

Freshness, gate and fail-safe are those of the controller; only the sizes of cuts and raises differ. LAG_ONLY cuts at
half of the SLO, because lag shows harm late.
"""

from recoveryd.live.law.assessment import Assessment
from recoveryd.live.law.moves import (
    Move,
    at_floor,
    bounds,
    cut_to,
    displaced,
    elapsed_ms,
    limited,
    shown_rate,
    untold_begin,
)
from recoveryd.live.law.types import ControllerParams, ControllerState, Inputs, Law, Rule


def halve(state: ControllerState, seen: Assessment, floor: float, params: ControllerParams) -> Move | None:
    """3. Over the threshold: multiply the rate by `additive_cut`."""
    if params.effective_law is Law.LAG_ONLY:
        over = [p for p in seen.pressures if p.share >= params.additive_threshold]
    else:
        over = [p for p in seen.pressures if p.room <= 0]
    if not over:
        return None
    worst = max(over, key=lambda p: p.share)
    if state.rate <= floor:
        return at_floor(state, worst)
    rate = max(floor, shown_rate(state, worst.name) * params.additive_cut)
    return cut_to(state, rate, worst, rate)


def step_up(state: ControllerState, seen: Assessment, inputs: Inputs, now_ms: int, params: ControllerParams) -> Move:
    """5. One step up per period, unless the lanes do not use what they have, or samples tell nothing of that yet."""
    held = limited(state, inputs, params) or untold_begin(state, seen.delay_ms, now_ms, params)
    if held is not None:
        return held
    periods = min(2.0, elapsed_ms(state.informed_ms, now_ms) / params.period_ms)
    rate = state.rate + params.additive_share * bounds(inputs)[1] * periods
    return Move(rate, Rule.TRACK, f"pressure {seen.share or 0.0:.2f}: one step up", rate + displaced(state))
