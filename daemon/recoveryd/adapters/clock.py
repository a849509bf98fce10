"""The machine's clocks. Only adapters and the runtime ask what time it is; the core is told.

`RECOVERYD_CLOCK_OFFSET_MS=-3600000` shifts the wall clock of this process, so that tests can show what a wrong clock
does (nothing to a running copy).
"""

import os
import time

OFFSET_VARIABLE = "RECOVERYD_CLOCK_OFFSET_MS"


class SystemClock:
    """Wall clock for what people and records see, monotonic clock for how long something took. Raises ValueError when
    the offset is no whole number.
    """

    def __init__(self) -> None:
        self._offset_ms = int(os.environ.get(OFFSET_VARIABLE, "0"))

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000 + self._offset_ms

    def monotonic_s(self) -> float:
        return time.monotonic()
