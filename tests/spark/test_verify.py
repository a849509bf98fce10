"""Tests of the proof: a good copy matches, and each kind of damage is found and named by its offsets, whatever the
receipts say.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from recoveryd_jobs.contract import Difference, JobSpec, PartitionRange, Receipt, TargetRun, Verification
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.topics import LogBounds, Topic
from recoveryd_jobs.verify import ledger as proof_ledger
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.plan import ProofPlan, make_plan, share_out
from recoveryd_jobs.verify.reader import Range, RangeReader
from tests.builders.copying import Cluster, Recovery, Row, put, rows
from tests.builders.proving import damaged, places, verify

pytestmark = pytest.mark.broker

COUNT = 40
HEADED = [replace(r, headers=(("h", b"\x00"), ("h", None))) if r.offset % 7 == 3 else r for r in rows(COUNT)]
GOOD = [replace(r, value=None) if r.offset == 20 else r for r in HEADED]
FOREIGN = Row(0, 0, b"k1", b"foreign", 1_357_000_000_000)


def copy(cluster: Cluster, data: list[Row], partitions: int = 1, **more: object) -> Recovery:
    source, target = cluster.topic("in", partitions), cluster.topic("out", partitions)
    cluster.fill(source, data)
    ranges = [PartitionRange(p, 0, cluster.end(source, p)) for p in range(partitions)]
    recovery = Recovery(cluster, source, target, ranges=[ranges], partitions=partitions, **more)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    return recovery


def with_row(number: int, **changes: object) -> list[Row]:
    return [replace(r, **changes) if r.offset == number else r for r in GOOD]  # type: ignore[arg-type]


def test_a_good_copy_matches(cluster: Cluster) -> None:
    data = [row for p in range(3) for row in rows(3_000, p)]
    recovery = copy(cluster, data, 3, chunk=Recovery.chunk_limits(max_records=1_000))
    found = verify(recovery.spec)
    assert found == Verification("match", 9_000, 9_000, found.digest, (), "", "source", 0, 0)
    assert len(found.digest) == 32
    assert verify(recovery.spec) == found
    assert verify(replace(recovery.spec, verify="digest")) == replace(
        found, scope="receipts", records_by_receipts=9_000
    )


def test_a_plan_says_up_to_where_the_target_is_read(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(COUNT), 2)
    ends = {p: cluster.end(recovery.target, p) for p in range(2)}
    plan = make_plan(recovery.spec, is_whole=True)
    cluster.fill(recovery.target, [FOREIGN])
    assert (plan.target_ends, ends[0] > COUNT, ends[1]) == (ends, True, 0)
    assert make_plan(recovery.spec, is_whole=True).target_ends == {**ends, 0: ends[0] + 1}


def test_a_marker_that_is_not_written_yet_counts_as_a_part_of_the_target(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker says that a transaction is committed before all of its markers are there."""
    recovery = copy(cluster, rows(COUNT))
    late = cluster.producer("late")
    late.begin_transaction()
    put(late, recovery.target, FOREIGN)
    assert late.flush(60.0) == 0
    bounds, looks = Topic.bounds, list[int]()

    def then_marked(topic: Topic, partitions: Iterable[int]) -> dict[int, LogBounds]:
        found = bounds(topic, partitions)
        if topic.name == recovery.target:
            looks.append(found[0].high)
            if len(looks) == 1:
                late.commit_transaction(60.0)
        return found

    monkeypatch.setattr(Topic, "bounds", then_marked)
    found = make_plan(recovery.spec, is_whole=True).target_ends
    assert (found, looks[0]) == ({0: cluster.end(recovery.target, 0)}, found[0] - 1)


def test_a_side_leaves_partitions_that_the_other_one_does_not_come_to(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headers that are not copied make the source arrive in smaller pieces than the target."""
    padding = (("dropped", bytes(300)),)
    data = [replace(row, headers=padding) for p in range(6) for row in rows(3_000, p)]
    recovery = copy(cluster, data, 6, target_more={"headers_drop": ("dropped",)})
    monkeypatch.setattr("recoveryd_jobs.verify.reading._LEAD_BYTES", 0)
    monkeypatch.setattr("recoveryd_jobs.verify.reader._FETCH_BYTES", 65_536)
    held: set[int] = set()
    hold = RangeReader.hold

    def noted(reader: RangeReader, partitions: Iterable[int]) -> None:
        hold(reader, partitions)
        held.update(reader.held)

    monkeypatch.setattr(RangeReader, "hold", noted)
    found = verify(recovery.spec, tasks=1)
    assert (found.result, found.source_records, found.target_records) == ("match", 18_000, 18_000)
    assert held

    one = [r for r in data if r.partition == 3][2_500]
    bad = damaged(recovery, lambda stored: [r for r in stored if (r.partition, r.offset) != (3, 2_500)])
    assert places(verify(bad, tasks=1)) == [("missing", 3, one.offset, 3, None, 1)]


def test_a_task_that_reads_its_source_loads_the_receipts_of_its_own_partitions_only(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovery = copy(cluster, [row for p in range(4) for row in rows(40 - 10 * p, p)], 4)
    loaded: list[set[int]] = []
    load = proof_ledger.load

    def noted(spec: JobSpec, wanted: Callable[[int], bool], *calls: Callable[..., object]) -> ProofLedger:
        loaded.append({partition for partition in range(4) if wanted(partition)})
        return load(spec, wanted, *calls)

    monkeypatch.setattr(proof_ledger, "load", noted)
    assert verify(recovery.spec, tasks=2).result == "match"
    assert loaded == [{0, 3}, {1, 2}]


def test_an_empty_range_matches(cluster: Cluster) -> None:
    found = verify(copy(cluster, []).spec)
    assert (found.result, found.source_records, found.target_records, found.scope) == ("match", 0, 0, "source")


def test_a_repartitioned_copy_of_bounded_records_with_other_headers_matches(cluster: Cluster) -> None:
    source, target = cluster.topic("in", 2), cluster.topic("out", 3)
    data = [replace(r, key=None) if r.offset % 5 == 0 else r for p in range(2) for r in rows(2_000, p)]
    cluster.fill(source, [replace(r, headers=(("h", b"1"), ("keep", None))) if r.offset % 3 else r for r in data])
    first_ms = data[0].time_ms
    recovery = Recovery(
        cluster,
        source,
        target,
        ranges=[[PartitionRange(p, 0, 2_000) for p in range(2)]],
        partitions=3,
        source_more={"from_time_ms": first_ms + 100_000, "to_time_ms": first_ms + 1_500_000},
        target_more={"mapping": "key_hash", "headers_drop": ("h",), "headers_add": (("by", "me"),)},
        chunk=Recovery.chunk_limits(max_records=300),
    )
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    found = verify(recovery.spec)
    assert (found.result, found.source_records, found.target_records, found.scope) == ("match", 2_800, 2_800, "source")


Place = tuple[str, int | None, int | None, int | None, int | None, int]

DAMAGE: dict[str, tuple[list[Row], list[Place]]] = {
    "nothing": (GOOD, []),
    "one dropped": (GOOD[:10] + GOOD[11:], [("missing", 0, 10, 0, None, 1)]),
    "the last three dropped": (GOOD[:37], [("missing", 0, 37, 0, None, 3)]),
    "one doubled": (
        GOOD[:10] + GOOD[9:],
        [("extra", None, None, 0, 40, 1), ("extra", 0, None, 0, 10, 1), ("missing", 0, 39, 0, None, 1)],
    ),
    "two swapped": (
        [*GOOD[:10], GOOD[11], GOOD[10], *GOOD[12:]],
        [("reordered", 0, 10, 0, 11, 1), ("reordered", 0, 11, 0, 10, 1)],
    ),
    "a header bit flipped": (with_row(3, headers=(("h", b"\x01"), ("h", None))), [("altered", 0, 3, 0, 3, 1)]),
    "headers in another order": (with_row(3, headers=(("h", None), ("h", b"\x00"))), [("altered", 0, 3, 0, 3, 1)]),
    "a time shifted by 1 ms": (with_row(5, time_ms=GOOD[5].time_ms + 1), [("altered", 0, 5, 0, 5, 1)]),
    "null made empty": (with_row(20, value=b""), [("altered", 0, 20, 0, 20, 1)]),
    "a key made null": (with_row(7, key=None), [("altered", 0, 7, 0, 7, 1)]),
    "everything twice": (GOOD + GOOD, [("extra", None, None, 0, 40, 40)]),
    "a chunk of another recovery behind": ([*GOOD, FOREIGN, FOREIGN], [("extra", None, None, 0, 40, 2)]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_to_records_is_found(cluster: Cluster, damage: str) -> None:
    data, wanted = DAMAGE[damage]
    assert places(verify(damaged(copy(cluster, GOOD), lambda _: data))) == wanted


def by_key(cluster: Cluster) -> Recovery:
    """Two source partitions, spread over two target partitions by key."""
    return copy(cluster, rows(60, 0) + rows(60, 1), 2, target_more={"mapping": "key_hash"})


def change(number: int, edit: Callable[[list[Row], int], Sequence[Row]]) -> Callable[[list[Row]], list[Row]]:
    """Edit the record with this number in target partition 1."""

    def changed(stored: list[Row]) -> list[Row]:
        other, mine = [r for r in stored if r.partition == 0], [r for r in stored if r.partition == 1]
        return [*other, *edit(mine, number)]

    return changed


KEYED: dict[str, tuple[Callable[[list[Row]], list[Row]], list[str]]] = {
    "one dropped, the rest moves up": (change(7, lambda r, n: r[:n] + r[n + 1 :]), ["missing", "missing"]),
    "a value altered": (change(7, lambda r, n: [*r[:n], replace(r[n], value=b"x"), *r[n + 1 :]]), ["altered"]),
    "a header added": (
        change(7, lambda r, n: [*r[:n], replace(r[n], headers=(("a", None),)), *r[n + 1 :]]),
        ["altered"],
    ),
    "a time shifted": (
        change(7, lambda r, n: [*r[:n], replace(r[n], time_ms=r[n].time_ms + 1), *r[n + 1 :]]),
        ["altered"],
    ),
    "null made of a value": (change(7, lambda r, n: [*r[:n], replace(r[n], value=None), *r[n + 1 :]]), ["altered"]),
    "two swapped": (change(7, lambda r, n: [*r[:n], r[n + 1], r[n], *r[n + 2 :]]), ["reordered", "reordered"]),
    "the whole partition twice": (change(0, lambda r, _: r + r), ["extra"]),
    "records of others in front": (change(0, lambda r, _: [*r, replace(FOREIGN, partition=1)]), ["extra"]),
}


@pytest.mark.parametrize("damage", KEYED)
def test_damage_to_a_repartitioned_copy_is_found(cluster: Cluster, damage: str) -> None:
    edit, wanted = KEYED[damage]
    found = verify(damaged(by_key(cluster), edit))
    assert found.result == "mismatch"
    assert [d.kind for d in found.differences if d.kind != "extra" or wanted == ["extra"]] == wanted
    assert {d.target_partition for d in found.differences} == {1}


def test_records_that_a_receipt_calls_skipped_are_missing(cluster: Cluster) -> None:
    """The target has a hole and the receipts fit it: only the source shows it."""
    recovery = copy(cluster, GOOD)

    def hide(receipt: Receipt) -> Receipt:
        run = replace(receipt.targets[0], count=30, runs=((0, 30),), digest="0" * 32)
        return replace(receipt, copied=30, skipped=receipt.skipped + 10, targets=(run,))

    spec = damaged(recovery, lambda _: GOOD[:30], hide)
    assert places(verify(spec)) == [("missing", 0, 30, 0, None, 10), ("ledger", 0, 0, None, None, COUNT)]


def test_counting_alone_finds_a_dropped_record_and_no_swap(cluster: Cluster) -> None:
    spec = replace(damaged(copy(cluster, GOOD), lambda _: [GOOD[1], GOOD[0], *GOOD[2:]]), verify="count")
    found = verify(spec)
    assert (found.result, found.digest, found.scope) == ("match", "", "receipts")
    cluster.delete_records(spec.target.topic, 0, 1)
    assert [d.kind for d in verify(spec).differences] == ["altered"]


def test_holes_in_the_target_are_named_by_offset(cluster: Cluster) -> None:
    recovery = copy(cluster, GOOD)
    bad = cluster.topic("bad")
    cluster.fill(bad, GOOD[:10])
    producer = cluster.producer("aborted")
    producer.begin_transaction()
    put(producer, bad, GOOD[10])
    producer.flush(60)
    producer.abort_transaction(60)
    assert cluster.settled_end(bad) == 12
    cluster.fill(bad, GOOD[12:])
    target = replace(recovery.spec.target, topic=bad, topic_id=cluster.topic_id(bad))
    assert places(verify(replace(recovery.spec, target=target))) == [("missing", 0, 10, 0, None, 2)]


def retargeted(change: Callable[[TargetRun], TargetRun]) -> Callable[[Receipt], Receipt]:
    return lambda receipt: replace(receipt, targets=tuple(change(t) for t in receipt.targets))


def test_a_receipt_whose_runs_hold_more_than_it_counts_is_found(cluster: Cluster) -> None:
    longer = retargeted(lambda t: replace(t, runs=((0, COUNT + 1),)))
    spec = damaged(copy(cluster, GOOD), lambda _: [*GOOD, GOOD[0]], longer)
    assert places(verify(spec)) == [("extra", 0, None, 0, COUNT, 1), ("ledger", 0, 0, None, None, COUNT)]


def test_a_receipt_whose_sums_do_not_add_up_is_found(cluster: Cluster) -> None:
    spec = damaged(copy(cluster, GOOD), lambda _: GOOD, lambda r: replace(r, copied=r.copied - 1, skipped=0))
    assert places(verify(spec)) == [("ledger", 0, 0, None, None, COUNT)] * 3


def test_a_receipt_with_the_digest_of_something_else_is_found(cluster: Cluster) -> None:
    spec = damaged(copy(cluster, GOOD), lambda _: GOOD, retargeted(lambda t: replace(t, digest="0" * 32)))
    assert places(verify(spec)) == [("ledger", 0, 0, 0, None, 1)]


@pytest.mark.parametrize("changes", [{"digest": ""}, {"digest_form": 1}])
def test_a_receipt_without_a_digest_of_this_form_proves_nothing_and_is_not_needed_where_the_source_does(
    cluster: Cluster, changes: dict[str, Any]
) -> None:
    recovery = copy(cluster, GOOD)
    spec = damaged(recovery, lambda _: GOOD, retargeted(lambda t: replace(t, **changes)))
    found = verify(spec)
    assert (found.result, found.scope) == ("match", "source")

    assert places(verify(replace(spec, verify="digest"))) == [("ledger", 0, 0, 0, None, 1)]

    cluster.delete_records(recovery.source, 0, COUNT)
    assert places(verify(spec)) == [("ledger", 0, 0, 0, None, 1)]


def test_what_a_lost_receipt_covered_is_missing_and_what_it_wrote_is_extra(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(4_000), chunk=Recovery.chunk_limits(max_records=1_000))
    _, second, _, fourth = recovery.ledger()
    recovery.erase_receipts([second])
    recovery.write_receipts([replace(fourth, stop=fourth.stop + 10, skipped=fourth.skipped + 10)])
    first = second.targets[0].runs[0][0]
    count = second.stop - second.start
    assert places(verify(recovery.spec)) == [
        ("extra", None, None, 0, first, count),
        ("missing", 0, second.start, 0, None, count),
        ("ledger", 0, second.start, None, None, count),
        ("ledger", 0, 4_000, None, None, 10),
    ]


def test_two_receipts_that_cover_the_same_offsets_are_found(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(4_000), chunk=Recovery.chunk_limits(max_records=1_000))
    first = recovery.ledger()[0]
    recovery.write_receipts([replace(first, start=500, copied=first.stop - 500, targets=())])
    assert ("ledger", 0, 500, None, None, first.stop - 500) in places(verify(recovery.spec))


def test_two_receipts_that_claim_the_same_target_records_are_found(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(40), chunk=Recovery.chunk_limits(max_records=20))
    first, second = recovery.ledger()
    recovery.write_receipts([replace(second, targets=first.targets)])
    kinds = {kind for kind, *_ in places(verify(recovery.spec))}
    assert kinds == {"extra", "altered", "ledger"}


def test_an_uncovered_end_counts_only_when_the_lanes_came_to_their_end(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(100))
    cluster.fill(recovery.source, rows(50))
    longer = replace(recovery.spec, lanes=(replace(recovery.spec.lanes[0], partitions=(PartitionRange(0, 0, 150),)),))
    assert places(verify(longer)) == [("missing", 0, 100, 0, None, 50), ("ledger", 0, 100, None, None, 50)]
    assert verify(longer, is_whole=False).result == "match"


def others(cluster: Cluster, *, exclusive: bool) -> Verification:
    """A copy in two attempts, with records of others before its first run, between two, and after the last one."""
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(2_000))
    cluster.fill(target, [FOREIGN] * 5)  # there when it was planned
    more = {"exclusive": exclusive, "starts": ((0, 5),)}
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 1_000)]], target_more=more)
    cluster.fill(target, [FOREIGN] * 2)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    cluster.fill(target, [FOREIGN] * 3)
    longer = (replace(recovery.spec.lanes[0], partitions=(PartitionRange(0, 0, 2_000),)),)
    spec = replace(recovery.attempt(2), lanes=longer)
    assert run_lane(spec, spec.lanes[0]) == LaneOutcome(0, "done")
    cluster.fill(target, [FOREIGN] * 4)
    return verify(spec)


def test_records_of_others_are_counted_and_are_no_mismatch_where_others_may_write(cluster: Cluster) -> None:
    found = others(cluster, exclusive=False)
    assert (found.result, found.target_records, found.extra_records) == ("match", 2_009, 9)
    assert found.why == "others wrote to the target meanwhile: 9 in partition 0"


def test_records_of_others_in_a_target_of_our_own_are_a_mismatch(cluster: Cluster) -> None:
    found = others(cluster, exclusive=True)
    assert (found.result, found.extra_records) == ("mismatch", 9)
    assert [(d.kind, d.count) for d in found.differences] == [("extra", 2), ("extra", 3), ("extra", 4)]
    assert found.differences[0] == Difference(
        "extra", None, None, 0, 5, 2, "2 records that belong to no receipt of this recovery."
    )


def test_a_target_made_again_has_no_verdict(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(10))
    other = cluster.topic("other")
    spec = replace(recovery.spec, target=replace(recovery.spec.target, topic=other))
    with pytest.raises(Exception, match="was deleted and made again"):
        verify(spec)


def test_no_more_than_a_hundred_differences_are_listed(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(300), chunk=Recovery.chunk_limits(max_records=2))
    recovery.write_receipts([replace(r, skipped=r.skipped + 1) for r in recovery.ledger()])
    found = verify(recovery.spec)
    assert (len(found.differences), found.result) == (100, "mismatch")
    assert found.differences[0].message == "The receipt explains 3 of 2 offsets."


def test_times_that_the_broker_sets_are_not_compared(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out", 1, message_timestamp_type="LogAppendTime")
    cluster.fill(source, GOOD)
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT)]])
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert min(r.time_ms for r in cluster.read(target)) > max(r.time_ms for r in GOOD)
    assert verify(recovery.spec).result == "match"
    spec = damaged(recovery, lambda _: with_row(7, key=None), message_timestamp_type="LogAppendTime")
    assert places(verify(spec)) == [("altered", 0, 7, 0, 7, 1)]


def test_records_deleted_from_the_source_since_are_proved_by_receipts(cluster: Cluster) -> None:
    recovery = copy(cluster, rows(4_000), chunk=Recovery.chunk_limits(max_records=1_000))
    gone = recovery.ledger()[1].start + 500
    cluster.delete_records(recovery.source, 0, gone)
    found = verify(recovery.spec)
    assert (found.result, found.scope, found.source_records, found.records_by_receipts) == (
        "match",
        "mixed",
        4_000,
        gone,
    )
    assert "cannot be read again, partition 0 begins at" in found.why
    cluster.delete_records(recovery.source, 0, 4_000)
    found = verify(recovery.spec)
    assert (found.result, found.scope, found.records_by_receipts) == ("match", "receipts", 4_000)


CUT = 7


def cut_back(cluster: Cluster, mapping: str, chunk: int = COUNT + CUT, log_start: int = 0) -> Recovery:
    """A copy whose source ends before its range does, as after an unclean election; the loss was accepted."""
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, GOOD)
    cluster.delete_records(source, 0, log_start)
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT + CUT)]], target_more={"mapping": mapping},
        chunk=Recovery.chunk_limits(max_records=chunk), on_data_loss="continue", stop_wait_ms=3_000,
    )  # fmt: skip
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert sum(r.lost for r in recovery.ledger()) == log_start + CUT
    return recovery


@pytest.fixture
def _quick_to_believe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd_jobs.verify.plan._CUT_BACK_AFTER_S", 0.0)
    monkeypatch.setattr("recoveryd_jobs.lane.asking.CUT_BACK_AFTER_S", 0.0)


@pytest.mark.usefixtures("_quick_to_believe")
@pytest.mark.parametrize("mapping", ["same", "key_hash"])
@pytest.mark.parametrize("chunk", [COUNT // 2, COUNT + CUT])
def test_an_end_that_was_cut_back_is_proved_where_receipts_call_it_lost(
    cluster: Cluster, mapping: str, chunk: int
) -> None:
    found = verify(cut_back(cluster, mapping, chunk).spec)
    assert (found.result, found.scope, found.source_records, found.target_records) == ("match", "mixed", COUNT, COUNT)
    assert found.why == f"{CUT} offsets were lost in the source"


@pytest.mark.usefixtures("_quick_to_believe")
def test_damage_before_an_end_that_was_cut_back_is_named(cluster: Cluster) -> None:
    spec = damaged(cut_back(cluster, "same"), lambda _: with_row(7, key=None))
    assert places(verify(spec)) == [("altered", 0, 7, 0, 7, 1)]


@pytest.mark.usefixtures("_quick_to_believe")
@pytest.mark.parametrize(
    "claim", [{"skipped": 1, "lost": CUT - 1}, {"copied": COUNT + 1, "lost": CUT - 1}, {"stop": COUNT, "lost": 0}]
)
def test_an_end_that_was_cut_back_has_no_verdict_where_receipts_do_not_call_all_of_it_lost(
    cluster: Cluster, claim: dict[str, int]
) -> None:
    recovery = cut_back(cluster, "same")
    spec = damaged(recovery, lambda stored: stored, lambda receipt: replace(receipt, **claim))  # type: ignore[arg-type]
    with pytest.raises(JobError, match=f"ends at {COUNT}, before {COUNT + CUT}: it was cut back"):
        verify(spec)


@pytest.mark.usefixtures("_quick_to_believe")
def test_an_end_that_was_cut_back_and_a_start_that_was_deleted_are_counted_apart(cluster: Cluster) -> None:
    recovery = cut_back(cluster, "same", COUNT // 2)
    cluster.delete_records(recovery.source, 0, 10)
    found = verify(recovery.spec)
    assert (found.result, found.scope, found.records_by_receipts) == ("match", "mixed", 10)
    assert "10 offsets cannot be read again, partition 0 begins at 10 now" in found.why
    assert f"{CUT} offsets were lost in the source" in found.why


@pytest.mark.usefixtures("_quick_to_believe")
def test_a_receipt_that_lost_its_beginning_and_its_end_proves_what_is_between(cluster: Cluster) -> None:
    found = verify(cut_back(cluster, "same", log_start=10).spec)
    assert (found.result, found.scope, found.source_records) == ("match", "mixed", COUNT - 10)


@pytest.mark.usefixtures("_quick_to_believe")
@pytest.mark.parametrize("log_start", [10, COUNT], ids=["some of it is there", "nothing of it is there"])
def test_an_end_that_was_cut_back_has_no_verdict_where_what_its_receipt_calls_lost_may_be_at_the_log_start(
    cluster: Cluster, log_start: int
) -> None:
    recovery = cut_back(cluster, "same")
    cluster.delete_records(recovery.source, 0, log_start)
    with pytest.raises(JobError, match=f"ends at {COUNT}, before {COUNT + CUT}: it was cut back"):
        verify(recovery.spec)


def test_damage_where_the_source_is_gone_is_found_by_receipts(cluster: Cluster) -> None:
    recovery = copy(cluster, GOOD)
    spec = damaged(recovery, lambda _: with_row(7, key=None))
    cluster.delete_records(recovery.source, 0, COUNT)
    found = verify(spec)
    assert (places(found), found.scope) == ([("altered", 0, 0, 0, None, 1)], "receipts")


def test_work_is_split_by_weight(cluster: Cluster) -> None:
    sources = tuple(Range(p, 0, n) for p, n in enumerate((10, 1, 5, 5)))
    plan = ProofPlan(sources, sources[:1], {}, is_stamped=False, is_compacted=False, is_open=frozenset())
    topic = cluster.topic("in", 4)
    spec = Recovery(cluster, topic, topic, ranges=[[PartitionRange(0, 0, 1)]], partitions=4).spec

    def split(spec: JobSpec) -> list[tuple[list[int], list[int]]]:
        shares = share_out(spec, plan, 2)
        return [(sorted(r.partition for r in s.sources), [r.partition for r in s.targets]) for s in shares]

    assert split(spec) == [([0], [0]), ([1, 2, 3], [])]
    assert split(replace(spec, verify="digest")) == [([], [0])]
    by_key = replace(spec, target=replace(spec.target, mapping="key_hash"))
    assert split(by_key) == [([1, 2], [0]), ([0, 3], [])]
