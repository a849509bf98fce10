"""Rules 1 to 6 of the controller, each a small function from what is known to a `Move`; `choose` tries them in order of
severity. Rules 7 and 8 are in `publishing`, after the move; rule 9 is in `cause`.

Rates in bytes/s. The bounds [floor, ceiling] are kept by `controller`, all memory by `learning`; nothing here remembers
anything.
"""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from recoveryd.live.law.additive import halve, step_up
from recoveryd.live.law.assessment import Assessment, is_hardly_used, is_over
from recoveryd.live.law.cause import (
    FOREIGN_MS,
    RiseDoubt,
    after_cut,
    after_doubts,
    follows,
    in_doubt,
    is_doubtful,
    is_noisy,
    is_ours_of_late,
    may_be_doubted,
    open_doubt,
    tried_at,
    under_suspicion,
)
from recoveryd.live.law.moves import (
    Move,
    at_floor,
    begin_rate,
    bounds,
    cut_to,
    displaced,
    elapsed_ms,
    granted_least,
    is_below_safe,
    limited,
    shown_rate,
    told,
    untold_begin,
)
from recoveryd.live.law.types import SAFE_SHARE, ControllerParams, ControllerState, Inputs, Law, Rule
from recoveryd.live.law.unused import BOUND, as_used, loosely_used
from recoveryd.live.law.usual import step_with_room
from recoveryd.live.pressure import Pressure, SignalKind

PROBE = 0.25  # the first rise per loop delay beyond a rate that was safe at another time
PROBE_UNHARMED = 1.0  # and where next to nothing of any SLO is used, and no rate is known to have been too much
PROBE_AFTER_CUT = 0.03  # and beyond one that was safe before a cut
CALM_STEP = 0.5  # loop delays that one step back counts as at most, where only single samples are not calm
CALM_GAIN = 0.4  # of the distance of the median, for a rise where only single samples are not calm
RETURN = 4.0  # at least so many times per loop delay, on the way back to a rate that was safe


class _Ground(StrEnum):
    """Why a rate may grow exponentially."""

    FAR = "is far below the target"
    CALM = "is calm but for single samples"
    LEVEL = "leaves room for a step more by what other rates show"


class _Growth(NamedTuple):
    """Why it may grow, and how much of the rate per loop delay at most, of itself."""

    ground: _Ground
    most: float = 1.0

    def told(self, params: ControllerParams) -> str:
        return f"{self.ground} {params.target:g}" if self.ground is _Ground.FAR else self.ground


def choose(state: ControllerState, seen: Assessment, inputs: Inputs, now_ms: int, params: ControllerParams) -> Move:
    """The move of the first rule that applies."""
    floor, ceiling = bounds(inputs)
    if params.all_left_out:
        return _alone(state, seen, inputs, now_ms, params)
    if not params.protections:
        return Move(ceiling, Rule.PROTECT, "no live traffic is listed to be protected", ceiling + displaced(state))
    is_budget = params.effective_law is Law.BUDGET
    cut = (
        _guard(state, seen, inputs, now_ms, params)
        if is_budget
        else halve(as_used(state, inputs, now_ms, params), seen, floor, params)
    )
    if seen.lost or seen.unseen or seen.stale:
        return _harder(cut, _decay(state, seen, floor, now_ms, params))
    if cut is not None:
        return cut
    steer = _steer if is_budget else step_up
    return _wait(state, seen) or steer(state, seen, inputs, now_ms, params)


def _alone(state: ControllerState, seen: Assessment, inputs: Inputs, now_ms: int, params: ControllerParams) -> Move:
    """8. Nothing that is listed counts for now: on from the present rate, doubled per loop delay. A jump would be far
    too much for what counts again soon, and for all that is not listed.
    """
    why = "nothing that is listed to be protected counts now"
    ceiling = bounds(inputs)[1]
    if state.rate >= ceiling:
        return Move(ceiling, Rule.PROTECT, why, ceiling + displaced(state))
    limit = limited(state, inputs, params) if state.rate > 0 else None
    if limit is not None:
        return limit._replace(why=f"{why}; {limit.why}")
    share = min(1.0, elapsed_ms(state.stepped_ms, now_ms) / seen.delay_ms)
    rate = state.rate * 2**share if state.rate > 0 else begin_rate(state, inputs, now_ms, params)
    return Move(rate, Rule.PROTECT, f"{why}: slow start", rate + displaced(state))


def _harder(cut: Move | None, decay: Move) -> Move:
    """A cut that is deeper than the decay; else the decay, with what the other signals showed."""
    if cut is not None and cut.cut and cut.rate < decay.rate:
        return cut
    return decay if cut is None or cut.cut else decay._replace(causes=cut.causes)


def _wait(state: ControllerState, seen: Assessment) -> Move | None:
    """2. Nothing tells what the present rate does; or, where the one signal that is protected was left out (8), what a
    higher one would do.
    """
    if seen.gated:
        late = ", ".join(seen.gated[:3])
        return Move(state.rate, Rule.GATE, f"waits for samples of {late} taken since the last cut")
    if not seen.pressures:
        alone = ", ".join(sorted(state.dropped)[:3])
        why = f"{alone} is not ours to move, and nothing else tells of live traffic: holds"
        return Move(state.rate, Rule.PROTECT, why)
    return None if seen.news else Move(state.rate, Rule.GATE, "no new sample since the last step")


def _decay(state: ControllerState, seen: Assessment, floor: float, now_ms: int, params: ControllerParams) -> Move:
    """1. What is not known cannot be protected: x0.8 per period down to the floor; pause after five minutes. But
    for the pause it is no cut: samples of other signals go on counting, and what they show is that of the higher
    rate which they tell of.
    """
    if seen.lost:
        why = f"{seen.lost[0]} was last measured over {params.lost_after_ms / 60_000:.0f} min ago: pauses"
        comfortable = _remembered(state, seen, now_ms)
        return Move(0.0, Rule.STALE, why, min(state.budget, displaced(state)), state.rate > 0, comfortable, True)
    if seen.unseen:
        why = f"{seen.unseen[0]} was never measured without a replay: stays at the floor"
        return Move(floor, Rule.STALE, why, min(state.budget, floor + displaced(state)))
    periods = min(2.0, elapsed_ms(state.stepped_ms, now_ms) / params.period_ms)
    rate = max(floor, state.rate * params.stale_factor**periods)
    why = f"{seen.stale[0]} is older than {seen.timings[seen.stale[0]].fresh_ms / 1000:.0f} s: the rate decays to the floor"
    comfortable = _remembered(state, seen, now_ms)
    return Move(rate, Rule.STALE, why, min(state.budget, rate + displaced(state)), comfortable=comfortable)


def _remembered(state: ControllerState, seen: Assessment, now_ms: int) -> float | None:
    """The comfortable rate, set when signals become stale to the one that samples tell of, unless something speaks
    against that.
    """
    if state.is_stale or is_doubtful(state, seen, now_ms):
        return state.comfortable
    return max(state.comfortable or 0.0, min(state.rate, granted_least(state)))


def _guard(
    state: ControllerState, seen: Assessment, inputs: Inputs, now_ms: int, params: ControllerParams
) -> Move | None:
    """3. At the SLO: cut by how far it is exceeded, by 30 % at least. One cut per loop delay, since only samples taken
    after the last cut count. 9 comes first: whether it is us, of every signal that is over.
    """
    over = sorted((p for p in seen.pressures if is_over(p)), key=lambda p: (p.share, p.strain), reverse=True)
    if not over:
        return None
    first = begin_rate(state, inputs, now_ms, params)
    waited = {p.name: _of_start(state, seen, p, first, now_ms) for p in over}
    if all(waited.values()):
        return Move(min(state.rate, first), Rule.FOREIGN, f"{told(over[0])}, and {waited[over[0].name]}: waits")
    over = [p for p in over if not waited[p.name]]
    floor = bounds(inputs)[0]
    if state.rate <= floor:
        return _from_floor(state, seen, over, inputs, now_ms, params)
    judged = [(p, in_doubt(state, seen, p, now_ms, params)) for p in over]
    doubts = {p.name: doubt for p, doubt in judged if doubt is not None}
    ours = [p for p, doubt in judged if doubt is None]
    if not ours:
        return _hold(state, over[0], doubts, now_ms)
    worst = ours[0]
    granted, used = state.rate, loosely_used(state, params)
    state = as_used(state, inputs, now_ms, params)
    factor = min(0.7, max(0.25, 1 / max(worst.share, 1e-9)))
    since_last_ms = math.inf if state.guarded_ms is None else now_ms - state.guarded_ms
    # Else it is the harm that the last cut answered.
    is_again = since_last_ms > 2 * seen.delay_ms or follows(state, seen, now_ms)
    comfortable = _safe_before(state, seen, worst, now_ms) if is_again else state.comfortable
    rate = max(floor, shown_rate(state, worst.name) * factor)
    if used is not None and used < BOUND * rate:
        comfortable = None  # nobody used the rate, so it was not what is too much
    move = cut_to(state, rate, worst, comfortable)
    if state.rate < granted:
        move = move._replace(why=f"{move.why} of what the lanes use")
    return move._replace(causes=after_cut(state, doubts, worst, now_ms, used))


def _of_start(state: ControllerState, seen: Assessment, over: Pressure, first: float, now_ms: int) -> str | None:
    """Why what a latency shows may come from the start of lanes and not from their rate, if so: a JVM and its workers
    take the machine before anything is copied, and samples of that come in for a loop delay of the signal longer.
    `first`: the rate that a recovery begins with; what is higher may do harm of its own.
    """
    if over.kind is not SignalKind.LATENCY or over.name in state.alarmed:
        return None
    if state.used_ms is None:
        return "nothing is copied yet, so no cut would change it"
    is_new = now_ms - state.used_ms < seen.timings[over.name].delay_ms and state.rate <= first
    return "lanes have only begun to copy" if is_new else None


def _hold(state: ControllerState, worst: Pressure, doubts: Mapping[str, RiseDoubt], now_ms: int) -> Move:
    """9. Every signal at its SLO is in doubt: hold, or take a cut back, as far as all of them allow."""
    rate = min(doubt.rate for doubt in doubts.values())
    budget = rate + displaced(state) if rate != state.rate else None
    return Move(rate, Rule.FOREIGN, doubts[worst.name].why, budget, causes=after_doubts(state, doubts, now_ms))


def _from_floor(
    state: ControllerState,
    seen: Assessment,
    over: Sequence[Pressure],
    inputs: Inputs,
    now_ms: int,
    params: ControllerParams,
) -> Move:
    """Pressure at the floor is not ours. Now and then a rise is tried, to see whether it still grows with the rate;
    where it did within the hour, the floor may be too much as well, and the recovery is paused in the end.
    """
    rate = begin_rate(state, inputs, now_ms, params)
    waited = state.pressed is not None and now_ms - state.pressed.unchanged_ms >= FOREIGN_MS
    was_ours = any(is_ours_of_late(state, p, now_ms) for p in over)
    can_tell = seen.news and not seen.gated and not was_ours and all(may_be_doubted(state, p, params) for p in over)
    if not waited or not can_tell or rate <= state.rate:
        return at_floor(state, over[0])
    why = f"{told(over[0])} at the floor for long: tries whether a rise changes it"
    causes = {**state.causes, **tried_at(rate, seen, now_ms)}
    return Move(rate, Rule.FOREIGN, why, rate + displaced(state), causes=causes)


def _safe_before(state: ControllerState, seen: Assessment, worst: Pressure, now_ms: int) -> float:
    """The last rate that was safe, at a cut: what was granted before a raise that led to it, else a little less than
    now. In noise, on the way back to what was safe before, a little less than that: a cut there may say nothing about
    the rate, and a few of them would leave the floor as the only rate known to be safe.
    """
    if is_noisy(state, worst):
        return SAFE_SHARE * max(state.rate, state.comfortable or 0.0)
    shown = shown_rate(state, worst.name)
    if shown > state.rate:
        return SAFE_SHARE * shown
    safe = SAFE_SHARE * state.rate
    return min(safe, granted_least(state)) if follows(state, seen, now_ms) else safe


def _steer(state: ControllerState, seen: Assessment, inputs: Inputs, now_ms: int, params: ControllerParams) -> Move:
    """4 to 6, when every protected signal is fresh, measured since the last cut and below its SLO."""
    share = min(1.0, elapsed_ms(state.informed_ms, now_ms) / seen.delay_ms)
    pressure, growth = seen.share or 0.0, _growth(state, seen, now_ms, params)
    if seen.room < -params.dead_band and seen.level_room < -params.dead_band:
        return _track(state, pressure, seen.level_room, share * params.gain_down, params)
    error = _error(state, seen, growth, params)
    if error <= params.dead_band:
        aim = seen.strain + seen.room
        why = f"pressure {pressure:.2f}; the strain of {seen.strain:.2f} is near {aim:.2f}, that of the target: hold"
        return Move(state.rate, Rule.TRACK, why)
    limit = limited(state, inputs, params)
    if limit is not None:
        return limit
    doubted = open_doubt(state, seen, now_ms) or under_suspicion(state, seen, now_ms)
    if doubted is not None:
        why = f"pressure {pressure:.2f}; {doubted} was at its SLO just now: raises nothing"
        return Move(state.rate, Rule.FOREIGN, why)
    untold = untold_begin(state, seen.delay_ms, now_ms, params)
    if untold is not None:
        return untold
    quick = None if growth is None else _recover(state, seen, growth, share, inputs, now_ms, params)
    return quick or _track(state, pressure, error, share * params.gain_up, params)


def _error(state: ControllerState, seen: Assessment, growth: _Growth | None, params: ControllerParams) -> float:
    """How far live traffic is from its target: by the worst of a few samples, and where noise alone would hold a rate
    by their median.
    """
    error = seen.level_room if _may_return(state, seen) else seen.room
    if (seen.share or 0.0) >= params.target:
        return error
    if growth is not None and growth.ground is _Ground.LEVEL:
        return max(error, seen.level_room)
    return max(error, CALM_GAIN * seen.level_room) if seen.is_calm else error


def _growth(state: ControllerState, seen: Assessment, now_ms: int, params: ControllerParams) -> _Growth | None:
    if seen.is_far or is_hardly_used(seen, params):
        return _Growth(_Ground.FAR)
    if _may_return(state, seen):
        return _Growth(_Ground.CALM)
    step = step_with_room(state, seen, now_ms, params)
    return _Growth(_Ground.LEVEL, step) if step > 0 else None


def _may_return(state: ControllerState, seen: Assessment) -> bool:
    """Below a rate that was safe, and live traffic is calm. On a noisy machine the worst of a few samples is near the
    target even at rest, so nothing is far below that for long.
    """
    return is_below_safe(state) and seen.is_calm


def _recover(
    state: ControllerState,
    seen: Assessment,
    growth: _Growth,
    share: float,
    inputs: Inputs,
    now_ms: int,
    params: ControllerParams,
) -> Move | None:
    """4. Far below the target: double per loop delay, or a little where what other rates show leaves room.
    Back to a rate that was safe within two loop delays, and beyond it as `_probe` says.
    """
    most = math.inf if state.comfortable is None else state.comfortable
    if state.rate >= most:
        # Samples tell of a rate only once it was granted for a loop delay. The slow start does not wait for that, and
        # where nothing was ever too much it goes on.
        is_known = granted_least(state) >= params.cut_band * most or _is_unharmed(state, seen, now_ms, params)
        return _probe(state, seen, growth, share, now_ms, params) if is_known else None
    start = params.start_share * bounds(inputs)[1]
    if state.comfortable is None:
        factor, what = 1 + growth.most, "slow start"
    else:
        factor, what = max(RETURN, most / max(state.rate, 1e-9)), "back to what was safe"
        if growth.ground is not _Ground.FAR and state.publications:
            # Calm is seldom seen in noise, so what it allows is counted since the rate was told.
            share = min(CALM_STEP, elapsed_ms(state.publications[-1][0], now_ms) / seen.delay_ms)
    rate = min(most, max(state.rate * factor**share, start if state.rate <= 0 else 0.0))
    why = f"pressure {seen.share or 0.0:.2f} {growth.told(params)}: {what}"
    return Move(rate, Rule.SLOW_START, why, rate + displaced(state))


def _probe(
    state: ControllerState, seen: Assessment, growth: _Growth, share: float, now_ms: int, params: ControllerParams
) -> Move:
    """4. At the rate that was safe, and nothing has changed: as `_track`, and more with each loop delay in which it
    stays so. What was too much may be so again; a burst, or another hour, is over.
    """
    delays = elapsed_ms(state.probing_ms, now_ms) / seen.delay_ms
    first = _first_probe(state, seen, now_ms, params)
    factor = 1 + min(growth.most, first * 2 ** min(delays, 10.0))
    steady = state.budget * min(params.step_most, math.exp(share * params.gain_up * seen.room))
    budget = max(steady, state.rate * factor**share + displaced(state))
    why = f"pressure {seen.share or 0.0:.2f} {growth.told(params)}: goes on beyond what was safe before"
    return Move(budget - displaced(state), Rule.SLOW_START, why, budget, is_probe=True)


def _first_probe(state: ControllerState, seen: Assessment, now_ms: int, params: ControllerParams) -> float:
    if state.guarded_ms is not None:
        return PROBE_AFTER_CUT
    return PROBE_UNHARMED if _is_unharmed(state, seen, now_ms, params) else PROBE


def _is_unharmed(state: ControllerState, seen: Assessment, now_ms: int, params: ControllerParams) -> bool:
    """Whether next to nothing of any SLO is used, and nothing was ever too much: so the slow start goes on."""
    is_clean = state.guarded_ms is None and not state.memory.knows_harm(now_ms)
    return is_clean and is_hardly_used(seen, params)


def _track(state: ControllerState, pressure: float, error: float, gain: float, params: ControllerParams) -> Move:
    """5. Multiply the budget by exp(gain * error): an integral controller on its logarithm; gains per loop delay."""
    factor = min(params.step_most, max(params.step_least, math.exp(gain * error)))
    budget = state.budget * factor
    why = f"pressure {pressure:.2f}, target {params.target:g}: budget x{factor:.3f}"
    return Move(budget - displaced(state), Rule.TRACK, why, budget)
