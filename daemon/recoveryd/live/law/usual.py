"""Whether live traffic shows at the present rate what it shows at other rates too. Where it does, our rate does not move
it, however far it is from rest: a machine on which a replay runs at all shows more than one at rest. Where the rate moves
it, what it would be one step of the rate on follows from both, and may still be well below the target.
"""

from statistics import median

from recoveryd.live.law.assessment import Assessment
from recoveryd.live.law.noise import AT_REST, STEPS, shares_at, step_of
from recoveryd.live.law.types import ControllerParams, ControllerState, Counted
from recoveryd.live.pressure import REST_LEAST, Pressure, SignalKind, baseline_s, latency_strain, target_share

MOVED = 0.15  # of strain: so much more is shown where the rate moves it
APART = 3  # steps of rate (`noise.STEPS`) by which another one differs at least: 1.4 to 1.7 times
FIRST_ROOM = 0.2  # of strain, which is enough where a first recovery has seen no other rate yet
LEVEL_STEP = 0.5  # of the rate, per loop delay at most
SAMPLES = 3  # of this rate, and of each other one


def is_as_elsewhere(state: ControllerState, seen: Assessment, now_ms: int, params: ControllerParams) -> bool:
    """Whether every signal is far below its target, or has room and is no higher than at other rates."""
    return all(_is_signal_as_elsewhere(state, p, now_ms, params) for p in seen.pressures)


def _is_signal_as_elsewhere(state: ControllerState, signal: Pressure, now_ms: int, params: ControllerParams) -> bool:
    if signal.is_far or signal.level_room <= params.dead_band or signal.kind is SignalKind.LAG:
        return signal.is_far  # a lag adds up: what it is now tells nothing of what this rate makes of it
    rest_s = baseline_s(state.baselines.get(signal.name, ()), signal.slo_s)
    counted = state.counted.get(signal.name, {})
    here = _here(state, counted, now_ms)
    if rest_s is None or here is None:
        return False
    rest = max(REST_LEAST, rest_s / signal.slo_s)
    aim = latency_strain(target_share(params.target, rest), rest)
    strain = max(latency_strain(here, rest), aim - signal.level_room)
    ahead, lower = _ahead(state, counted, now_ms), _lower(state, counted, now_ms)
    if ahead is not None:
        return strain - latency_strain(ahead, rest) <= MOVED
    if not lower and _is_first(state, counted):
        return signal.level_room > FIRST_ROOM
    step, share = min(lower.items(), key=lambda known: known[1], default=(AT_REST, rest))
    moved = strain - latency_strain(share, rest)
    if lower and moved <= MOVED:
        return True
    return not _is_below_safe(state) and moved * _next_step(state, step) < aim - strain - params.dead_band


def _is_below_safe(state: ControllerState) -> bool:
    """Whether it is on the way back to a rate that was safe, which is not gone in small steps."""
    return state.comfortable is not None and state.rate < state.comfortable


def _next_step(state: ControllerState, step: int) -> float:
    """How far the rate may grow in a loop delay, as a multiple of the way from the rate of that step to the present one.
    Strain grows evenly with the rate, so by so much it grows too.
    """
    lower = 0.0 if step == AT_REST else 2.0 ** ((step - step_of(state.rate)) / STEPS)
    return LEVEL_STEP / (1 - lower)


def _is_first(state: ControllerState, counted: Counted) -> bool:
    """Whether it was neither cut nor at a much lower rate, as where the first recovery begins."""
    return state.comfortable is None and step_of(state.rate) - APART < min(
        (step for step in counted if step > AT_REST), default=AT_REST
    )


def _here(state: ControllerState, counted: Counted, now_ms: int) -> float | None:
    """The usual share of its SLO at this rate, by the samples of the last minutes; while it grows so quickly that hardly any
    tell of it, also by those of the rate just before.
    """
    here = step_of(state.rate)
    shares = [share for step in (here - 1, here) for share in shares_at(counted, step, now_ms)]
    if len(shares) < SAMPLES:
        shares += shares_at(counted, here - APART + 1, now_ms)
    return median(shares) if len(shares) >= SAMPLES else None


def _ahead(state: ControllerState, counted: Counted, now_ms: int) -> float | None:
    """The usual share at higher rates, on the way back to one that was safe."""
    here, safe = step_of(state.rate), step_of(state.comfortable or 0.0)
    ahead = [share for step in counted if here < step <= safe for share in shares_at(counted, step, now_ms)]
    return median(ahead) if len(ahead) >= SAMPLES else None


def _lower(state: ControllerState, counted: Counted, now_ms: int) -> dict[int, float]:
    """The usual share at rates well below, by step."""
    steps = [step for step in counted if AT_REST < step <= step_of(state.rate) - APART]
    lower = {step: shares_at(counted, step, now_ms) for step in steps}
    return {step: median(shares) for step, shares in lower.items() if len(shares) >= SAMPLES}
