"""The catalogue of metrics as a Prometheus registry of our own (nothing of the process's default registry is shown).

Counters and histograms live here and grow; gauges are asked for at each scrape, so a series that has no value any more
is simply gone.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from recoveryd.kernel.metrics import Metric, MetricKind, Sample
from recoveryd.live.params import LOOK_COUNTS_LEAST_MS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LIVE_AT_MOST = 1_000


class Metrics(Collector):
    """Of the catalogue `metrics`. `source` gives the present gauges; it is called at each scrape and must be quick.
    What others report is shown for `live_kept_s`, and while `is_leader` says so: nobody reports it to a standby.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        source: Callable[[], Iterable[Sample]] = tuple,
        live_kept_s: float = LOOK_COUNTS_LEAST_MS / 1000,
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.source = source
        self.is_leader: Callable[[], bool] = lambda: True
        self._live_kept_s = live_kept_s
        self._metrics = metrics
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._of_topics: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
        self._live: dict[tuple[str, ...], tuple[tuple[Sample, ...], float]] = {}
        for metric in self._metrics:
            self._register(metric)
        self._registry.register(self)

    def add(self, samples: Iterable[Sample]) -> None:
        """Let counters grow by the samples' values."""
        for sample in samples:
            counter = self._counters[sample.metric.name]
            (counter.labels(*sample.labels) if sample.labels else counter).inc(sample.value)
            if "topic" in sample.metric.labels:
                self._of_topics.setdefault(sample.labels[sample.metric.labels.index("topic")], set()).add(
                    (sample.metric.name, sample.labels)
                )

    def keep_topics(self, in_play: Collection[str]) -> None:
        """Drop the counters of all other topics: every replay may bring a target of its own, and a daemon meets very
        many.
        """
        for topic in [t for t in self._of_topics if t not in in_play]:
            for name, labels in self._of_topics.pop(topic):
                self._counters[name].remove(*labels)

    def observe(self, metric: Metric, value: float, labels: Sequence[str] = ()) -> None:
        """Put one value into a histogram."""
        histogram = self._histograms[metric.name]
        (histogram.labels(*labels) if labels else histogram).observe(value)

    def set_live(self, of: tuple[str, ...], samples: Sequence[Sample]) -> None:
        """Gauges that others report from time to time, all those `of` the same at once (none = unknown now). Of several
        with the same labels the largest is shown.

        What is not reported again for a few looks goes, so that no old value looks fresh.
        """
        self._live.pop(of, None)
        if samples:
            self._live[of] = (tuple(samples), time.monotonic())
        if len(self._live) > _LIVE_AT_MOST:
            del self._live[next(iter(self._live))]

    def collect(self) -> Iterator[Family]:
        """Called by the registry at each scrape."""
        by_name: dict[str, list[Sample]] = {}
        for sample in (*self.source(), *self._fresh()):
            by_name.setdefault(sample.metric.name, []).append(sample)
        for metric in self._metrics:
            if metric.kind is MetricKind.GAUGE:
                yield _family(metric, by_name.get(metric.name, []))

    def describe(self) -> Sequence[Family]:
        """Names for the registry's duplicate check, without asking the source."""
        return [_family(metric, []) for metric in self._metrics if metric.kind is MetricKind.GAUGE]

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self._registry)

    def _fresh(self) -> list[Sample]:
        oldest_s = time.monotonic() - self._live_kept_s
        kept = self._live if self.is_leader() else {}
        self._live = {of: entry for of, entry in kept.items() if entry[1] >= oldest_s}
        shown = (sample for samples, _ in self._live.values() for sample in samples)
        largest = {(s.metric.name, s.labels): s for s in sorted(shown, key=lambda s: s.value)}  # the last one stays
        return list(largest.values())

    def _register(self, metric: Metric) -> None:
        if metric.kind is MetricKind.COUNTER:
            self._counters[metric.name] = Counter(metric.name, metric.help, metric.labels, registry=self._registry)
        elif metric.kind is MetricKind.HISTOGRAM:
            self._histograms[metric.name] = Histogram(
                metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=self._registry
            )


def _family(metric: Metric, samples: Iterable[Sample]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for sample in samples:
        family.add_metric(sample.labels, sample.value)
    return family
