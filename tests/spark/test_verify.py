"""The verifier is itself tested: a good copy matches, and each kind of damage is found and named."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from spark_jobs.contract import Difference, JobSpec, PartitionRange, Receipt, TargetRun, VerificationReport
from spark_jobs.lanes import Outcome, run_lane
from spark_jobs.verify import combine, read_plan, split_plan, verify_share
from tests.builders.copying import Cluster, Recovery, Row, put, rows

pytestmark = pytest.mark.broker

COUNT = 40
HEADED = [replace(r, headers=(("h", b"\x00"), ("h", None))) if r.offset % 7 == 3 else r for r in rows(COUNT)]
GOOD = [replace(r, value=None) if r.offset == 20 else r for r in HEADED]


def verify(spec: JobSpec, *, is_whole: bool = True) -> VerificationReport:
    """As the driver does it, without Spark: two shares."""
    plan = read_plan(spec, is_whole=is_whole)
    return combine(spec, plan, [verify_share(spec, share) for share in split_plan(plan, 2)])


def copy(cluster: Cluster, data: list[Row], partitions: int = 1, **more: object) -> Recovery:
    source, target = cluster.topic("in", partitions), cluster.topic("out", partitions)
    cluster.fill(source, data)
    ranges = [PartitionRange(p, 0, cluster.end(source, p)) for p in range(partitions)]
    recovery = Recovery(cluster, source, target, ranges=[ranges], partitions=partitions, **more)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == Outcome(0, "done")
    return recovery


def damaged(cluster: Cluster, data: list[Row], change: Callable[[Receipt], Receipt] = lambda r: r) -> JobSpec:
    """A recovery whose receipts say GOOD (or what `change` makes of that), while the target holds `data`."""
    recovery = copy(cluster, GOOD)
    bad = cluster.topic("bad")
    cluster.fill(bad, data)
    target = replace(recovery.spec.target, topic=bad, topic_id=cluster.topic_id(bad))
    recovery.write_receipts([change(replace(r, target_topic_id=target.topic_id)) for r in recovery.ledger()])
    return replace(recovery.spec, target=target)


def kinds(report: VerificationReport) -> list[tuple[str, int, int, int]]:
    assert (report.result == "mismatch") == bool(report.differences)
    return [(d.kind, d.partition, d.start, d.stop) for d in report.differences]


def with_row(number: int, **changes: object) -> list[Row]:
    return [replace(r, **changes) if r.offset == number else r for r in GOOD]  # type: ignore[arg-type]


def test_a_good_copy_matches(cluster: Cluster) -> None:
    data = [row for p in range(3) for row in rows(3_000, p)]
    recovery = copy(cluster, data, 3, chunk=Recovery.chunk_limits(max_records=1_000))
    report = verify(recovery.spec)
    assert (report.result, report.source_records, report.target_records, report.differences, report.why) == ("match", 9_000, 9_000, (), "")  # fmt: skip
    assert len(report.digest) == 32
    assert verify(recovery.spec) == report


def test_an_empty_range_matches(cluster: Cluster) -> None:
    report = verify(copy(cluster, []).spec)
    assert (report.result, report.source_records, report.target_records) == ("match", 0, 0)


def test_a_repartitioned_copy_matches(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(2_000, 0) + rows(2_000, 1), 2, target_more={"mapping": "key_hash"})
    report = verify(recovery.spec)
    assert (report.result, report.target_records) == ("match", 4_000)


DAMAGE: dict[str, tuple[list[Row], list[tuple[str, int, int, int]]]] = {
    "nothing": (GOOD, []),
    "one dropped": (GOOD[:10] + GOOD[11:], [("missing", 0, 39, 40)]),
    "the last three dropped": (GOOD[:37], [("missing", 0, 37, 40)]),
    "one doubled": (GOOD[:10] + GOOD[9:], [("digest", 0, 0, 40)]),
    "two swapped": ([*GOOD[:10], GOOD[11], GOOD[10], *GOOD[12:]], [("digest", 0, 0, 40)]),
    "a header bit flipped": (with_row(3, headers=(("h", b"\x01"), ("h", None))), [("digest", 0, 0, 40)]),
    "a time shifted by 1 ms": (with_row(5, time_ms=GOOD[5].time_ms + 1), [("digest", 0, 0, 40)]),
    "null made empty": (with_row(20, value=b""), [("digest", 0, 0, 40)]),
    "a key made null": (with_row(7, key=None), [("digest", 0, 0, 40)]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_to_records_is_found(cluster: Cluster, damage: str) -> None:
    data, wanted = DAMAGE[damage]
    assert kinds(verify(damaged(cluster, data))) == wanted


def test_counting_alone_finds_a_dropped_record_and_no_swap(cluster: Cluster) -> None:
    spec = replace(damaged(cluster, [GOOD[1], GOOD[0], *GOOD[2:]]), verify="count")
    report = verify(spec)
    assert (report.result, report.digest) == ("match", "")
    cluster.delete_records(spec.target.topic, 0, 1)
    assert kinds(verify(spec)) == [("missing", 0, 0, 1)]


def test_holes_in_the_target_are_named_by_offset(cluster: Cluster) -> None:
    recovery = copy(cluster, GOOD)
    bad = cluster.topic("bad")
    cluster.fill(bad, GOOD[:10])
    producer = cluster.producer("aborted")
    producer.begin_transaction()
    put(producer, bad, GOOD[10])
    producer.flush(10)
    producer.abort_transaction(10)
    assert cluster.settled_end(bad) == 12
    cluster.fill(bad, GOOD[12:])
    target = replace(recovery.spec.target, topic=bad, topic_id=cluster.topic_id(bad))
    assert kinds(verify(replace(recovery.spec, target=target))) == [("missing", 0, 10, 12)]


def retargeted(change: Callable[[TargetRun], TargetRun]) -> Callable[[Receipt], Receipt]:
    return lambda receipt: replace(receipt, targets=tuple(change(t) for t in receipt.targets))


def test_a_receipt_whose_runs_hold_more_than_it_counts_is_found(cluster: Cluster) -> None:
    spec = damaged(cluster, [*GOOD, GOOD[0]], retargeted(lambda t: replace(t, runs=((0, COUNT + 1),))))
    assert kinds(verify(spec)) == [("count", 0, 0, COUNT), ("digest", 0, 0, COUNT + 1)]


def test_a_receipt_whose_sums_do_not_add_up_is_found(cluster: Cluster) -> None:
    spec = damaged(cluster, GOOD, lambda r: replace(r, copied=r.copied - 1, skipped=0))
    assert kinds(verify(spec)) == [("count", 0, 0, COUNT), ("count", 0, 0, COUNT)]


def test_gaps_and_overlaps_between_receipts_are_found(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(4_000), chunk=Recovery.chunk_limits(max_records=1_000))
    first, second, third, fourth = recovery.ledger()
    recovery.erase_receipts([second])
    recovery.write_receipts([replace(fourth, stop=fourth.stop + 10, skipped=fourth.skipped + 10)])
    assert kinds(verify(recovery.spec)) == [("missing", 0, second.start, second.stop), ("extra", 0, 4_000, 4_010)]
    recovery.write_receipts([second, fourth, replace(first, start=500, copied=500, targets=())])
    found = kinds(verify(recovery.spec))
    assert ("extra", 0, 500, 1_000) in found
    assert third.start == 2_000


def test_an_uncovered_end_counts_only_when_the_lanes_came_to_their_end(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(100))
    longer = replace(recovery.spec, lanes=(replace(recovery.spec.lanes[0], partitions=(PartitionRange(0, 0, 150),)),))
    assert kinds(verify(longer)) == [("missing", 0, 100, 150)]
    assert verify(longer, is_whole=False).result == "match"


def test_two_receipts_that_claim_the_same_target_records_are_found(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(2_000), chunk=Recovery.chunk_limits(max_records=1_000))
    first, second = recovery.ledger()
    recovery.write_receipts([replace(second, targets=first.targets)])
    found = kinds(verify(recovery.spec))
    assert found[0] == ("extra", 0, 0, 1_000)
    assert verify(recovery.spec).result != "match"


def test_records_of_others_between_ours_are_counted_and_are_no_mismatch(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(2_000))
    ranges = [[PartitionRange(0, 0, 1_000)]]
    recovery = Recovery(cluster, source, target, ranges=ranges)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == Outcome(0, "done")
    cluster.fill(target, [Row(0, 0, b"foreign", b"foreign", 1)] * 3)
    longer = (replace(recovery.spec.lanes[0], partitions=(PartitionRange(0, 0, 2_000),)),)
    spec = replace(recovery.attempt(2), lanes=longer)
    assert run_lane(spec, spec.lanes[0]) == Outcome(0, "done")
    report = verify(spec)
    assert (report.result, report.target_records) == ("match", 2_000)
    assert report.why == "others wrote to the target between our records: 3 in partition 0"


def test_a_target_made_again_has_no_verdict(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(10))
    other = cluster.topic("other")
    spec = replace(recovery.spec, target=replace(recovery.spec.target, topic=other))
    with pytest.raises(Exception, match="was deleted and made again"):
        verify(spec)


def test_no_more_than_a_hundred_differences_are_listed(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(300), chunk=Recovery.chunk_limits(max_records=2))
    recovery.write_receipts([replace(r, skipped=1) for r in recovery.ledger()])
    report = verify(recovery.spec)
    assert (len(report.differences), report.why) == (100, "150 differences, the first 100 are listed")
    assert report.differences[0] == Difference(0, 0, 2, "count", "The receipt explains 3 of 2 offsets.")


def test_work_is_split_by_weight() -> None:
    from spark_jobs.verify import VerifyPlan

    plan = VerifyPlan(0, {0: 10, 1: 1, 2: 5, 3: 5}, ())
    assert split_plan(plan, 2) == [(0, 1), (2, 3)]
    assert split_plan(replace(plan, load={}), 2) == []


def test_times_that_the_broker_sets_are_not_compared(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out", 1, message_timestamp_type="LogAppendTime")
    cluster.fill(source, GOOD)
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT)]])
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == Outcome(0, "done")
    assert min(r.time_ms for r in cluster.read(target)) > max(r.time_ms for r in GOOD)
    assert verify(recovery.spec).result == "match"
    other = cluster.topic("other", 1, message_timestamp_type="LogAppendTime")
    cluster.fill(other, with_row(7, key=None))
    changed = replace(recovery.spec.target, topic=other, topic_id=cluster.topic_id(other))
    assert kinds(verify(replace(recovery.spec, target=changed))) == [("digest", 0, 0, COUNT)]
