"""The throttle controller: one budget per domain, raised slowly while live traffic is well, cut hard when it is not,
decayed when too little is known.

`step` is pure: the daemon and the simulator run this same function. The budget is changed by factors, so the law holds
for any capacity, and gains are per loop delay, so it holds for any delay. The rules by number, in the order in which
they are tried:

    8 protect     nothing is to be protected: the ceiling; our rate does not move the pressure: stay at the floor
    1 stale       a protected signal is old or was never seen: decay to the floor; lost for five minutes: pause
    9 foreign     the SLO is reached, but maybe not because of us: raise nothing for a while, or take a cut back
    3 guard       the SLO is reached in samples taken since the last cut: cut by how far it is exceeded
    2 gate        no sample since the last cut, or none since the last step: hold
    6 no wind-up  the lanes do not use what they have: do not raise
    4 slow start  far below the target, or room as other rates show: grow exponentially; beyond a safe rate, slowly at first
    5 track       integrate the distance to the target
    7 publish     lanes are told of large enough changes, and of every cut at once

`rules` chooses the move; `assessment` adds the readings; `recoveryd.live.budget_shares` divides the budget among
recoveries.
"""

import math
from dataclasses import replace

from recoveryd.live.freshness import Track
from recoveryd.live.law.assessment import Assessment, assess, fold_readings, is_over, with_baselines
from recoveryd.live.law.cause import is_accused, is_doubtful, open_doubt, relieved, without_trials
from recoveryd.live.law.memory import Tried, WorkKind
from recoveryd.live.law.moves import Move, begin_rate, bounds, displaced, finite_or, granted_least, watches_latency
from recoveryd.live.law.noise import with_counted, with_work
from recoveryd.live.law.rules import choose
from recoveryd.live.law.types import (
    ControlDecision,
    ControllerParams,
    ControllerState,
    ControlVerdict,
    Inputs,
    Law,
    Rule,
)

_PUBLICATIONS_AT_MOST = 64  # the longest loop delay at the usual period
_TRIED_AT_MOST = 128  # and a rest of as long after it
_FLOOR_SHARE = 0.001
_USED_SHARE = 0.05
_START_MS = 60_000  # so long the start of lanes may take


def step(
    state: ControllerState, inputs: Inputs, now_ms: int, params: ControllerParams
) -> tuple[ControllerState, ControlDecision]:
    """The next state and the decision at `now_ms`. Never raises; the rate never leaves [floor, ceiling], except for 0
    with a pause.
    """
    known = state
    state, news = fold_readings(state, inputs, now_ms, params)
    if not inputs.active:
        return _rest(known, state, news, now_ms, params)
    if not state.active:
        state = _begin(with_work(state, inputs.work), inputs, news, now_ms, params)
    elif inputs.work is not state.work:
        known = state = _go_on(state, inputs, news, now_ms, params)
    elif news and state.floor_since_ms is not None:
        # Only at the floor, and only with samples too new to show an earlier, higher rate: otherwise our own load would
        # become the baseline.
        state = with_baselines(state, news, state.floor_since_ms + params.loop_delay_ms, params, is_refresh=True)
    if state.used_ms is None:
        state = replace(state, used_ms=_used_ms(state, inputs, now_ms))
    state = with_counted(known, state, params)
    seen = assess(state, news, now_ms, params)
    if state.is_unseen and _may_rise(seen, params) and seen.room > params.dead_band:
        state = _begin(state, inputs, news, now_ms, params)
    before = state.rate
    state = _with_live_load(state, inputs, seen, params)
    move = choose(state, seen, inputs, now_ms, params)
    floor, ceiling = bounds(inputs)
    # Without a floor a decaying rate would never end, so below a thousandth of the ceiling it is set to the floor.
    wanted = move.rate if move.rate >= _FLOOR_SHARE * ceiling else floor
    rate = 0.0 if move.pause else min(ceiling, max(floor, wanted))
    if not _may_rise(seen, params) or open_doubt(state, seen, now_ms) is not None or _tells_of_before(state, seen):
        rate = min(rate, max(before, floor))
    state = _with_learned(state, move, seen, _tried_now(state, inputs, now_ms, params), now_ms, params)
    state = _moved(state, move, rate, seen, inputs, now_ms, params)
    return _published(state, move, seen, inputs, now_ms, params)


def _rest(
    known: ControllerState, state: ControllerState, news: frozenset[str], now_ms: int, params: ControllerParams
) -> tuple[ControllerState, ControlDecision]:
    """No recovery wants to copy: what is measured now becomes the baseline of the next one."""
    # Samples from before the end of the last replay show its load, and are not used.
    since_ms = now_ms + params.cut_latency_ms if state.active else state.cut_ms
    kept = ControllerState(
        work=state.work,
        put_by=state.put_by,
        tracks=state.tracks,
        ingress=state.ingress,
        ingress_since_ms=state.ingress_since_ms,
        baselines=state.baselines,
        counted=state.counted,
        rejections=state.rejections,
        alarmed=state.alarmed,
        memory=state.memory,
        tried=_seen_of(state.tried, state, params) if state.active else state.tried,
        stepped_ms=now_ms,
        informed_ms=now_ms,
        cut_ms=since_ms,
    )
    kept = with_baselines(kept, news, -1 if since_ms is None else since_ms, params)
    kept = with_counted(known, kept, params)
    seen = assess(kept, news, now_ms, params)
    told = Move(0.0, Rule.PROTECT, "no recovery wants to copy")
    kept = _with_learned(kept, told, seen, (), now_ms, params)
    return kept, _decision(kept, told, ControlVerdict.IDLE, state.published > 0, seen, None)


def _begin(
    state: ControllerState, inputs: Inputs, news: frozenset[str], now_ms: int, params: ControllerParams
) -> ControllerState:
    """The first recovery of the domain starts low, and where this hour was safe if that is less, or if fresh samples
    show that live traffic is well; with all samples known so far.
    """
    ceiling = bounds(inputs)[1]
    rate, safe = begin_rate(state, inputs, now_ms, params), state.memory.safe_at(now_ms, state.work)
    used_ms, begun_ms = (state.used_ms, state.begun_ms) if state.active else (None, now_ms)
    state = replace(state, active=True, displaced=None, stepped_ms=now_ms, informed_ms=now_ms, cut_ms=None)
    if safe is not None:
        safe = min(ceiling, safe)
        seen = assess(state, news, now_ms, params)
        if safe > rate and _may_rise(seen, params) and seen.room > params.dead_band:
            rate = safe
    return replace(state, rate=rate, budget=rate, comfortable=safe, begun_ms=begun_ms, used_ms=used_ms)


def _go_on(
    before: ControllerState, inputs: Inputs, news: frozenset[str], now_ms: int, params: ControllerParams
) -> ControllerState:
    """Another kind of work begins where the last one ended, as `_rate_of_other_work` says. Later, samples from before tell
    nothing of it; but what they say against the replay is still answered, and so that this can be said, kinds that
    change to and fro do not each time begin anew.
    """
    seen = assess(before, news, now_ms, params)
    is_well = _may_rise(seen, params) and not is_doubtful(before, seen, now_ms)
    state = with_work(before, inputs.work)
    rate = min(bounds(inputs)[1], _rate_of_other_work(before, state, inputs, seen if is_well else None, now_ms, params))
    is_answered = not is_accused(state, seen)
    is_new = state.work_ms is None or not 0 <= now_ms - state.work_ms < seen.delay_ms
    return replace(
        state,
        rate=rate,
        budget=rate + displaced(state),
        comfortable=_comfortable_with_other_work(before, state, now_ms),
        work_ms=now_ms,
        cut_ms=now_ms + params.cut_latency_ms if is_answered and is_new else state.cut_ms,
        guarded_ms=None if state.work is WorkKind.READ else state.guarded_ms,
        probing_ms=None,
        tried=_seen_of(before.tried, before, params),
        causes=without_trials(state.causes) if is_answered else state.causes,
    )


def _comfortable_with_other_work(before: ControllerState, state: ControllerState, now_ms: int) -> float | None:
    """What is remembered; where records were brought all along, what was comfortable until now if that is less."""
    safe = state.memory.safe_at(now_ms, state.work)
    if before.comfortable is None or WorkKind.READ in {before.work, state.work}:
        return safe
    return before.comfortable if safe is None else min(before.comfortable, safe)


def _rate_of_other_work(
    before: ControllerState,
    state: ControllerState,
    inputs: Inputs,
    well: Assessment | None,
    now_ms: int,
    params: ControllerParams,
) -> float:
    """Where records are only read from now on and live traffic is well, what was safe for that. Where records are brought
    from now on, or nothing else is done any more, no more than was safe for it and no more than copies begin with
    while live traffic is not known to be well; but what they had all along stays theirs. `well`: None = it is not.
    """
    rate, safe = before.rate, state.memory.safe_at(now_ms, state.work)
    if state.work is WorkKind.READ:
        has_room = well is not None and well.level_room > params.dead_band
        return max(rate, safe) if has_room and safe is not None else rate
    if before.work is WorkKind.WRITE:
        return rate  # others that only read come beside it, and share this
    least = begin_rate(state, inputs, now_ms, params)
    if safe is not None and well is not None and well.room > params.dead_band:
        least = max(least, safe)
    if before.work is WorkKind.MIXED:  # what only read has ended: these bytes are those of copies
        least = max(least, finite_or(inputs.achieved_bytes_per_s, 0.0) / params.achieved_least)
    return min(rate, least)


def _used_ms(state: ControllerState, inputs: Inputs, now_ms: int) -> int | None:
    """Since when lanes copy, or could have begun to long ago; None while they start."""
    if (inputs.achieved_bytes_per_s or 0.0) >= _USED_SHARE * state.rate > 0:
        return now_ms
    is_late = state.begun_ms is not None and not 0 <= now_ms - state.begun_ms < _START_MS
    return state.begun_ms if is_late else None


def _tells_of_before(state: ControllerState, seen: Assessment) -> bool:
    """Whether a signal has no sample yet from since the kind of work changed, or the rate decayed."""
    since_ms = max((at_ms for at_ms in (state.work_ms, state.decayed_ms) if at_ms is not None), default=None)
    newest = (state.tracks[p.name].newest_ms for p in seen.pressures)
    return since_ms is not None and any(at_ms is None or at_ms <= since_ms for at_ms in newest)


def _may_rise(seen: Assessment, params: ControllerParams) -> bool:
    """Only when there are new samples, and every protected signal is fresh and measured since the last cut."""
    if not params.protections:
        return True
    return seen.news and not (seen.unseen or seen.lost or seen.stale or seen.gated)


def _with_live_load(
    state: ControllerState, inputs: Inputs, seen: Assessment, params: ControllerParams
) -> ControllerState:
    """Feed-forward: a change of live traffic changes our rate at once. When its ingress becomes known or unknown, the
    budget changes and the rate stays. Less of it gives nothing away while something speaks against the replay: it may be
    less because it suffers.
    """
    load = seen.live_bytes_per_s
    if load is None or params.effective_law is not Law.BUDGET:
        return replace(state, budget=state.rate, displaced=None)
    taken = params.displacement * load
    if state.displaced is None:
        return replace(state, budget=state.rate + taken, displaced=taken)
    floor, ceiling = bounds(inputs)
    rate = min(ceiling, max(floor, state.budget - taken))
    is_blind = bool(seen.stale or seen.lost or seen.unseen)
    if rate > state.rate and (is_blind or is_accused(state, seen)):
        return replace(state, budget=state.rate + taken, displaced=taken)
    return replace(state, rate=rate, displaced=taken)


def _moved(
    state: ControllerState,
    move: Move,
    rate: float,
    seen: Assessment,
    inputs: Inputs,
    now_ms: int,
    params: ControllerParams,
) -> ControllerState:
    """The state after the move; the budget never grows beyond what the ceiling can use."""
    floor, ceiling = bounds(inputs)
    at_floor = rate <= floor * 1.001
    pressed = at_floor and seen.is_over
    since_ms = state.floor_since_ms if state.floor_since_ms is not None else now_ms
    budget = state.budget if move.budget is None else move.budget
    return replace(
        state,
        rate=rate,
        budget=min(budget, ceiling + displaced(state)),
        stepped_ms=now_ms,
        informed_ms=now_ms if seen.news or seen.gated else state.informed_ms,
        guarded_ms=now_ms if move.cut and move.rule is Rule.GUARD else state.guarded_ms,
        comfortable=state.comfortable if move.comfortable is None else move.comfortable,
        probing_ms=_probing_ms(state, move, rate, now_ms),
        causes=relieved(state.causes if move.causes is None else move.causes, seen, now_ms),
        is_stale=bool(seen.stale or seen.lost),
        decayed_ms=now_ms + params.cut_latency_ms if seen.stale or seen.lost else state.decayed_ms,
        is_unseen=bool(seen.unseen) or (state.is_unseen and not _may_rise(seen, params)),
        floor=floor,
        floor_since_ms=since_ms if at_floor else None,
        pressed_since_ms=(state.pressed_since_ms or now_ms) if pressed else None,
    )


def _probing_ms(state: ControllerState, move: Move, rate: float, now_ms: int) -> int | None:
    """Since when the rate goes beyond the comfortable one and live traffic shows what that does. A step without samples,
    or with single ones that raise nothing, changes nothing about it; where the rate fell, or could not rise or was not
    used, nothing was shown.
    """
    if move.is_probe and rate > state.rate:
        return now_ms if state.probing_ms is None else state.probing_ms
    is_kept = move.rule in {Rule.GATE, Rule.FOREIGN, Rule.TRACK} and rate >= state.rate
    return state.probing_ms if is_kept else None


def _with_learned(
    state: ControllerState, move: Move, seen: Assessment, more: tuple[Tried, ...], now_ms: int, params: ControllerParams
) -> ControllerState:
    """A rate that was used, and for a loop delay after that every signal had room, was safe, whatever runs by then; one
    that led to a cut was not.
    """
    if move.cut and move.comfortable is not None and move.rule is Rule.GUARD:
        return replace(state, memory=state.memory.with_most(move.comfortable, now_ms, state.work), tried=())
    may_rise = _may_rise(seen, params)
    if seen.gated:  # samples that are too old to raise a rate by tell of the rates before
        seen = assess(replace(state, cut_ms=None), seen.newest, now_ms, params)
    is_blind = bool(seen.unseen or seen.lost or seen.stale) or not params.protections
    if is_blind or seen.room < -params.dead_band or seen.is_over or open_doubt(state, seen, now_ms) is not None:
        return replace(state, tried=()) if state.tried else state
    tried = (*state.tried, *more)[-_TRIED_AT_MOST:]
    if not may_rise:
        return replace(state, tried=tried)
    old = _seen_of(tuple(one for one in tried if now_ms - one.at_ms >= seen.delay_ms), state, params)
    left = tuple(one for one in tried if one not in old)
    return replace(state, memory=state.memory.with_tried(old, now_ms), tried=left)


def _seen_of(tried: tuple[Tried, ...], state: ControllerState, params: ControllerParams) -> tuple[Tried, ...]:
    """Those since which a sample of every signal was taken. Once their work has ended no later sample tells of them."""
    newest = [state.tracks.get(p.name, Track()).newest_ms for p in params.protections if p.name not in state.dropped]
    oldest_ms = min((-1 if at_ms is None else at_ms for at_ms in newest), default=-1)
    return tuple(one for one in tried if one.at_ms <= oldest_ms)


def _tried_now(state: ControllerState, inputs: Inputs, now_ms: int, params: ControllerParams) -> tuple[Tried, ...]:
    """The rate that lanes have had for long enough to follow it, as far as they use it; none at the floor."""
    achieved, since_ms = inputs.achieved_bytes_per_s, now_ms - params.raise_latency_ms - params.period_ms
    is_other_work = state.work_ms is not None and state.work_ms > since_ms
    if is_other_work or achieved is None or not math.isfinite(achieved):
        return ()
    used = min(granted_least(state, since_ms), achieved / params.achieved_least)
    return (Tried(now_ms, used, state.work),) if used > bounds(inputs)[0] else ()


def _published(
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
    state = replace(state, published=published, publications=publications, cut_ms=cut_ms)
    state, verdict = _with_verdict(state, move, seen, now_ms, params)
    return state, _decision(state, move, verdict, publish, seen, inputs.achieved_bytes_per_s)


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
    """8. At the floor for three loop delays and still pressed: the replay is not the cause. Signals configured for it
    then stop counting until they are well again.
    """
    recovered = {n for n in state.dropped if _is_well(state, n, params)}
    state = replace(state, dropped=state.dropped - recovered) if recovered else state
    if move.pause:
        return state, ControlVerdict.PAUSED
    if seen.unseen or seen.stale:
        return state, ControlVerdict.BLIND
    pressed_ms = 0 if state.pressed_since_ms is None else now_ms - state.pressed_since_ms
    if pressed_ms >= 3 * seen.delay_ms:
        may_drop = {p.name for p in params.protections if p.drop_when_unattributable}
        pressing = {p.name for p in seen.pressures if is_over(p)}
        return replace(state, dropped=state.dropped | (pressing & may_drop)), ControlVerdict.UNATTRIBUTABLE
    if state.dropped:
        return state, ControlVerdict.UNATTRIBUTABLE
    is_protected = watches_latency(params) or not params.protections
    return state, ControlVerdict.PROTECTED if is_protected else ControlVerdict.LATENCY_UNPROTECTED


def _is_well(state: ControllerState, name: str, params: ControllerParams) -> bool:
    slo_s = next((p.slo_s for p in params.protections if p.name == name), 0.0)
    track = state.tracks.get(name)
    return bool(track and track.values and track.values[-1] < slo_s / 2)


def _decision(
    state: ControllerState,
    move: Move,
    verdict: ControlVerdict,
    publish: bool,
    seen: Assessment,
    achieved: float | None,
) -> ControlDecision:
    why = move.why
    if verdict is ControlVerdict.UNATTRIBUTABLE:
        why = f"{why}; the replay is at its floor and the pressure stays: not caused by it"
    elif verdict is ControlVerdict.LATENCY_UNPROTECTED:
        why = f"{why} (produce latency is not measured, so it is not protected)"
    return ControlDecision(
        rate_bytes_per_s=state.published,
        publish=publish,
        pause=move.pause,
        rule=Rule.PROTECT if verdict is ControlVerdict.UNATTRIBUTABLE else move.rule,
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
