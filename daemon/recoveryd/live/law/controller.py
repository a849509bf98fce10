"""The throttle controller: one budget per domain, raised slowly while live traffic is well, cut hard when it is not,
decayed when too little is known.

`step` is pure: the daemon and the simulator run this same function. The budget is changed by factors, so the law holds
for any capacity, and gains are per loop delay, so it holds for any delay. The rules by number, in the order in which
they are tried:

    8 protect     nothing is to be protected: the ceiling, in steps where that is so for now; our rate does not move the
    pressure: stay at the floor
    1 stale       a protected signal is old or was never seen: decay to the floor; lost for five minutes: pause
    9 foreign     the SLO is reached, but maybe not because of us: raise nothing for a while, or take a cut back
    3 guard       the SLO is reached in samples taken since the last cut: cut by how far it is exceeded
    2 gate        no sample since the last cut, or none since the last step: hold; none of a safe rate that a recovery
    began with: raise nothing
    6 no wind-up  the lanes do not use what they have: do not raise, and take back what stood unused for minutes
    4 slow start far below the target, or room as other rates show: grow exponentially; beyond a safe rate, slowly at
    first 5 track integrate the distance to the target 7 publish lanes are told of large enough changes, and of every
    cut at once

`rules` chooses the move by rules 1 to 6, with 9 from `cause`; rule 8 without anything to protect is chosen there too.
`unused` has what lanes use, `publishing` rule 7 and the rest of 8, `episodes` how work begins and ends, `learning` what
is remembered; `assessment` adds the readings; `recoveryd.live.budget_shares` divides the budget among recoveries.
"""

from recoveryd.kernel.replacing import replaced
from recoveryd.live.law.assessment import (
    Assessment,
    assess,
    fold_readings,
    may_rise,
    measured_delay_ms,
    with_baselines,
)
from recoveryd.live.law.cause import is_accused, open_doubt, relieved
from recoveryd.live.law.episodes import begin, go_on, rest, used_ms
from recoveryd.live.law.learning import tried_now, with_learned
from recoveryd.live.law.moves import Move, bounds, displaced
from recoveryd.live.law.noise import with_counted, with_work
from recoveryd.live.law.pressed import pressed_on
from recoveryd.live.law.publishing import published
from recoveryd.live.law.rules import choose
from recoveryd.live.law.types import (
    ControlDecision,
    ControllerParams,
    ControllerState,
    Inputs,
    Law,
    Rule,
)
from recoveryd.live.law.unused import with_use, without_unused

_FLOOR_SHARE = 0.001


def step(
    state: ControllerState, inputs: Inputs, now_ms: int, params: ControllerParams
) -> tuple[ControllerState, ControlDecision]:
    """The next state and the decision at `now_ms`. Never raises; the rate never leaves [floor, ceiling], except for 0
    with a pause.
    """
    slos = {p.name: p.slo_s for p in params.protections}
    memory = state.memory.protecting(slos, some_left_out=params.some_left_out)
    known = state = state if memory is state.memory else replaced(state, memory=memory)
    state, news = fold_readings(state, inputs, now_ms, params)
    if not inputs.active:
        return rest(known, state, news, now_ms, params)
    if not state.active:
        state = begin(with_work(state, inputs.work), inputs, news, now_ms, params)
    elif inputs.work is not state.work:
        known = state = go_on(state, inputs, news, now_ms, params)
    elif news and state.floor_since_ms is not None:
        # Only at the floor, and only with samples too new to show an earlier, higher rate: otherwise our own load would
        # become the baseline.
        state = with_baselines(state, news, state.floor_since_ms + params.loop_delay_ms, params, is_refresh=True)
    if state.used_ms is None:
        state = replaced(state, used_ms=used_ms(state, inputs, now_ms))
    state = with_use(state, inputs, measured_delay_ms(state, params), now_ms, params)
    state = with_counted(known, state, params)
    seen = assess(state, news, now_ms, params)
    if state.is_unseen and may_rise(seen, params) and seen.room > params.dead_band:
        state = begin(state, inputs, news, now_ms, params)
    before = state.rate
    state = _with_live_load(state, inputs, seen, params)
    move = choose(state, seen, inputs, now_ms, params)
    move = without_unused(state, move, inputs, seen.delay_ms, now_ms, params)
    floor, ceiling = bounds(inputs)
    # Without a floor a decaying rate would never end, so below a thousandth of the ceiling it is set to the floor.
    wanted = move.rate if move.rate >= _FLOOR_SHARE * ceiling else floor
    rate = 0.0 if move.pause else min(ceiling, max(floor, wanted))
    if not may_rise(seen, params) or open_doubt(state, seen, now_ms) is not None:
        rate = min(rate, max(before, floor))
    untold = _telling_of_before(state, seen)
    if untold and rate > max(before, floor):
        rate = max(before, floor)
        move = _held_until_told(state, move, rate, untold)
    state = with_learned(state, move, seen, tried_now(state, inputs, now_ms, params), now_ms, params)
    state = _moved(state, move, rate, seen, inputs, now_ms, params)
    return published(state, move, seen, inputs, now_ms, params)


def _telling_of_before(state: ControllerState, seen: Assessment) -> tuple[str, ...]:
    """The signals that have no sample yet of this kind of work, or that were stale and have none from since the rate
    decayed. Older ones of others tell of a higher rate than this, which shows no less.
    """
    untold_ms = -1 if state.untold_ms is None else state.untold_ms
    newest = {p.name: state.tracks[p.name].newest_ms or 0 for p in seen.pressures}
    return tuple(n for n, at_ms in newest.items() if at_ms <= max(untold_ms, state.decayed.get(n, -1)))


def _held_until_told(state: ControllerState, move: Move, rate: float, untold: tuple[str, ...]) -> Move:
    """2. The move without its raise, of the budget too: else what is held back would add up, and come in one step. What
    live traffic gives back meanwhile is no raise.
    """
    why = f"waits for samples of {', '.join(untold[:3])} that tell of the present rate and work"
    budget = None if move.budget is None else min(state.budget, move.budget)
    return move._replace(rate=rate, budget=budget, rule=Rule.GATE, why=why, is_probe=False)


def _with_live_load(
    state: ControllerState, inputs: Inputs, seen: Assessment, params: ControllerParams
) -> ControllerState:
    """Feed-forward: a change of live traffic changes our rate at once. When its ingress becomes known or unknown, the
    budget changes and the rate stays. Less of it gives nothing away while something speaks against the replay: it may
    be less because it suffers.
    """
    load = seen.live_bytes_per_s
    if load is None or params.effective_law is not Law.BUDGET:
        return replaced(state, budget=state.rate, displaced=None)
    taken = params.displacement * load
    if state.displaced is None:
        return replaced(state, budget=state.rate + taken, displaced=taken)
    floor, ceiling = bounds(inputs)
    rate = min(ceiling, max(floor, state.budget - taken))
    is_blind = bool(seen.stale or seen.lost or seen.unseen)
    if rate > state.rate and (is_blind or is_accused(state, seen)):
        return replaced(state, budget=state.rate + taken, displaced=taken)
    return replaced(state, rate=rate, displaced=taken)


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
    since_ms = state.floor_since_ms if state.floor_since_ms is not None else now_ms
    budget = state.budget if move.budget is None else move.budget
    return replaced(
        state,
        rate=rate,
        budget=min(budget, ceiling + displaced(state)),
        stepped_ms=now_ms,
        informed_ms=now_ms if seen.news or seen.gated else state.informed_ms,
        guarded_ms=now_ms if move.cut and move.rule is Rule.GUARD else state.guarded_ms,
        leapt_ms=None if move.cut else state.leapt_ms,
        comfortable=state.comfortable if move.comfortable is None else move.comfortable,
        probing_ms=_probing_ms(state, move, rate, now_ms),
        causes=relieved(state.causes if move.causes is None else move.causes, seen, now_ms),
        is_stale=bool(seen.stale or seen.lost),
        decayed={**state.decayed, **dict.fromkeys(seen.stale + seen.lost, now_ms + params.cut_latency_ms)},
        is_unseen=bool(seen.unseen) or (state.is_unseen and not may_rise(seen, params)),
        floor=floor,
        floor_since_ms=since_ms if at_floor else None,
        pressed=pressed_on(state.pressed, seen, now_ms) if at_floor else None,
    )


def _probing_ms(state: ControllerState, move: Move, rate: float, now_ms: int) -> int | None:
    """Since when the rate goes beyond the comfortable one and live traffic shows what that does. A step without
    samples, or with single ones that raise nothing, changes nothing about it; where the rate fell, or could not rise or
    was not used, nothing was shown.
    """
    if move.is_probe and rate > state.rate:
        return now_ms if state.probing_ms is None else state.probing_ms
    is_kept = move.rule in {Rule.GATE, Rule.FOREIGN, Rule.TRACK} and rate >= state.rate
    return state.probing_ms if is_kept else None
