"""The plan of a verification: which ranges of two topics are compared, and findings about what will make them differ.

There are no receipts that say where the copy lies, so both sides are pinned by bounds of the command. Nothing is
written: there are no lanes, and no setting of the target is a reason to refuse. What could make a correct copy look
damaged is a finding.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused, RefusedError
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.forecast_plan import NO_SAMPLES, retention_of, with_forecast
from recoveryd.recovery.lane_shares import assign_lanes
from recoveryd.recovery.model import Finding, Plan, PlannedPartition, PlannedTopic, Severity
from recoveryd.recovery.params import Params
from recoveryd.recovery.pinning import check_topic, listed, offsets_in, pin, range_findings, selected
from recoveryd.recovery.plan_facts import PlanFacts, TopicFacts
from recoveryd.recovery.size import check_comparison_size
from recoveryd.recovery.spec import AtTime, CaughtUp, Latest, Never, To
from recoveryd.verification.spec import VerificationSpec

_WAITS = "the verification waits for it"


def make_verification_plan(
    spec: VerificationSpec, facts: PlanFacts, params: Params, history: SampleHistory = NO_SAMPLES
) -> Plan | Refused:
    """The plan for `spec` by these `facts`, or why there is none. `history` holds offset samples of the source, if it
    was watched.
    """
    try:
        plan = _make_plan(spec, facts)
    except RefusedError as refusal:
        return refusal.refused
    return replace(_with_forecast(plan, spec, facts, params, history), hash=_hash(plan, spec))


def _make_plan(spec: VerificationSpec, facts: PlanFacts) -> Plan:
    source, target = facts.source, facts.target
    if source is None or target is None:
        side, code = (
            (spec.source, Code.SOURCE_TOPIC_MISSING) if source is None else (spec.target, Code.TARGET_TOPIC_MISSING)
        )
        raise RefusedError(code, f"topic {side.topic} does not exist on cluster {side.cluster}")
    if source.topic_id == target.topic_id:
        raise RefusedError(
            Code.SAME_TOPIC,
            (
                f"{spec.source.topic} on {spec.source.cluster} and {spec.target.topic} on {spec.target.cluster} "
                "are one topic"
            ),
        )
    if isinstance(spec.source.stop, CaughtUp | Never):
        raise RefusedError(Code.INVALID_VALUE, "source.to of a verification needs an end: latest, an offset or a time")
    window = _window(spec, target)
    wanted = selected(spec.source.topic, spec.source.partitions, facts.source_partitions)
    check_topic(spec.source.start, spec.source.topic, source.topic_id, "source.from")
    partitions = tuple(pin(spec.source.start, _read_to(spec.source.stop), p, "source") for p in wanted)
    ranges = _target_ranges(spec, facts, partitions, target)
    check_comparison_size(len(partitions), len(ranges))
    retention_ms, retention_bytes = retention_of(source)
    return Plan(
        hash="",
        source=PlannedTopic(spec.source.cluster, spec.source.topic, source.topic_id, source.partitions),
        target=PlannedTopic(spec.target.cluster, spec.target.topic, target.topic_id, target.partitions),
        partitions=partitions,
        lanes=(),
        from_time_ms=window[0],
        to_time_ms=window[1],
        records_at_most=sum(offsets_in(p) for p in partitions),
        bytes_at_most=sum(p.bytes_at_most for p in (*partitions, *ranges)),
        eta_seconds=None,
        create_target=False,
        create_configs={},
        findings=tuple(_findings(spec, facts, partitions, ranges)),
        pinned_at_ms=facts.gathered_at_ms,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        target_starts=tuple((p.partition, p.start) for p in ranges),
        target_stops=tuple((p.partition, p.high_watermark if p.stop is None else p.stop) for p in ranges),
    )


def _window(spec: VerificationSpec, target: TopicFacts) -> tuple[int | None, int | None]:
    """The times of the command, which choose records on both sides by each record's own time. The offsets that a time
    resolves to only say where to read, not what is compared.
    """
    start, stop = spec.source.start, spec.source.stop
    low, high = (bound.time_ms if isinstance(bound, AtTime) else None for bound in (start, stop))
    if low is not None and high is not None and low >= high:
        raise RefusedError(Code.RANGE_REVERSED, "source.from is not before source.to: no time lies between them")
    if (low, high) != (None, None) and target.configs.get("message.timestamp.type") == "LogAppendTime":
        message = (
            f"{target.topic} stamps records with the time they land, so none can be found in it by a time of the "
            "source; name offsets"
        )
        raise RefusedError(Code.INVALID_VALUE, message)
    return low, high


def _read_to(stop: To) -> To:
    """Where to stop reading: for a time, at the log's end, because late records from before that time may come anywhere
    after the first one past it.
    """
    return Latest() if isinstance(stop, AtTime) else stop


def _target_ranges(
    spec: VerificationSpec, facts: PlanFacts, partitions: tuple[PlannedPartition, ...], target: TopicFacts
) -> tuple[PlannedPartition, ...]:
    """Every target partition that may hold copies of the range. For all partitions of the source these are all of the
    target, so that extra records are found anywhere.
    """
    needed = max((p.partition for p in partitions), default=-1) + 1
    if spec.target.mapping == "same" and target.partitions < needed:
        raise RefusedError(
            Code.TARGET_PARTITIONS,
            f"topic {target.topic} has {target.partitions} partitions; mapping `same` needs {needed}",
        )
    is_part = spec.source.partitions is not None and spec.target.mapping == "same"
    wanted = tuple(p.partition for p in partitions) if is_part else None
    if spec.target.start is not None:
        check_topic(spec.target.start, target.topic, target.topic_id, "target.from")
    start, stop = spec.target_bounds
    chosen = selected(spec.target.topic, wanted, facts.target_partitions)
    sampled = [p.bytes_per_offset for p in facts.source_partitions if p.bytes_per_offset is not None]
    each = max(sampled, default=None)  # records of the target are not looked at; most are copies of those
    return tuple(pin(start, stop, replace(p, bytes_per_offset=each), "target") for p in chosen)


def _findings(
    spec: VerificationSpec,
    facts: PlanFacts,
    partitions: tuple[PlannedPartition, ...],
    ranges: tuple[PlannedPartition, ...],
) -> list[Finding]:
    source, target = facts.source, facts.target
    assert source is not None
    assert target is not None
    found = range_findings(partitions, facts.source_partitions, _WAITS)
    held = [p.partition for p in facts.target_partitions if p.last_stable < p.high_watermark]
    if held:
        message = f"an open transaction holds the end of partitions {listed(held)} of {target.topic}; {_WAITS}"
        found.append(Finding("target_open_transaction", Severity.WARN, message))
    compacted = [t.topic for t in (source, target) if "compact" in t.configs.get("cleanup.policy", "delete")]
    if compacted and spec.compare == "records":
        message = (
            f"{' and '.join(compacted)} are compacted: which old values are left is chance; `compare: latest` "
            "compares the last value of each key"
        )
        found.append(Finding("compacted", Severity.WARN, message.replace("are compacted", _are(compacted), 1)))
    if target.configs.get("message.timestamp.type") == "LogAppendTime":
        message = f"{target.topic} stamps records with the time they land: times are not compared"
        found.append(Finding("log_append_time", Severity.WARN, message))
    elif source.configs.get("message.timestamp.type") == "LogAppendTime" and spec.compare == "records":
        message = (
            f"{source.topic} stamps records with the time they land, which a copy has to have kept: times are compared"
        )
        found.append(Finding("log_append_time", Severity.INFO, message))
    if target.partitions != source.partitions:
        how = "partition by partition" if spec.target.mapping == "same" else "by murmur2 of the key"
        message = (
            f"{target.topic} has {target.partitions} partitions, {source.topic} has {source.partitions}: compared {how}"
        )
        found.append(Finding("target_partitions", Severity.WARN, message))
    if spec.source.partitions is not None and spec.target.mapping == "key_hash":
        message = "records of other source partitions lie in the same target partitions and count as extra"
        found.append(Finding("part_of_source", Severity.WARN, message))
    expected = sum(offsets_in(p) for p in ranges)
    if not expected and any(offsets_in(p) for p in partitions):
        found.append(Finding("target_range_empty", Severity.WARN, f"the range of {target.topic} holds no offset"))
    return found


def _are(topics: list[str]) -> str:
    return "are compacted" if len(topics) > 1 else "is compacted"


def _with_forecast(
    plan: Plan, spec: VerificationSpec, facts: PlanFacts, params: Params, history: SampleHistory
) -> Plan:
    """The forecast as for a copy of the range by as many tasks as there are slots, except that both sides are read at
    once and nothing is stored.
    """
    both_sides = replace(facts, bytes_per_s=2 * (facts.bytes_per_s or params.eta_bytes_per_s))
    as_copied = replace(plan, lanes=assign_lanes(plan.partitions, facts.task_slots))
    told = with_forecast(as_copied, spec, both_sides, params, history)
    view = None if told.forecast is None else replace(told.forecast, storage=None, cost=None)
    return replace(told, lanes=(), forecast=view)


def _hash(plan: Plan, spec: VerificationSpec) -> str:
    """`sha256:...` over which ranges are compared, and how."""
    matter: Mapping[str, object] = {
        "kind": spec.kind,
        "source": asdict(plan.source),
        "partitions": [(p.partition, p.start, p.stop) for p in plan.partitions],
        "target": asdict(plan.target),
        "ranges": (plan.target_starts, plan.target_stops),
        "times": (plan.from_time_ms, plan.to_time_ms),
        "map": (spec.target.mapping, spec.target.headers_add, spec.target.headers_drop),
        "compare": spec.compare,
    }
    return "sha256:" + hashlib.sha256(json.dumps(matter, sort_keys=True).encode()).hexdigest()
