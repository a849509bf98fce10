"""Turns many measurements of a latency into one reading per period of the controller: their 99th percentile."""

from recoveryd.live.freshness import Reading
from recoveryd.ports import Clock


class LatencyWindow:
    """The worst measurement of each interval of `every_s`, which is the p99 of anything below a hundred measurements.

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
        self._worst: float | None = None
        self._began_s, self._began_ms = self._clock.monotonic_s(), self._clock.now_ms()

    def add(self, seconds: float) -> None:
        self._worst = seconds if self._worst is None else max(self._worst, seconds)

    def take(self) -> Reading | None:
        """The reading of an interval that is over, and begin the next one. None before its end, and when nothing was
        measured in it.
        """
        if self._clock.monotonic_s() - self._began_s < self._every_s:
            return None
        worst, began_ms = self._worst, self._began_ms
        self.begin()
        return None if worst is None else Reading(self._name, worst, began_ms)
