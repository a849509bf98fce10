"""How fast the live head will move by hour: the higher of the present rate and that of the same hour in history."""

import math
from collections.abc import Sequence

_HOUR_S = 3_600.0
_CYCLES_MOST = 60


def live_profile(
    now_rate: float, hourly: Sequence[float], hour: int, left_in_hour_s: float
) -> tuple[tuple[float, float], ...]:
    """(seconds, rate) from now over one cycle of history. `hourly`: the rates of the hours of a day (or week); `hour`:
    the index of the present one.
    """
    if not hourly:
        return ((_HOUR_S, now_rate),)
    ahead = [max(now_rate, hourly[(hour + i) % len(hourly)]) for i in range(len(hourly))]
    first = min(_HOUR_S, max(0.0, left_in_hour_s))
    return ((first, ahead[0]), *((_HOUR_S, rate) for rate in ahead[1:]), (_HOUR_S - first, ahead[0]))


def catch_up_s(backlog: float, replay: float, profile: Sequence[tuple[float, float]]) -> float:
    """Seconds until a replay at rate `replay` reaches a head that moves by `profile`, repeated; infinite when a whole
    cycle gains nothing.
    """
    if backlog <= 0:
        return 0.0
    cycle_s = math.fsum(seconds for seconds, _ in profile)
    gain = math.fsum(seconds * (replay - rate) for seconds, rate in profile)
    passed_s, left = 0.0, backlog
    for cycle in range(_CYCLES_MOST):
        for seconds, rate in profile:
            step = (replay - rate) * seconds
            if step >= left:
                return passed_s + left / (replay - rate)
            left -= step
            passed_s += seconds
        if gain <= 0:
            return math.inf
        if cycle == 0 and left > 2 * gain:
            whole = math.floor(left / gain) - 1  # skip cycles that cannot be the last
            passed_s, left = passed_s + whole * cycle_s, left - whole * gain
    return passed_s + left / gain * cycle_s
