"""Which readings may be used, and how old our knowledge is.

A reading that is not a number, negative, from the future, too old or not newer than the last one of its signal is
refused and counted; it never becomes a value, least of all zero. Of each signal a short `Track` of sample times, values
and ages at arrival is kept. The loop delay is measured from tracks.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

TRACK_LENGTH = 24
_ENOUGH_TO_MEASURE = 12


class RejectReason(StrEnum):
    """Why a sample is not used; the closed set of label values of its counter."""

    NOT_A_NUMBER = "not_a_number"
    NEGATIVE = "negative"
    FUTURE = "future"
    TOO_OLD = "too_old"
    OUT_OF_ORDER = "out_of_order"
    END_DECREASED = "end_decreased"
    UNKNOWN_NAME = "unknown_name"
    DUPLICATE_PARTITION = "duplicate_partition"
    TOO_MANY = "too_many"
    WRONG_UNIT = "wrong_unit"
    NO_ANSWER = "no_answer"


class Reading(NamedTuple):
    """One measured value of a named signal, in seconds or bytes/s, and when it was *taken*. `is_critical`: another
    program called it critical, so later measurements do not replace it.
    """

    name: str
    value: float
    sampled_at_ms: int
    is_critical: bool = False


@dataclass(frozen=True, slots=True)
class FreshnessParams:
    """`future_ms`: tolerated error of clocks. A sample older than `too_old_ms` says nothing about the present."""

    future_ms: int = 2_000
    too_old_ms: int = 300_000


class Track(NamedTuple):
    """The last accepted readings of one signal, oldest first; `ages_ms` are their ages when they arrived."""

    times_ms: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    ages_ms: tuple[int, ...] = ()

    @property
    def newest_ms(self) -> int | None:
        return self.times_ms[-1] if self.times_ms else None

    @property
    def gap_ms(self) -> float:
        """The usual time between two samples; 0 with fewer than two."""
        return _usual_gap_ms(self.times_ms)

    @property
    def old_ms(self) -> int | None:
        """The age at arrival that nine of ten do not exceed; None without samples."""
        return _nine_of_ten(self.ages_ms) if self.ages_ms else None


# Each step asks several times for the same of each signal.
@lru_cache(maxsize=1024)
def _usual_gap_ms(times_ms: tuple[int, ...]) -> float:
    gaps = sorted(later - earlier for earlier, later in pairwise(times_ms))
    return gaps[len(gaps) // 2] if gaps else 0.0


@lru_cache(maxsize=1024)
def _nine_of_ten(ages_ms: tuple[int, ...]) -> int:
    return sorted(ages_ms)[int(0.9 * (len(ages_ms) - 1))]


def refuse_reading(value: float, sampled_at_ms: int, now_ms: int, params: FreshnessParams) -> RejectReason | None:
    """Why a value may not be used at all, or None if it may."""
    if not math.isfinite(value):
        return RejectReason.NOT_A_NUMBER
    if value < 0:
        return RejectReason.NEGATIVE
    if sampled_at_ms > now_ms + params.future_ms:
        return RejectReason.FUTURE
    return RejectReason.TOO_OLD if sampled_at_ms < now_ms - params.too_old_ms else None


def with_reading(
    track: Track, reading: Reading, now_ms: int, params: FreshnessParams
) -> tuple[Track, RejectReason | None]:
    """The track with the reading at its end; or the same track and why the reading was refused."""
    refused = refuse_reading(reading.value, reading.sampled_at_ms, now_ms, params)
    if refused is not None:
        return track, refused
    if track.times_ms and reading.sampled_at_ms <= track.times_ms[-1]:
        return track, RejectReason.OUT_OF_ORDER
    age_ms = max(0, now_ms - reading.sampled_at_ms)
    return Track(
        (*track.times_ms, reading.sampled_at_ms)[-TRACK_LENGTH:],
        (*track.values, reading.value)[-TRACK_LENGTH:],
        (*track.ages_ms, age_ms)[-TRACK_LENGTH:],
    ), None


def with_late_alarm(
    track: Track, reading: Reading, valid_from_ms: int, now_ms: int, params: FreshnessParams
) -> tuple[Track, RejectReason | None]:
    """Take a critical reading that is not newer than the newest one of the track: the newest then counts at least as
    much. Valid if taken at `valid_from_ms` or later; else the same track and why it was refused.
    """
    refused = refuse_reading(reading.value, reading.sampled_at_ms, now_ms, params)
    if refused is None and reading.sampled_at_ms < valid_from_ms:
        refused = RejectReason.OUT_OF_ORDER
    if refused is not None:
        return track, refused
    return track._replace(values=(*track.values[:-1], max(track.values[-1], reading.value))), None


def counted(rejections: Mapping[RejectReason, int], reasons: Iterable[RejectReason]) -> Mapping[RejectReason, int]:
    """The counts per reason with the new ones added; the same mapping when there are none."""
    more = list(reasons)
    if not more:
        return rejections
    counts = dict(rejections)
    for reason in more:
        counts[reason] = counts.get(reason, 0) + 1
    return counts


def loop_delay_ms(
    tracks: Iterable[Track], period_ms: int, actuation_ms: int, default_ms: int, most_ms: int = 120_000
) -> int:
    """The loop delay: how long after an event a reaction to it can take effect.

    It is the sum of the worst signal's p90 age at arrival, the wait between its samples, one period of the controller,
    and the time that lanes need to obey (`actuation_ms`). The default until every signal has a dozen samples, or more
    where the first ones show more: a sample that tells of a minute is no older than it has to be.
    """
    worst, least_ms = 0.0, 2 * period_ms
    for track in tracks:
        if len(track.ages_ms) < _ENOUGH_TO_MEASURE:
            least_ms = default_ms
        if (old_ms := track.old_ms) is not None:
            worst = max(worst, old_ms + max(0.0, track.gap_ms - period_ms))
    if worst == 0.0:
        return default_ms
    return int(min(most_ms, max(least_ms, worst + period_ms + actuation_ms)))
