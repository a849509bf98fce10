"""Whether what live traffic shows at other rates leaves room for a step more. Where it shows as much at lower rates,
our rate does not move it, however far it is from rest: a machine on which a replay runs at all shows more than one at
rest. Where the rate moves it, the present rate and a lower one tell together how far it is up to the target.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from recoveryd.live.law.assessment import Assessment
from recoveryd.live.law.moves import granted_least, is_below_safe
from recoveryd.live.law.noise import AT_REST, STEPS, shares_at, step_of
from recoveryd.live.law.types import ControllerParams, ControllerState, Counted
from recoveryd.live.pressure import REST_LEAST, Pressure, SignalKind, baseline_s, latency_strain, target_share

MOVED = 0.15  # of strain: so much more is shown where the rate moves it
APART = 3  # steps of rate (`noise.STEPS`) by which another one differs at least: 1.4 to 1.7 times
FAR_APART = 5  # steps from which on few samples tell where a line through both rates goes: 2 to 2.8 times
AHEAD = 3  # steps of higher rates that may have shown harm: up to 1.7 to 2 times
FIRST_ROOM = 0.2  # of strain, which is enough where a first recovery has seen no other rate yet
LEVEL_STEP = 0.5  # of the rate, per loop delay: the largest step
STEP_LEAST = 0.1  # a smaller one is left to rule 5
OF_WAY = 0.5  # to the target, in one step: a few samples tell of a strain roughly
SAMPLES = 3  # of this rate, and of each other one


def step_with_room(state: ControllerState, seen: Assessment, now_ms: int, params: ControllerParams) -> float:
    """The largest step, as a part of the rate and per loop delay, that every signal leaves room for by what it shows at
    other rates: at most `LEVEL_STEP`, and 0 where it would be below `STEP_LEAST`.
    """
    near = (p for p in seen.pressures if not p.is_far)
    step = min((_step_of_signal(state, p, now_ms, params) for p in near), default=LEVEL_STEP)
    return step if step >= STEP_LEAST else 0.0


def _step_of_signal(state: ControllerState, signal: Pressure, now_ms: int, params: ControllerParams) -> float:
    rest_s = baseline_s(state.baselines.get(signal.name, ()), signal.slo_s)
    counted = state.counted.get(signal.name, {})
    here = _here(state, counted, now_ms)
    # A lag adds up: what it is now tells nothing of what this rate makes of it.
    if signal.kind is SignalKind.LAG or signal.level_room <= params.dead_band or rest_s is None or here is None:
        return 0.0
    rest = max(REST_LEAST, rest_s / signal.slo_s)
    most = target_share(params.target, rest)
    aim = latency_strain(most, rest)
    usual = max(latency_strain(here, rest), aim - signal.level_room)
    ahead = _ahead(state, counted, now_ms)
    if ahead is not None:
        return LEVEL_STEP if usual - latency_strain(ahead, rest) <= MOVED else 0.0
    if _was_harmed_above(state, counted, now_ms, most):
        return 0.0
    lower = {step: latency_strain(share, rest) for step, share in _lower(state, counted, now_ms).items()}
    if not lower and _is_first(state, counted):
        return LEVEL_STEP if signal.level_room > FIRST_ROOM else 0.0
    if lower and usual - min(lower.values()) <= MOVED:
        found = _step_up_to(aim, usual, state, lower)
        return found if found == LEVEL_STEP or not is_below_safe(state) else 0.0  # the way back is gone in large steps
    telling = {step: strain for step, strain in lower.items() if _tells_of_a_line(state, counted, step, now_ms)}
    newest = max(usual, latency_strain(signal.share, rest))
    return _step_where_moved(aim - params.dead_band, newest, state, telling)


def _step_where_moved(aim: float, strain: float, state: ControllerState, telling: Mapping[int, float]) -> float:
    """By lines from rest and from the lower rates that tell of one. Rest alone is enough while no rate is known to be
    safe; none is for the way back to one.
    """
    if is_below_safe(state) or (not telling and state.comfortable is not None):
        return 0.0
    return _step_up_to(aim, strain, state, {AT_REST: 0.0, **telling})


def _tells_of_a_line(state: ControllerState, counted: Counted, step: int, now_ms: int) -> bool:
    """Whether that rate is so far away, or is known by so many samples, that chance says little of where the
    line goes.
    """
    is_far = step <= step_of(state.rate) - FAR_APART
    return is_far or len(shares_at(counted, step, now_ms)) >= 2 * SAMPLES


def _step_up_to(aim: float, strain: float, state: ControllerState, lower: Mapping[int, float]) -> float:
    """Half of the way from `strain` to `aim`, as a part of the rate: by lines through the strain at this rate and those
    at lower ones, since strain grows evenly with the rate. By the steepest; at most `LEVEL_STEP`. Samples may tell of
    the lowest rate that was granted within the last loop delay, so the way begins there.
    """
    told_of = min(granted_least(state), state.rate)
    if strain >= aim or told_of <= 0:
        return 0.0
    steepest = max((strain - there) / _way(told_of, step) for step, there in lower.items())
    if steepest <= 0:
        return LEVEL_STEP
    return min(LEVEL_STEP, told_of * (1 + OF_WAY * (aim - strain) / steepest) / state.rate - 1)


def _way(rate: float, step: int) -> float:
    """From the rates of that step to this one at least, as a part of this one; a little where they are the same."""
    return 1.0 if step == AT_REST else max(0.1, 1 - 2 ** ((step + 1) / STEPS) / rate)


def _was_harmed_above(state: ControllerState, counted: Counted, now_ms: int, most: float) -> bool:
    """Whether a rate that is a little higher was at the target of late, or at the SLO in the end: before the cut that
    ends it, it may have shown much that was good.
    """
    here = step_of(state.rate)
    above = (shares_at(counted, step, now_ms) for step in range(here + 1, here + AHEAD + 1))
    return any(shares and (median(shares) >= most or _second(shares[-SAMPLES:]) >= 1) for shares in above)


def _second(shares: Sequence[float]) -> float:
    """The second highest; of one nothing."""
    return sorted(shares)[-2] if len(shares) > 1 else 0.0


def _is_first(state: ControllerState, counted: Counted) -> bool:
    """Whether it was neither cut nor at a much lower rate, as where the first recovery begins."""
    return state.comfortable is None and step_of(state.rate) - APART < min(
        (step for step in counted if step > AT_REST), default=AT_REST
    )


def _here(state: ControllerState, counted: Counted, now_ms: int) -> float | None:
    """The usual share of its SLO at this rate, by the samples of the last minutes; where they are too few, because it
    has just grown, with those of the rate before, unless they are lower.
    """
    here = step_of(state.rate)
    shares = [share for step in (here - 1, here) for share in shares_at(counted, step, now_ms)]
    if len(shares) >= SAMPLES:
        return median(shares)
    more = [*shares, *shares_at(counted, here - APART + 1, now_ms)]
    return max(median(more), median(shares or more)) if len(more) >= SAMPLES else None


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
