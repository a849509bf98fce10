"""Builders of what adapters carry: recoveries, plans, batches, receipts, directives. Each gives a legal default."""

from collections.abc import Mapping
from dataclasses import replace

from recoveryd.kernel.states import CommandRef, State
from recoveryd.recovery.effects import CreateTarget, GatherFacts, LaunchAttempt, ReadLedger
from recoveryd.recovery.model import Plan, PlannedPartition, PlannedTopic, Recovery
from recoveryd_jobs.contract import Directive, Receipt
from tests.builders.core import NOW_MS, make_spec


def make_recovery(recovery: str = "r1", **more: object) -> Recovery:
    made = Recovery(
        id=recovery,
        kind="replay",
        state=State.RUNNING,
        why="2 lanes copy",
        version=1,
        created_ms=NOW_MS,
        updated_ms=NOW_MS,
        command=CommandRef("c1", "//ops/alice", "because"),
        spec=make_spec(),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def make_plan(
    *ranges: tuple[int, int, int | None],
    source: tuple[str, str] = ("source", "source-id"),
    target: tuple[str, str] = ("target", "target-id"),
) -> Plan:
    """Ranges as (partition, start, stop), a lane for each; topics as (name, id)."""
    return Plan(
        hash="sha256:plan",
        source=PlannedTopic("main", *source, partitions=len(ranges)),
        target=PlannedTopic("main", *target, partitions=len(ranges)),
        partitions=tuple(PlannedPartition(*r) for r in ranges),
        lanes=tuple((r[0],) for r in ranges),
        from_time_ms=None,
        to_time_ms=None,
        records_at_most=sum((stop or start) - start for _partition, start, stop in ranges),
        bytes_at_most=0,
        eta_seconds=None,
        create_target=False,
        create_configs={},
        findings=(),
        pinned_at_ms=NOW_MS,
    )


def make_receipt(partition: int, start: int, stop: int, **more: object) -> Receipt:
    made = Receipt(
        scope="scope",
        recovery="r1",
        lane=partition,
        attempt=1,
        chunk=0,
        partition=partition,
        start=start,
        stop=stop,
        copied=stop - start,
        filtered=0,
        skipped=0,
        lost=0,
        bytes=10 * (stop - start),
        source_topic_id="source-id",
        target_topic_id="target-id",
    )
    return replace(made, **more)  # type: ignore[arg-type]


def make_directive(recovery: str = "r1", sequence: int = 1, wanted: str = "run", attempt: int = 1) -> Directive:
    return Directive(recovery, attempt, sequence, wanted, 30_000)


def make_launch(plan: Plan, recovery: str = "r1", attempt: int = 1, profile: str = "default") -> LaunchAttempt:
    return LaunchAttempt(recovery, attempt, make_spec(profile=profile), plan, make_directive(recovery, attempt=attempt))


def make_ledger_question(
    plan: Plan, recovery: str = "r1", *, fence: bool = False, positions: Mapping[int, int] | None = None
) -> ReadLedger:
    return ReadLedger(recovery, 1, plan, fence, sequence=7, positions=positions or {})


def make_facts_question(source: str, target: str, **bounds: object) -> GatherFacts:
    spec = make_spec()
    asked = replace(spec.source, topic=source, **bounds)  # type: ignore[arg-type]
    return GatherFacts("r1", replace(spec, source=asked, target=replace(spec.target, topic=target)))


def make_creation(topic: str, partitions: int = 2, **configs: str) -> CreateTarget:
    return CreateTarget("r1", "main", topic, partitions, -1, {k.replace("_", "."): v for k, v in configs.items()})
