"""What the controller keeps from one recovery to the next, and over a restart: the rate that was safe in each hour of
the day. With the latency at rest of each signal it is journaled (`recoveryd.live.keeping`).

It never raises a rate by itself: it only says how far a rate may climb quickly while fresh samples
show that live traffic is well.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

HOUR_MS = 3_600_000
HOURS = 24
_FORGET = 0.02  # of the distance to a lower rate that turned out to be enough, per observation


@dataclass(frozen=True, slots=True)
class Memory:
    """`safe`: bytes/s by hour of the day (UTC)."""

    safe: Mapping[int, float] = field(default_factory=dict)

    def safe_at(self, now_ms: int) -> float | None:
        """The safe rate of this hour, else of the last one; None when neither is known."""
        hour = hour_of(now_ms)
        return self.safe.get(hour, self.safe.get((hour - 1) % HOURS))

    def with_safe(self, rate: float, now_ms: int) -> "Memory":
        """After a rate was safe: a higher one counts at once, a lower one slowly."""
        hour = hour_of(now_ms)
        known = self.safe.get(hour)
        kept = rate if known is None or rate >= known else known + _FORGET * (rate - known)
        return replace(self, safe={**self.safe, hour: kept})

    def with_most(self, rate: float, now_ms: int) -> "Memory":
        """After a rate turned out to be too high: what was safe is at most this."""
        hour, known = hour_of(now_ms), self.safe_at(now_ms)
        return self if known is None or known <= rate else replace(self, safe={**self.safe, hour: rate})


def hour_of(now_ms: int) -> int:
    return now_ms // HOUR_MS % HOURS
