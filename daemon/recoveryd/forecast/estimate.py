"""Rates from a few samples of a growing count, with their error. Fewer than three samples give no estimate.
Counts may be records or bytes.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

SAMPLES_LEAST = 3
SAMPLES_MOST = 20


class CountSample(NamedTuple):
    """A cumulative count and when it was read."""

    at_s: float
    total: float


class RateEstimate(NamedTuple):
    """Per second, with its standard error, from `samples` samples."""

    per_s: float
    sigma: float
    samples: int


def estimate_rate(samples: Sequence[CountSample]) -> RateEstimate | None:
    """Rate over the newest 20 samples, by least squares; None with fewer than three at different times. A falling
    count gives a negative rate.
    """
    used = _usable(samples)
    if len(used) < SAMPLES_LEAST:
        return None
    slope = ols_slope(used)
    return RateEstimate(slope, _sigma(used, slope), len(used))


def ols_slope(samples: Sequence[CountSample]) -> float:
    """The slope by least squares; needs two different times."""
    mean_t, mean_c = fmean(s.at_s for s in samples), fmean(s.total for s in samples)
    spread = math.fsum((s.at_s - mean_t) ** 2 for s in samples)
    return math.fsum((s.at_s - mean_t) * (s.total - mean_c) for s in samples) / spread


def _usable(samples: Sequence[CountSample]) -> list[CountSample]:
    """The newest finite samples, one per microsecond, in order of time."""
    sound = {round(s.at_s, 6): s for s in samples if math.isfinite(s.at_s) and math.isfinite(s.total)}
    return [sound[at] for at in sorted(sound)][-SAMPLES_MOST:]


def _sigma(samples: Sequence[CountSample], slope: float) -> float:
    """Standard error of the slope, from the residuals."""
    if len(samples) <= 2:
        return 0.0
    mean_t, mean_c = fmean(s.at_s for s in samples), fmean(s.total for s in samples)
    left = math.fsum((s.total - mean_c - slope * (s.at_s - mean_t)) ** 2 for s in samples)
    spread = math.fsum((s.at_s - mean_t) ** 2 for s in samples)
    return math.sqrt(left / (len(samples) - 2) / spread)


def contended_rate(read_only: float, loss: float = 0.2) -> float:
    """A read-only rate less the part lost when others produce to the same brokers; as measured, a fifth."""
    return read_only * (1 - loss)
