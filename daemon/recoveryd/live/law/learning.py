"""What a step teaches: rates that were used while every signal had room were safe, and one that led to a cut was not.

What is remembered, and for how long, is in `memory`.
"""

import math

from recoveryd.kernel.replacing import replaced
from recoveryd.live.freshness import Track
from recoveryd.live.law.assessment import Assessment, assess, may_rise
from recoveryd.live.law.cause import open_doubt
from recoveryd.live.law.memory import Memory, Tried
from recoveryd.live.law.moves import Move, bounds, granted_least
from recoveryd.live.law.types import (
    SAFE_SHARE,
    ControllerParams,
    ControllerState,
    Inputs,
    Rule,
)

_TRIED_AT_MOST = 128  # the longest loop delay at the usual period, and a rest of as long after it


def with_learned(
    state: ControllerState, move: Move, seen: Assessment, more: tuple[Tried, ...], now_ms: int, params: ControllerParams
) -> ControllerState:
    """A rate that was used, and for a loop delay after that every signal had room, was safe, whatever runs by then; one
    that led to a cut was not.
    """
    if move.cut and move.comfortable is not None and move.rule is Rule.GUARD:
        return replaced(state, memory=_with_harm(state, move.comfortable, seen, now_ms), tried=())
    is_raising = may_rise(seen, params)
    if seen.gated:  # samples that are too old to raise a rate by tell of the rates before
        seen = assess(replaced(state, cut_ms=None), seen.newest, now_ms, params)
    is_pressed = seen.room < -params.dead_band or seen.is_over or open_doubt(state, seen, now_ms) is not None
    if is_pressed or _is_blind(state, seen, params):
        return replaced(state, tried=()) if state.tried else state
    tried = (*state.tried, *more)[-_TRIED_AT_MOST:]
    if not is_raising:
        return replaced(state, tried=tried)
    old = seen_of(tuple(one for one in tried if now_ms - one.at_ms >= seen.delay_ms), state, params)
    left = tuple(one for one in tried if one not in old)
    return replaced(state, memory=state.memory.with_tried(old), tried=left)


def _is_blind(state: ControllerState, seen: Assessment, params: ControllerParams) -> bool:
    """Whether nobody sees what a rate does to something that is listed. What is not looked at for now counts again
    later, and then what was safe without it says nothing.
    """
    is_partial = params.some_left_out or not params.protections or bool(state.dropped)
    return is_partial or bool(seen.unseen or seen.lost or seen.stale)


def _with_harm(state: ControllerState, safe: float, seen: Assessment, now_ms: int) -> Memory:
    """Within a loop delay after the kind of work has changed, harm may be that of either kind: a lag grows for a while
    before it is at its SLO.
    """
    memory = state.memory.with_most(safe, now_ms, state.work)
    left = state.left
    if left is None or not 0 <= now_ms - left.at_ms < seen.delay_ms:
        return memory
    return memory.with_most(min(safe, SAFE_SHARE * left.rate), now_ms, left.work)


def seen_of(tried: tuple[Tried, ...], state: ControllerState, params: ControllerParams) -> tuple[Tried, ...]:
    """Those since which a sample of every signal was taken. Once their work has ended no later sample tells of them."""
    newest = [state.tracks.get(p.name, Track()).newest_ms for p in params.protections if p.name not in state.dropped]
    oldest_ms = min((-1 if at_ms is None else at_ms for at_ms in newest), default=-1)
    return tuple(one for one in tried if one.at_ms <= oldest_ms)


def tried_now(state: ControllerState, inputs: Inputs, now_ms: int, params: ControllerParams) -> tuple[Tried, ...]:
    """The rate that lanes have had for long enough to follow it, as far as they use it; none at the floor."""
    achieved, since_ms = inputs.achieved_bytes_per_s, now_ms - params.raise_latency_ms - params.period_ms
    is_other_work = state.work_ms is not None and state.work_ms > since_ms
    if is_other_work or achieved is None or not math.isfinite(achieved):
        return ()
    used = min(granted_least(state, since_ms), achieved / params.achieved_least)
    return (Tried(now_ms, used, state.work),) if used > bounds(inputs)[0] else ()
