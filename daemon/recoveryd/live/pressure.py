"""Pressure: the share of its SLO that a protected signal uses, and the strain that follows from it.

Pressure is value / SLO: 0.03 is 5 ms of 150 ms, 1 is the SLO. It is what people see. It is no scale to steer by: from
rest to half of the SLO latency hardly moves, and then it runs away. So the law uses `strain`: 0 is live traffic alone,
1 is the SLO, and between them it grows evenly with the rate of a replay. A growing time lag is extrapolated. The worst
signal counts, never a sum or a mean. No rate is chosen here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import NamedTuple

from recoveryd.live.freshness import Track

BASELINE_AT_LEAST = 6
BASELINE_AT_MOST = 36
REST_MOST = 0.8  # of the SLO
REST_LEAST = 0.06  # of the SLO, for the strain: what a latency does below that tells nothing of how much is left
PEAK_OF = 3  # for the strain so many samples count at least, so that a few low ones raise nothing
PEAK_SHARE = 0.75  # of them: their upper quartile counts, so that single ones hold no rate; of up to three the worst
LEVEL_OF = (
    3  # and their median has to be beyond the target too before it is lowered, so that a single high one lowers nothing
)
CALM_SHARE = 0.4  # of the strain at the target: a signal whose median is below that is calm
LAG_ROOM = 0.5  # what a lag at rest leaves at least
LEAD_SAMPLES = 6
LEAD_SLOPE = 0.15  # seconds of lag per second; slower growth counts as noise
LEAD_SHARE = 0.01  # of the SLO per second, if that is less: within a loop delay it takes a good part of a short SLO


class SignalKind(StrEnum):
    LATENCY = "latency"
    LAG = "lag"


@dataclass(frozen=True, slots=True)
class Protection:
    """A signal of live traffic with an SLO, listed in the config.

    `name` is unique in its domain and matches `Reading.name`. `idle_s`: time lag of a healthy group (its commit
    interval); the baseline of a latency is measured. With `drop_when_unattributable` the signal stops counting when our
    rate turns out not to move it.
    """

    name: str
    kind: SignalKind
    slo_s: float
    idle_s: float = 5.0
    drop_when_unattributable: bool = False


class Pressure(NamedTuple):
    """Pressure of one signal by samples taken since the last cut: `share` = newest value / SLO, `strain` on the scale
    of the law, `room` = strain at the target less the present one, by the worst of the last few; `level_room` the same
    by their median; `age_ms` of the newest; `is_calm`: the median of the last three, those over the SLO too, is well
    below the target, as two of them alone can show; of a lag the newest. `is_far`: the worst of the last few is well
    below the target; where noise alone brings it near, the median. `most_share`: of the SLO, by the newest or the worst
    of the last few, whichever is more; of a lag by where it will be.
    """

    name: str
    kind: SignalKind
    share: float
    strain: float
    room: float
    value_s: float
    age_ms: int
    level_room: float = 0.0
    is_calm: bool = False
    is_far: bool = False
    slo_s: float = math.inf
    most_share: float = math.inf


def with_baseline_sample(samples: tuple[float, ...], value: float) -> tuple[float, ...]:
    """Baseline samples, newest last, bounded; add only those taken while no replay ran."""
    return (*samples, value)[-BASELINE_AT_MOST:]


def baseline_s(samples: tuple[float, ...], slo_s: float) -> float | None:
    """The latency at rest: the median, None until there are enough samples. At most `REST_MOST` of the SLO, so that a
    sick start leaves room between rest and SLO.
    """
    if len(samples) < BASELINE_AT_LEAST:
        return None
    return min(max(median(samples), 1e-6), REST_MOST * slo_s)


def peak_at_rest_s(samples: Sequence[float], idle_s: float, slo_s: float, count: int = PEAK_OF) -> float:
    """What the peak of so many samples usually is at rest: the median over all in succession. As for the peak, those
    over the SLO do not count; at least the latency at rest.
    """
    usual = [value for value in samples if value < slo_s]
    count = max(PEAK_OF, min(count, len(usual)))
    peaks = [_upper(usual[at : at + count]) for at in range(len(usual) - count + 1)]
    return max(idle_s, _middle(peaks)) if peaks else idle_s


def peak_count(times_ms: Sequence[int], since_ms: int) -> int:
    """How many of the newest samples make the peak: those taken after `since_ms`, `PEAK_OF` at least."""
    return max(PEAK_OF, sum(at_ms > since_ms for at_ms in times_ms))


def latency_strain(share: float, rest: float) -> float:
    """1 - sqrt(rest / pressure), at least 0 and scaled to 1 at the SLO. Both are shares of the SLO, 0 < rest < 1."""
    return max(0.0, (1 - math.sqrt(rest / max(share, 1e-9))) / (1 - math.sqrt(rest)))


def target_share(target: float, rest: float) -> float:
    """The share of the SLO to aim at: `target`, or half as far above the latency at rest where that is near the SLO."""
    return max(target, rest + target / 2 * (1 - rest))


def lag_strain(value_s: float, slope: float, delay_s: float, idle_s: float, slo_s: float) -> float:
    """(lag - idle) / (SLO - idle), at least 0, with the lag extrapolated by one loop delay if it grows."""
    return max(0.0, (_ahead_s(value_s, slope, delay_s, slo_s) - idle_s) / max(slo_s - idle_s, slo_s / 10))


def _ahead_s(value_s: float, slope: float, delay_s: float, slo_s: float) -> float:
    """What a lag will be a loop delay later, if it grows."""
    return value_s + delay_s * slope if slope > min(LEAD_SLOPE, LEAD_SHARE * slo_s) else value_s


def growth(times_ms: tuple[int, ...], values: tuple[float, ...]) -> float:
    """Least-squares slope per second over the last six samples; 0 with fewer."""
    if len(times_ms) < LEAD_SAMPLES:
        return 0.0
    times, lags = times_ms[-LEAD_SAMPLES:], values[-LEAD_SAMPLES:]
    mean_t, mean_v = sum(times) / LEAD_SAMPLES, sum(lags) / LEAD_SAMPLES
    spread = sum((t - mean_t) ** 2 for t in times)
    if spread <= 0:
        return 0.0
    return 1000 * sum((t - mean_t) * (v - mean_v) for t, v in zip(times, lags, strict=True)) / spread


def measure_pressure(
    protection: Protection,
    track: Track,
    since_ms: int,
    idle_s: float | None,
    delay_s: float,
    now_ms: int,
    target: float = 0.6,
    peak_s: float | None = None,
    count: int = PEAK_OF,
) -> Pressure | None:
    """The pressure by samples taken after `since_ms`; None when there is none yet, or no baseline to compare with.
    `target`: share of the SLO to aim at. `peak_s`: what the peak is at rest, `idle_s` if not given. `count`: how many
    of the newest samples make the peak.
    """
    usable = len(track.times_ms)
    while usable and track.times_ms[-usable] <= since_ms:
        usable -= 1
    if not usable:
        return None
    values, times_ms = track.values[-usable:], track.times_ms[-usable:]
    if protection.kind is SignalKind.LAG:
        strains = _of_lag(protection, times_ms, values, delay_s, target)
    elif idle_s is None:
        return None
    else:
        strains = _of_latency(values, count, protection.slo_s, idle_s, idle_s if peak_s is None else peak_s, target)
    value_s, is_calm = values[-1], strains.middle < CALM_SHARE * strains.aim
    return Pressure(
        name=protection.name,
        kind=protection.kind,
        share=value_s / protection.slo_s,
        strain=strains.peak,
        room=_room(strains.peak_aim, strains.peak, protection.kind),
        value_s=value_s,
        age_ms=max(0, now_ms - times_ms[-1]),
        level_room=_room(strains.aim, strains.level, protection.kind),
        is_calm=is_calm,
        is_far=strains.peak < CALM_SHARE * strains.aim or (strains.peak_aim > strains.aim and is_calm),
        slo_s=protection.slo_s,
        most_share=max(value_s, strains.peak_s) / protection.slo_s,
    )


def _room(aim: float, strain: float, kind: SignalKind) -> float:
    """How much strain is left up to the target. Where the target of a lag is near its rest, that would hardly ever be
    much, so of a lag the part that is left counts as well.
    """
    room = aim - strain
    return max(room, LAG_ROOM * room / aim) if kind is SignalKind.LAG and room > 0 else room


class _Strains(NamedTuple):
    """By the worst, and by two kinds of median, of the last few samples; and at the target, as the worst and the
    medians are compared with it. `peak_s`: the worst itself, of a lag where it will be.
    """

    peak: float
    level: float
    middle: float
    peak_aim: float
    aim: float
    peak_s: float


def _of_latency(
    values: tuple[float, ...], count: int, slo_s: float, idle_s: float, peak_s: float, target: float
) -> _Strains:
    """`count`: how many of the newest make the peak."""
    rest, last, worst_s = max(REST_LEAST, idle_s / slo_s), values[-LEVEL_OF:], _peak_s(values, slo_s, count)

    def strain(value_s: float) -> float:
        return latency_strain(value_s / slo_s, rest)

    return _Strains(
        peak=strain(worst_s),
        level=strain(_level_s(values, slo_s)),
        middle=strain(_middle(last)) if len(last) > 1 else math.inf,  # two that are calm are the middle of any three
        # Where noise alone brings the worst of a few samples near the target, that has to be compared with noise.
        peak_aim=latency_strain(target_share(target, max(idle_s, peak_s) / slo_s), rest),
        aim=latency_strain(target_share(target, rest), rest),
        peak_s=worst_s,
    )


def _of_lag(
    protection: Protection, times_ms: tuple[int, ...], values: tuple[float, ...], delay_s: float, target: float
) -> _Strains:
    idle_s, slo_s = protection.idle_s, protection.slo_s
    slope = growth(times_ms, values)
    strain = lag_strain(values[-1], slope, delay_s, idle_s, slo_s)
    aim = lag_strain(target * slo_s, 0.0, delay_s, idle_s, slo_s)
    return _Strains(strain, strain, strain, aim, aim, _ahead_s(values[-1], slope, delay_s, slo_s))


def _level_s(values: tuple[float, ...], slo_s: float) -> float:
    """What the signal shows now, its noise aside: the median of the last few samples, the worse of two. As for the
    peak, one over the SLO that is over again does not count.
    """
    last = [v for v in values[-LEVEL_OF - 1 :] if v < slo_s][-LEVEL_OF:]
    return _middle(last) if last else values[-1]


def _middle(values: Sequence[float]) -> float:
    """The median, the worse of two."""
    return sorted(values)[len(values) // 2]


def _upper(values: Sequence[float]) -> float:
    """The upper quartile; of up to three values the worst."""
    return sorted(values)[math.ceil(PEAK_SHARE * len(values)) - 1]


def _peak_s(values: tuple[float, ...], slo_s: float, count: int) -> float:
    """The upper quartile of the last few. One over the SLO that is over again was answered when it was the newest, and
    does not press afterwards.
    """
    newest = values[-1]
    if newest >= slo_s:
        return newest
    return _upper([v for v in values[-count - 1 :] if v < slo_s][-count:])
