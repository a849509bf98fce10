"""What the controller keeps from one recovery to the next, and over a restart: the rate that was safe in each hour of
the day, for work that brings records and for work that only reads them. With the latency at rest of each signal it is
journaled (`recoveryd.live.keeping`).

It never raises a rate by itself: it only says how far a rate may climb quickly while fresh samples
show that live traffic is well.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

HOUR_MS = 3_600_000
HOURS = 24
NEAR_MS = 1_800_000
# A day, so that a daily run knows what was too much in yesterday's; an hour more for a clock that was changed, and one
# for harm that came within an hour of what is journaled (`recoveryd.live.keeping`), of which a restart knows no later.
HARM_MS = (HOURS + 2) * HOUR_MS
_FORGET = 0.02  # of the distance to a lower rate that turned out to be enough, per observation


class WorkKind(StrEnum):
    """What replays do to the brokers of a domain: a proof and a backup only read, which is less work per byte. `MIXED`:
    some bring records and others only read, so a rate of all of them together tells what is safe for neither.
    """

    WRITE = "write"
    READ = "read"
    MIXED = "mixed"


class Tried(NamedTuple):
    """A rate in bytes/s that lanes had and used at a time. A loop delay later samples tell whether it was safe."""

    at_ms: int
    rate: float
    work: WorkKind


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes/s by hour of the day (UTC): `safe` while records were brought, `safe_read` while they were only read.
    `harm_ms`: when a rate last turned out to be too high. `protects`: the signals for which rates were safe, with their
    SLOs in seconds; empty = not known.
    """

    safe: Mapping[int, float] = field(default_factory=dict)
    safe_read: Mapping[int, float] = field(default_factory=dict)
    harm_ms: int | None = None
    protects: Mapping[str, float] = field(default_factory=dict)

    def safe_at(self, now_ms: int, work: WorkKind = WorkKind.WRITE) -> float | None:
        """The safe rate of this hour, else of the last one; None when neither is known."""
        hour, known = hour_of(now_ms), self._of(work)
        return known.get(hour, known.get((hour - 1) % HOURS))

    def protecting(self, slos: Mapping[str, float], *, some_left_out: bool = False) -> "Memory":
        """What is known of rates where these signals are protected. Where one was added since, or an SLO is shorter,
        nobody saw what was safe for it: that is forgotten, and that a rate was too high is not. With `some_left_out`
        there are others that count again later.
        """
        if not slos or slos == self.protects:
            return self
        is_new = any(slo_s < self.protects.get(name, math.inf) for name, slo_s in slos.items())
        if is_new and self.protects:
            return Memory(harm_ms=self.harm_ms, protects=slos)
        return self if some_left_out else replace(self, protects=slos)

    def with_safe(self, rate: float, now_ms: int, work: WorkKind = WorkKind.WRITE) -> "Memory":
        """After a rate was safe: a higher one counts at once, a lower one slowly. Of mixed work nothing is learned."""
        if work is WorkKind.MIXED:
            return self
        known = self._of(work).get(hour_of(now_ms))
        kept = rate if known is None or rate >= known else known + _FORGET * (rate - known)
        return self._having(work, {hour_of(now_ms): kept})

    def with_tried(self, tried: Iterable[Tried]) -> "Memory":
        """As `with_safe` with each of these rates, the oldest first, at the time at which it was used."""
        after = self
        for one in tried:
            after = after.with_safe(one.rate, one.at_ms, one.work)
        return after

    def with_most(self, rate: float, now_ms: int, work: WorkKind = WorkKind.WRITE) -> "Memory":
        """After a rate turned out to be too high: what was safe is at most this, also in the next hour if that
        is near.
        """
        this, near = hour_of(now_ms), hour_of(now_ms + NEAR_MS)
        known = {near: self._of(work).get(near), this: self.safe_at(now_ms, work)}
        lower = {hour: rate for hour, safe in known.items() if safe is not None and safe > rate}
        return replace(self._having(work, lower) if lower else self, harm_ms=now_ms)

    def knows_harm(self, now_ms: int) -> bool:
        """Whether a rate was too high within a day, and a little more."""
        return self.harm_ms is not None and now_ms - self.harm_ms < HARM_MS

    def _of(self, work: WorkKind) -> Mapping[int, float]:
        """Of mixed work what is safe for copies, which is less."""
        return self.safe_read if work is WorkKind.READ else self.safe

    def _having(self, work: WorkKind, rates: Mapping[int, float]) -> "Memory":
        found = {**self._of(work), **rates}
        return replace(self, safe_read=found) if work is WorkKind.READ else replace(self, safe=found)


def hour_of(now_ms: int) -> int:
    return now_ms // HOUR_MS % HOURS
