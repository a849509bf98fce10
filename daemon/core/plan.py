"""From a command and the facts about the world to a pinned, hashed plan, or to the reason why there is none.

Pure: the facts were gathered by an adapter in one go. Bounds become offsets exactly once, here; nothing later resolves a time or `latest` again. Offsets
outside the log are refused, never clamped. What preflight thinks of the target is `daemon.core.preflight`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from daemon.core.catalogue import Code
from daemon.core.commands import (
    AtOffset,
    AtOffsets,
    AtTime,
    CaughtUp,
    Earliest,
    From,
    Never,
    ReplaySpec,
    To,
)
from daemon.core.forecast_plan import NO_SAMPLES, retention_of, with_forecast
from daemon.core.model import Finding, Plan, PlannedPartition, PlannedTopic, Severity
from daemon.core.observed import SampleHistory
from daemon.core.params import Params
from daemon.core.plan_facts import PartitionFacts, PlanFacts
from daemon.core.preflight import created_configs, inspect_target
from daemon.core.sharing import assign_lanes


@dataclass(frozen=True, slots=True)
class Refused:
    """Why no plan can be made; `code` is from the catalogue."""

    code: Code
    message: str


class _RefusedError(Exception):
    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.refused = Refused(code, message)


def make_plan(
    spec: ReplaySpec, facts: PlanFacts, params: Params, history: SampleHistory = NO_SAMPLES
) -> Plan | Refused:
    """The plan for `spec` in the world of `facts`. Findings of severity error come back as a refusal with their message.

    `history` holds offset samples of the source, if it was watched: the better source of its live rate.
    """
    try:
        return _make_plan(spec, facts, params, history)
    except _RefusedError as refusal:
        return refusal.refused


def _make_plan(spec: ReplaySpec, facts: PlanFacts, params: Params, history: SampleHistory) -> Plan:
    source = facts.source
    if source is None:
        raise _RefusedError(
            Code.SOURCE_TOPIC_MISSING, f"topic {spec.source.topic} does not exist on cluster {spec.source.cluster}"
        )
    partitions = tuple(_pin(spec, p) for p in _selected(spec, facts))
    _check_target(spec, facts, partitions)
    findings = (*_range_findings(spec, facts, partitions), *inspect_target(spec, facts))
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise _RefusedError(_ERROR_CODES.get(finding.code, Code.TARGET_LIMITS), finding.message)
    creates = facts.target is None
    target = facts.target
    width = target.partitions if target else source.partitions
    retention_ms, retention_bytes = retention_of(source)
    plan = Plan(
        hash="",
        source=PlannedTopic(spec.source.cluster, spec.source.topic, source.topic_id, source.partitions),
        target=PlannedTopic(spec.target.cluster, spec.target.topic, target.topic_id if target else "", width),
        partitions=partitions,
        lanes=assign_lanes(partitions, facts.task_slots),
        from_time_ms=spec.source.start.time_ms if isinstance(spec.source.start, AtTime) else None,
        to_time_ms=spec.source.stop.time_ms if isinstance(spec.source.stop, AtTime) else None,
        records_at_most=sum(_size(p) for p in partitions),
        bytes_at_most=sum(p.bytes_at_most for p in partitions),
        eta_seconds=None,
        create_target=creates,
        create_configs=created_configs(source.configs) if creates else {},
        findings=findings,
        pinned_at_ms=facts.gathered_at_ms,
        replication_factor=source.replication_factor,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
    )
    plan = with_forecast(plan, spec, facts, params, history)
    return replace(plan, hash=plan_hash(plan, spec))


_ERROR_CODES = {
    "target_retention": Code.TARGET_RETENTION,
    "target_compacted": Code.TARGET_COMPACTED,
    "target_max_message_bytes": Code.TARGET_LIMITS,
    "target_timestamp_limits": Code.TARGET_LIMITS,
}


def _selected(spec: ReplaySpec, facts: PlanFacts) -> list[PartitionFacts]:
    known = {p.partition: p for p in facts.source_partitions}
    wanted = spec.source.partitions if spec.source.partitions is not None else tuple(sorted(known))
    absent = [p for p in wanted if p not in known]
    if absent:
        raise _RefusedError(
            Code.SOURCE_PARTITION_MISSING,
            f"topic {spec.source.topic} has no partition {absent[0]}; it has {len(known)}",
        )
    return [known[p] for p in sorted(set(wanted))]


def _pin(spec: ReplaySpec, facts: PartitionFacts) -> PlannedPartition:
    start, start_at_end = _start_offset(spec.source.start, facts)
    stop, stop_at_end = _stop_offset(spec.source.stop, facts)
    if stop is not None and start > stop:
        raise _RefusedError(
            Code.RANGE_REVERSED, f"partition {facts.partition}: the range starts at {start}, after its end {stop}"
        )
    held = facts.high_watermark - facts.log_start
    end = facts.high_watermark if stop is None else stop
    share = (end - start) / held if held > 0 else 0.0
    return PlannedPartition(
        partition=facts.partition,
        start=start,
        stop=stop,
        at_end=start_at_end or stop_at_end,
        high_watermark=facts.high_watermark,
        log_start=facts.log_start,
        bytes_at_most=round((facts.bytes_on_disk or 0) * max(0.0, share)),
        first_ms=facts.first_ms,
        last_ms=facts.last_ms,
    )


def _start_offset(bound: From, facts: PartitionFacts) -> tuple[int, bool]:
    if isinstance(bound, Earliest):
        return facts.log_start, False
    if isinstance(bound, AtTime):
        return _time_offset(facts.start_at, facts)
    return _inside(_named_offset(bound, facts, "source.from"), facts, "source.from"), False


def _stop_offset(bound: To, facts: PartitionFacts) -> tuple[int | None, bool]:
    if isinstance(bound, CaughtUp | Never):
        return None, False
    if isinstance(bound, AtTime):
        return _time_offset(facts.stop_at, facts)
    if isinstance(bound, AtOffset | AtOffsets):
        return _inside(_named_offset(bound, facts, "source.to"), facts, "source.to"), False
    return facts.high_watermark, False


def _time_offset(found: int | None, facts: PartitionFacts) -> tuple[int, bool]:
    """-1 (no record so new) means the end of the log, marked as such."""
    if found is None or found < 0:
        return facts.high_watermark, True
    return max(found, facts.log_start), False


def _named_offset(bound: AtOffset | AtOffsets, facts: PartitionFacts, field: str) -> int:
    if isinstance(bound, AtOffset):
        return bound.offset
    if facts.partition not in bound.offsets:
        raise _RefusedError(Code.INVALID_VALUE, f"{field}.offsets names no offset for partition {facts.partition}")
    return bound.offsets[facts.partition]


def _inside(offset: int, facts: PartitionFacts, field: str) -> int:
    if not facts.log_start <= offset <= facts.high_watermark:
        raise _RefusedError(
            Code.OFFSET_OUTSIDE_LOG,
            f"{field}: offset {offset} of partition {facts.partition} lies outside the log, which holds [{facts.log_start}, {facts.high_watermark})",
        )
    return offset


def _check_target(spec: ReplaySpec, facts: PlanFacts, partitions: tuple[PlannedPartition, ...]) -> None:
    target = facts.target
    if target is None:
        if not spec.target.create:
            raise _RefusedError(
                Code.TARGET_TOPIC_MISSING, f"topic {spec.target.topic} does not exist on cluster {spec.target.cluster}"
            )
        return
    if facts.source is not None and target.topic_id == facts.source.topic_id:
        raise _RefusedError(
            Code.SAME_TOPIC,
            f"{spec.source.topic} on {spec.source.cluster} and {spec.target.topic} on {spec.target.cluster} are one topic",
        )
    needed = max((p.partition for p in partitions), default=-1) + 1
    if spec.target.mapping == "same" and target.partitions < needed:
        raise _RefusedError(
            Code.TARGET_PARTITIONS,
            f"topic {target.topic} has {target.partitions} partitions; mapping `same` needs {needed}",
        )
    if spec.target.on_existing == "append":
        return
    for partition in written_partitions(spec, partitions, target.partitions):
        held = target.ends.get(partition, 0) - target.starts.get(partition, 0)
        if held > 0:
            raise _RefusedError(
                Code.TARGET_NOT_EMPTY, f"partition {partition} of {target.topic} holds up to {held} records already"
            )


def written_partitions(spec: ReplaySpec, partitions: tuple[PlannedPartition, ...], width: int) -> tuple[int, ...]:
    """The target partitions this recovery may write to."""
    if spec.target.mapping == "same":
        return tuple(p.partition for p in partitions)
    return tuple(range(width))


def _range_findings(spec: ReplaySpec, facts: PlanFacts, partitions: tuple[PlannedPartition, ...]) -> list[Finding]:
    findings = []
    at_end = [p.partition for p in partitions if p.at_end]
    if at_end:
        findings.append(
            Finding(
                "time_at_end",
                Severity.INFO,
                f"no record is as new as the time given in partitions {_listed(at_end)}: resolved to the end",
            )
        )
    held = [p.partition for p in facts.source_partitions if p.last_stable < p.high_watermark]
    if held:
        findings.append(
            Finding(
                "open_transaction",
                Severity.WARN,
                f"an open transaction holds the end of partitions {_listed(held)}; the copy waits for it",
            )
        )
    source = facts.source
    timed = isinstance(spec.source.start, AtTime) or isinstance(spec.source.stop, AtTime)
    if timed and source and source.configs.get("message.timestamp.type", "CreateTime") == "CreateTime":
        findings.append(
            Finding(
                "late_arrivals",
                Severity.INFO,
                "times are the producers': records older than `from` inside the range are filtered, records that arrived after the end of the range are not part of it",
            )
        )
    if source and "compact" in source.configs.get("cleanup.policy", "delete"):
        findings.append(
            Finding(
                "source_compacted",
                Severity.INFO,
                "the source is compacted: offsets removed by compaction count as skipped",
            )
        )
    return findings


def _listed(partitions: list[int]) -> str:
    shown = ", ".join(str(p) for p in partitions[:10])
    return f"{shown} and {len(partitions) - 10} more" if len(partitions) > 10 else shown


def _size(partition: PlannedPartition) -> int:
    end = partition.high_watermark if partition.stop is None else partition.stop
    return max(0, end - partition.start)


def plan_hash(plan: Plan, spec: ReplaySpec) -> str:
    """`sha256:...` over what matters: which records go where and how. Estimates, findings and the time of planning do not count."""
    matter: Mapping[str, object] = {
        "source": asdict(plan.source),
        "partitions": [(p.partition, p.start, p.stop) for p in plan.partitions],
        "times": (plan.from_time_ms, plan.to_time_ms),
        "follow": type(spec.source.stop).__name__ if plan.is_following else None,
        "target": asdict(plan.target),
        "create": (plan.create_target, dict(plan.create_configs)),
        "write": (spec.target.mapping, spec.target.on_existing, spec.target.headers_add, spec.target.headers_drop),
        "on_data_loss": spec.on_data_loss,
        "verify": spec.verify,
        "caps": (spec.limits.max_records, spec.limits.max_bytes),
    }
    return "sha256:" + hashlib.sha256(json.dumps(matter, sort_keys=True).encode()).hexdigest()
