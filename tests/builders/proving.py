"""The proof of a copy without Spark, and copies that are damaged behind the receipts' back."""

from collections.abc import Callable
from dataclasses import replace

from spark_jobs.contract import JobSpec, Receipt, VerificationReport
from spark_jobs.proof_judge import judge, report
from spark_jobs.proof_plan import make_plan, share_out
from spark_jobs.verify import look_closer, show_share
from tests.builders.copying import Recovery, Row


def verify(spec: JobSpec, *, is_whole: bool = True, tasks: int = 2) -> VerificationReport:
    """As the driver does it."""
    plan = make_plan(spec, is_whole=is_whole)
    shares = share_out(spec, plan, tasks)
    verdict = judge(spec, [show_share(spec, plan, share) for share in shares])
    return report(verdict, look_closer(spec, plan, verdict.questions, 0, 1) if verdict.questions else ())


def places(found: VerificationReport) -> list[tuple[str, int | None, int | None, int | None, int | None, int]]:
    """The differences without their words."""
    assert (found.result == "mismatch") == bool(found.differences)
    return [
        (d.kind, d.source_partition, d.source_offset, d.target_partition, d.target_offset, d.count)
        for d in found.differences
    ]


def damaged(
    recovery: Recovery,
    edit: Callable[[list[Row]], list[Row]],
    change: Callable[[Receipt], Receipt] = lambda receipt: receipt,
    **configs: str,
) -> JobSpec:
    """The same recovery with another target: it holds what `edit` makes of the copy, and receipts say what `change` makes of them."""
    cluster, partitions = recovery.cluster, recovery.spec.target.partitions
    bad = cluster.topic("bad", partitions, **configs)
    cluster.fill(bad, edit(cluster.read(recovery.target, partitions)))
    target = replace(recovery.spec.target, topic=bad, topic_id=cluster.topic_id(bad))
    recovery.write_receipts([change(replace(r, target_topic_id=target.topic_id)) for r in recovery.ledger()])
    return replace(recovery.spec, target=target)
