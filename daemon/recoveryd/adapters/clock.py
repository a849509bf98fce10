"""The machine's clocks. Only adapters and the runtime ask what time it is; the core is told.

The core subtracts times from each other: how old a heartbeat is, when a lease was renewed, how long nothing moved. Were
these times of the wall clock, setting it forward by an hour would end every running recovery as stalled, and setting it
back would keep leases from being renewed until the clock caught up. So the daemon has a time of its own. It begins as
the wall clock's and advances with the monotonic clock; small differences are made up for gradually, as NTP does; a
large one is told (`set_by_ms`) and changes nothing until the runtime takes it over (`adopt`), which it does as a
restart would: with all durations forgotten.

`RECOVERYD_CLOCK_OFFSET_MS=-3600000` shifts the wall clock of this process, so that tests can show what a wrong clock
does (nothing to a running copy); `@/path` takes the number from a file whenever the clock is looked at.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

OFFSET_VARIABLE = "RECOVERYD_CLOCK_OFFSET_MS"
# More takes so long to be made up for that signals of others, whose clocks are right, would be refused meanwhile.
SLEWED_AT_MOST_MS: Final = 5_000
STANDS_S: Final = 2.0
_SLEW: Final = 0.1  # a second of ours lasts 0.9 to 1.1 seconds


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class SystemClock:
    """Wall clock for what people and records see, monotonic clock for how long something took. May be used from any
    thread. Raises ValueError when the offset is no whole number.
    """

    def __init__(
        self, wall_ms: Callable[[], int] = _wall_ms, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall_ms, self.monotonic_s = wall_ms, monotonic_s
        offset = os.environ.get(OFFSET_VARIABLE, "0")
        self._offset_file = Path(offset[1:]) if offset.startswith("@") else None
        self._offset_ms = 0 if self._offset_file is not None else int(offset)
        self._lock = threading.Lock()
        self._looked_s = monotonic_s()
        self._steady_ms = float(self._wall())
        self._differs_s: float | None = None  # since when by more than can be made up for

    def now_ms(self) -> int:
        """Milliseconds since the epoch; never runs back between two calls of `adopt`."""
        with self._lock:
            self._look()
            return int(self._steady_ms)

    def set_by_ms(self) -> int:
        """By how much the wall clock was set, when that is too much to be made up for and has stood for some seconds;
        0 = it was not.
        """
        with self._lock:
            differs_ms = self._look()
            has_stood = self._differs_s is not None and self._looked_s - self._differs_s >= STANDS_S
            return int(differs_ms) if has_stood else 0

    def differs(self) -> bool:
        """Whether the wall clock differs by that much now, for however long."""
        with self._lock:
            return abs(self._look()) > SLEWED_AT_MOST_MS

    def adopt(self) -> None:
        """Take over the wall clock's time. Times of before cannot be compared with those of after."""
        with self._lock:
            self._look()
            self._steady_ms, self._differs_s = float(self._wall()), None

    def _look(self) -> float:
        """Advance to now; returns how far the wall clock is ahead."""
        now_s = self.monotonic_s()
        passed_ms = max(0.0, now_s - self._looked_s) * 1000
        self._looked_s = now_s
        self._steady_ms += passed_ms
        ahead_ms = self._wall() - self._steady_ms
        if abs(ahead_ms) > SLEWED_AT_MOST_MS:
            self._differs_s = now_s if self._differs_s is None else self._differs_s
            return ahead_ms
        self._differs_s = None
        most_ms = _SLEW * passed_ms
        self._steady_ms += min(most_ms, max(-most_ms, ahead_ms))
        return ahead_ms

    def _wall(self) -> int:
        offset_ms = self._offset_ms if self._offset_file is None else int(self._offset_file.read_text())
        return self._wall_ms() + offset_ms
