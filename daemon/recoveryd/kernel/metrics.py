"""What a metric is, and what a capability has to say in metrics. Base units only: seconds, bytes, records.

A label value is a member of a closed set, the name of a topic in play, a consumer group or an id; series that name an id go one hour after it ended. A scrape
runs in the daemon's loop, so what is shown is bounded, and a value that is not known has no sample: nobody shall see a zero that nobody measured.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import State


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """`labels` in the order in which samples give their values; `buckets` are upper bounds, of histograms only."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One value: what a gauge is now, or what a counter grows by. `labels` are the values for `metric.labels`."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


RECOVERIES = Metric(
    "recoveryd_recoveries", MetricKind.GAUGE, "Recoveries the daemon knows, by state.", ("kind", "state")
)


def count_states(kinds: Iterable[str], counts: Mapping[tuple[str, State], int]) -> Iterator[Sample]:
    """How many of these kinds are in each state, zeros too."""
    return (Sample(RECOVERIES, (kind, state.value), counts.get((kind, state), 0)) for kind in kinds for state in State)


def _none(_state: CoreState, _now_ms: int) -> Iterable[Sample]:
    return ()


def _unmoved(_before: CoreState, _after: CoreState) -> Iterable[Sample]:
    return ()


def _no_topics(_state: CoreState, _now_ms: int) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Measures:
    """`gauges` are the values at a moment, `increments` how far the way between two states moves the counters.

    A counter that first appears with its first step hides that step from a rate. So those whose label values are a closed set begin as `first`, and
    `beginnings` are zeros of those that name what is new between two states. `topics`: whose series are kept.
    """

    metrics: tuple[Metric, ...] = ()
    first: tuple[Sample, ...] = ()
    gauges: Callable[[CoreState, int], Iterable[Sample]] = _none
    beginnings: Callable[[CoreState, CoreState], Iterable[Sample]] = _unmoved
    increments: Callable[[CoreState, CoreState], Iterable[Sample]] = _unmoved
    topics: Callable[[CoreState, int], Iterable[str]] = _no_topics
