"""The rate of a copy whose granted rate moved lately, as while the controller climbs: what was copied in the last
minutes then says little about the next ones.

The estimate starts from the rate that is granted now, as far as the lanes use it, and follows its trend up to a bound:
the last rate that was safe, where that is known. Where it is not, the rate may end anywhere between the present one and
the limit; the middle of the two (by ratio) is never far off. What is uncertain is said: at worst nothing grows any
more, at best the trend goes on to the limit. Counts may be records or bytes.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

_MOVED = 0.1  # relative; a smaller change of the grant needs no estimate of its own
_RECENT = 3  # samples that tell the trend, and how much of the grant is used
_USED_LEAST = 0.6  # below this share of the grant something else limits the lanes


class GrantedSample(NamedTuple):
    """A cumulative count, when it was read, and the rate that was granted then, counts/s."""

    at_s: float
    total: float
    granted: float


class RampRate(NamedTuple):
    """Mean counts/s until the end; `slow` and `fast` are the least and the most that is likely."""

    per_s: float
    slow: float
    fast: float


def has_moved(samples: Sequence[GrantedSample]) -> bool:
    """Whether the grant was another one at some time of these samples."""
    last = samples[-1].granted if samples else 0.0
    return any(abs(s.granted - last) > _MOVED * last for s in samples)


def ramp_rate(samples: Sequence[GrantedSample], left: float, safe: float | None, most: float) -> RampRate | None:
    """The mean rate at which `left` will be copied; None when the samples are too few, or nothing is granted or copied.
    `safe`: the last rate that was safe, None = not known; `most`: what limits allow. Both like `granted`.
    """
    recent = samples[-_RECENT:]
    if (
        len(recent) < _RECENT
        or any(s.granted <= 0 for s in recent)
        or any(b.at_s <= a.at_s for a, b in pairwise(recent))
    ):
        return None
    first, last = recent[0], recent[-1]
    elapsed_s = last.at_s - first.at_s
    copied = (last.total - first.total) / elapsed_s
    if copied <= 0:
        return None
    # A durable count is late by a chunk, so it is compared with what was granted at the start of each interval.
    used = copied * elapsed_s / math.fsum((b.at_s - a.at_s) * a.granted for a, b in pairwise(recent))
    if used < _USED_LEAST:
        return RampRate(copied, copied, copied)
    used = min(1.0, used)
    per_s = max(0.0, *(math.log(last.granted / s.granted) / (last.at_s - s.at_s) for s in recent[:-1]))
    most = max(most, last.granted)
    bound = math.sqrt(last.granted * most) if safe is None or safe <= last.granted else min(safe, most)
    now = used * last.granted
    mean, best = (_mean(left, now, used * end, per_s) for end in (bound, most))
    return RampRate(mean, min(copied, mean), max(best, mean))


def _mean(left: float, now: float, bound: float, per_s: float) -> float:
    """Of a rate that grows from `now` by `per_s` (of its logarithm) up to `bound`, until `left` is copied."""
    if per_s <= 0 or bound <= now or left <= 0:
        return now
    climbed = (bound - now) / per_s
    if left <= climbed:
        return left * per_s / math.log1p(per_s * left / now)
    return left / (math.log(bound / now) / per_s + (left - climbed) / bound)
