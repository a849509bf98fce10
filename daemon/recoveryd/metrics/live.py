"""What the metrics say about live traffic and the controllers. Pure; which metrics exist is told by `metric_defs`.

A value that is not known has no sample: a dashboard must not show a zero that nobody measured.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import State
from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.verdicts import LagVerdict
from recoveryd.live.law.types import ControlVerdict
from recoveryd.live.params import LiveParams
from recoveryd.live.protecting import Protecting, ReaderLag
from recoveryd.live.slice import LIVE
from recoveryd.live.traffic import Written
from recoveryd.metrics.definitions import (
    BUDGET,
    BYTES,
    CONTROL_RULES,
    COVERAGE_RATIO,
    LAG_RECORDS,
    LAG_SECONDS,
    LAG_VERDICT,
    LIVE_SLO,
    LIVE_SLO_VIOLATION,
    LOOP_DELAY,
    PRESSURE,
    RATE_REQUESTED,
    RECORDS,
    SIGNAL_AGE,
    SIGNALS_REJECTED,
    STOP_CANDIDATE,
    Metric,
    Sample,
)
from recoveryd.recovery.slice import RECOVERY

Labels = TypeVar("Labels", bound=tuple[str, ...])


def live_gauges(state: CoreState, live: LiveParams, now_ms: int) -> Iterator[Sample]:
    """Every gauge of live protection at this moment."""
    for reader, lag in state.of(LIVE).protecting.lags.items():
        yield from _of_reader(reader, lag)
    for domain in live.domains:
        yield from _of_domain(domain, state.of(LIVE).protecting, live, now_ms)
    for recovery in state.of(RECOVERY).recoveries.live.values():
        if recovery.limits.max_bytes_per_s is not None:
            yield Sample(RATE_REQUESTED, (recovery.id,), recovery.limits.max_bytes_per_s)
        if recovery.state is State.RUNNING and recovery.plan is not None and recovery.plan.is_following:
            seen = state.of(RECOVERY).observed.get(recovery.id)
            candidate = seen.candidate if seen else None
            yield Sample(STOP_CANDIDATE, (recovery.id,), candidate.count if candidate else 0)


def live_increments(before: Protecting, after: Protecting) -> Iterator[Sample]:
    """How far the counters of live protection move."""
    yield from _grown(CONTROL_RULES, before.rules, after.rules)
    yield from _grown(LIVE_SLO_VIOLATION, before.violations_s, after.violations_s)
    if before.rejections is not after.rejections:
        for reason, n in after.rejections.items():
            yield Sample(SIGNALS_REJECTED, (reason.value,), n - before.rejections.get(reason, 0))


def _grown(metric: Metric, before: Mapping[Labels, float], after: Mapping[Labels, float]) -> Iterator[Sample]:
    if before is not after:
        for labels, value in after.items():
            yield Sample(metric, labels, value - before.get(labels, 0))


def _of_reader(reader: Reader, lag: ReaderLag) -> Iterator[Sample]:
    labels, group = (reader.topic, reader.group), lag.group
    for verdict in LagVerdict:
        yield Sample(LAG_VERDICT, (*labels, verdict.value), float(verdict is group.verdict))
    yield Sample(COVERAGE_RATIO, labels, group.coverage)
    if group.offset_lag is not None:
        yield Sample(LAG_RECORDS, ("live", *labels), group.offset_lag)
    if group.time_lag_s is not None:
        yield Sample(LAG_SECONDS, ("live", *labels), group.time_lag_s)


def _of_domain(domain: str, protecting: Protecting, live: LiveParams, now_ms: int) -> Iterator[Sample]:
    state, decision = protecting.states.get(domain), protecting.decisions.get(domain)
    for protection in live.domains[domain].protections:
        labels = (domain, protection.name)
        yield Sample(LIVE_SLO, labels, protection.slo_s)
        track = state.tracks.get(protection.name) if state else None
        if track is not None and track.times_ms:
            yield Sample(SIGNAL_AGE, labels, max(0, now_ms - track.times_ms[-1]) / 1000)
    if decision is None:
        return
    yield Sample(LOOP_DELAY, (domain,), decision.loop_delay_ms / 1000)
    for pressure in decision.pressures:
        yield Sample(PRESSURE, (domain, pressure.name), pressure.z)
    if decision.verdict is not ControlVerdict.IDLE:
        yield Sample(BUDGET, (domain,), decision.rate_bytes_per_s)


def live_written(written: Iterable[Written]) -> Iterator[Sample]:
    """How far the counters of live traffic move."""
    for grown in written:
        yield Sample(RECORDS, ("live", grown.topic), grown.records)
        if grown.bytes is not None:
            yield Sample(BYTES, ("live", grown.topic), grown.bytes)
