"""The machine's clocks. Only adapters and the runtime ask what time it is; the core is told."""

import time


class SystemClock:
    """Wall clock for what people and records see, monotonic clock for how long something took."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
