"""The forecast of a recovery that runs, made again each minute from what was measured: the pace of its lanes, the live
head, retention.

Two forecasts in a row must agree before the verdict changes; then an event says so. There is no forecast before there
are three samples of every lane that still works. Only durable positions count. The samples are kept in memory only:
after a restart, all begins again from the forecast in the status record.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from recoveryd.forecast.estimate import CountSample, RateEstimate, estimate_rate
from recoveryd.forecast.evidence import forecast_evidence
from recoveryd.forecast.outlook import Outlook
from recoveryd.forecast.ramp import GrantedSample, has_moved, ramp_rate
from recoveryd.forecast.retention import Retention
from recoveryd.forecast.track import ForecastTrack
from recoveryd.kernel.numbers import finite
from recoveryd.live.budgets import Mode
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.case import Case
from recoveryd.recovery.forecast_plan import sampled_rates
from recoveryd.recovery.forecasting import ForecastAnswer, ForecastQuestion, LaneWork, Stretch, ask, hours_of
from recoveryd.recovery.limits import ceiling_bytes_per_s, mode_of, touched_domains
from recoveryd.recovery.log_starts import LogStart
from recoveryd.recovery.model import PartitionProgress, Plan, PlannedPartition, Recovery
from recoveryd.recovery.observed import Observed, Pace

PACE_EVERY_MS = 10_000
PACES_MOST = 20
AT_HEAD_S = 60.0  # a following replay this close to the head copies what arrives: this is not how fast it could be


def review(case: Case) -> None:
    """Take a sample of the pace, and once a minute make the forecast and put it into the progress."""
    recovery, plan = case.recovery, case.recovery.plan
    if plan is None or not plan.lanes:
        return
    known = case.seen.pace
    _take_pace(case)
    seen = case.seen
    if seen.pace is known:
        return  # a forecast goes over all partitions: also one that cannot be made is tried with a new sample only
    track = seen.track if seen.track.outlook is not None else _track_of(recovery)
    is_due = track.is_due(case.now_ms)
    if not (is_due or has_moved(_granted(case))):  # else what was told a minute ago is not true any more
        return
    live = sampled_rates(case.source_history, case.now_ms)
    question = _question(case, live)
    if question is None:
        return
    answer = ask(question)
    if not (_pushed(case) <= live.keys() or _is_worse(answer.forecast.outlook, track.outlook)):
        return  # with what is not known taken for nothing, a verdict may be too good
    if is_due:
        after = track.with_outlook(answer.forecast.outlook, case.now_ms)
        case.observe(track=after, forecast=answer.forecast)
        if after.outlook is not track.outlook and track.outlook is not None:
            _tell(case, track.outlook, answer)
    view = replace(answer.view, rate_source="measured", live_source="sampled", at_ms=case.now_ms)
    eta_s = view.eta_seconds.mid if plan.is_following else recovery.progress.eta_seconds
    case.remember(progress=replace(recovery.progress, forecast=view, eta_seconds=eta_s))


def event_times(seen: Observed) -> Mapping[int, int]:
    """Event time of the last durable record of each partition, as the lanes reported it; partitions whose record has no
    time are absent.
    """
    told = (p for heard in seen.lanes.values() for p in heard.heartbeat.positions)
    return {p.partition: p.event_time_ms for p in told if p.event_time_ms is not None and p.event_time_ms > 0}


def _track_of(recovery: Recovery) -> ForecastTrack:
    """A track that begins with the verdict that was published last."""
    told = recovery.progress.forecast or (recovery.plan.forecast if recovery.plan else None)
    return ForecastTrack(Outlook(told.outlook) if told is not None else None)


def _take_pace(case: Case) -> None:
    """Take one more sample when it is due; after a gap (a pause, another attempt) the samples begin anew."""
    seen, now_ms = case.seen, case.now_ms
    last_ms = seen.pace[-1].at_ms if seen.pace else None
    if not seen.lanes or (last_ms is not None and now_ms - last_ms < PACE_EVERY_MS):
        return
    at = {p.partition: p.position for p in case.recovery.progress.partitions}
    counts = tuple(sum(at.get(p, 0) for p in members) for members in case.plan.lanes)
    known = seen.pace if last_ms is not None and now_ms - last_ms <= 3 * PACE_EVERY_MS else ()
    is_controlled = mode_of(case.recovery.limits, case.recovery.spec, case.params) is Mode.CONTROLLED
    granted = case.recovery.effective_bytes_per_s if is_controlled else None
    case.observe(pace=(*known, Pace(now_ms, counts, granted))[-PACES_MOST:])


def _pace_of(seen: Observed, lane: int) -> RateEstimate | None:
    return estimate_rate([CountSample(s.at_ms / 1000, s.lanes[lane]) for s in seen.pace])


def _is_worse(found: Outlook, standing: Outlook | None) -> bool:
    return standing is not None and found.rank < standing.rank


def _question(case: Case, live: Mapping[int, RateEstimate]) -> ForecastQuestion | None:
    """What is left, lane by lane; None while that is not known. `live`: what arrives, by partition."""
    recovery, plan, seen, now_ms = case.recovery, case.plan, case.seen, case.now_ms
    history = case.source_history
    rows = {p.partition: p for p in recovery.progress.partitions}
    times = event_times(seen)
    lanes = []
    planned_by_number = {p.partition: p for p in plan.partitions}
    for number, members in enumerate(plan.lanes):
        planned = [planned_by_number[partition] for partition in members]
        stretches = (_stretch(plan, p, rows[p.partition], times, live, history, seen, now_ms) for p in planned)
        pace = _pace_of(seen, number)
        if pace is None:
            if any(stretch.records > 0 for stretch in stretches):
                return None
            continue
        work = tuple(stretches)
        if not any(stretch.records > 0 for stretch in work):
            continue
        lanes.append(LaneWork(work, max(0.0, pace.per_s), pace.sigma))
    lanes = _climbing(case, lanes)
    return ForecastQuestion(
        lanes=tuple(lanes),
        is_moving=plan.is_following,
        deadline_s=_deadline_s(recovery, now_ms),
        live_sigma=math.hypot(*(rate.sigma for rate in live.values())) if live else 0.0,
        hourly=hours_of(lanes, plan.hourly or (), math.fsum(rate.per_s for rate in live.values())),
        hourly_age_s=(now_ms - plan.pinned_at_ms) / 1000,
    )


def _pushed(case: Case) -> set[int]:
    """The partitions where what arrives pushes away the end, or the log start towards what is left."""
    plan = case.plan
    if not plan.is_following and plan.retention_bytes is None:
        return set()
    return {row.partition for row in case.recovery.progress.partitions if row.stop is None or row.position < row.stop}


def _climbing(case: Case, lanes: list[LaneWork]) -> list[LaneWork]:
    """The lanes at the rates that the grant lets expect while it moves, in the proportions of their pace; as they are
    otherwise.
    """
    samples, pace = _granted(case), math.fsum(lane.replay for lane in lanes)
    if not has_moved(samples) or pace <= 0:
        return lanes
    per_byte, safe = _offsets_per_byte(case), _safe_bytes_per_s(case)
    found = ramp_rate(
        samples,
        math.fsum(lane.records for lane in lanes),
        None if safe is None else safe * per_byte,
        ceiling_bytes_per_s(case.recovery.limits, case.params) * per_byte,
    )
    if found is None:
        return lanes
    slower, faster = found.per_s - found.slow, found.fast - found.per_s
    return [
        LaneWork(
            lane.stretches, lane.replay * found.per_s / pace, slower * lane.replay / pace, faster * lane.replay / pace
        )
        for lane in lanes
    ]


def _granted(case: Case) -> list[GrantedSample]:
    """The samples of the pace with the grants, in offsets; none while their size is not known, or
    no controller grants.
    """
    per_byte = _offsets_per_byte(case)
    if per_byte <= 0:
        return []
    paces = [(s.at_ms / 1000, sum(s.lanes), s.granted) for s in case.seen.pace]
    return [GrantedSample(at_s, total, granted * per_byte) for at_s, total, granted in paces if granted is not None]


def _offsets_per_byte(case: Case) -> float:
    """By what was copied; 0 = not known."""
    progress, starts = case.recovery.progress, {p.partition: p.start for p in case.plan.partitions}
    offsets = sum(p.position - starts.get(p.partition, p.position) for p in progress.partitions)
    return offsets / progress.bytes if progress.bytes > 0 else 0.0


def _safe_bytes_per_s(case: Case) -> float | None:
    """The recovery's part of the last rate that was safe in its domains; None while that is not known of each."""
    granted, found = case.recovery.effective_bytes_per_s or 0.0, []
    for domain in touched_domains(case.recovery.spec, case.params):
        state = case.draft.protection.protecting.states.get(domain)
        if state is None or state.comfortable is None or state.rate <= 0:
            return None
        found.append(granted * state.comfortable / state.rate)
    return min(found, default=None)


def _stretch(
    plan: Plan,
    planned: PlannedPartition,
    row: PartitionProgress,
    times: Mapping[int, int],
    live: Mapping[int, RateEstimate],
    history: SampleHistory,
    seen: Observed,
    now_ms: int,
) -> Stretch:
    partition, rate = planned.partition, live[planned.partition].per_s if planned.partition in live else 0.0
    newest = history.samples[-1] if history.samples else None
    end = planned.stop if planned.stop is not None else planned.high_watermark
    if planned.stop is None and newest is not None:
        end = max(end, newest.high_watermark.get(partition, end))
    left = float(max(0, end - row.position))
    if planned.stop is None and left <= AT_HEAD_S * rate:
        left = 0.0
    reached_ms = times.get(partition, _interpolated_ms(planned, row.position))
    until_ms = now_ms if planned.stop is None else planned.last_ms
    window_s = max(0, until_ms - reached_ms) / 1000 if reached_ms is not None and until_ms is not None else 0.0
    retention = Retention()
    if left > 0 and plan.retention_ms is not None and reached_ms is not None:
        age_s = (now_ms - reached_ms) / 1000
        retention = replace(retention, retention_s=plan.retention_ms / 1000, age_s=age_s)
    if left > 0 and plan.retention_bytes is not None and newest is not None:
        start = seen.log_starts.of(partition, newest, planned.log_start)
        if start.step > 0 or start.offset > planned.log_start:
            retention = _by_size(retention, row.position, start, rate, now_ms)
    return Stretch(partition, left, window_s, rate, retention)


def _by_size(retention: Retention, position: int, start: LogStart, live: float, now_ms: int) -> Retention:
    """The race with a log start that moves: the log is full. It goes on as fast as records arrive at least. A position
    that it may have come to by now is not lost yet: only the next round of the broker's shows that.
    """
    advance = max(live, start.per_s(now_ms))
    margin = float(position - start.offset)
    if margin > 0:
        margin = max(0.0, margin - start.ahead(advance, now_ms))
    return replace(retention, margin=margin, advance=advance)


def _interpolated_ms(planned: PlannedPartition, position: int) -> int | None:
    """Event time at a position, on a straight line through the planned range."""
    end = planned.high_watermark if planned.stop is None else planned.stop
    if planned.first_ms is None or planned.last_ms is None or end <= planned.start:
        return None
    part = min(1.0, max(0.0, (position - planned.start) / (end - planned.start)))
    return round(planned.first_ms + (planned.last_ms - planned.first_ms) * part)


def _deadline_s(recovery: Recovery, now_ms: int) -> float | None:
    limits = recovery.limits
    ends = [limits.deadline_ms] if limits.deadline_ms is not None else []
    if limits.max_runtime_ms is not None and recovery.started_ms is not None:
        ends.append(recovery.started_ms + limits.max_runtime_ms)
    return (min(ends) - now_ms) / 1000 if ends else None


def _tell(case: Case, before: Outlook, answer: ForecastAnswer) -> None:
    found = answer.forecast
    evidence = {
        **forecast_evidence(found),
        "replay_records_per_s": finite(answer.view.replay_per_s, 1),
        "live_records_per_s": finite(answer.view.live_per_s, 1),
        "retention_slack_seconds": answer.view.slack_s,
    }
    told = {"from": before.value, "to": found.outlook.value, "why": found.why, "suggestion": found.suggestion}
    case.notice("forecast_changed", told | {"evidence": evidence})
