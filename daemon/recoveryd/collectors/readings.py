"""Turns many measurements of a latency into one reading: an upper bound of their 90th percentile.

Of 29 measurements the worst is above the 90th percentile with 95 % certainty; of more, one further down is. So a
reading is rather too high than too low, and what one slow record can do to it shrinks with every further one.
"""

from math import comb
from typing import Final

from recoveryd.live.freshness import Reading
from recoveryd.ports import Clock

ENOUGH: Final = 29
QUANTILE: Final = 0.9
CERTAINTY: Final = 0.95
_MOST: Final = 200  # measurements of one interval; of more, the first ones are left out
_PERIODS_MOST: Final = 2


class LatencyWindow:
    """A reading per interval: at least `every_s` long, and until there are `ENOUGH` measurements, or for two times
    `every_s` if these do not come; of too few, the worst is the reading.

    Intervals do not overlap: in a sliding window one slow record would be told again and again, and the controller
    would cut for it each time. A reading has the time at which its interval *began*, so that "taken after the last cut"
    is true of every measurement in it.
    """

    def __init__(self, name: str, every_s: float, clock: Clock) -> None:
        self._name = name
        self._every_s = every_s
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Forget everything and begin an interval."""
        self._found: list[float] = []
        self._began_s, self._began_ms = self._clock.monotonic_s(), self._clock.now_ms()

    def add(self, seconds: float) -> None:
        """A measurement. One that is still waited for may be added again and again: it stands for all that would have
        been sent meanwhile.
        """
        self._found.append(seconds)
        del self._found[:-_MOST]

    def take(self) -> Reading | None:
        """The reading of an interval that is over, and begin the next one. None before its end, and when nothing was
        measured in it.
        """
        passed_s = self._clock.monotonic_s() - self._began_s
        if passed_s < self._every_s or (len(self._found) < ENOUGH and passed_s < _PERIODS_MOST * self._every_s):
            return None
        found, began_ms = sorted(self._found), self._began_ms
        self.begin()
        return Reading(self._name, found[bound_rank(len(found)) - 1], began_ms) if found else None


def bound_rank(count: int) -> int:
    """Which of so many sorted measurements, counted from 1, is above their 90th percentile with 95 % certainty; the
    last one if none is.
    """
    below = 0.0
    for rank in range(1, count + 1):
        # `below`: the chance that fewer than `rank` measurements lie under the percentile.
        below += comb(count, rank - 1) * QUANTILE ** (rank - 1) * (1 - QUANTILE) ** (count - rank + 1)
        if below >= CERTAINTY:
            return rank
    return max(1, count)
