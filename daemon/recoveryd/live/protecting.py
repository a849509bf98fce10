"""What is known of live traffic, and the state of the controllers. It is lost at a restart and filled again; until then
rates stay at the floor.

One value in the state of the core. `recoveryd.live.on_live` fills it, `recoveryd.recovery.throttling` decides by it,
the law is in `recoveryd.live.law`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from recoveryd.kernel.replacing import replaced
from recoveryd.live.budgets import Grant
from recoveryd.live.freshness import Reading, RejectReason
from recoveryd.live.lag.book import LagBook, Reader
from recoveryd.live.lag.verdicts import GroupLag, LagVerdict
from recoveryd.live.law.types import ControlDecision, ControllerState
from recoveryd.live.traffic import LiveTraffic

READINGS_MOST = 1_024  # kept for one domain between two steps
INGRESS_POINTS = 4  # samples of live traffic by which its bytes/s are told


@dataclass(frozen=True, slots=True)
class ReaderLag:
    """The lag of one consumer group on one topic as of `evaluated_ms`. `planned`: all partitions of the topic. `told`:
    the verdict last told on the events topic.
    """

    planned: tuple[int, ...]
    group: GroupLag
    evaluated_ms: int
    told: LagVerdict | None = None
    told_ms: int = 0

    def sample_age_ms(self, now_ms: int) -> int | None:
        """Age of the oldest partition's newest sample; None while a partition was never seen."""
        age_ms = self.group.sample_age_ms
        return None if age_ms is None else max(0, age_ms + now_ms - self.evaluated_ms)


@dataclass(frozen=True, slots=True)
class Ingress:
    """Live traffic of one domain: (time, bytes counted so far) at the last few samples, all of the same topics.
    `sizes`: by topic, the bytes by which each of its records is counted. `since_ms`: the time of the first sample by
    these sizes.
    """

    points: tuple[tuple[int, float], ...] = ()
    sizes: Mapping[str, float] = field(default_factory=dict)
    since_ms: int | None = None

    @property
    def bytes_per_s(self) -> float | None:
        """None until there are `INGRESS_POINTS` samples: where replays write too, live records are counted in bursts,
        so fewer would tell a wrong rate.
        """
        if len(self.points) < INGRESS_POINTS:
            return None
        (first_ms, first), (last_ms, last) = self.points[0], self.points[-1]
        return max(0.0, (last - first) * 1000 / (last_ms - first_ms)) if last_ms > first_ms else None


@dataclass(frozen=True, slots=True)
class Protecting:
    """`readings` wait for the next step of their domain. `left_out`: by domain and name the protected signals that did
    not count at the last step, each with why. `rules` counts decisions by (domain, rule). `violations_s` counts seconds
    over an SLO by (domain, signal, yes | no). `rejections` counts refused samples. All counts only grow.
    """

    book: LagBook = LagBook()
    lags: Mapping[Reader, ReaderLag] = field(default_factory=dict)
    traffic: LiveTraffic = LiveTraffic()
    ingress: Mapping[str, Ingress] = field(default_factory=dict)
    readings: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)
    states: Mapping[str, ControllerState] = field(default_factory=dict)
    decisions: Mapping[str, ControlDecision] = field(default_factory=dict)
    grants: Mapping[str, Grant] = field(default_factory=dict)
    left_out: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stepped_ms: int = 0
    kept_ms: int = 0  # when what outlives the daemon was last looked at
    rules: Mapping[tuple[str, str], int] = field(default_factory=dict)
    violations_s: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    rejections: Mapping[RejectReason, int] = field(default_factory=dict)

    def with_rejections(self, reasons: Mapping[RejectReason, int]) -> "Protecting":
        """With these counts added."""
        more = {reason: n for reason, n in reasons.items() if n > 0}
        if not more:
            return self
        return replace(
            self, rejections={**self.rejections, **{r: self.rejections.get(r, 0) + n for r, n in more.items()}}
        )

    def with_reading(self, domain: str, reading: Reading, domains: Iterable[str]) -> "Protecting":
        """With one more reading for the next step. A reading of an unknown domain, or beyond the bound, is only
        counted; a critical one takes the place of one that is not.
        """
        refused = self._refuse(domain, domains)
        if refused is RejectReason.TOO_MANY and reading.is_critical:
            made = self._without_one_that_can_wait(domain)
            return self.with_rejections({refused: 1}) if made is None else made.with_reading(domain, reading, domains)
        if refused is not None:
            return self.with_rejections({refused: 1})
        return replace(self, readings=self._waiting_with(domain, reading))

    def with_lag(
        self, book: LagBook, reader: Reader, lag: ReaderLag, reading: Reading | None, domains: Iterable[str]
    ) -> "Protecting":
        """With the verdict on a reader by `book`, and as `with_reading` with what it is for the controller. In one
        step, because ten thousand reports may come in a second.
        """
        refused = None if reading is None else self._refuse(reader.cluster, domains)
        is_taken = reading is not None and refused is None
        readings = self._waiting_with(reader.cluster, reading) if is_taken and reading else self.readings
        after = replaced(self, book=book, lags={**self.lags, reader: lag}, readings=readings)
        return after if refused is None else after.with_rejections({refused: 1})

    def _refuse(self, domain: str, domains: Iterable[str]) -> RejectReason | None:
        if domain not in domains:
            return RejectReason.UNKNOWN_NAME
        return RejectReason.TOO_MANY if len(self.readings.get(domain, ())) >= READINGS_MOST else None

    def _without_one_that_can_wait(self, domain: str) -> "Protecting | None":
        """Without the oldest reading that is not critical, which is counted as refused; None when all are critical."""
        waiting = self.readings.get(domain, ())
        place = next((n for n, reading in enumerate(waiting) if not reading.is_critical), None)
        if place is None:
            return None
        left = {**self.readings, domain: (*waiting[:place], *waiting[place + 1 :])}
        return replace(self, readings=left).with_rejections({RejectReason.TOO_MANY: 1})

    def _waiting_with(self, domain: str, reading: Reading) -> Mapping[str, tuple[Reading, ...]]:
        return {**self.readings, domain: (*self.readings.get(domain, ()), reading)}


def grown(before: Mapping[RejectReason, int], after: Mapping[RejectReason, int]) -> dict[RejectReason, int]:
    """By how much each count grew; a count that is lower than before began anew and counts whole."""
    if before is after:
        return {}
    return {reason: n - before.get(reason, 0) if n >= before.get(reason, 0) else n for reason, n in after.items()}
