"""How often each latency is over its SLO, by the rate at which replays ran: what much lower rates show as often is noise,
or the work of others, and a cut would change nothing about it.

A share is known only after some samples, and noise comes and goes, so old ones fade. A sample that was taken while a
higher rate may still have been in force counts for that one: noise is rather found too small than too large.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from typing import Final

from recoveryd.live.freshness import Track
from recoveryd.live.law.types import ControllerParams, ControllerState, Counted
from recoveryd.live.pressure import SignalKind

STEPS: Final = 4  # of rate, per doubling
_FADE: Final = 1 - 1 / 256  # per sample of the signal
_LEAST: Final = 0.5  # of fewer samples nothing is kept
_LOWER: Final = 0.5  # of a rate: those up to this show what is there without it
_LOW: Final = 1.5  # times the floor: what these show would hardly be less at the floor
_ENOUGH: Final = 12
AT_REST: Final = 0  # the step of no rate
_MOST: Final = 0.97  # of shares, so that a logarithm of the rest is never too large
_MOST_USUAL: Final = 0.9
_RARE: Final = 0.02  # share of samples over the SLO that any signal may show by chance
_LAST: Final = 12  # samples of each step are kept
_TOO_MUCH: Final = 0.5  # share of samples over the SLO that a rate which is too high shows at least


def with_counted(before: ControllerState, state: ControllerState, params: ControllerParams) -> ControllerState:
    """The state with the samples counted that it has and `before` has not, of those that tell of a rate since the last
    cut. While lanes start up, nothing is copied and samples tell of their start.
    """
    if state.active and not state.is_used:
        return state
    since_ms = -1 if state.cut_ms is None else state.cut_ms
    rate = max(
        [rate for at_ms, rate in state.publications if at_ms >= since_ms - params.cut_latency_ms] or [state.published]
    )
    found = {}
    for protection in params.protections:
        track = state.tracks.get(protection.name, Track())
        known_ms = before.tracks.get(protection.name, Track()).newest_ms
        later_ms = max(since_ms, -1 if known_ms is None else known_ms)
        samples = [v for at_ms, v in zip(track.times_ms, track.values, strict=True) if at_ms > later_ms]
        if protection.kind is SignalKind.LATENCY and samples:
            counted = state.counted.get(protection.name, {})
            for value in samples:
                counted = _with_sample(counted, step_of(rate), value / protection.slo_s)
            found[protection.name] = counted
    return replace(state, counted={**state.counted, **found}) if found else state


def usual_share(state: ControllerState, name: str, slo_s: float) -> float:
    """The share of samples over the SLO without us, by those at rest and at much lower rates."""
    rest = state.baselines.get(name, ())
    at_rest = sum(value >= slo_s for value in rest) / max(1, len(rest))
    most = step_of(max(_LOWER * state.rate, _LOW * state.floor))
    lower = [c for step, c in state.counted.get(name, {}).items() if step <= most]
    samples = sum(counted.samples for counted in lower)
    return max(at_rest, sum(c.over for c in lower) / samples if samples >= _ENOUGH else 0.0)


def evidence_of(recent: Sequence[bool], usual: float) -> float:
    """How much speaks for it that a signal which is over its SLO in the share `usual` of samples is over it more often
    now, by `recent` samples (newest last): a cumulative sum of logarithms of likelihood ratios, at least 0.
    """
    usual = min(_MOST_USUAL, max(_RARE, usual))
    more = min(_MOST, max(_TOO_MUCH, 2 * usual))
    found = 0.0
    for is_over in recent:
        found = max(0.0, found + (log(more / usual) if is_over else log((1 - more) / (1 - usual))))
    return found


def _with_sample(counted: Mapping[int, Counted], step: int, share: float) -> Mapping[int, Counted]:
    """At rest nothing is forgotten of what replays showed."""
    faded = {
        at: Counted(c.samples * _FADE, c.over * _FADE, c.last) if step != AT_REST or at == AT_REST else c
        for at, c in counted.items()
    }
    kept = {at: c for at, c in faded.items() if c.samples > _LEAST}
    before = kept.get(step, Counted())
    return {**kept, step: Counted(before.samples + 1, before.over + (share >= 1), (*before.last, share)[-_LAST:])}


def step_of(rate: float) -> int:
    return math.floor(STEPS * math.log2(max(1.0, rate)))
