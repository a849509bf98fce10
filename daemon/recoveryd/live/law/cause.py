"""Whether replays are the cause ("it is us") when the pressure of a signal rises: the rise is compared with our own
steps before and after it. Each signal is judged by itself, since what is known of one excuses no other.

A rise that follows a raise of ours is ours; so is one that is large.
Both are cut at once (`rules`). A small rise that follows nothing is doubted: the rate holds for some loop delays, and a
second such sample within them is cut, whatever good ones came between. Where rest or much lower rates show such rises,
or the next sample comes soon, it takes more of them than noise would show by chance, whether we raised the rate or not.
After a cut the pressure is compared with the one before: if two samples that come a loop delay later show the same, the
cut changed nothing and is taken back to a little less than there was. If the pressure rises then, it was us after all,
and for some minutes nothing is doubted. Only latencies are doubted: a lag does not jump by chance.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from recoveryd.live.freshness import Track
from recoveryd.live.law.assessment import Assessment, is_over
from recoveryd.live.law.memory import HOUR_MS
from recoveryd.live.law.moves import granted_least, has_just_leapt, told
from recoveryd.live.law.noise import evidence_of, usual_share
from recoveryd.live.law.types import ControllerParams, ControllerState, RiseCause, Trial
from recoveryd.live.law.unused import BOUND, FOLLOWS, has_woken
from recoveryd.live.pressure import Pressure, SignalKind

SAME = (0.9, 1.25)  # parts of the pressure before a cut between which it counts as unchanged
SAMPLES = 2
TAKEN_BACK = 0.9
DOUBT_DELAYS = 3  # loop delays for which a doubt stays open
EVIDENCE = 2.1  # for a cut in noise (`noise.evidence_of`)
EVIDENCE_FREQUENT = 3.5  # of a signal whose next sample comes soon
SUSPICION = 0.7  # of that: nothing is raised
FREQUENT = 6  # samples per loop delay: of a signal that has so many, one more is waited for
OURS_MS = 300_000
FOREIGN_MS = 600_000  # after that it is asked again


class RiseDoubt(NamedTuple):
    """A signal is at its SLO and we may not be the cause: the rate meanwhile, a sentence, and what is known from now
    on.
    """

    rate: float
    why: str
    cause: RiseCause


def in_doubt(
    state: ControllerState, seen: Assessment, over: Pressure, now_ms: int, params: ControllerParams
) -> RiseDoubt | None:
    """Rule 9: what holds while this signal is at its SLO and we may not be the cause; None = we are, or have to assume
    it.
    """
    cause = state.causes.get(over.name, RiseCause())
    if not may_be_doubted(state, over, params) or _was_ours(cause, now_ms):
        return None
    if cause.trial is None:
        return _doubt(state, cause, seen, over, now_ms)
    if cause.foreign_ms is None:
        return _compare(state, cause, cause.trial, seen, over, now_ms)
    is_shown = state.rate <= cause.trial.rate  # at a higher rate nothing is known
    if not is_shown or now_ms - cause.foreign_ms >= FOREIGN_MS or over.share > SAME[1] * cause.trial.share:
        return None
    return RiseDoubt(state.rate, f"{told(over)}, which a cut did not change: holds", cause)


def is_ours_of_late(state: ControllerState, over: Pressure, now_ms: int) -> bool:
    """Whether the signal turned out to follow our rate within the last hour."""
    ours_ms = state.causes.get(over.name, RiseCause()).ours_ms
    return ours_ms is not None and now_ms - ours_ms < HOUR_MS


def may_be_doubted(state: ControllerState, over: Pressure, params: ControllerParams) -> bool:
    """Whether it is a latency, not far over its SLO, and nobody called it critical."""
    is_certain = over.share >= params.doubted_most or over.name in state.alarmed
    return over.kind is SignalKind.LATENCY and not is_certain


def _doubt(state: ControllerState, cause: RiseCause, seen: Assessment, over: Pressure, now_ms: int) -> RiseDoubt | None:
    """A rise that was not cut yet."""
    if over.name not in seen.newest:
        return RiseDoubt(state.rate, f"{told(over)}: waits for the next sample", cause)
    is_known = follows(state, seen, now_ms) or _is_open(cause, seen, now_ms)
    is_frequent = _is_frequent(state, seen, over)
    if is_noisy(state, over) or is_frequent:
        if not _is_more_than_noise(state, seen, over, now_ms):
            return RiseDoubt(state.rate, f"{told(over)} as noise is now and then: waits for the next sample", cause)
        if is_known or is_frequent:
            return None
    elif is_known:
        return None
    why = f"{told(over)} without a raise before: waits for the next sample"
    return RiseDoubt(state.rate, why, cause._replace(doubted_ms=now_ms))


def _compare(
    state: ControllerState, cause: RiseCause, trial: Trial, seen: Assessment, over: Pressure, now_ms: int
) -> RiseDoubt | None:
    """After a cut that was answered by samples which are still at the SLO. What it changed shows a loop delay later; a
    cut to no less than lanes used anyway shows nothing.
    """
    least, most = SAME
    if trial.used is not None and trial.used < BOUND * state.rate:
        return None
    if not least * trial.share <= over.share <= most * trial.share or trial.rate <= state.rate:
        return None
    is_shown = state.guarded_ms is None or now_ms - state.guarded_ms >= seen.delay_ms
    same = trial.same + (over.name in seen.newest and is_shown)
    cause = cause._replace(trial=trial._replace(same=same))
    if same < SAMPLES or over.name not in seen.newest:
        return RiseDoubt(state.rate, f"{told(over)} after a cut: waits whether it changes anything", cause)
    return RiseDoubt(TAKEN_BACK * trial.rate, f"{told(over)}, which the cut did not change: it is taken back", cause)


def after_doubts(state: ControllerState, doubts: Mapping[str, RiseDoubt], now_ms: int) -> Mapping[str, RiseCause]:
    """What is known while every signal at its SLO is in doubt. A pressure that a cut did not change is foreign."""
    return {**state.causes, **{name: _settled(doubt.cause, now_ms) for name, doubt in doubts.items()}}


def _settled(cause: RiseCause, now_ms: int) -> RiseCause:
    is_foreign = cause.foreign_ms is None and cause.trial is not None and cause.trial.same >= SAMPLES
    return cause._replace(foreign_ms=now_ms) if is_foreign else cause


def after_cut(
    state: ControllerState,
    doubts: Mapping[str, RiseDoubt],
    worst: Pressure,
    now_ms: int,
    used: float | None,
) -> Mapping[str, RiseCause]:
    """What is known after a cut: it is the trial of what follows. A pressure that grew after a cut was taken back, or
    came at a higher rate, is ours; one that was foreign, but was not asked about for `FOREIGN_MS`, is tried once more.

    What other signals were compared with is void, since this cut changed the rate for them too. `used`: as in `Trial`.
    """
    known = {**state.causes, **{name: doubt.cause for name, doubt in doubts.items()}}
    others = {name: c if c.foreign_ms is not None else c._replace(trial=None) for name, c in known.items()}
    cause = state.causes.get(worst.name, RiseCause())
    trial = cause.trial
    if cause.foreign_ms is None or trial is None:
        found = cause._replace(doubted_ms=None, trial=Trial(state.rate, worst.share, used=used))
    elif worst.share > SAME[1] * trial.share or state.rate > trial.rate:
        found = RiseCause(ours_ms=now_ms)
    else:
        # Asked again, it goes back to where it is now: not to less each time, which would end at the floor.
        found = RiseCause(trial=Trial(min(trial.rate, state.rate / TAKEN_BACK), worst.share, used=used))
    return {**others, worst.name: found}


def tried_at(rate: float, seen: Assessment, now_ms: int) -> Mapping[str, RiseCause]:
    """What is assumed when a rise from the floor is tried: that at this rate every pressure stays as it is."""
    return {p.name: RiseCause(trial=Trial(rate, p.share), foreign_ms=now_ms) for p in seen.pressures if is_over(p)}


def relieved(causes: Mapping[str, RiseCause], seen: Assessment, now_ms: int) -> Mapping[str, RiseCause]:
    """A sample below the SLO ends the comparisons of its signal. A doubt stays open for its time, and a pressure that
    was found to be foreign is remembered as such for a while, since noise comes and goes.
    """
    well = {p.name for p in seen.pressures if p.name in seen.newest and not is_over(p)}
    found = {name: _relieved(c, seen, now_ms) if name in well else c for name, c in causes.items()}
    return {name: cause for name, cause in found.items() if cause != RiseCause()}


def _relieved(cause: RiseCause, seen: Assessment, now_ms: int) -> RiseCause:
    if cause.foreign_ms is not None and now_ms - cause.foreign_ms < FOREIGN_MS:
        return cause
    return RiseCause(doubted_ms=cause.doubted_ms if _is_open(cause, seen, now_ms) else None, ours_ms=cause.ours_ms)


def without_trials(causes: Mapping[str, RiseCause]) -> Mapping[str, RiseCause]:
    """What is known of causes when rates mean something else from now on: a doubt stays open, and what was ours is
    ours.
    """
    found = {name: RiseCause(doubted_ms=c.doubted_ms, ours_ms=c.ours_ms) for name, c in causes.items()}
    return {name: cause for name, cause in found.items() if cause != RiseCause()}


def open_doubt(state: ControllerState, seen: Assessment, now_ms: int) -> str | None:
    """A signal that is in doubt, so that nothing is raised and nothing learned; None = there is none."""
    return next((name for name, cause in state.causes.items() if _is_open(cause, seen, now_ms)), None)


def is_accused(state: ControllerState, seen: Assessment) -> bool:
    """Whether a signal speaks against the replay: it is at its SLO, or somebody called it critical."""
    return seen.is_over or bool(state.alarmed)


def is_doubtful(state: ControllerState, seen: Assessment, now_ms: int) -> bool:
    """Whether one speaks against the replay, or did just now and nobody knows yet whether rightly."""
    return is_accused(state, seen) or open_doubt(state, seen, now_ms) is not None


def _is_open(cause: RiseCause, seen: Assessment, now_ms: int) -> bool:
    return cause.doubted_ms is not None and 0 <= now_ms - cause.doubted_ms < DOUBT_DELAYS * seen.delay_ms


def under_suspicion(state: ControllerState, seen: Assessment, now_ms: int) -> str | None:
    """A latency that was over its SLO of late, more often than noise usually is though not often enough for a cut."""
    latencies = (p for p in seen.pressures if p.kind is SignalKind.LATENCY)
    return next(
        (p.name for p in latencies if _evidence(state, seen, p, now_ms) >= SUSPICION * _enough(state, seen, p)), None
    )


def follows(state: ControllerState, seen: Assessment, now_ms: int) -> bool:
    """Whether the rate was raised within the last loop delay, or lanes began to use what had stood unused."""
    if has_just_leapt(state, seen.delay_ms, now_ms) or has_woken(state, seen.delay_ms, now_ms):
        return True
    least = granted_least(state)
    return state.published >= FOLLOWS * least if least > 0 else state.published > 0


def is_noisy(state: ControllerState, over: Pressure) -> bool:
    """Whether the signal is at its SLO now and then without us too."""
    return usual_share(state, over.name, over.slo_s) > 0


def _is_frequent(state: ControllerState, seen: Assessment, over: Pressure) -> bool:
    """Whether the next sample comes so soon that waiting for it does little harm."""
    gap_ms = state.tracks.get(over.name, Track()).gap_ms
    return 0 < FREQUENT * gap_ms <= seen.delay_ms


def _is_more_than_noise(state: ControllerState, seen: Assessment, over: Pressure, now_ms: int) -> bool:
    """Whether it has been over so often of late, in succession or not, as noise would hardly show by chance."""
    return _evidence(state, seen, over, now_ms) >= _enough(state, seen, over)


def _enough(state: ControllerState, seen: Assessment, signal: Pressure) -> float:
    return EVIDENCE_FREQUENT if _is_frequent(state, seen, signal) else EVIDENCE


def _evidence(state: ControllerState, seen: Assessment, signal: Pressure, now_ms: int) -> float:
    since_ms = max(-1 if state.cut_ms is None else state.cut_ms, now_ms - DOUBT_DELAYS * seen.delay_ms)
    track, slo_s = state.tracks.get(signal.name, Track()), signal.slo_s
    recent = [v >= slo_s for at_ms, v in zip(track.times_ms, track.values, strict=True) if at_ms > since_ms]
    return evidence_of(recent, usual_share(state, signal.name, slo_s))


def _was_ours(cause: RiseCause, now_ms: int) -> bool:
    return now_ms - (-math.inf if cause.ours_ms is None else cause.ours_ms) < OURS_MS
