"""What the laws of the controller share: the `Move` that a rule makes, the bounds it keeps, and the rule against
wind-up.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from recoveryd.live.law.types import ControllerParams, ControllerState, Inputs, RiseCause, Rule
from recoveryd.live.pressure import Pressure, SignalKind


class Move(NamedTuple):
    """What a rule does. `budget` None = the budget stays. `cut`: samples taken before it do not count any more.
    `comfortable`: the new comfortable rate, None = as before.
    """

    rate: float
    rule: Rule
    why: str
    budget: float | None = None
    cut: bool = False
    comfortable: float | None = None
    pause: bool = False
    causes: Mapping[str, RiseCause] | None = None  # None = as before
    is_probe: bool = False  # it goes beyond the comfortable rate, while the pressure is far below the target


def bounds(inputs: Inputs) -> tuple[float, float]:
    """(floor, ceiling). A ceiling below the floor wins; without a known ceiling only the floor is allowed."""
    floor = finite_or(inputs.floor_bytes_per_s, 0.0)
    ceiling = max(0.0, finite_or(inputs.ceiling_bytes_per_s, floor))
    return min(ceiling, max(0.0, floor)), ceiling


def begin_rate(state: ControllerState, inputs: Inputs, now_ms: int, params: ControllerParams) -> float:
    """The first rate, while samples say nothing about it yet: low, and never above what was safe in this hour."""
    floor, ceiling = bounds(inputs)
    safe = state.memory.safe_at(now_ms, state.work)
    return max(floor, min(params.start_share * ceiling, math.inf if safe is None else safe))


def finite_or(value: float | None, otherwise: float) -> float:
    return value if value is not None and math.isfinite(value) else otherwise


def displaced(state: ControllerState) -> float:
    """The part of the budget that live traffic takes now, as far as it is known."""
    return state.displaced or 0.0


def elapsed_ms(since_ms: int | None, now_ms: int) -> int:
    """Time since then; 0 if that is None or in the future."""
    return max(0, now_ms - since_ms) if since_ms is not None else 0


def watches_latency(params: ControllerParams) -> bool:
    """Whether produce latency is among the protected signals."""
    return any(p.kind is SignalKind.LATENCY for p in params.protections)


def at_floor(state: ControllerState, worst: Pressure) -> Move:
    """There is pressure, but the rate is at the floor. This is no cut, so all samples go on counting and relief is seen
    at once.
    """
    return Move(state.rate, Rule.GUARD, f"{told(worst)}; the rate is at the floor")


def shown_rate(state: ControllerState, name: str) -> float:
    """The rate that the newest sample of this signal tells of: where it decayed since then, the highest one that was
    granted from when the sample was taken on.
    """
    taken_ms = state.tracks[name].newest_ms or 0
    if taken_ms > max(state.decayed.values(), default=-1):
        return state.rate
    ends_ms = (*(at_ms for at_ms, _ in state.publications[1:]), math.inf)
    granted = (rate for (_, rate), end_ms in zip(state.publications, ends_ms, strict=True) if end_ms > taken_ms)
    return max(state.rate, *granted)


def cut_to(state: ControllerState, rate: float, worst: Pressure, comfortable: float | None) -> Move:
    """A cut, or where the rate decayed to less than that already, none. The budget follows the rate down, never up, so
    that what live traffic displaced during a burst is not given back twice.
    """
    why = f"{told(worst)}: cut to {rate / state.rate if state.rate > 0 else 0.0:.0%}"
    if rate >= state.rate:
        rate, why = state.rate, f"{told(worst)} in a sample from before the rate decayed: holds"
    return Move(rate, Rule.GUARD, why, min(state.budget, rate + displaced(state)), True, comfortable)


def told(worst: Pressure) -> str:
    """How near to its SLO the signal is; of a growing lag also where it is going."""
    ahead = ", and grows over it" if worst.kind is SignalKind.LAG and worst.share < 1 <= worst.strain else ""
    return f"{worst.name} is at {worst.share:.2f} of its SLO{ahead}"


def is_below_safe(state: ControllerState) -> bool:
    """Whether it is on the way back to a rate that was safe."""
    return state.comfortable is not None and state.rate < state.comfortable


def granted_least(state: ControllerState, since_ms: int | None = None) -> float:
    """The lowest rate granted within the last loop delay, or since a time within it."""
    granted = state.publications
    if since_ms is not None:
        first = sum(1 for at_ms, _ in granted[1:] if at_ms <= since_ms)
        granted = granted[first:]
    return min([rate for _, rate in granted] or [state.published])


def has_just_leapt(state: ControllerState, within_ms: int, now_ms: int) -> bool:
    """Whether the recovery began at a rate that was safe before, and lanes have used it for less time than that. It is
    our largest raise, from nothing at all, though none of the rates granted shows it.
    """
    if state.leapt_ms is None:
        return False
    return state.used_ms is None or 0 <= now_ms - max(state.leapt_ms, state.used_ms) < within_ms


def untold_begin(state: ControllerState, delay_ms: int, now_ms: int, params: ControllerParams) -> Move | None:
    """2. It began at a rate that was safe before, and samples tell only of rest yet: no raise. The loop delay runs from
    when a rate is told; here lanes use it, so what they needed to follow is over.
    """
    is_there = state.comfortable is not None and state.rate >= state.comfortable
    if not is_there or not has_just_leapt(state, delay_ms - params.raise_latency_ms, now_ms):
        return None
    return Move(state.rate, Rule.GATE, "it began at a rate that was safe before: waits for samples of that")


def limited(state: ControllerState, inputs: Inputs, params: ControllerParams) -> Move | None:
    """6. Do not raise a rate that the lanes do not use. Compared with the lowest rate granted within the last loop
    delay, since lanes need a slice to follow; while some are silent, with all that is granted, which the others have to
    use.
    """
    achieved = inputs.achieved_bytes_per_s
    if achieved is None or not math.isfinite(achieved):
        return Move(state.rate, Rule.NO_WINDUP, "the achieved rate is not known")
    granted = granted_least(state) if inputs.all_heard else state.published
    if achieved >= params.achieved_least * granted:
        return None
    limit = "something else limits them" if inputs.all_heard else "some were not heard just now"
    why = f"the lanes use {achieved / 1e6:.2f} of {granted / 1e6:.2f} MB/s: {limit}"
    return Move(state.rate, Rule.NO_WINDUP, why)
