"""What lanes used of late, beside what they were granted. A rate that stands unused says nothing of itself: no sample
tells what it would do, and a cut of it changes nothing. So it goes back after some minutes, a cut is one of what is
used, and whoever begins to use what had stood unused raises the rate as much as we do by a raise.

Only what is known counts: while some lanes are silent nothing is added here, and after a while all is forgotten. What a
lane uses counts with what the others have to be granted for it, since all get parts of one rate.
"""

import math

from recoveryd.kernel.replacing import replaced
from recoveryd.live.law.moves import Move, begin_rate, displaced, granted_least
from recoveryd.live.law.types import ControllerParams, ControllerState, Inputs, Rule, Use

UNUSED_MS = 120_000  # so long a rate has to stand unused, or so many loop delays: a chunk that ends is no reason
UNUSED_DELAYS = 5
SPARE = 1.5  # times the most that was used: what is granted beyond stands unused
ROOM = 1.4  # times that, which is left; from 1.25 on rule 6 raises nothing, so it stays there
FOLLOWS = 1.15  # so much more than a loop delay ago: a rise now is ours
BOUND = 1.1  # times a rate: who used so much before the cut to it uses less since
_PARTS = 12  # of that time, at most


def with_use(
    state: ControllerState, inputs: Inputs, delay_ms: int, now_ms: int, params: ControllerParams
) -> ControllerState:
    """The state with what is used now, if that is known; begun anew where it was not for too long, and while lanes
    start.
    """
    part_ms = max(delay_ms, _window_ms(delay_ms) // _PARTS)
    uses = state.uses
    if uses and not 0 <= now_ms - uses[-1].at_ms < 2 * part_ms:
        uses = ()
    achieved = inputs.achieved_bytes_per_s
    if state.used_ms is None or achieved is None or not math.isfinite(achieved) or not inputs.all_heard:
        return state if uses is state.uses else replaced(state, uses=uses)
    achieved = max(achieved, min(inputs.needed_bytes_per_s, state.published))
    if uses and now_ms - uses[-1].at_ms < part_ms:
        last = uses[-1]
        uses = (*uses[:-1], Use(last.at_ms, max(last.most, achieved), min(last.granted, state.published)))
    else:
        uses = (*uses, Use(now_ms, achieved, state.published))
    while len(uses) > 1 and now_ms - uses[1].at_ms >= _window_ms(delay_ms):
        uses = uses[1:]
    before = max((use.most for use in uses[:-1]), default=math.inf)
    granted = granted_least(state)
    stood_unused = before < params.achieved_least * granted and achieved >= before + (FOLLOWS - 1) * granted
    return replaced(state, uses=uses, woken_ms=now_ms if stood_unused else state.woken_ms)


def has_woken(state: ControllerState, within_ms: int, now_ms: int) -> bool:
    """Whether lanes have just begun to use what had stood unused."""
    return state.woken_ms is not None and 0 <= now_ms - state.woken_ms < within_ms


def loosely_used(state: ControllerState, params: ControllerParams) -> float | None:
    """The most that was used within the last loop delay or two, where that is less than rule 6 asks for; None where
    lanes use what they have, or it is not known.
    """
    used = max((use.most for use in state.uses[-2:]), default=math.inf)
    return used if used < params.achieved_least * granted_least(state) else None


def as_used(state: ControllerState, inputs: Inputs, now_ms: int, params: ControllerParams) -> ControllerState:
    """The state with no more of its rate than was used in the last minutes, or than a recovery begins with: what a cut
    has to begin from, to be one.
    """
    used = max((use.most for use in state.uses), default=math.inf)
    if used >= params.achieved_least * granted_least(state):
        return state
    return replaced(state, rate=min(state.rate, max(used, begin_rate(state, inputs, now_ms, params))))


def without_unused(
    state: ControllerState, move: Move, inputs: Inputs, delay_ms: int, now_ms: int, params: ControllerParams
) -> Move:
    """6. The move with a little more than was used at most, where a rate has stood unused for minutes; and with what a
    recovery begins with at least.
    """
    is_controlled = bool(params.protections) or params.all_left_out
    uses = state.uses
    if not is_controlled or not uses or now_ms - uses[0].at_ms < _window_ms(delay_ms):
        return move
    used = max(use.most for use in uses)
    if min(use.granted for use in uses) <= SPARE * used:
        return move
    rate = max(ROOM * used, begin_rate(state, inputs, now_ms, params))
    if move.rate <= rate:
        return move
    budget = min(state.budget, rate + displaced(state))
    if move.cut or move.rule is Rule.STALE:
        return move._replace(rate=rate, budget=budget)
    why = f"the lanes used {used / 1e6:.2f} of {state.published / 1e6:.2f} MB/s at most for minutes: the rest goes back"
    return move._replace(rate=rate, budget=budget, rule=Rule.NO_WINDUP, why=why, is_probe=False)


def _window_ms(delay_ms: int) -> int:
    return max(UNUSED_MS, UNUSED_DELAYS * delay_ms)
