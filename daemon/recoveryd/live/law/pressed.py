"""Since when live traffic is over its SLO with replays at their floor, and whether that gets less. What gets less may
well be ours: it only takes its time, as a group that reads off what came up.
"""

from recoveryd.live.law.assessment import Assessment, is_over
from recoveryd.live.law.cause import SAME
from recoveryd.live.law.types import Pressed, PressedSignal
from recoveryd.live.pressure import Pressure, SignalKind

_LESS = 0.99  # of the least so far; noise alone shows a new least more and more seldom


def pressed_on(known: Pressed | None, seen: Assessment, now_ms: int) -> Pressed | None:
    """After a step at the floor; None = nothing is over its SLO. Those that take turns add up, since live traffic was
    pressed all the time; but one that has just come over its SLO undoes no fall of those that were.
    """
    over = [pressure for pressure in seen.pressures if is_over(pressure)]
    if not over:
        return None
    before = {} if known is None else known.signals
    begun_ms = max((signal.since_ms for signal in before.values()), default=now_ms)
    return Pressed({p.name: _signal(before.get(p.name), p, begun_ms, now_ms) for p in over})


def _signal(known: PressedSignal | None, pressure: Pressure, begun_ms: int, now_ms: int) -> PressedSignal:
    share = pressure.share
    if known is None:
        return PressedSignal(begun_ms, share, now_ms if pressure.kind is SignalKind.LAG else begun_ms, share)
    if share < SAME[0] * known.share:
        return PressedSignal(now_ms, share, now_ms, share)
    if pressure.kind is not SignalKind.LAG:  # answers within a loop delay, and is too noisy for less
        return known
    known = known._replace(share=max(share, known.share))  # one that grew first is measured from its top
    return known._replace(least_ms=now_ms, least=share) if share < _LESS * known.least else known
