"""What the controller knows at one step: readings added to tracks, then freshness, gate and pressure of every protected
signal as one value.

No rate is chosen here. Readings with a name that is not protected are refused and counted.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from recoveryd.kernel.replacing import replaced
from recoveryd.live.freshness import RejectReason, Track, counted, loop_delay_ms, with_late_alarm, with_reading
from recoveryd.live.law.types import ControllerParams, ControllerState, Inputs
from recoveryd.live.pressure import (
    Pressure,
    Protection,
    SignalKind,
    baseline_s,
    measure_pressure,
    peak_at_rest_s,
    peak_count,
    with_baseline_sample,
)

_READINGS_AT_MOST = 4_096
_DRIFT_MOST = 2.0
FAR_SHARE = 0.2  # of the target: so little of an SLO is far below it, however near zero rest is


class Timing(NamedTuple):
    """`delay_ms`: the loop delay of this signal alone. `fresh_ms`: so old a sample of it may be."""

    delay_ms: int
    fresh_ms: float


@dataclass(frozen=True, slots=True)
class Assessment:
    """`unseen`: signals never seen. `lost`: last seen over five minutes ago. `stale`: older than a fresh one may be.
    `gated`: without a sample since the last cut.

    `share` (pressure, of the SLO) and `strain` are the maxima over usable signals, `room` is the least. `newest`:
    signals of which this step brought a usable sample. `delay_ms`: the loop delay of the slowest signal. `timings`: by
    name, of those that were ever seen. `live_bytes_per_s`: what live traffic writes, None unless it is known and fresh.
    """

    pressures: tuple[Pressure, ...]
    unseen: tuple[str, ...]
    lost: tuple[str, ...]
    stale: tuple[str, ...]
    gated: tuple[str, ...]
    delay_ms: int
    oldest_age_ms: int | None
    newest: frozenset[str]
    timings: Mapping[str, Timing]
    live_bytes_per_s: float | None = None

    @property
    def news(self) -> bool:
        return bool(self.newest)

    @property
    def share(self) -> float | None:
        return max((p.share for p in self.pressures), default=None)

    @property
    def strain(self) -> float:
        return max((p.strain for p in self.pressures), default=0.0)

    @property
    def room(self) -> float:
        return min((p.room for p in self.pressures), default=0.0)

    @property
    def level_room(self) -> float:
        return min((p.level_room for p in self.pressures), default=0.0)

    @property
    def is_calm(self) -> bool:
        """Whether every signal is well below its target, single samples aside."""
        return all(p.is_calm for p in self.pressures)

    @property
    def is_far(self) -> bool:
        """Whether every signal is so far below its target that the rate may grow exponentially."""
        return all(p.is_far for p in self.pressures)

    @property
    def is_over(self) -> bool:
        """Whether a signal is at its SLO: by its newest sample, or a lag by where it will be."""
        return any(is_over(p) for p in self.pressures)


def is_over(pressure: Pressure) -> bool:
    return pressure.share >= 1 or (pressure.kind is SignalKind.LAG and pressure.strain >= 1)


def is_hardly_used(seen: Assessment, params: ControllerParams) -> bool:
    """Whether so little of every SLO is used that a rate may grow exponentially, however near to that rest is: by the
    newest sample and the worst of the last few, since a single low one tells nothing.
    """
    return max((p.most_share for p in seen.pressures), default=math.inf) < FAR_SHARE * params.target


def fold_readings(
    state: ControllerState, inputs: Inputs, now_ms: int, params: ControllerParams
) -> tuple[ControllerState, frozenset[str]]:
    """The state with all usable readings added, and the names of signals that got a new one."""
    protected = {p.name for p in params.protections}
    latest_ms = now_ms + params.freshness.future_ms  # a track beyond it was written before our clock was set back
    tracks = {n: t for n, t in state.tracks.items() if n in protected and (t.newest_ms or 0) <= latest_ms}
    baselines = {n: b for n, b in state.baselines.items() if n in protected}  # of another config, before a restart
    reasons: list[RejectReason] = []
    news: set[str] = set()
    alarmed = set(state.alarmed)
    # A late critical reading counts if it was taken after the last cut and within the loop delay; an older one was
    # answered already, or is over.
    valid_from_ms = max(-1 if state.cut_ms is None else state.cut_ms, now_ms - measured_delay_ms(state, params)) + 1
    for reading in sorted(inputs.readings[:_READINGS_AT_MOST], key=lambda r: (r.is_critical, r.sampled_at_ms)):
        if reading.name not in protected:
            reasons.append(RejectReason.UNKNOWN_NAME)
            continue
        before = tracks.get(reading.name, Track())
        is_late = bool(before.times_ms) and reading.sampled_at_ms <= before.times_ms[-1]
        if reading.is_critical and is_late:
            tracks[reading.name], refused = with_late_alarm(before, reading, valid_from_ms, now_ms, params.freshness)
        elif before.times_ms and before.times_ms[-1] == reading.sampled_at_ms:
            continue  # the newest one, reported again
        else:
            tracks[reading.name], refused = with_reading(before, reading, now_ms, params.freshness)
        if refused is None:
            news.add(reading.name)
            (alarmed.add if reading.is_critical else alarmed.discard)(reading.name)
        else:
            reasons.append(refused)
    reasons.extend([RejectReason.TOO_MANY] * max(0, len(inputs.readings) - _READINGS_AT_MOST))
    is_same = inputs.ingress_since_ms == state.ingress_since_ms
    is_usable = is_same and (state.ingress.newest_ms or 0) <= latest_ms
    ingress, refused = state.ingress if is_usable else Track(), None
    if inputs.ingress is not None and inputs.ingress.sampled_at_ms != ingress.newest_ms:
        ingress, refused = with_reading(ingress, inputs.ingress, now_ms, params.freshness)
    if refused is not None:
        reasons.append(refused)
    folded = replaced(
        state,
        tracks=tracks,
        baselines=baselines,
        dropped={name: was_s for name, was_s in state.dropped.items() if name in protected},
        decayed={name: at_ms for name, at_ms in state.decayed.items() if name in protected},
        ingress=ingress,
        ingress_since_ms=inputs.ingress_since_ms,
        displaced=state.displaced if is_same else None,
        alarmed=frozenset(alarmed),
        rejections=counted(state.rejections, reasons),
    )
    return folded, frozenset(news)


def measured_delay_ms(state: ControllerState, params: ControllerParams) -> int:
    """The loop delay, measured from the tracks, or the configured one."""
    if not params.measure_delay:
        return params.loop_delay_ms
    tracks = [state.tracks.get(p.name, Track()) for p in params.protections]
    return loop_delay_ms(tracks, params.period_ms, params.raise_latency_ms, params.loop_delay_ms)


def fresh_values(state: ControllerState, now_ms: int, params: ControllerParams) -> Iterator[tuple[Protection, float]]:
    """The newest sample of each protected signal that is fresh."""
    delay_ms = measured_delay_ms(state, params)
    for protection in params.protections:
        track = state.tracks.get(protection.name, Track())
        if _is_fresh(track, delay_ms, now_ms, params):
            yield protection, track.values[-1]


def timing(track: Track, delay_ms: int, params: ControllerParams) -> Timing:
    """Of one signal, which another one that is slower (`delay_ms`, of the slowest) does not excuse: a canary that fell
    silent must not count as fresh for as long as a latency over a range of a minute does. The loop delay allows for one
    missed sample at our own period; a signal with a longer period may miss one as well.
    """
    own_ms = delay_ms
    if params.measure_delay:
        own_ms = min(own_ms, loop_delay_ms([track], params.period_ms, params.raise_latency_ms, params.loop_delay_ms))
    missed_ms = track.gap_ms if track.gap_ms > params.period_ms else 0.0
    return Timing(own_ms, min(params.lost_after_ms, own_ms + missed_ms))


def _is_fresh(track: Track, delay_ms: int, now_ms: int, params: ControllerParams) -> bool:
    return track.newest_ms is not None and now_ms - track.newest_ms <= timing(track, delay_ms, params).fresh_ms


def assess(state: ControllerState, news: frozenset[str], now_ms: int, params: ControllerParams) -> Assessment:
    """Sort the protected signals by freshness, and measure the pressure of the usable ones."""
    delay_ms = measured_delay_ms(state, params)
    since_ms = -1 if state.cut_ms is None else state.cut_ms
    raised_ms = max((told[0] for before, told in pairwise(state.publications) if told[1] > before[1]), default=-1)
    pressures: list[Pressure] = []
    unseen: list[str] = []
    lost: list[str] = []
    stale: list[str] = []
    gated: list[str] = []
    ages: list[int] = []
    timings: dict[str, Timing] = {}
    for protection in params.protections:
        name = protection.name
        if name in state.dropped:
            continue
        track = state.tracks.get(name, Track())
        samples = state.baselines.get(name, ())
        base = baseline_s(samples, protection.slo_s)
        if track.newest_ms is None or (base is None and protection.kind is SignalKind.LATENCY):
            unseen.append(name)
        if track.newest_ms is None:
            continue
        age_ms = max(0, now_ms - track.newest_ms)
        ages.append(age_ms)
        timings[name] = timing(track, delay_ms, params)
        if age_ms > timings[name].fresh_ms:
            (lost if age_ms > params.lost_after_ms else stale).append(name)
            continue
        count = peak_count(track.times_ms, max(raised_ms, track.newest_ms - delay_ms))
        peak_s = None if base is None else peak_at_rest_s(samples, base, protection.slo_s, count)
        delay_s, target = delay_ms / 1000, params.target
        pressure = measure_pressure(protection, track, since_ms, base, delay_s, now_ms, target, peak_s, count)
        if pressure is not None:
            pressures.append(pressure)
        elif name not in unseen:
            gated.append(name)
    usable = {p.name for p in pressures}
    return Assessment(
        tuple(pressures),
        tuple(unseen),
        tuple(lost),
        tuple(stale),
        tuple(gated),
        delay_ms,
        max(ages, default=None),
        frozenset(usable & news),
        timings,
        state.ingress.values[-1] if _is_fresh(state.ingress, delay_ms, now_ms, params) else None,
    )


def with_baselines(
    state: ControllerState,
    news: frozenset[str],
    since_ms: int,
    params: ControllerParams,
    *,
    is_refresh: bool = False,
) -> ControllerState:
    """Add new latency samples, taken after `since_ms`, to the baselines. Call it only while no replay runs, or, with
    `is_refresh`, while replays are at the floor.

    A refresh follows slow drift only: the latency of a sick broker must not become the baseline.
    """
    fresh = {}
    for protection in params.protections:
        track = state.tracks.get(protection.name)
        if protection.kind is not SignalKind.LATENCY or protection.name not in news or not track:
            continue
        samples = state.baselines.get(protection.name, ())
        idle_s = baseline_s(samples, protection.slo_s) if is_refresh else None
        if track.times_ms[-1] > since_ms and (idle_s is None or track.values[-1] <= _DRIFT_MOST * idle_s):
            fresh[protection.name] = with_baseline_sample(samples, track.values[-1])
    return replaced(state, baselines={**state.baselines, **fresh}) if fresh else state


def may_rise(seen: Assessment, params: ControllerParams) -> bool:
    """Only when there are new samples, and every protected signal is fresh and measured since the last cut."""
    return not params.protections or (bool(seen.news) and is_informed(seen))


def is_informed(seen: Assessment) -> bool:
    """Whether every protected signal that counts is fresh and measured since the last cut."""
    return bool(seen.pressures) and not (seen.unseen or seen.lost or seen.stale or seen.gated)
