"""From the effect `LaunchAttempt` to the job specification that a Spark application starts from: the parts that are the
same for every kind of recovery.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.model import Allowance, Plan
from recoveryd.recovery.spec import Spec
from recoveryd_jobs import contract


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """What every attempt of this daemon has in common. `clients`: librdkafka properties per named cluster, secrets
    included. Times in ms.
    """

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


def source_of(plan: Plan, defaults: JobDefaults) -> contract.SourceSpec:
    return contract.SourceSpec(
        cluster=plan.source.cluster,
        topic=plan.source.topic,
        topic_id=plan.source.topic_id,
        client=dict(defaults.clients[plan.source.cluster]),
        from_time_ms=plan.from_time_ms,
        to_time_ms=plan.to_time_ms,
    )


def target_of(plan: Plan, spec: Spec, defaults: JobDefaults) -> contract.TargetSpec:
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


def control_of(defaults: JobDefaults) -> contract.ControlSpec:
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
