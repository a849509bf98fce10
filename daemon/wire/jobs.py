"""Between the core's words and those of the jobs (`spark_jobs.contract`): directives and launches go out, heartbeats come in.

The jobs never import the daemon, so the same thing has a type on either side; this is the one place that knows both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Final, assert_never

from daemon.core.commands import ReplaySpec, Spec, VerificationSpec
from daemon.core.decision import Directive
from daemon.core.effects import LaunchAttempt
from daemon.core.events import DriverHeartbeat, LaneHeartbeat, LanePosition
from daemon.core.model import Allowance, Difference, Plan, Verification
from spark_jobs import contract

_DIFFERENCE_FIELDS: Final = tuple(f.name for f in fields(Difference))
_POSITION: Final = attrgetter(*(f.name for f in fields(LanePosition)))  # there may be thousands a second


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """What every attempt of this daemon has in common. `clients`: librdkafka properties per named cluster, secrets included. Times in ms."""

    scope: str
    clients: Mapping[str, Mapping[str, str]]
    directives_topic: str
    progress_topic: str
    receipts_topic: str
    control_cluster: str = "main"
    chunk: contract.ChunkLimits = field(default_factory=contract.ChunkLimits)
    transaction_timeout_ms: int = 60_000
    stop_wait_ms: int = 600_000
    orphan_after_ms: int = 900_000


def directive_to_job(directive: Directive) -> contract.Directive:
    return contract.Directive(
        recovery=directive.recovery,
        attempt=directive.attempt,
        sequence=directive.sequence,
        wanted=directive.wanted,
        lease_ttl_ms=directive.lease_ttl_ms,
        max_bytes_per_s=directive.max_bytes_per_s,
        max_records_per_s=directive.max_records_per_s,
        floor_bytes_per_s=directive.floor_bytes_per_s,
        shares={str(lane): share for lane, share in directive.shares.items()},
        why=directive.why,
    )


def directive_from_job(directive: contract.Directive) -> Directive:
    return Directive(
        recovery=directive.recovery,
        attempt=directive.attempt,
        sequence=directive.sequence,
        wanted=directive.wanted,
        max_bytes_per_s=directive.max_bytes_per_s,
        max_records_per_s=directive.max_records_per_s,
        floor_bytes_per_s=directive.floor_bytes_per_s,
        lease_ttl_ms=directive.lease_ttl_ms,
        shares={int(lane): share for lane, share in directive.shares.items()},
        why=directive.why,
    )


def encode_directive(directive: Directive) -> tuple[bytes, bytes]:
    """Key and value for the directives topic."""
    return directive.recovery.encode(), contract.encode(directive_to_job(directive))


def decode_directive(value: bytes) -> Directive:
    """A value of the directives topic. Raises `spark_jobs.contract.ContractError`."""
    try:
        return directive_from_job(contract.decode(contract.Directive, value))
    except ValueError as error:
        raise contract.ContractError(f"Directive: {error}") from None


def decode_progress(value: bytes) -> LaneHeartbeat | DriverHeartbeat:
    """A value of the progress topic. Raises `spark_jobs.contract.ContractError`."""
    record = contract.decode_progress(value)
    return driver_from_job(record) if isinstance(record, contract.DriverReport) else lane_from_job(record)


def lane_from_job(heartbeat: contract.Heartbeat) -> LaneHeartbeat:
    return LaneHeartbeat(
        recovery=heartbeat.recovery,
        attempt=heartbeat.attempt,
        lane=heartbeat.lane,
        directive_sequence=heartbeat.directive_sequence,
        state=heartbeat.state,
        chunk_open=heartbeat.chunk_open,
        records_per_s=heartbeat.records_per_s,
        bytes_per_s=heartbeat.bytes_per_s,
        positions=tuple([LanePosition(*_POSITION(p)) for p in heartbeat.positions]),
        why=heartbeat.why,
        ledger_from=heartbeat.ledger_from,
        phase=heartbeat.phase,
        verified_records=heartbeat.verified_records,
        verified_bytes=heartbeat.verified_bytes,
        verified_offsets=heartbeat.verified_offsets,
        offsets_to_verify=heartbeat.offsets_to_verify,
        failed_chunks=heartbeat.failed_chunks,
    )


def driver_from_job(report: contract.DriverReport) -> DriverHeartbeat:
    found = report.verification
    verification = None
    if found is not None:
        verification = Verification(
            result=found.result,
            source_records=found.source_records,
            target_records=found.target_records,
            digest=found.digest,
            differences=tuple(
                Difference(*(getattr(d, name) for name in _DIFFERENCE_FIELDS)) for d in found.differences
            ),
            why=found.why,
            scope=found.scope,
            extra_records=found.extra_records,
            records_by_receipts=found.records_by_receipts,
            unkeyed_source_records=found.unkeyed_source_records,
            unkeyed_target_records=found.unkeyed_target_records,
        )
    return DriverHeartbeat(
        recovery=report.recovery,
        attempt=report.attempt,
        phase=report.phase,
        directive_sequence=report.directive_sequence,
        verification=verification,
        error_code=report.error_code,
        error_message=report.error_message,
    )


def make_job_spec(effect: LaunchAttempt, defaults: JobDefaults) -> contract.JobSpec:
    """The whole file that an attempt starts from. Raises KeyError when the plan names a cluster that the config no longer has."""
    match effect.spec:
        case ReplaySpec() as spec:
            return _replay_spec(effect, spec, defaults)
        case VerificationSpec() as spec:
            return _verification_spec(effect, spec, defaults)
        case unknown:
            assert_never(unknown)


def _replay_spec(effect: LaunchAttempt, spec: ReplaySpec, defaults: JobDefaults) -> contract.JobSpec:
    plan = effect.plan
    return contract.JobSpec(
        kind=spec.kind,
        scope=defaults.scope,
        recovery=effect.recovery,
        attempt=effect.attempt,
        lanes=make_lanes(effect),
        source=_source(plan, defaults),
        target=replace(_target(plan, spec, defaults), exclusive=spec.target.on_existing == "refuse"),
        control=_control(defaults),
        receipts_topic=defaults.receipts_topic if plan.receipts is None else plan.receipts.topic,
        directive=directive_to_job(effect.directive),
        verify=spec.verify,
        on_data_loss=spec.on_data_loss,
        chunk=defaults.chunk,
        transaction_timeout_ms=defaults.transaction_timeout_ms,
        stop_wait_ms=defaults.stop_wait_ms,
        orphan_after_ms=defaults.orphan_after_ms,
        receipts=receipts_home(plan),
    )


def receipts_home(plan: Plan) -> contract.ReceiptsHome | None:
    """The pinned place of a recovery's receipts in the words of the jobs."""
    home = plan.receipts
    if home is None:
        return None
    return contract.ReceiptsHome(home.topic, home.topic_id, home.partition, home.partitions, home.start)


def _verification_spec(effect: LaunchAttempt, spec: VerificationSpec, defaults: JobDefaults) -> contract.JobSpec:
    """Nothing is copied and nobody kept receipts: one lane only names the ranges of the source."""
    ranges = tuple(contract.PartitionRange(p.partition, p.start, p.stop) for p in effect.plan.partitions)
    return contract.JobSpec(
        kind=spec.kind,
        scope=defaults.scope,
        recovery=effect.recovery,
        attempt=effect.attempt,
        lanes=(contract.LaneSpec(0, ranges),),
        source=_source(effect.plan, defaults),
        target=_target(effect.plan, spec, defaults),
        control=_control(defaults),
        receipts_topic="",
        directive=directive_to_job(effect.directive),
        compare=spec.compare,
        stop_wait_ms=defaults.stop_wait_ms,
        orphan_after_ms=defaults.orphan_after_ms,
    )


def _source(plan: Plan, defaults: JobDefaults) -> contract.SourceSpec:
    return contract.SourceSpec(
        cluster=plan.source.cluster,
        topic=plan.source.topic,
        topic_id=plan.source.topic_id,
        client=dict(defaults.clients[plan.source.cluster]),
        from_time_ms=plan.from_time_ms,
        to_time_ms=plan.to_time_ms,
    )


def _target(plan: Plan, spec: Spec, defaults: JobDefaults) -> contract.TargetSpec:
    return contract.TargetSpec(
        cluster=plan.target.cluster,
        topic=plan.target.topic,
        topic_id=plan.target.topic_id,
        partitions=plan.target.partitions,
        client=dict(defaults.clients[plan.target.cluster]),
        mapping=spec.target.mapping,
        headers_add=spec.target.headers_add,
        headers_drop=spec.target.headers_drop,
        starts=plan.target_starts,
        stops=plan.target_stops,
    )


def _control(defaults: JobDefaults) -> contract.ControlSpec:
    return contract.ControlSpec(
        client=dict(defaults.clients[defaults.control_cluster]),
        directives_topic=defaults.directives_topic,
        progress_topic=defaults.progress_topic,
    )


def make_lanes(effect: LaunchAttempt) -> tuple[contract.LaneSpec, ...]:
    """The plan's lanes, each with its part of the recovery's caps."""
    plan = effect.plan
    by_number = {p.partition: p for p in plan.partitions}
    lanes = [[by_number[partition] for partition in lane] for lane in plan.lanes]
    allowances = effect.allowances or (Allowance(),) * len(lanes)
    return tuple(
        contract.LaneSpec(
            lane=number,
            partitions=tuple(
                contract.PartitionRange(p.partition, p.start, p.stop, effect.positions.get(p.partition, 0))
                for p in lane
            ),
            max_records=allowances[number].records,
            max_bytes=allowances[number].bytes,
            ledger_from=effect.ledger_from[number] if number < len(effect.ledger_from) else 0,
        )
        for number, lane in enumerate(lanes)
    )
