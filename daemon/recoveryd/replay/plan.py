"""From the specification of a replay and the facts about its clusters to a pinned, hashed plan, or to the reason why
there is none.

Pure: an adapter gathered the facts at once. Bounds become offsets in `recoveryd.recovery.pinning`, findings about the
target are made in `recoveryd.replay.preflight`, plans of comparisons without a copy in `recoveryd.verification.plan`.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused, RefusedError
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.concerned import concerned_units
from recoveryd.recovery.forecast_plan import NO_SAMPLES, retention_of, with_forecast
from recoveryd.recovery.impact import impact_findings, impact_of
from recoveryd.recovery.lane_shares import assign_lanes
from recoveryd.recovery.model import Finding, Plan, PlannedPartition, PlannedTopic, PlannedTraffic, Severity
from recoveryd.recovery.params import Params
from recoveryd.recovery.pinning import check_topic, offsets_in, pin, range_findings, selected
from recoveryd.recovery.plan_facts import PlanFacts, TopicFacts
from recoveryd.recovery.size import check_copy_size
from recoveryd.recovery.spec import AtTime, oldest_ms
from recoveryd.replay.preflight import created_configs, created_replicas, inspect_target
from recoveryd.replay.spec import ReplaySpec
from recoveryd.units.contract import UnitContract, look_at_contract, refuse_contract
from recoveryd_jobs.contract import ReceiptsHome


def make_plan(
    spec: ReplaySpec, facts: PlanFacts, params: Params, history: SampleHistory = NO_SAMPLES
) -> Plan | Refused:
    """The plan for `spec` by these `facts`. Findings of severity error come back as a refusal with their message.

    `history` holds offset samples of the source, if it was watched: they give a better live rate than the facts.
    """
    try:
        return _make_plan(spec, facts, params, history)
    except RefusedError as refusal:
        return refusal.refused


def _make_plan(spec: ReplaySpec, facts: PlanFacts, params: Params, history: SampleHistory) -> Plan:
    source = facts.source
    if source is None:
        raise RefusedError(
            Code.SOURCE_TOPIC_MISSING, f"topic {spec.source.topic} does not exist on cluster {spec.source.cluster}"
        )
    check_topic(spec.source.start, spec.source.topic, source.topic_id, "source.from")
    wanted = selected(spec.source.topic, spec.source.partitions, facts.source_partitions)
    partitions = tuple(pin(spec.source.start, spec.source.stop, p, "source") for p in wanted)
    _check_target(spec, facts, partitions)
    width = facts.target.partitions if facts.target else source.partitions
    check_copy_size(len(partitions), width)
    home = _receipts_home(spec, facts)
    findings = (*_range_findings(spec, facts, partitions), *inspect_target(spec, facts))
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise RefusedError(ERROR_CODES.get(finding.code, Code.TARGET_LIMITS), finding.message)
    contracts = _contracts(spec, facts, params)
    impact = impact_of(spec, facts.readers, params.units)
    creates = facts.target is None
    target = facts.target
    retention_ms, retention_bytes = retention_of(source)
    plan = Plan(
        hash="",
        source=PlannedTopic(spec.source.cluster, spec.source.topic, source.topic_id, source.partitions),
        target=PlannedTopic(spec.target.cluster, spec.target.topic, target.topic_id if target else "", width),
        partitions=partitions,
        lanes=assign_lanes(partitions, min(facts.task_slots, spec.limits.max_lanes or facts.task_slots)),
        from_time_ms=oldest_ms(spec.source.start),
        to_time_ms=spec.source.stop.time_ms if isinstance(spec.source.stop, AtTime) else None,
        records_at_most=sum(offsets_in(p) for p in partitions),
        bytes_at_most=sum(p.bytes_at_most for p in partitions),
        eta_seconds=None,
        create_target=creates,
        create_configs=created_configs(source.configs, facts.largest_record_bytes) if creates else {},
        findings=(*findings, *impact_findings(spec.target.topic, impact, facts.readers), *_of_contracts(contracts)),
        pinned_at_ms=facts.gathered_at_ms,
        replication_factor=created_replicas(spec, source),
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        target_starts=()
        if target is None
        else tuple(sorted(target.ends.items())),  # a topic still to be created begins at 0
        receipts=home,
        traffic=PlannedTraffic("replay", spec.target.topic),
        impact=impact,
        contracts=contracts,
    )
    plan = with_forecast(plan, spec, facts, params, history)
    return replace(plan, hash=plan_hash(plan, spec))


ERROR_CODES = {
    "target_retention": Code.TARGET_RETENTION,
    "target_compacted": Code.TARGET_COMPACTED,
    "target_max_message_bytes": Code.TARGET_LIMITS,
    "target_timestamp_limits": Code.TARGET_LIMITS,
}


def _contracts(spec: ReplaySpec, facts: PlanFacts, params: Params) -> tuple[UnitContract, ...]:
    """Of the units whose inputs are copied or written to. Raises `RefusedError` where one is required to be whole."""
    found = []
    for unit in concerned_units(spec, params.units):
        contract = look_at_contract(unit, facts.units.get(unit.name))
        refused = refuse_contract(unit, contract)
        if refused is not None:
            raise RefusedError(refused.code, refused.message, refused.hint)
        found.append(contract)
    return tuple(found)


def _of_contracts(contracts: tuple[UnitContract, ...]) -> Iterator[Finding]:
    for contract in contracts:
        for clause in contract.problems:
            yield Finding(f"contract_{clause.name}", Severity.WARN, contract.told(clause))


def _receipts_home(spec: ReplaySpec, facts: PlanFacts) -> ReceiptsHome:
    """Where the recovery's receipts are, pinned once: if the receipts topic gets more partitions or is replaced, the
    ledger of this recovery must neither move nor lose anything.
    """
    found = facts.receipts
    if found is None:
        raise RefusedError(Code.OWN_TOPIC_MISSING, f"cluster {spec.target.cluster} has no receipts topic")
    if found.cleanup_policy != "compact":
        raise RefusedError(
            Code.OWN_TOPIC_WRONG,
            (
                f"{found.topic} on {spec.target.cluster} has cleanup.policy={found.cleanup_policy}, it must be "
                "compact: receipts would be deleted"
            ),
        )
    return ReceiptsHome(found.topic, found.topic_id, found.partition, found.partitions, found.end)


def _check_target(spec: ReplaySpec, facts: PlanFacts, partitions: tuple[PlannedPartition, ...]) -> None:
    target = facts.target
    if target is None:
        if not spec.target.create:
            raise RefusedError(
                Code.TARGET_TOPIC_MISSING, f"topic {spec.target.topic} does not exist on cluster {spec.target.cluster}"
            )
        if spec.target.topic_id is not None:
            raise RefusedError(
                Code.TOPIC_RECREATED, f"target.topic_id: the {spec.target.topic} that is meant was deleted"
            )
        return
    if spec.target.topic_id not in {None, target.topic_id}:
        raise RefusedError(
            Code.TOPIC_RECREATED,
            f"target.topic_id: an earlier {target.topic} is meant, which was deleted and created again",
        )
    if facts.source is not None and target.topic_id == facts.source.topic_id:
        raise RefusedError(
            Code.SAME_TOPIC,
            (
                f"{spec.source.topic} on {spec.source.cluster} and {spec.target.topic} on {spec.target.cluster} "
                "are one topic"
            ),
        )
    needed = max((p.partition for p in partitions), default=-1) + 1
    if spec.target.mapping == "same" and target.partitions < needed:
        raise RefusedError(
            Code.TARGET_PARTITIONS,
            f"topic {target.topic} has {target.partitions} partitions; mapping `same` needs {needed}",
        )
    held = held_records(spec, partitions, target)
    if held:
        raise RefusedError(Code.TARGET_NOT_EMPTY, held)


def held_records(spec: ReplaySpec, partitions: tuple[PlannedPartition, ...], target: TopicFacts) -> str:
    """The sentence that names records in a target that must have none, or ""."""
    if spec.target.on_existing == "append":
        return ""
    written = [p.partition for p in partitions] if spec.target.mapping == "same" else range(target.partitions)
    for partition in written:
        held = target.ends.get(partition, 0) - target.starts.get(partition, 0)
        if held > 0:
            return f"partition {partition} of {target.topic} holds up to {held} records already"
    return ""


def _range_findings(spec: ReplaySpec, facts: PlanFacts, partitions: tuple[PlannedPartition, ...]) -> list[Finding]:
    findings = range_findings(partitions, facts.source_partitions, "the copy waits for it")
    source = facts.source
    timed = oldest_ms(spec.source.start) is not None or isinstance(spec.source.stop, AtTime)
    if timed and source and source.configs.get("message.timestamp.type", "CreateTime") == "CreateTime":
        findings.append(
            Finding(
                "late_arrivals",
                Severity.INFO,
                (
                    "times are the producers': records older than `from` inside the range are filtered, records "
                    "that arrived after the end of the range are not part of it"
                ),
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


def plan_hash(plan: Plan, spec: ReplaySpec) -> str:
    """`sha256:...` over which records are copied where, and how. Estimates, findings and the time of planning are left
    out.
    """
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
