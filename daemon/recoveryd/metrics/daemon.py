"""What the metrics say, computed from the state: values of gauges at a moment, and how far a step moves the counters.

Pure like the rest of the core. Which metrics exist is told by `metric_defs`; how they are exposed by `recoveryd.adapters.http.metrics_page`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from recoveryd.capabilities import KINDS
from recoveryd.kernel.decision import Answer
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import State, StopReason
from recoveryd.live.signals import LagSignal
from recoveryd.live.slice import LIVE, SampleHistory
from recoveryd.metrics.definitions import (
    AUTO_STOPS,
    BYTES,
    COMMANDS,
    ETA_BOUND,
    ETA_SECONDS,
    LAG_RECORDS,
    LAG_SECONDS,
    PROGRESS_RATIO,
    RATE_ACHIEVED,
    RATE_LIMIT,
    RECORDS,
    RECORDS_LOST,
    RECOVERIES,
    RETENTION_SLACK,
    SPEEDUP,
    VERIFICATIONS,
    Sample,
)
from recoveryd.metrics.live import live_increments
from recoveryd.recovery.model import Progress, Recovery
from recoveryd.recovery.progress import progress_ratio
from recoveryd.recovery.slice import RECOVERY
from recoveryd.watches.draft import WATCHES

_KINDS = tuple(kind.name for kind in KINDS)
ENDED_SERIES_KEPT_MS = 3_600_000
ENDED_SERIES_AT_MOST = 500  # a scrape runs in the loop: it must stay quick whatever happened in the last hour
_FORECAST_STATES = frozenset({State.AWAITING_APPROVAL, State.STARTING, State.RUNNING})


def gauges(state: CoreState, now_ms: int) -> list[Sample]:
    """Every gauge that follows from the state. Recoveries that ended over an hour ago only count in `recoveryd_recoveries`; so do ended ones beyond the newest 500."""
    known = state.of(RECOVERY).recoveries
    counts = Counter((r.kind, r.state) for r in known.live.values()) + Counter(known.totals.counts)
    counts.update((w.kind, w.state) for w in state.of(WATCHES))
    kinds = sorted({*_KINDS, *(kind for kind, _ in counts)})
    samples = [Sample(RECOVERIES, (kind, s.value), counts[kind, s]) for kind in kinds for s in State]
    last_ended = islice(reversed(known.ended.values()), ENDED_SERIES_AT_MOST)
    for recovery in (*known.live.values(), *last_ended):
        if not recovery.is_terminal or now_ms - recovery.updated_ms <= ENDED_SERIES_KEPT_MS:
            samples.extend(_of_recovery(recovery, state.of(LIVE).samples, now_ms))
    return samples


def increments(before: CoreState, after: CoreState, answers: Iterable[Answer] = ()) -> list[Sample]:
    """How far the way from `before` to `after`, with these answers, moves the counters; zero steps are left out."""
    samples = [Sample(COMMANDS, (answer.verb or "unknown", answer.kind), 1) for answer in answers]
    known = before.of(RECOVERY).recoveries
    for recovery in after.of(RECOVERY).recoveries.changed_since(known):
        earlier = known.get(recovery.id)
        samples.extend(_copied(earlier, recovery))
        samples.extend(_ended(earlier, recovery))
    samples.extend(live_increments(before.of(LIVE).protecting, after.of(LIVE).protecting))
    return [sample for sample in samples if sample.value > 0]


def topics_in_play(state: CoreState, now_ms: int) -> set[str]:
    """Names of topics that are watched, or that a recovery reads or writes, or did within the last hour."""
    found = {topic for _cluster, topic in state.of(LIVE).samples}
    recent = islice(reversed(state.of(RECOVERY).recoveries.ended.values()), ENDED_SERIES_AT_MOST)
    for recovery in (*state.of(RECOVERY).recoveries.live.values(), *recent):
        if not recovery.is_terminal or now_ms - recovery.updated_ms <= ENDED_SERIES_KEPT_MS:
            found |= {recovery.spec.source.topic, recovery.spec.target.topic}
    return found


def lag_of_signal(signal: LagSignal, history: SampleHistory | None, now_ms: int) -> list[Sample]:
    """Lag of a live consumer group. A partition without commit or end, or with a commit past the end (a topic made anew, a late sample), makes the sum unknown: no sample, never a false zero."""
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
    samples = [Sample(LAG_RECORDS, labels, sum(lags.values()))]
    seconds = lag_seconds(positions, lags, history, now_ms)
    if seconds is not None:
        samples.append(Sample(LAG_SECONDS, labels, seconds))
    return samples


def lag_seconds(
    positions: Mapping[int, int], lags: Mapping[int, int], history: SampleHistory | None, now_ms: int
) -> float | None:
    """Seconds since the log ended at each position, worst partition, between two samples by straight line. None = some position is older than the samples."""
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


def _of_recovery(
    recovery: Recovery, histories: Mapping[tuple[str, str], SampleHistory], now_ms: int
) -> Iterator[Sample]:
    name = (recovery.id,)
    ratio = progress_ratio(recovery)
    if ratio is None or recovery.plan is None:
        return
    yield Sample(PROGRESS_RATIO, name, ratio)
    yield Sample(RATE_ACHIEVED, name, 0.0 if recovery.is_terminal else recovery.progress.bytes_per_s)
    if recovery.progress.eta_seconds is not None and not recovery.is_terminal:
        yield Sample(ETA_SECONDS, name, recovery.progress.eta_seconds)
    if recovery.effective_bytes_per_s is not None and not recovery.is_terminal:
        yield Sample(RATE_LIMIT, name, recovery.effective_bytes_per_s)
    yield from _forecast(recovery, now_ms)
    if recovery.progress.lag_records is None:
        return
    source = recovery.plan.source
    labels = ("replay", source.topic, recovery.id)
    yield Sample(LAG_RECORDS, labels, recovery.progress.lag_records)
    history = histories.get((source.cluster, source.topic))
    seconds = lag_seconds(*_position_lags(recovery, history), history, now_ms)
    if seconds is not None and not recovery.is_terminal:
        yield Sample(LAG_SECONDS, labels, seconds)


def _forecast(recovery: Recovery, now_ms: int) -> Iterator[Sample]:
    """The newest forecast, or the plan's before there is one, less the time that has passed since."""
    view = recovery.progress.forecast or (recovery.plan.forecast if recovery.plan else None)
    if view is None or recovery.state not in _FORECAST_STATES:
        return
    passed_s = max(0.0, (now_ms - view.at_ms) / 1000) if recovery.state is State.RUNNING else 0.0
    for bound, seconds in (("lo", view.lo_s), ("mid", view.mid_s), ("hi", view.hi_s)):
        left_s = math.inf if seconds is None else max(0.0, seconds - passed_s)
        yield Sample(ETA_BOUND, (recovery.id, bound), left_s)
    if view.speed_up is not None:
        yield Sample(SPEEDUP, (recovery.id,), view.speed_up)
    if view.slack_s is not None:
        yield Sample(RETENTION_SLACK, (recovery.id,), view.slack_s)


def _position_lags(recovery: Recovery, history: SampleHistory | None) -> tuple[dict[int, int], dict[int, int]]:
    """Positions, and records left before each partition's stop (or the newest sampled end when it follows)."""
    ends = history.samples[-1].high_watermark if history and history.samples else {}
    positions = {p.partition: p.position for p in recovery.progress.partitions}
    stops = {p.partition: p.stop for p in recovery.progress.partitions}
    lags = {p: (ends.get(p, at) if stops[p] is None else stops[p] or 0) - at for p, at in positions.items()}
    return positions, lags


def _copied(before: Recovery | None, after: Recovery) -> Iterator[Sample]:
    earlier = before.progress if before is not None else Progress()
    if earlier.partitions is after.progress.partitions:
        return  # adding up the same thousand rows again would find no step
    target = ("replay", after.spec.target.topic)
    yield Sample(RECORDS, target, after.progress.records - earlier.records)
    yield Sample(BYTES, target, after.progress.bytes - earlier.bytes)
    yield Sample(RECORDS_LOST, (after.spec.source.topic,), _lost(after.progress) - _lost(earlier))


def _lost(progress: Progress) -> int:
    return sum(p.lost for p in progress.partitions)


def _ended(before: Recovery | None, after: Recovery) -> Iterator[Sample]:
    had_stop = before is not None and before.stop is not None
    if after.stop is not None and not had_stop and after.stop.reason is not StopReason.OPERATOR:
        yield Sample(AUTO_STOPS, (after.stop.reason.value,), 1)
    is_pressed_out = after.held == StopReason.LIVE_SLO.value
    if is_pressed_out and (before is None or before.held != after.held):
        yield Sample(AUTO_STOPS, (StopReason.LIVE_SLO.value,), 1)
    had_result = before is not None and before.verification is not None
    if after.verification is not None and not had_result:
        yield Sample(VERIFICATIONS, (after.verification.result,), 1)
