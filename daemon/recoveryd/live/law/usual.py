"""Whether live traffic shows at the present rate what it shows at other rates too. Where it does, our rate does not move
it, however far it is from rest: a machine on which a replay runs at all shows more than one at rest.
"""

import math
from statistics import median

from recoveryd.live.law.assessment import Assessment
from recoveryd.live.law.noise import AT_REST, step_of
from recoveryd.live.law.types import ControllerParams, ControllerState, Counted
from recoveryd.live.pressure import REST_LEAST, Pressure, SignalKind, baseline_s, latency_strain

MOVED = 0.15  # of strain: so much more is shown where the rate moves it
APART = 3  # steps of rate (`noise.STEPS`) by which another one differs at least: 1.4 to 1.7 times
HERE, OTHERS = 3, 4  # samples at least
NEWEST = 6  # samples of each of the present steps


def is_as_elsewhere(state: ControllerState, seen: Assessment, params: ControllerParams) -> bool:
    """Whether every signal has room, and is no higher than at other rates if it is not far below its target."""
    return all(_is_signal_as_elsewhere(state, p, params) for p in seen.pressures)


def _is_signal_as_elsewhere(state: ControllerState, signal: Pressure, params: ControllerParams) -> bool:
    if signal.is_far:
        return True
    if signal.level_room <= params.dead_band:
        return False
    if signal.kind is SignalKind.LAG:
        return True  # it adds up: what it has left is all there is to know
    slo_s = next((p.slo_s for p in params.protections if p.name == signal.name), math.inf)
    rest_s = baseline_s(state.baselines.get(signal.name, ()), slo_s)
    shares = _here_and_elsewhere(state, signal.name)
    if rest_s is None or shares is None:
        return False
    here, elsewhere = (latency_strain(share, max(REST_LEAST, rest_s / slo_s)) for share in shares)
    return here - elsewhere <= MOVED


def _here_and_elsewhere(state: ControllerState, name: str) -> tuple[float, float] | None:
    """The share of its SLO that a signal usually used at this rate, and at others: those well below this one, and all up
    to one that was safe. None until there are samples of both.
    """
    here, safe = step_of(state.rate), step_of(state.comfortable or 0.0)
    most = max(here - APART, safe if safe >= here + APART else AT_REST)
    counted: dict[int, Counted] = dict(state.counted.get(name, {}))
    now = [share for at in (here - 1, here) if at in counted for share in counted.pop(at).last[-NEWEST:]]
    others = [share for at, known in counted.items() if AT_REST < at <= most for share in known.last]
    if len(now) < HERE or len(others) < OTHERS:
        return None
    return median(now), median(others)
