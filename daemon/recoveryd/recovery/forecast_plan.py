"""The forecast of a plan, before anything runs: from the facts about the source, rates measured before or configured,
and the limits of the command.

It gives the plan its interval, its forecast and findings. None of these is part of the plan's hash, because the same
plan made a minute later has other rates.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from recoveryd.forecast.cost import Usage
from recoveryd.forecast.estimate import CountSample, RateEstimate, estimate_rate
from recoveryd.forecast.outlook import Outlook
from recoveryd.forecast.retention import Retention, beating_rate
from recoveryd.forecast.view import cost_of, storage_of
from recoveryd.live.budgets import Mode
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.forecasting import ForecastAnswer, ForecastQuestion, Stretch, ask, hours_of, lanes_of
from recoveryd.recovery.limits import mode_of
from recoveryd.recovery.model import EtaSeconds, Finding, Plan, PlannedPartition, Severity
from recoveryd.recovery.params import Params
from recoveryd.recovery.plan_facts import LIVE_LOOKBACK_MS, PartitionFacts, PlanFacts, TopicFacts
from recoveryd.recovery.remote_storage import remote_findings, remote_ranges
from recoveryd.recovery.spec import Spec

START_UP_S = (4.0, 8.0, 15.0)  # lo, mid, hi: until a cold Spark application copies its first record
SPREAD = {"measured": 0.25, "configured": 0.5}  # relative error of the rate
SAMPLES_OLD_MS = 60_000
NO_SAMPLES = SampleHistory()
_UNKNOWN_RECORD_BYTES = 1_000.0
_WARNINGS = {Outlook.RETENTION_LOSS, Outlook.IMPRACTICAL_NEVER, Outlook.IMPRACTICAL_SLOW, Outlook.DEADLINE_MISS}


def with_forecast(
    plan: Plan, spec: Spec, facts: PlanFacts, params: Params, history: SampleHistory = NO_SAMPLES
) -> Plan:
    """The plan with `eta_seconds`, `forecast` and a finding for each verdict but OK. `history` holds offset samples of
    the source, if it is watched.
    """
    remote, planned = remote_ranges(plan, facts), {p.partition for p in plan.partitions}
    plan = replace(plan, remote=remote, findings=(*plan.findings, *remote_findings(remote, facts, params, planned)))
    if plan.is_following and facts.hourly:
        plan = replace(plan, hourly=tuple(round(rate, 1) for rate in facts.hourly))
    live, live_source = live_rates(facts, history)
    answer = ask(_question(plan, spec, facts, params, live))
    found = answer.forecast
    size = plan.bytes_at_most / plan.records_at_most if plan.records_at_most else 0.0
    factor = facts.target.replication_factor if facts.target else max(plan.replication_factor, 1)
    usage = Usage(
        executors=len(plan.lanes),
        seconds=found.seconds if math.isfinite(found.seconds) else 0.0,
        bytes_read=found.processed * size if math.isfinite(found.processed) else 0.0,
        bytes_out=found.processed * size if math.isfinite(found.processed) else 0.0,
        replication_factor=factor,
        cross_share=params.pricing.cross_share,
        kept_bytes=plan.stored_bytes * factor,
        kept_s=params.pricing.keep_s,
    )
    view = replace(
        answer.view,
        rate_source=facts.rate_source if facts.bytes_per_s else "configured",
        live_source=live_source,
        live_per_s=answer.view.live_per_s if live_source != "unknown" else None,
        storage=storage_of(plan.stored_bytes, factor),
        cost=cost_of(usage, params.pricing) if math.isfinite(found.seconds) else None,
        at_ms=facts.gathered_at_ms,
    )
    floor, told = _retention_floor(plan, spec, facts, params, live)
    findings = (*plan.findings, *_findings(answer), *told)
    return replace(plan, eta_seconds=_eta(answer), forecast=view, findings=findings, retention_bytes_per_s=floor)


def retention_of(source: TopicFacts) -> tuple[int | None, int | None]:
    """(ms, bytes per partition) after which the source deletes records; None = it does not."""
    if "delete" not in source.configs.get("cleanup.policy", "delete"):
        return None, None
    return _limit(source, "retention.ms"), _limit(source, "retention.bytes")


def live_rates(facts: PlanFacts, history: SampleHistory) -> tuple[Mapping[int, RateEstimate], str]:
    """Records/s that arrive in each partition, and how that is known: sampled | log times | unknown."""
    sampled = sampled_rates(history, facts.gathered_at_ms)
    if sampled:
        return sampled, "sampled"
    looked = {p.partition: _looked_up(p, facts.gathered_at_ms) for p in facts.source_partitions}
    known = {partition: rate for partition, rate in looked.items() if rate is not None}
    return known, "log times" if known else "unknown"


def sampled_rates(history: SampleHistory, now_ms: int) -> Mapping[int, RateEstimate]:
    """How fast the log ends move, in records/s by partition; empty when the samples are old or fewer than three."""
    if not history.samples or now_ms - history.samples[-1].sampled_at_ms > SAMPLES_OLD_MS:
        return {}
    newest = history.samples[-1]
    rates = {}
    for partition in newest.high_watermark:
        counts = [
            CountSample(s.sampled_at_ms / 1000, s.high_watermark[partition])
            for s in history.samples
            if s.topic_id == newest.topic_id and partition in s.high_watermark
        ]
        rate = estimate_rate(counts)
        if rate is not None:
            rates[partition] = rate._replace(per_s=max(0.0, rate.per_s))
    return rates


def _looked_up(facts: PartitionFacts, now_ms: int) -> RateEstimate | None:
    """The records of the last `LIVE_LOOKBACK_MS` divided by that time, or by the age of the log if that is shorter."""
    if facts.recent_at is None:
        return None
    arrived = 0 if facts.recent_at < 0 else max(0, facts.high_watermark - max(facts.recent_at, facts.log_start))
    span_ms = LIVE_LOOKBACK_MS
    if facts.recent_at == facts.log_start and facts.first_ms is not None:
        span_ms = min(span_ms, max(1_000, now_ms - facts.first_ms))
    return RateEstimate(arrived * 1000 / span_ms, 0.0, 2)


def _question(
    plan: Plan, spec: Spec, facts: PlanFacts, params: Params, live: Mapping[int, RateEstimate]
) -> ForecastQuestion:
    known = {p.partition: p for p in facts.source_partitions}
    rows = [_stretch(plan, p, known[p.partition], facts, live) for p in plan.partitions]
    limits, now_ms = spec.limits, facts.gathered_at_ms
    lanes = lanes_of(rows, plan.lanes, _lane_rates(plan, spec, facts, params), _spread(facts))
    ends = [limits.deadline_ms - now_ms] if limits.deadline_ms is not None else []
    ends += [limits.max_runtime_ms] if limits.max_runtime_ms is not None else []
    return ForecastQuestion(
        lanes=lanes,
        is_moving=plan.is_following,
        startup_s=START_UP_S[1],
        deadline_s=min(ends) / 1000 if ends else None,
        live_sigma=math.hypot(*(rate.sigma for rate in live.values())) if live else 0.0,
        hourly=hours_of(lanes, plan.hourly or (), math.fsum(rate.per_s for rate in live.values())),
    )


def _retention_floor(
    plan: Plan, spec: Spec, facts: PlanFacts, params: Params, live: Mapping[int, RateEstimate]
) -> tuple[float, list[Finding]]:
    """The rate in bytes/s that beats retention (a controlled recovery is never granted less), and a finding if it is
    above what may be granted.
    """
    known = {p.partition: p for p in facts.source_partitions}
    rows = [_stretch(plan, p, known[p.partition], facts, live) for p in plan.partitions]
    whole = sum(row.records for row in rows)
    if not whole or not plan.records_at_most or not spec.copies:
        return 0.0, []
    is_moving = plan.is_following  # looks at all partitions
    each = [(r, beating_rate(r.retention, r.records, r.window_s, r.live, is_moving=is_moving)) for r in rows]
    # The rate of a recovery is divided in proportion to what is left, so the partition that needs the most per record
    # decides.
    records_per_s = max(rate * whole / r.records for r, rate in each if r.records)
    size = plan.bytes_at_most / plan.records_at_most if plan.bytes_at_most else _UNKNOWN_RECORD_BYTES
    needed = records_per_s * size
    if not math.isfinite(needed):
        return 0.0, []  # no rate is enough: the forecast says what will be lost
    ceiling = min(params.control.max_bytes_per_s, spec.limits.max_bytes_per_s or math.inf)
    if mode_of(spec.limits, spec, params) is Mode.CONTROLLED and needed > ceiling:
        text = (
            f"retention takes part of the range unless {needed:,.0f} B/s are kept, but no more than "
            f"{ceiling:,.0f} B/s may be granted: raise the limit, or the source's retention"
        )
        return needed, [Finding("retention_floor", Severity.WARN, text)]
    return needed, []


def _stretch(
    plan: Plan, planned: PlannedPartition, facts: PartitionFacts, found: PlanFacts, live: Mapping[int, RateEstimate]
) -> Stretch:
    stop = planned.high_watermark if planned.stop is None else planned.stop
    first_ms = planned.first_ms if planned.first_ms is not None else found.oldest_record_ms
    last_ms = found.gathered_at_ms if planned.stop is None else planned.last_ms
    window_s = max(0, last_ms - first_ms) / 1000 if first_ms is not None and last_ms is not None else 0.0
    rate = live[planned.partition].per_s if planned.partition in live else 0.0
    retention = Retention(startup_s=START_UP_S[2])
    if plan.retention_ms is not None and first_ms is not None and stop > planned.start:
        age_s = (found.gathered_at_ms - first_ms) / 1000
        retention = replace(retention, retention_s=plan.retention_ms / 1000, age_s=age_s)
    if plan.retention_bytes is not None and facts.bytes_on_disk is not None and stop > planned.start:
        retention = replace(retention, margin=_margin(plan.retention_bytes, planned, facts), advance=rate)
    return Stretch(planned.partition, max(0, stop - planned.start), window_s, rate, retention)


def _margin(retention_bytes: int, planned: PlannedPartition, facts: PartitionFacts) -> float:
    """How many records may still arrive before the log start reaches the start of the range; it moves only once the log
    is full.
    """
    held = max(1, facts.high_watermark - facts.log_start)
    size = max(1.0, (facts.bytes_on_disk or 0) / held)
    return planned.start - facts.log_start + max(0.0, (retention_bytes - (facts.bytes_on_disk or 0)) / size)


def _lane_rates(plan: Plan, spec: Spec, facts: PlanFacts, params: Params) -> list[float]:
    """Records/s per lane. Under a limit, the daemon divides the rate by what is left, so that lanes end together;
    without one, each lane has its own.
    """
    if not plan.lanes:
        return []
    size = (
        plan.bytes_at_most / plan.records_at_most
        if plan.bytes_at_most and plan.records_at_most
        else _UNKNOWN_RECORD_BYTES
    )
    free = _with_remote(facts.bytes_per_s or params.eta_bytes_per_s, plan, params) / size
    limits = [spec.limits.max_bytes_per_s / size] if spec.limits.max_bytes_per_s else []
    limits += [spec.limits.max_records_per_s] if spec.limits.max_records_per_s else []
    rate = min([free, *limits])
    if rate == free or plan.is_following or not plan.records_at_most:
        return [rate / len(plan.lanes)] * len(plan.lanes)
    left = {p.partition: max(0, (p.stop or 0) - p.start) for p in plan.partitions}
    return [rate * sum(left[p] for p in members) / plan.records_at_most for members in plan.lanes]


def _with_remote(bytes_per_s: float, plan: Plan, params: Params) -> float:
    """The mean rate where a part of the range is read from remote storage."""
    if not plan.remote or not plan.records_at_most:
        return bytes_per_s
    share = min(1.0, sum(each.stop - each.start for each in plan.remote) / plan.records_at_most)
    slow = min(bytes_per_s, params.remote_bytes_per_s)
    return 1 / ((1 - share) / bytes_per_s + share / slow)


def _spread(facts: PlanFacts) -> float:
    return SPREAD["measured" if facts.bytes_per_s and facts.rate_source == "measured" else "configured"]


def _eta(answer: ForecastAnswer) -> EtaSeconds | None:
    """The interval with the spread of the start-up; None when the end is never reached."""
    found, (lo, mid, hi) = answer.forecast, START_UP_S
    if not math.isfinite(found.seconds):
        return None
    early = max(lo, found.seconds_lo - mid + lo)
    late = round(max(hi, found.seconds_hi - mid + hi), 1) if math.isfinite(found.seconds_hi) else None
    return EtaSeconds(round(early, 1), round(max(mid, found.seconds), 1), late)


def _findings(answer: ForecastAnswer) -> list[Finding]:
    """One per verdict other than OK, with what would help."""
    found = []
    for reason in answer.forecast.reasons:
        if reason.outlook is Outlook.OK:
            continue
        severity = Severity.WARN if reason.outlook in _WARNINGS else Severity.INFO
        text = f"{reason.why}: {reason.suggestion}" if reason.suggestion else reason.why
        found.append(Finding(f"forecast_{reason.outlook.value}", severity, text))
    return found


def _limit(topic: TopicFacts, name: str) -> int | None:
    try:
        value = int(topic.configs.get(name, "-1"))
    except ValueError:
        return None
    return value if value >= 0 else None
