"""The proof of a copy without Spark, and copies that are damaged while their receipts stay."""

import itertools
from collections.abc import Callable
from dataclasses import replace

from recoveryd_jobs.contract import DIGEST_FORM, JobSpec, PartitionRange, Receipt, TargetRun, Verification
from recoveryd_jobs.digest import SequenceDigest
from recoveryd_jobs.verify.judge import judge, report
from recoveryd_jobs.verify.plan import ProofPlan, ProofShare, look_again, make_plan, share_out, share_rest
from recoveryd_jobs.verify.shown import Shown
from recoveryd_jobs.verify.spill import report_spilled
from recoveryd_jobs.verify.tasks import look_closer, show_share, spill_share
from tests.builders.copying import Cluster, Recovery, Row

_numbers = itertools.count(1)


def nothing() -> None: ...


class FreeGuest:
    """A guest whose directives limit nothing, and who asks for so many records at a time."""

    client_id = "reader"

    def __init__(self, records: int = 1_000) -> None:
        self._records = records

    def turn(self) -> int:
        return self._records

    def took(self, records: int, size: int, offsets: int) -> None: ...

    def took_aside(self, size: int) -> None: ...


def verify(
    spec: JobSpec,
    *,
    is_whole: bool = True,
    tasks: int = 2,
    planned: Callable[[], None] = nothing,
    shown: Callable[[], None] = nothing,
) -> Verification:
    """Verify as the driver does. `planned` and `shown` are called before the topics are read, and before differing
    segments are read again.
    """
    plan = make_plan(spec, is_whole=is_whole)
    planned()
    shares = share_out(spec, plan, tasks)
    found = [shown_by(spec, plan, share) for share in shares]
    rest = look_again(spec, plan)
    found += [shown_by(spec, rest, share) for share in share_rest(rest, len(shares))]
    verdict = judge(spec, found, rest.notes)
    shown()
    return report(verdict, [look_closer(spec, plan, verdict.questions, 0, 1)] if verdict.questions else ())


def shown_by(spec: JobSpec, plan: ProofPlan, share: ProofShare) -> Shown:
    """What a task saw, with all rows."""
    shown = show_share(spec, plan, share)
    for pair, (side, rows) in list(shown.take_rows()):
        shown.tell(pair, side, rows)
    return shown


def spilled(spec: JobSpec, planned: Callable[[], None] = nothing) -> Verification:
    """Verify as the driver does without receipts, when keys chose the partition or only last values count."""
    plan = make_plan(spec, is_whole=True)
    planned()
    found = [spill_share(spec, plan, share) for share in share_out(spec, plan, 2)]
    return report_spilled(found, latest=spec.compare == "latest", notes=look_again(spec, plan).notes)


def two_topics(
    cluster: Cluster,
    source: list[Row],
    target: list[Row],
    partitions: int = 1,
    configs: tuple[dict[str, str], dict[str, str]] = ({}, {}),
    **more: object,
) -> JobSpec:
    """The spec of a verification of `target` against `source`, both as they are."""
    cluster = Cluster(cluster.client["bootstrap.servers"], f"{cluster.unique}{next(_numbers)}-")
    here, there = (cluster.topic(name, partitions, **each) for name, each in zip("ab", configs, strict=True))
    cluster.fill(here, source)
    cluster.fill(there, target)
    ranges = [[PartitionRange(p, 0, cluster.end(here, p)) for p in range(partitions)]]
    spec = Recovery(cluster, here, there, ranges=ranges, partitions=partitions, **more).spec
    stops = tuple((p, cluster.end(there, p)) for p in range(partitions))
    target_spec = replace(spec.target, stops=stops)
    return replace(spec, kind="verification", receipts_topic="", target=target_spec)


def places(found: Verification) -> list[tuple[str, int | None, int | None, int | None, int | None, int]]:
    """The differences without their messages."""
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
    """The same recovery with a new target, which holds the copy changed by `edit`, and with receipts changed by
    `change`.
    """
    cluster, partitions = recovery.cluster, recovery.spec.target.partitions
    bad = cluster.topic("bad", partitions, **configs)
    cluster.fill(bad, edit(cluster.read(recovery.target, partitions)))
    target = replace(recovery.spec.target, topic=bad, topic_id=cluster.topic_id(bad))
    recovery.write_receipts([change(replace(r, target_topic_id=target.topic_id)) for r in recovery.ledger()])
    return replace(recovery.spec, target=target)


def agreed(recovery: Recovery, receipts: list[Receipt], edit: Callable[[Receipt, list[Row]], list[Row]]) -> JobSpec:
    """The same recovery with a new target, where `edit` changed the records of each of its `receipts` in each target
    partition, and with receipts that say just what stands there, digests included; what is gone they call skipped.
    """
    cluster, partitions = recovery.cluster, recovery.spec.target.partitions
    bad = cluster.topic(f"bad{next(_numbers)}", partitions)
    stored, ends = cluster.read(recovery.target, partitions), [0] * partitions
    target, told = replace(recovery.spec.target, topic=bad, topic_id=cluster.topic_id(bad)), []
    for receipt in receipts:
        runs = []
        for said in receipt.targets:
            claimed = {at for first, count in said.runs for at in range(first, first + count)}
            rows = edit(receipt, [r for r in stored if r.partition == said.partition and r.offset in claimed])
            cluster.fill(bad, rows)
            digest = SequenceDigest(recovery.spec.recovery, said.partition)
            headers = [r.headers for r in rows]
            digest.extend([r.key for r in rows], [r.value for r in rows], [r.time_ms for r in rows], headers)
            place = ((ends[said.partition], len(rows)),)
            runs.append(TargetRun(said.partition, len(rows), place, digest.hex(), DIGEST_FORM))
            ends[said.partition] += len(rows)
        copied = sum(run.count for run in runs)
        skipped = receipt.skipped + receipt.copied - copied
        there = {"targets": tuple(runs), "target_topic_id": target.topic_id}
        told.append(replace(receipt, copied=copied, skipped=skipped, **there))  # type: ignore[arg-type]
    recovery.write_receipts(told)
    return replace(recovery.spec, target=target)
