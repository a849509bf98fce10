"""Pressure: how close a protected signal is to its SLO, on one scale for all.

0 is live traffic alone, 1 is the SLO. Latency is first made linear in utilisation (a queue's latency grows as 1/(1 -
utilisation)); a growing time lag is extrapolated. The pressure of a domain is the maximum over signals, never a sum or
a mean. No rate is chosen here.
"""

from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import NamedTuple

from recoveryd.live.freshness import Track

BASELINE_AT_LEAST = 12
BASELINE_AT_MOST = 36
PEAK_OF = 2  # a p99 is noisy: the worse of the last two samples counts, so that a single low sample raises nothing
LEAD_SAMPLES = 6
LEAD_SLOPE = 0.15  # seconds of lag per second; slower growth counts as noise


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
    """Pressure of one signal: `z` on the common scale, `severity` = value / SLO, both from samples taken since the last
    cut; `age_ms` of the newest.
    """

    name: str
    z: float
    severity: float
    value_s: float
    age_ms: int


def with_baseline_sample(samples: tuple[float, ...], value: float) -> tuple[float, ...]:
    """Baseline samples, newest last, bounded; add only those taken while no replay ran."""
    return (*samples, value)[-BASELINE_AT_MOST:]


def baseline_s(samples: tuple[float, ...], slo_s: float) -> float | None:
    """The baseline: the median, None until there are enough samples. At most half of the SLO, because a baseline from a
    sick start would hide all later harm.
    """
    if len(samples) < BASELINE_AT_LEAST:
        return None
    return min(max(median(samples), 1e-6), slo_s / 2)


def latency_pressure(value_s: float, idle_s: float, slo_s: float) -> float:
    """(1/idle - 1/value) / (1/idle - 1/SLO), at least 0: the utilisation that the latency implies, from idle to SLO."""
    return max(0.0, (1 / idle_s - 1 / max(value_s, 1e-9)) / (1 / idle_s - 1 / slo_s))


def lag_pressure(value_s: float, slope: float, delay_s: float, idle_s: float, slo_s: float) -> float:
    """(lag - idle) / (SLO - idle), at least 0, with the lag extrapolated by one loop delay if it grows."""
    ahead = value_s + delay_s * slope if slope > LEAD_SLOPE else value_s
    return max(0.0, (ahead - idle_s) / max(slo_s - idle_s, slo_s / 10))


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
    protection: Protection, track: Track, since_ms: int, idle_s: float | None, delay_s: float, now_ms: int
) -> Pressure | None:
    """The pressure by samples taken after `since_ms`; None when there is none yet, or no baseline to compare with."""
    usable = len(track.times_ms)
    while usable and track.times_ms[-usable] <= since_ms:
        usable -= 1
    if not usable:
        return None
    peak = PEAK_OF if protection.kind is SignalKind.LATENCY else 1
    value = max(track.values[-min(usable, peak) :])
    age_ms = max(0, now_ms - track.times_ms[-1])
    severity = value / protection.slo_s
    if protection.kind is SignalKind.LATENCY:
        if idle_s is None:
            return None
        return Pressure(protection.name, latency_pressure(value, idle_s, protection.slo_s), severity, value, age_ms)
    slope = growth(track.times_ms[-usable:], track.values[-usable:])
    z = lag_pressure(value, slope, delay_s, protection.idle_s, protection.slo_s)
    return Pressure(protection.name, z, severity, value, age_ms)
