"""How the work of recoveries begins, changes and ends in a domain: at which rate the first one starts, what another
kind of work begins with, and what is kept while nobody copies.

Steps in between are in `controller`.
"""

from dataclasses import replace

from recoveryd.live.law.assessment import Assessment, assess, is_hardly_used, is_informed, may_rise, with_baselines
from recoveryd.live.law.cause import is_accused, is_doubtful, without_trials
from recoveryd.live.law.learning import seen_of, with_learned
from recoveryd.live.law.memory import Tried, WorkKind
from recoveryd.live.law.moves import Move, begin_rate, bounds, displaced, finite_or
from recoveryd.live.law.noise import with_counted, with_work
from recoveryd.live.law.publishing import decision
from recoveryd.live.law.types import (
    ControlDecision,
    ControllerParams,
    ControllerState,
    ControlVerdict,
    Inputs,
    Rule,
)

_USED_SHARE = 0.05
_AS_MUCH_WORK = 2.0  # bytes that are only read, for each byte that was copied
_TOLD_SHARE = 0.25  # of its rate that a copy has to have used, or samples say too little
_START_MS = 60_000  # so long the start of lanes may take


def rest(
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
        tried=seen_of(state.tried, state, params) if state.active else state.tried,
        stepped_ms=now_ms,
        informed_ms=now_ms,
        cut_ms=since_ms,
    )
    kept = with_baselines(kept, news, -1 if since_ms is None else since_ms, params)
    kept = with_counted(known, kept, params)
    seen = assess(kept, news, now_ms, params)
    told = Move(0.0, Rule.PROTECT, "no recovery wants to copy")
    kept = with_learned(kept, told, seen, (), now_ms, params)
    return kept, decision(kept, told, ControlVerdict.IDLE, state.published > 0, seen, None)


def begin(
    state: ControllerState, inputs: Inputs, news: frozenset[str], now_ms: int, params: ControllerParams
) -> ControllerState:
    """The first recovery of the domain starts low, and where this hour was safe if that is less, or if fresh samples
    show that live traffic is well; with all samples known so far.
    """
    ceiling = bounds(inputs)[1]
    rate, safe = begin_rate(state, inputs, now_ms, params), state.memory.safe_at(now_ms, state.work)
    used_ms, begun_ms = (state.used_ms, state.begun_ms) if state.active else (None, now_ms)
    leapt_ms = None
    state = replace(state, active=True, displaced=None, stepped_ms=now_ms, informed_ms=now_ms, cut_ms=None)
    if safe is not None:
        safe = min(ceiling, safe)
        seen = assess(state, news, now_ms, params)
        if safe > rate and is_informed(seen) and seen.room > params.dead_band:
            rate, leapt_ms = safe, now_ms
    return replace(
        state, rate=rate, budget=rate, comfortable=safe, begun_ms=begun_ms, used_ms=used_ms, leapt_ms=leapt_ms
    )


def go_on(
    before: ControllerState, inputs: Inputs, news: frozenset[str], now_ms: int, params: ControllerParams
) -> ControllerState:
    """Another kind of work begins where the last one ended, as `_rate_of_other_work` says. Later, samples from before
    tell nothing of it; but what they say against the replay is still answered, and so that this can be said, kinds that
    change to and fro do not each time begin anew. Where a proof follows its copy and next to nothing of any SLO is
    used, samples from before say enough, if they are of lanes that used their rate: it grows on from as much work.
    """
    seen = assess(before, news, now_ms, params)
    is_well = may_rise(seen, params) and not is_doubtful(before, seen, now_ms)
    state = with_work(before, inputs.work)
    is_answered = not is_accused(state, seen)
    is_new = state.work_ms is None or not 0 <= now_ms - state.work_ms < seen.delay_ms
    is_less = (before.work, state.work) == (WorkKind.WRITE, WorkKind.READ)
    used = max((one.rate for one in before.tried if now_ms - one.at_ms < seen.delay_ms), default=0.0)
    is_told = is_less and is_well and is_answered and is_hardly_used(seen, params) and used >= _TOLD_SHARE * before.rate
    if is_told:
        before = replace(before, rate=min(before.rate, _AS_MUCH_WORK * used))
    rate = min(bounds(inputs)[1], _rate_of_other_work(before, state, inputs, seen if is_well else None, now_ms, params))
    return replace(
        state,
        rate=rate,
        budget=rate + displaced(state),
        comfortable=_comfortable_with_other_work(before, state, now_ms),
        work_ms=now_ms,
        left=None if is_told else Tried(now_ms, before.rate, before.work),
        untold_ms=state.untold_ms if is_told else now_ms,
        cut_ms=now_ms + params.cut_latency_ms if is_answered and is_new and not is_told else state.cut_ms,
        guarded_ms=None if state.work is WorkKind.READ else state.guarded_ms,
        probing_ms=None,
        uses=(),
        tried=seen_of(before.tried, before, params),
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
    """Where records are only read from now on and live traffic is well, what was safe for that. Where records are
    brought from now on, or nothing else is done any more, no more than was safe for it and no more than copies begin
    with while live traffic is not known to be well; but what they had all along stays theirs. `well`: None = it is not.
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


def used_ms(state: ControllerState, inputs: Inputs, now_ms: int) -> int | None:
    """Since when lanes copy, or could have begun to long ago; None while they start."""
    if (inputs.achieved_bytes_per_s or 0.0) >= _USED_SHARE * state.rate > 0:
        return now_ms
    is_late = state.begun_ms is not None and not 0 <= now_ms - state.begun_ms < _START_MS
    return state.begun_ms if is_late else None
