"""What is known of live traffic, and what the controllers made of it. Soft: after a restart it fills again, and until then rates stay at the floor.

One value in the state of the core. Watching is `recoveryd.live.on_live`, deciding `recoveryd.recovery.throttling`; the law is in `recoveryd.live`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from recoveryd.live.budgets import Grant
from recoveryd.live.freshness import Reading, RejectReason
from recoveryd.live.lag.book import LagBook, Reader
from recoveryd.live.lag.verdicts import GroupLag, LagVerdict
from recoveryd.live.law.types import ControlDecision, ControllerState
from recoveryd.live.traffic import LiveTraffic

READINGS_MOST = 1_024  # of one domain between two steps


@dataclass(frozen=True, slots=True)
class ReaderLag:
    """The lag of one consumer group on one topic as of `evaluated_ms`. `planned` are all partitions of the topic; `told` is the verdict the events topic has."""

    planned: tuple[int, ...]
    group: GroupLag
    evaluated_ms: int
    told: LagVerdict | None = None
    told_ms: int = 0

    def sample_age_ms(self, now_ms: int) -> int | None:
        """Age of the oldest of the newest samples; None while a partition was never seen."""
        age_ms = self.group.sample_age_ms
        return None if age_ms is None else max(0, age_ms + now_ms - self.evaluated_ms)


@dataclass(frozen=True, slots=True)
class Ingress:
    """Of one domain: (time, bytes of live traffic seen so far) at the last few looks."""

    points: tuple[tuple[int, float], ...] = ()

    @property
    def bytes_per_s(self) -> float | None:
        if len(self.points) < 2:
            return None
        (first_ms, first), (last_ms, last) = self.points[0], self.points[-1]
        return max(0.0, (last - first) * 1000 / (last_ms - first_ms)) if last_ms > first_ms else None


@dataclass(frozen=True, slots=True)
class Protecting:
    """`readings` wait for the next step of their domain. `rules` counts decisions by (domain, rule), `violations_s` seconds over an SLO by
    (domain, signal, yes | no), `rejections` what was not believed; they only grow.
    """

    book: LagBook = LagBook()
    lags: Mapping[Reader, ReaderLag] = field(default_factory=dict)
    traffic: LiveTraffic = LiveTraffic()
    ingress: Mapping[str, Ingress] = field(default_factory=dict)
    readings: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)
    states: Mapping[str, ControllerState] = field(default_factory=dict)
    decisions: Mapping[str, ControlDecision] = field(default_factory=dict)
    grants: Mapping[str, Grant] = field(default_factory=dict)
    stepped_ms: int = 0
    rules: Mapping[tuple[str, str], int] = field(default_factory=dict)
    violations_s: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    rejections: Mapping[RejectReason, int] = field(default_factory=dict)

    def with_rejections(self, reasons: Mapping[RejectReason, int]) -> "Protecting":
        """These counted as well."""
        more = {reason: n for reason, n in reasons.items() if n > 0}
        if not more:
            return self
        return replace(
            self, rejections={**self.rejections, **{r: self.rejections.get(r, 0) + n for r, n in more.items()}}
        )

    def with_reading(self, domain: str, reading: Reading, domains: Iterable[str]) -> "Protecting":
        """One more reading for the next step; of a domain that is none, or beyond the bound, it is counted only."""
        if domain not in domains:
            return self.with_rejections({RejectReason.UNKNOWN_NAME: 1})
        waiting = self.readings.get(domain, ())
        if len(waiting) >= READINGS_MOST:
            return self.with_rejections({RejectReason.TOO_MANY: 1})
        return replace(self, readings={**self.readings, domain: (*waiting, reading)})


def grown(before: Mapping[RejectReason, int], after: Mapping[RejectReason, int]) -> dict[RejectReason, int]:
    """How far counts grew; a count that began anew counts whole."""
    if before is after:
        return {}
    return {reason: n - before.get(reason, 0) if n >= before.get(reason, 0) else n for reason, n in after.items()}
