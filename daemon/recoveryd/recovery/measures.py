"""The values of the metrics about recoveries: gauges at a moment, and how far a step moves the counters. `metrics`
declares them.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from recoveryd.forecast.view import ForecastView
from recoveryd.kernel.metrics import Measures, Sample, count_states
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import State, StopReason
from recoveryd.live import metrics as live
from recoveryd.live.measures import lag_seconds
from recoveryd.live.params import look_counts_ms
from recoveryd.live.slice import LIVE, SampleHistory
from recoveryd.recovery import metrics as m
from recoveryd.recovery.measure_details import details
from recoveryd.recovery.model import Progress, Recovery
from recoveryd.recovery.progress import progress_ratio
from recoveryd.recovery.recoveries import is_over
from recoveryd.recovery.sampled_ends import fresh_ends, is_end_known
from recoveryd.recovery.slice import RECOVERY

ENDED_SERIES_KEPT_MS = 3_600_000
# A scrape runs in the loop, so it must be quick however many recoveries ended in the last hour.
ENDED_SERIES_AT_MOST = 500
_RESULTS = ("match", "mismatch", "skipped")
_BEFORE_IT_RUNS = frozenset({State.AWAITING_APPROVAL, State.STARTING})
_FORECAST_KEPT_S = 300.0  # one that runs has a new forecast each minute; an older one is of before a wait or a pause


def make_measures(kinds: Sequence[str], period_ms: int) -> Measures:
    """`kinds`: the names of the kinds of recoveries. `period_ms`: after that, sources are looked at again."""
    fresh_ms = look_counts_ms(period_ms)
    stops = (reason for reason in StopReason if reason is not StopReason.OPERATOR)
    return Measures(
        metrics=m.METRICS,
        first=(
            *(Sample(m.AUTO_STOPS, (reason.value,), 0) for reason in stops),
            *(Sample(m.VERIFICATIONS, (result,), 0) for result in _RESULTS),
        ),
        gauges=lambda state, now_ms: _gauges(state, kinds, now_ms, fresh_ms),
        beginnings=_beginnings,
        increments=_increments,
        topics=_topics,
    )


def _gauges(state: CoreState, kinds: Sequence[str], now_ms: int, fresh_ms: int) -> Iterator[Sample]:
    """Recoveries that ended over an hour ago only count in `recoveryd_recoveries`; so do ended ones beyond the newest
    500.
    """
    known = state.of(RECOVERY).recoveries
    yield from count_states(
        kinds, Counter((r.kind, r.state) for r in known.live.values()) + Counter(known.totals.counts)
    )
    for recovery in _shown(state, now_ms):
        source = recovery.spec.source
        yield from _of_recovery(recovery, state.of(LIVE).samples.get((source.cluster, source.topic)), now_ms, fresh_ms)
    for recovery in known.live.values():
        yield from _of_live(recovery, state)
    yield from details(state, now_ms, fresh_ms)


def _shown(state: CoreState, now_ms: int) -> Iterator[Recovery]:
    known = state.of(RECOVERY).recoveries
    last_ended = islice(reversed(known.ended.values()), ENDED_SERIES_AT_MOST)
    for recovery in (*known.live.values(), *last_ended):
        if not is_over(recovery) or now_ms - recovery.updated_ms <= ENDED_SERIES_KEPT_MS:
            yield recovery


def _topics(state: CoreState, now_ms: int) -> Iterator[str]:
    for recovery in _shown(state, now_ms):
        yield from (recovery.spec.source.topic, recovery.spec.target.topic)


def _beginnings(before: CoreState, after: CoreState) -> Iterator[Sample]:
    known = before.of(RECOVERY).recoveries
    for recovery in after.of(RECOVERY).recoveries.changed_since(known):
        earlier = known.get(recovery.id)
        if recovery.plan is not None and (earlier is None or earlier.plan is None):
            replayed = ("replay", recovery.spec.target.topic)
            yield Sample(live.RECORDS, replayed, 0)
            yield Sample(live.BYTES, replayed, 0)
            yield Sample(m.RECORDS_LOST, (recovery.spec.source.topic,), 0)


def _increments(before: CoreState, after: CoreState) -> Iterator[Sample]:
    known = before.of(RECOVERY).recoveries
    for recovery in after.of(RECOVERY).recoveries.changed_since(known):
        earlier = known.get(recovery.id)
        yield from _copied(earlier, recovery)
        yield from _ended(earlier, recovery)


def _of_live(recovery: Recovery, state: CoreState) -> Iterator[Sample]:
    if recovery.limits.max_bytes_per_s is not None:
        yield Sample(m.RATE_REQUESTED, (recovery.id,), recovery.limits.max_bytes_per_s)
    seen = state.of(RECOVERY).observed.get(recovery.id)
    if seen and seen.progress_ms and recovery.state in {State.RUNNING, State.VERIFYING}:
        yield Sample(m.PROGRESS_AT, (recovery.id,), seen.progress_ms / 1000)
    if recovery.state is State.RUNNING and recovery.plan is not None and recovery.plan.is_following:
        candidate = seen.candidate if seen else None
        yield Sample(m.STOP_CANDIDATE, (recovery.id,), candidate.count if candidate else 0)


def _of_recovery(recovery: Recovery, history: SampleHistory | None, now_ms: int, fresh_ms: int) -> Iterator[Sample]:
    name, has_ended = (recovery.id,), is_over(recovery)
    ratio = progress_ratio(recovery)
    if ratio is None:
        return
    yield Sample(m.RATE_ACHIEVED, name, 0.0 if has_ended else recovery.progress.bytes_per_s)
    if recovery.effective_bytes_per_s is not None and not has_ended:
        yield Sample(m.RATE_LIMIT, name, recovery.effective_bytes_per_s)
    yield from _forecast(recovery, now_ms)
    ends = fresh_ends(history, now_ms, fresh_ms)
    if not is_end_known(recovery, ends):
        return
    yield Sample(m.PROGRESS_RATIO, name, ratio)
    if recovery.progress.eta_seconds is not None and not has_ended:
        yield Sample(m.ETA_SECONDS, name, recovery.progress.eta_seconds)
    yield from _lag(recovery, ends, history, now_ms)


def _lag(recovery: Recovery, ends: Mapping[int, int], history: SampleHistory | None, now_ms: int) -> Iterator[Sample]:
    has_ended = is_over(recovery)
    if recovery.plan is None or recovery.progress.lag_records is None:
        return
    if has_ended and recovery.plan.is_following and recovery.state is not State.COMPLETED:
        return  # the end goes on, and nobody looks at it any more
    labels = ("replay", recovery.plan.source.topic, recovery.id)
    yield Sample(live.LAG_RECORDS, labels, recovery.progress.lag_records)
    seconds = lag_seconds(*_position_lags(recovery, ends), history, now_ms)
    if seconds is not None and not has_ended:
        yield Sample(live.LAG_SECONDS, labels, seconds)


def _forecast(recovery: Recovery, now_ms: int) -> Iterator[Sample]:
    """The newest forecast, or the plan's before there is one, less the time that has passed since. Retention goes on
    whatever the recovery does; of what rests or waits nobody knows when it will be done.
    """
    view = recovery.progress.forecast or (recovery.plan.forecast if recovery.plan else None)
    if view is None or is_over(recovery) or not recovery.brings_records:
        return
    passed_s = 0.0 if view.at_ms is None else max(0.0, (now_ms - view.at_ms) / 1000)
    if view.slack_s is not None:
        yield Sample(m.RETENTION_SLACK, (recovery.id,), view.slack_s - passed_s)
    if recovery.state is State.RUNNING and passed_s <= _FORECAST_KEPT_S:
        yield from _estimated(recovery, view, passed_s)
    elif recovery.state in _BEFORE_IT_RUNS:
        yield from _estimated(recovery, view, 0.0)


def _estimated(recovery: Recovery, view: ForecastView, passed_s: float) -> Iterator[Sample]:
    eta = view.eta_seconds
    for bound, seconds in (("lo", eta.lo), ("mid", eta.mid), ("hi", eta.hi)):
        left_s = math.inf if seconds is None else max(0.0, seconds - passed_s)
        yield Sample(m.ETA_BOUND, (recovery.id, bound), left_s)
    if view.speed_up is not None:
        yield Sample(m.SPEEDUP, (recovery.id,), view.speed_up)


def _position_lags(recovery: Recovery, ends: Mapping[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    """Positions, and records left before each partition's stop, or its log end where it follows."""
    rows = recovery.progress.partitions
    positions = {row.partition: row.position for row in rows}
    if recovery.is_proving:  # where its copy stopped to follow, nothing is left
        return positions, {}
    stops = {row.partition: ends.get(row.partition, row.position) if row.stop is None else row.stop for row in rows}
    return positions, {partition: stops[partition] - at for partition, at in positions.items()}


def _copied(before: Recovery | None, after: Recovery) -> Iterator[Sample]:
    earlier = before.progress if before is not None else Progress()
    if earlier.partitions is after.progress.partitions:
        return  # no row has changed, and there may be thousands to add up
    target = ("replay", after.spec.target.topic)
    yield Sample(live.RECORDS, target, after.progress.records - earlier.records)
    yield Sample(live.BYTES, target, after.progress.bytes - earlier.bytes)
    yield Sample(m.RECORDS_LOST, (after.spec.source.topic,), _lost(after.progress) - _lost(earlier))


def _lost(progress: Progress) -> int:
    return sum(p.lost for p in progress.partitions)


def _ended(before: Recovery | None, after: Recovery) -> Iterator[Sample]:
    had_stop = before is not None and before.stop is not None
    if after.stop is not None and not had_stop and after.stop.reason is not StopReason.OPERATOR:
        yield Sample(m.AUTO_STOPS, (after.stop.reason.value,), 1)
    is_pressed_out = after.held == StopReason.LIVE_SLO.value
    if is_pressed_out and (before is None or before.held != after.held):
        yield Sample(m.AUTO_STOPS, (StopReason.LIVE_SLO.value,), 1)
    had_result = before is not None and before.verification is not None
    if after.verification is not None and not had_result:
        yield Sample(m.VERIFICATIONS, (after.verification.result,), 1)
