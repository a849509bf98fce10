"""The values of the metrics of live traffic and the controllers. The metrics themselves are in `metrics`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from recoveryd.kernel.metrics import Measures, Metric, Sample
from recoveryd.kernel.state import CoreState
from recoveryd.live import metrics as m
from recoveryd.live.freshness import RejectReason
from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.verdicts import SEVERITY, LagVerdict
from recoveryd.live.law.assessment import timing
from recoveryd.live.law.types import ControlVerdict, Rule
from recoveryd.live.params import LiveParams
from recoveryd.live.protecting import Protecting, ReaderLag
from recoveryd.live.signals import LagSignal
from recoveryd.live.slice import LIVE, SampleHistory
from recoveryd.live.traffic import LiveGrowth

Labels = TypeVar("Labels", bound=tuple[str, ...])


def make_measures(params: LiveParams) -> Measures:
    return Measures(
        metrics=m.METRICS,
        first=tuple(Sample(m.SIGNALS_REJECTED, (reason.value,), 0) for reason in RejectReason),
        gauges=lambda state, now_ms: _gauges(state, params, now_ms),
        beginnings=_beginnings,
        increments=_increments,
        topics=lambda state, _now_ms: (topic for _cluster, topic in state.of(LIVE).samples),
    )


def _gauges(state: CoreState, live: LiveParams, now_ms: int) -> Iterator[Sample]:
    for reader, lag in _worst_by_name(state.of(LIVE).protecting.lags).items():
        yield from _of_reader(reader, lag)
    for domain in live.domains:
        yield from _of_domain(domain, state.of(LIVE).protecting, live, now_ms)


def _increments(earlier: CoreState, later: CoreState) -> Iterator[Sample]:
    before, after = earlier.of(LIVE).protecting, later.of(LIVE).protecting
    yield from _grown(m.CONTROL_RULES, before.rules, after.rules)
    yield from _grown(m.LIVE_SLO_VIOLATION, before.violations_s, after.violations_s)
    if before.rejections is not after.rejections:
        for reason, n in after.rejections.items():
            yield Sample(m.SIGNALS_REJECTED, (reason.value,), n - before.rejections.get(reason, 0))


def _beginnings(earlier: CoreState, later: CoreState) -> Iterator[Sample]:
    before, after = earlier.of(LIVE).protecting, later.of(LIVE).protecting
    if before.states is after.states:
        return
    for domain, state in after.states.items():
        known = before.states.get(domain)
        if known is None:
            yield from (Sample(m.CONTROL_RULES, (domain, rule.name.lower()), 0) for rule in Rule)
        for signal in state.tracks.keys() - (known.tracks.keys() if known else ()):
            yield from (Sample(m.LIVE_SLO_VIOLATION, (domain, signal, answer), 0) for answer in ("yes", "no"))


def _grown(metric: Metric, before: Mapping[Labels, float], after: Mapping[Labels, float]) -> Iterator[Sample]:
    if before is not after:
        for labels, value in after.items():
            yield Sample(metric, labels, value - before.get(labels, 0))


def _worst_by_name(lags: Mapping[Reader, ReaderLag]) -> Mapping[Reader, ReaderLag]:
    """Series do not name the cluster, and none may be there twice: of the same group and topic on several clusters, as
    mirrors have them, the one in most trouble is shown.
    """
    worst: dict[tuple[str, str], tuple[Reader, ReaderLag]] = {}
    for reader, lag in lags.items():
        known = worst.setdefault((reader.topic, reader.group), (reader, lag))
        if _trouble(lag) > _trouble(known[1]):
            worst[reader.topic, reader.group] = reader, lag
    return dict(worst.values())


def _trouble(lag: ReaderLag) -> tuple[int, float]:
    return SEVERITY[lag.group.verdict], lag.group.offset_lag or 0


def _of_reader(reader: Reader, lag: ReaderLag) -> Iterator[Sample]:
    labels, group = (reader.topic, reader.group), lag.group
    for verdict in LagVerdict:
        yield Sample(m.LAG_VERDICT, (*labels, verdict.value), float(verdict is group.verdict))
    yield Sample(m.COVERAGE_RATIO, labels, group.coverage)
    if group.offset_lag is not None:
        yield Sample(m.LAG_RECORDS, ("live", *labels), group.offset_lag)
    if group.time_lag_s is not None:
        yield Sample(m.LAG_SECONDS, ("live", *labels), group.time_lag_s)


def _of_domain(domain: str, protecting: Protecting, live: LiveParams, now_ms: int) -> Iterator[Sample]:
    state, decision = protecting.states.get(domain), protecting.decisions.get(domain)
    for protection in live.domains[domain].protections:
        labels = (domain, protection.name)
        yield Sample(m.LIVE_SLO, labels, protection.slo_s)
        yield Sample(m.SIGNAL_LEFT_OUT, labels, float(protection.name in protecting.left_out.get(domain, {})))
        track = state.tracks.get(protection.name) if state else None
        if track is None or not track.times_ms:
            continue
        yield Sample(m.SIGNAL_AGE, labels, max(0, now_ms - track.times_ms[-1]) / 1000)
        if decision is not None:
            stale_ms = timing(track, decision.loop_delay_ms, live.domains[domain]).fresh_ms
            yield Sample(m.SIGNAL_STALE_AFTER, labels, stale_ms / 1000)
    if decision is None:
        return
    yield Sample(m.LOOP_DELAY, (domain,), decision.loop_delay_ms / 1000)
    for pressure in decision.pressures:
        yield Sample(m.PRESSURE, (domain, pressure.name), pressure.share)
    if decision.verdict is not ControlVerdict.IDLE:
        yield Sample(m.BUDGET, (domain,), decision.rate_bytes_per_s)


def live_written(written: Iterable[LiveGrowth]) -> Iterator[Sample]:
    """By how much the counters of live traffic grow."""
    for grown in written:
        yield Sample(m.RECORDS, ("live", grown.topic), grown.records)
        if grown.bytes is not None:
            yield Sample(m.BYTES, ("live", grown.topic), grown.bytes)


def lag_of_signal(signal: LagSignal, history: SampleHistory | None, now_ms: int) -> list[Sample]:
    """Lag of a live consumer group. A partition without commit or end, or with a commit past the end (a topic created
    again, a late sample), makes the sum unknown: then there is no sample, never a false zero.
    """
    positions: dict[int, int] = {}
    lags: dict[int, int] = {}
    for partition in signal.partitions:
        committed, end = partition.committed, partition.end
        if committed is None or end is None or not 0 <= committed <= end:
            return []
        positions[partition.partition], lags[partition.partition] = committed, end - committed
    if not lags:
        return []
    labels = ("live", signal.topic, signal.group)
    samples = [Sample(m.LAG_RECORDS, labels, sum(lags.values()))]
    seconds = lag_seconds(positions, lags, history, now_ms)
    if seconds is not None:
        samples.append(Sample(m.LAG_SECONDS, labels, seconds))
    return samples


def lag_seconds(
    positions: Mapping[int, int], lags: Mapping[int, int], history: SampleHistory | None, now_ms: int
) -> float | None:
    """Seconds since the log ended at each position, of the worst partition, interpolated between two samples. None =
    some position is older than the samples.
    """
    worst = 0.0
    for partition, position in positions.items():
        if lags.get(partition, 0) <= 0:
            continue
        ended_ms = _when_log_ended_at(position, partition, history)
        if ended_ms is None:
            return None
        worst = max(worst, (now_ms - ended_ms) / 1000)
    return worst


def _when_log_ended_at(offset: int, partition: int, history: SampleHistory | None) -> float | None:
    left: tuple[int, int] | None = None
    for sample in history.samples if history else ():
        end = sample.high_watermark.get(partition)
        if end is None:
            continue
        if end > offset:
            if left is None:
                return None
            return left[1] + (sample.sampled_at_ms - left[1]) * (offset - left[0]) / (end - left[0])
        left = (end, sample.sampled_at_ms)
    return None
