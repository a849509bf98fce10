"""What each latency showed, by the rate at which replays ran: how often it was over its SLO, and the newest samples.
What much lower rates show as often is noise, or the work of others, and a cut would change nothing about it.

A share is known only after some samples, and noise comes and goes, so old ones fade. A sample that was taken while a
higher rate may still have been in force counts for that one: noise is rather found too small than too large. Where
lanes do not use what they have, it counts for what they use.
"""

import math
from collections.abc import Sequence
from typing import Final

from recoveryd.kernel.replacing import replaced
from recoveryd.live.freshness import Track
from recoveryd.live.law.memory import WorkKind
from recoveryd.live.law.types import AtRate, ControllerParams, ControllerState, Counted
from recoveryd.live.law.unused import loosely_used
from recoveryd.live.pressure import SignalKind

STEPS: Final = 4  # of rate, per doubling
_FADE: Final = 1 - 1 / 256  # per sample of the signal
_LEAST: Final = 0.5  # of fewer samples nothing is kept
_MUCH_LOWER: Final = 0.5  # of a rate: those up to this show what is there without it
_NEAR_FLOOR: Final = 1.5  # times the floor: what these show would hardly be less at the floor
_ENOUGH: Final = 12  # samples
AT_REST: Final = 0  # the step of no rate
_SHARE_MOST: Final = 0.97  # so that a logarithm of the rest is never too large
# What is over its SLO more often is sick: else an hour of that would hide harm that comes later.
_MOST_USUAL: Final = 0.5
_RARE: Final = 0.02  # share of samples over the SLO that any signal may show by chance
_NEWEST: Final = 12  # samples of each step are kept
_FRESH_MS: Final = 900_000  # what was shown earlier tells of another time
_TOO_MUCH: Final = 0.5  # share of samples over the SLO that a rate which is too high shows at least


def with_counted(before: ControllerState, state: ControllerState, params: ControllerParams) -> ControllerState:
    """The state with the samples counted that it has and `before` has not, of those that tell of a rate since the last
    cut. While lanes start up, nothing is copied and samples tell of their start.
    """
    if state.active and state.used_ms is None:
        return state
    since_ms = -1 if state.cut_ms is None else state.cut_ms
    rate = max(
        [rate for at_ms, rate in state.publications if at_ms >= since_ms - params.cut_latency_ms] or [state.published]
    )
    used = loosely_used(state, params)
    if used is not None:
        rate = min(rate, max(state.floor, used / params.achieved_least))
    found = {}
    for protection in params.protections:
        track = state.tracks.get(protection.name, Track())
        known_ms = before.tracks.get(protection.name, Track()).newest_ms
        later_ms = max(since_ms, -1 if known_ms is None else known_ms)
        samples = [(at_ms, v) for at_ms, v in zip(track.times_ms, track.values, strict=True) if at_ms > later_ms]
        if protection.kind is SignalKind.LATENCY and samples:
            counted = state.counted.get(protection.name, {})
            for at_ms, value in samples:
                counted = _with_sample(counted, step_of(rate), at_ms, value / protection.slo_s)
            found[protection.name] = counted
    return replaced(state, counted={**state.counted, **found}) if found else state


def with_work(state: ControllerState, work: WorkKind) -> ControllerState:
    """The state with what was counted under this kind of work; what was counted at rest tells of all."""
    if work is state.work:
        return state
    at_rest = {name: {AT_REST: c[AT_REST]} for name, c in state.counted.items() if AT_REST in c}
    before = state.put_by.get(work, {})
    counted = {name: {**before.get(name, {}), **at_rest.get(name, {})} for name in {*before, *at_rest}}
    return replaced(state, work=work, counted=counted, put_by={**state.put_by, state.work: state.counted})


def usual_share(state: ControllerState, name: str, slo_s: float) -> float:
    """The share of samples over the SLO without us, by those at rest and at much lower rates."""
    rest = state.baselines.get(name, ())
    at_rest = sum(value >= slo_s for value in rest) / max(1, len(rest))
    most = step_of(max(_MUCH_LOWER * state.rate, _NEAR_FLOOR * state.floor))
    lower = [c for step, c in state.counted.get(name, {}).items() if step <= most]
    samples = sum(counted.samples for counted in lower)
    return max(at_rest, sum(c.over for c in lower) / samples if samples >= _ENOUGH else 0.0)


def shares_at(counted: Counted, step: int, now_ms: int) -> list[float]:
    """The shares of its SLO that a signal used at rates of this step in the last minutes."""
    known = counted.get(step)
    return [share for at_ms, share in known.newest if now_ms - at_ms < _FRESH_MS] if known else []


def evidence_of(recent: Sequence[bool], usual: float) -> float:
    """How much speaks for it that a signal which is over its SLO in the share `usual` of samples is over it more often
    now, by `recent` samples (newest last): a cumulative sum of logarithms of likelihood ratios, at least 0.
    """
    usual = min(_MOST_USUAL, max(_RARE, usual))
    more = min(_SHARE_MOST, max(_TOO_MUCH, 2 * usual))
    found = 0.0
    for is_over in recent:
        found = max(0.0, found + (math.log(more / usual) if is_over else math.log((1 - more) / (1 - usual))))
    return found


def _with_sample(counted: Counted, step: int, at_ms: int, share: float) -> Counted:
    """At rest nothing is forgotten of what replays showed."""
    fades = {at: _FADE if step != AT_REST or at == AT_REST else 1.0 for at in counted}
    faded = {
        at: known._replace(samples=known.samples * fades[at], over=known.over * fades[at])
        for at, known in counted.items()
    }
    kept = {at: known for at, known in faded.items() if known.samples > _LEAST}
    before = kept.get(step, AtRate())
    newest = (*before.newest, (at_ms, share))[-_NEWEST:]
    return {**kept, step: AtRate(before.samples + 1, before.over + (share >= 1), newest)}


def step_of(rate: float) -> int:
    return math.floor(STEPS * math.log2(max(1.0, rate)))
