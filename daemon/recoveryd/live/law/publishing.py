"""What is told after a step: rules 7 and 8. Which rate lanes get, and what the decision means to an operator.

The move is chosen already (`rules`); here it is only published, or held back where a change is too small.
"""

from recoveryd.kernel.replacing import replaced
from recoveryd.live.freshness import Track
from recoveryd.live.law.assessment import Assessment
from recoveryd.live.law.cause import SAME
from recoveryd.live.law.moves import Move, bounds, watches_latency
from recoveryd.live.law.types import (
    ControlDecision,
    ControllerParams,
    ControllerState,
    ControlVerdict,
    Inputs,
    Rule,
)

_PUBLICATIONS_AT_MOST = 64  # the longest loop delay at the usual period


def published(
    state: ControllerState, move: Move, seen: Assessment, inputs: Inputs, now_ms: int, params: ControllerParams
) -> tuple[ControllerState, ControlDecision]:
    """7. Lanes are told of a change of +5 % or -5 %, of every cut, and when a bound is reached. After a cut, samples
    count only from when it takes effect.
    """
    floor, ceiling = bounds(inputs)
    rate, was = state.rate, state.published
    bound = rate != was and rate in {0.0, floor, ceiling}
    publish = bound or rate >= params.raise_band * was or rate <= params.cut_band * was or (move.cut and rate < was)
    publish = publish and rate != was
    published = rate if publish else was
    told = ((now_ms, published),) if publish or not state.publications else ()
    publications = _in_force((*state.publications, *told), now_ms, seen.delay_ms)
    cut_ms = now_ms + params.cut_latency_ms if move.cut else state.cut_ms
    state = replaced(state, published=published, publications=publications, cut_ms=cut_ms)
    state, verdict = _with_verdict(state, move, seen, now_ms, params)
    if verdict is ControlVerdict.UNATTRIBUTABLE:
        move = _unattributed(state, move, seen, now_ms)
    achieved = inputs.achieved_bytes_per_s if inputs.all_heard else None
    return state, decision(state, move, verdict, publish, seen, achieved)


def _in_force(
    publications: tuple[tuple[int, float], ...], now_ms: int, window_ms: int
) -> tuple[tuple[int, float], ...]:
    """The publications that were in force at some time of the last `window_ms`, bounded."""
    first = 0
    while first + 1 < len(publications) and now_ms - publications[first + 1][0] >= window_ms:
        first += 1
    return publications[first:][-_PUBLICATIONS_AT_MOST:]


def _with_verdict(
    state: ControllerState, move: Move, seen: Assessment, now_ms: int, params: ControllerParams
) -> tuple[ControllerState, ControlVerdict]:
    """8. At the floor for three loop delays, still pressed and no less: the replay is not the cause. Signals configured
    for it then stop counting until they are well again, or much worse than they were at the floor; so long the verdict
    stays, whichever rule sets the rate.
    """
    left_out = {n: was_s for n, was_s in state.dropped.items() if not _counts_again(state, n, was_s, params)}
    state = state if len(left_out) == len(state.dropped) else replaced(state, dropped=left_out)
    if move.pause:
        return state, ControlVerdict.PAUSED
    if seen.unseen or seen.stale:
        return state, ControlVerdict.BLIND
    may_drop = {p.name for p in params.protections if p.drop_when_unattributable} & _unmoved(state, seen, now_ms)
    shown_s = {p.name: p.value_s for p in seen.pressures if p.name in may_drop}
    state = replaced(state, dropped={**state.dropped, **shown_s}) if shown_s else state
    if state.dropped or _is_pressed_for_long(state, seen, now_ms):
        return state, ControlVerdict.UNATTRIBUTABLE
    is_protected = watches_latency(params) or not (params.protections or params.all_left_out)
    return state, ControlVerdict.PROTECTED if is_protected else ControlVerdict.LATENCY_UNPROTECTED


def _unattributed(state: ControllerState, move: Move, seen: Assessment, now_ms: int) -> Move:
    """The move, with why the verdict is what it is. It is that of rule 8 only while the rate is at the floor for it."""
    if _is_pressed_for_long(state, seen, now_ms):
        why = f"{move.why}; the replay is at its floor and the pressure stays: not caused by it"
        return move._replace(why=why, rule=Rule.PROTECT)
    names = ", ".join(sorted(state.dropped)[:3])
    return move._replace(why=f"{move.why}; {names} does not count: it stayed as bad with replays at their floor")


def _is_pressed_for_long(state: ControllerState, seen: Assessment, now_ms: int) -> bool:
    """By everything that is over its SLO: where some of it gets less, the floor is what it needs."""
    return state.pressed is not None and _unmoved(state, seen, now_ms) == state.pressed.signals.keys()


def _unmoved(state: ControllerState, seen: Assessment, now_ms: int) -> frozenset[str]:
    return frozenset() if state.pressed is None else state.pressed.unmoved(now_ms, 3 * seen.delay_ms)


def _counts_again(state: ControllerState, name: str, was_s: float, params: ControllerParams) -> bool:
    slo_s = next((p.slo_s for p in params.protections if p.name == name), 0.0)
    values = state.tracks.get(name, Track()).values
    return bool(values) and not slo_s / 2 <= values[-1] <= SAME[1] * was_s


def decision(
    state: ControllerState,
    move: Move,
    verdict: ControlVerdict,
    publish: bool,
    seen: Assessment,
    achieved: float | None,
) -> ControlDecision:
    why = move.why
    if verdict is ControlVerdict.LATENCY_UNPROTECTED:
        why = f"{why} (produce latency is not measured, so it is not protected)"
    return ControlDecision(
        rate_bytes_per_s=state.published,
        publish=publish,
        pause=move.pause,
        rule=move.rule,
        verdict=verdict,
        why=why,
        pressure=seen.share,
        pressures=seen.pressures,
        budget_bytes_per_s=state.budget,
        wanted_bytes_per_s=state.rate,
        ingress_bytes_per_s=seen.live_bytes_per_s,
        achieved_bytes_per_s=achieved,
        loop_delay_ms=seen.delay_ms,
        oldest_age_ms=seen.oldest_age_ms,
    )
