"""All metrics and their values: those of every capability, and the daemon's own. `recoveryd.adapters.http.metrics_page`
exposes them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from recoveryd.kernel.capability import Capability
from recoveryd.kernel.decision import Answer
from recoveryd.kernel.metrics import RECOVERIES, Metric, Sample
from recoveryd.kernel.state import CoreState
from recoveryd.metrics import definitions
from recoveryd.metrics.definitions import COMMANDS

_ANSWERS: Final = ("accepted", "rejected", "duplicate", "expired")


class MetricsBook:
    def __init__(self, capabilities: Sequence[Capability[Any]]) -> None:
        self._measures = tuple(capability.measures for capability in capabilities)
        self._verbs = sorted({verb.name for c in capabilities for verb in c.verbs})

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The one catalogue: dashboards, docs and the exporter take names, kinds, labels and help from here."""
        return (RECOVERIES, *(metric for m in self._measures for metric in m.metrics), *definitions.METRICS)

    def first(self) -> Iterator[Sample]:
        """Zeros of the counters whose label values are a closed set."""
        yield from (Sample(COMMANDS, (verb, answer), 0) for verb in self._verbs for answer in _ANSWERS)
        for measures in self._measures:
            yield from measures.first

    def gauges(self, state: CoreState, now_ms: int) -> Iterator[Sample]:
        """Every gauge that follows from the state."""
        for measures in self._measures:
            yield from measures.gauges(state, now_ms)

    def beginnings(self, before: CoreState, after: CoreState) -> Iterator[Sample]:
        """Zeros of the counters for label values that are new since `before`, such as a new recovery."""
        for measures in self._measures:
            yield from measures.beginnings(before, after)

    def increments(self, before: CoreState, after: CoreState, answers: Iterable[Answer] = ()) -> list[Sample]:
        """By how much the step from `before` to `after`, with these answers, moves the counters; zeros are left out."""
        samples = [Sample(COMMANDS, (answer.verb or "unknown", answer.kind), 1) for answer in answers]
        for measures in self._measures:
            samples.extend(measures.increments(before, after))
        return [sample for sample in samples if sample.value > 0]

    def topics(self, state: CoreState, now_ms: int) -> set[str]:
        """Names of topics that are watched, or that a recovery reads or writes, or did within the last hour."""
        return {topic for measures in self._measures for topic in measures.topics(state, now_ms)}
