"""Whether live traffic shows at the present rate what it shows at other rates too. Where it does, our rate does not move
it, however far it is from rest: a machine on which a replay runs at all shows more than one at rest.
"""

from statistics import median

from recoveryd.live.law.assessment import Assessment
from recoveryd.live.law.noise import AT_REST, shares_at, step_of
from recoveryd.live.law.types import ControllerParams, ControllerState, Counted
from recoveryd.live.pressure import REST_LEAST, Pressure, SignalKind, baseline_s, latency_strain

MOVED = 0.15  # of strain: so much more is shown where the rate moves it
APART = 3  # steps of rate (`noise.STEPS`) by which another one differs at least: 1.4 to 1.7 times
FIRST_ROOM = 0.2  # of strain, which is enough where a first recovery has seen no other rate yet
SAMPLES = 3  # of this rate, and of each other one


def is_as_elsewhere(state: ControllerState, seen: Assessment, now_ms: int, params: ControllerParams) -> bool:
    """Whether every signal is far below its target, or has room and is no higher than at other rates."""
    return all(_is_signal_as_elsewhere(state, p, now_ms, params) for p in seen.pressures)


def _is_signal_as_elsewhere(state: ControllerState, signal: Pressure, now_ms: int, params: ControllerParams) -> bool:
    if signal.is_far or signal.level_room <= params.dead_band or signal.kind is SignalKind.LAG:
        return signal.is_far  # a lag adds up: what it is now tells nothing of what this rate makes of it
    rest_s = baseline_s(state.baselines.get(signal.name, ()), signal.slo_s)
    counted = state.counted.get(signal.name, {})
    here, there = _here(state, counted, now_ms), _elsewhere(state, counted, now_ms)
    if rest_s is None or here is None:
        return False
    if there is None:
        return _is_first(state, counted) and signal.level_room > FIRST_ROOM
    rest = max(REST_LEAST, rest_s / signal.slo_s)
    return latency_strain(max(here, signal.share), rest) - latency_strain(there, rest) <= MOVED


def _is_first(state: ControllerState, counted: Counted) -> bool:
    """Whether it was neither cut nor at a much lower rate, as where the first recovery begins."""
    return state.comfortable is None and step_of(state.rate) - APART < min(
        (step for step in counted if step > AT_REST), default=AT_REST
    )


def _here(state: ControllerState, counted: Counted, now_ms: int) -> float | None:
    """The usual share of its SLO at this rate, by the samples of the last minutes."""
    here = step_of(state.rate)
    shares = [share for step in (here - 1, here) for share in shares_at(counted, step, now_ms)]
    return median(shares) if len(shares) >= SAMPLES else None


def _elsewhere(state: ControllerState, counted: Counted, now_ms: int) -> float | None:
    """The usual share at other rates: on the way back to one that was safe, at those up to it, else the least of those
    well below.
    """
    here, safe = step_of(state.rate), step_of(state.comfortable or 0.0)
    ahead = [share for step in counted if here < step <= safe for share in shares_at(counted, step, now_ms)]
    if len(ahead) >= SAMPLES:
        return median(ahead)
    lower = [shares_at(counted, step, now_ms) for step in counted if AT_REST < step <= here - APART]
    return min((median(shares) for shares in lower if len(shares) >= SAMPLES), default=None)
