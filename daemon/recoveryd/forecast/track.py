"""Hysteresis of the verdict: a forecast is made each minute, and two in a row must agree before the verdict changes."""

from dataclasses import dataclass

from recoveryd.forecast.outlook import Outlook

EVALUATE_EVERY_MS = 60_000
EVALUATIONS_TO_CHANGE = 2


@dataclass(frozen=True, slots=True)
class ForecastTrack:
    """The verdict that stands, and a newer one that was seen `count` times in a row. `evaluated_ms` None = never."""

    outlook: Outlook | None = None
    candidate: Outlook | None = None
    count: int = 0
    evaluated_ms: int | None = None

    def is_due(self, now_ms: int) -> bool:
        return self.evaluated_ms is None or now_ms - self.evaluated_ms >= EVALUATE_EVERY_MS

    def with_outlook(self, outlook: Outlook, now_ms: int) -> "ForecastTrack":
        """The track after one evaluation; the first verdict stands at once."""
        if self.outlook is None or outlook is self.outlook:
            return ForecastTrack(outlook, None, 0, now_ms)
        count = self.count + 1 if outlook is self.candidate else 1
        if count >= EVALUATIONS_TO_CHANGE:
            return ForecastTrack(outlook, None, 0, now_ms)
        return ForecastTrack(self.outlook, outlook, count, now_ms)
