"""What a metric is, and what a capability contributes to the metrics. Base units only: seconds, bytes, records.

A label value is a member of a closed set, the name of a topic in use, a consumer group or an id; series with an id are
dropped one hour after its end. A scrape runs in the daemon's loop, so the number of series is bounded. A value that is
not known has no sample, so that no zero is shown that was not measured.
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
    """One value: what a gauge is now, or by how much a counter grows. `labels` are the values for `metric.labels`."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


def counter(name: str, text: str, labels: str = "") -> Metric:
    """`labels` are separated by blanks, here and below."""
    return Metric(name, MetricKind.COUNTER, text, tuple(labels.split()))


def gauge(name: str, text: str, labels: str = "") -> Metric:
    return Metric(name, MetricKind.GAUGE, text, tuple(labels.split()))


def histogram(name: str, text: str, buckets: tuple[float, ...], labels: str = "") -> Metric:
    return Metric(name, MetricKind.HISTOGRAM, text, tuple(labels.split()), buckets)


RECOVERIES = gauge("recoveryd_recoveries", "Recoveries the daemon knows, by state.", "kind state")


def count_states(kinds: Iterable[str], counts: Mapping[tuple[str, State], int]) -> Iterator[Sample]:
    """How many of each of these kinds are in each state, zeros included."""
    return (Sample(RECOVERIES, (kind, state.value), counts.get((kind, state), 0)) for kind in kinds for state in State)


def newest_ends(metric: Metric, ends: Iterable[tuple[str, int]]) -> Iterator[Sample]:
    """By outcome, when the newest of these ended: a count cannot tell of one that ended before its first look. `ends`:
    outcome and ms.
    """
    newest: dict[str, int] = {}
    for outcome, ended_ms in ends:
        newest[outcome] = max(ended_ms, newest.get(outcome, 0))
    return (Sample(metric, (outcome,), ended_ms / 1000) for outcome, ended_ms in newest.items())


def _none(_state: CoreState, _now_ms: int) -> Iterable[Sample]:
    return ()


def _unmoved(_before: CoreState, _after: CoreState) -> Iterable[Sample]:
    return ()


def _no_topics(_state: CoreState, _now_ms: int) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Measures:
    """`gauges` gives the values at a moment, `increments` by how much the counters grow from one state to the next.

    A rate does not see the first step of a counter that appears with that step, so counters begin at zero: `first` when
    the daemon starts, for label values of a closed set, and `beginnings` for what is new in a state. `topics`: the
    topics whose series are kept.
    """

    metrics: tuple[Metric, ...] = ()
    first: tuple[Sample, ...] = ()
    gauges: Callable[[CoreState, int], Iterable[Sample]] = _none
    beginnings: Callable[[CoreState, CoreState], Iterable[Sample]] = _unmoved
    increments: Callable[[CoreState, CoreState], Iterable[Sample]] = _unmoved
    topics: Callable[[CoreState, int], Iterable[str]] = _no_topics
