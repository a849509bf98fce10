"""Whatever happens around the proof, it never says `match` about records that it did not compare. Each case here looked
like a good copy once, or could.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd_jobs.contract import JobSpec, PartitionRange, Receipt, Verification
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from tests.builders.copying import Cluster, Recovery, Row, put, rows
from tests.builders.proving import damaged, places, spilled, two_topics, verify

pytestmark = pytest.mark.broker

COMPACTED = {"cleanup_policy": "compact"}
FIRST_MS = 1_357_000_000_000
Engine = Callable[..., Verification]


def hashed(spec: JobSpec) -> JobSpec:
    return replace(spec, target=replace(spec.target, mapping="key_hash"))


def copied(cluster: Cluster, data: list[Row], **more: object) -> Recovery:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, data)
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, cluster.end(source))]], **more)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    return recovery


def test_records_of_the_target_where_the_source_range_is_empty_are_extra(cluster: Cluster) -> None:
    assert places(verify(two_topics(cluster, [], rows(3)))) == [("extra", 0, None, 0, 0, 3)]


def test_two_empty_ranges_match_and_the_report_says_that_nothing_was_compared(cluster: Cluster) -> None:
    spec = two_topics(cluster, [], [])
    nothing = "neither side holds a record of the range, so nothing was compared"
    assert [(f.result, f.why) for f in (verify(spec), spilled(hashed(spec)))] == [("match", nothing)] * 2


@pytest.mark.parametrize(
    ("change", "kind"),
    [({"value": None}, "altered"), ({"key": b""}, "altered"), ({"headers": (("h", None),)}, "altered")],
)
def test_a_topic_of_one_record_is_compared(cluster: Cluster, change: dict[str, object], kind: str) -> None:
    [one] = rows(1)
    assert verify(two_topics(cluster, [one], [one])).result == "match"
    assert places(verify(two_topics(cluster, [one], [replace(one, **change)]))) == [(kind, 0, 0, 0, 0, 1)]  # type: ignore[arg-type]


def test_no_receipt_excuses_an_extra_record_of_a_copy_of_a_compacted_topic_where_nobody_kept_any(
    cluster: Cluster,
) -> None:
    data = rows(10)
    stored = [*data[:4], replace(data[4], key=b"made up"), *data[4:]]
    found = verify(two_topics(cluster, data, stored, configs=(COMPACTED, {})))
    assert (places(found), found.records_by_receipts) == ([("extra", 0, None, 0, 4, 1)], 0)


@pytest.mark.parametrize(("engine", "prepare"), [(verify, lambda s: s), (spilled, hashed)], ids=["same", "key_hash"])
def test_a_source_that_loses_records_before_they_are_read_has_no_verdict_where_nobody_kept_receipts(
    cluster: Cluster, engine: Engine, prepare: Callable[[JobSpec], JobSpec]
) -> None:
    """Both sides lose the same records, as by the same retention: the rest agrees."""
    spec = two_topics(cluster, rows(20), rows(20))

    def expire() -> None:
        for topic in (spec.source.topic, spec.target.topic):
            cluster.delete_records(topic, 0, 10)

    with pytest.raises(JobError, match="begins at 10 now: records were deleted before they were compared") as raised:
        engine(prepare(spec), planned=expire)
    assert raised.value.code == "data_lost"


def test_a_difference_that_is_deleted_before_the_closer_look_is_still_a_mismatch(cluster: Cluster) -> None:
    data = rows(20)
    spec = two_topics(cluster, data, [replace(data[0], value=b"x"), *data[1:]])

    def expire() -> None:
        for topic in (spec.source.topic, spec.target.topic):
            cluster.delete_records(topic, 0, 5)

    found = verify(spec, shown=expire)
    assert places(found) == [("altered", 0, 0, 0, None, 1)]
    assert "what differed was deleted since" in found.differences[0].message


def test_a_source_made_again_under_the_proof_has_no_verdict(cluster: Cluster) -> None:
    data = rows(10)
    spec = two_topics(cluster, data, data)

    def make_again() -> None:
        cluster.recreate(spec.source.topic, 1)
        cluster.fill(spec.source.topic, data)

    with pytest.raises(JobError, match="was deleted and made again"):
        verify(spec, planned=make_again)


def test_an_aborted_copy_in_front_of_the_good_one_is_not_seen_and_a_committed_one_is(cluster: Cluster) -> None:
    data = rows(5)
    spec = two_topics(cluster, data, [])

    def copy_all(*, commit: bool) -> JobSpec:
        producer = cluster.producer("by-hand")
        producer.begin_transaction()
        for row in data:
            put(producer, spec.target.topic, row)
        producer.flush(60)
        (producer.commit_transaction if commit else producer.abort_transaction)(10)
        return replace(spec, target=replace(spec.target, stops=((0, cluster.settled_end(spec.target.topic)),)))

    copy_all(commit=False)
    assert verify(copy_all(commit=True)).result == "match"
    assert places(verify(copy_all(commit=True))) == [("extra", 0, None, 0, 12, 5)]


def beside(cluster: Cluster, *, exclusive: bool) -> Recovery:
    """A copy of partition 0 into a topic of two, that had records in the other one when it was planned."""
    source, target = cluster.topic("in"), cluster.topic("out", 2)
    cluster.fill(source, rows(10))
    cluster.fill(target, rows(2, 1))
    more = {"starts": ((0, 0), (1, 2)), "exclusive": exclusive}
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 10)]], partitions=2, target_more=more)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    return recovery


def test_what_others_wrote_to_partitions_that_the_copy_does_not_write_to_is_told_where_they_may(
    cluster: Cluster,
) -> None:
    recovery = beside(cluster, exclusive=False)
    assert verify(recovery.spec).why == ""

    cluster.fill(recovery.target, rows(3, 1))
    cluster.grow(recovery.target, 3)
    cluster.fill(recovery.target, rows(4, 2))
    found = verify(recovery.spec)
    assert (found.result, found.extra_records) == ("match", 0)
    where = "3 offsets in partition 1, 4 offsets in partition 2"
    assert found.why == f"others wrote to 2 partitions that the copy does not write to: {where}"


@pytest.mark.parametrize("check", ["source", "digest", "count"])
def test_what_others_wrote_to_any_partition_of_a_target_of_our_own_is_extra(cluster: Cluster, check: str) -> None:
    recovery = beside(cluster, exclusive=True)
    spec = replace(recovery.spec, verify=check)
    assert (verify(spec).result, verify(spec).target_records) == ("match", 10)

    cluster.fill(recovery.target, rows(3, 1))
    cluster.grow(recovery.target, 3)
    cluster.fill(recovery.target, rows(4, 2))
    found = verify(spec)
    assert sorted(places(found)) == [("extra", None, None, 1, 2, 3), ("extra", None, None, 2, 0, 4)]
    assert (found.extra_records, found.target_records, found.why) == (7, 17, "")


@pytest.mark.parametrize("check", ["source", "digest"])
def test_what_others_wrote_to_a_partition_that_was_added_under_the_proof_is_extra(cluster: Cluster, check: str) -> None:
    recovery = beside(cluster, exclusive=True)

    def add() -> None:
        cluster.grow(recovery.target, 4)
        cluster.fill(recovery.target, rows(4, 3))

    found = verify(replace(recovery.spec, verify=check), planned=add)
    assert places(found) == [("extra", None, None, 3, 0, 4)]
    assert (found.source_records, found.extra_records, found.target_records, found.why) == (10, 4, 14, "")


def test_what_others_wrote_to_a_partition_that_was_added_under_the_proof_is_told_where_they_may(
    cluster: Cluster,
) -> None:
    recovery = beside(cluster, exclusive=False)
    cluster.fill(recovery.target, rows(3, 1))

    def add() -> None:
        cluster.grow(recovery.target, 3)
        cluster.fill(recovery.target, rows(4, 2))

    found = verify(recovery.spec, planned=add)
    where = "3 offsets in partition 1, 4 offsets in partition 2"
    told = f"others wrote to 2 partitions that the copy does not write to: {where}"
    assert (found.result, found.why) == ("match", told)


@pytest.mark.parametrize(
    ("engine", "prepare"),
    [(verify, lambda s: s), (spilled, hashed), (spilled, lambda s: replace(s, compare="latest"))],
    ids=["same", "key_hash", "latest"],
)
def test_a_partition_that_a_target_got_after_the_plan_is_named(
    cluster: Cluster, engine: Engine, prepare: Callable[[JobSpec], JobSpec]
) -> None:
    spec = two_topics(cluster, rows(5), rows(5))

    def add() -> None:
        cluster.grow(spec.target.topic, 3)
        cluster.fill(spec.target.topic, rows(4, 2))

    found = engine(prepare(spec), planned=add)
    told = "not compared, because the target got it after the plan: 4 offsets in partition 2"
    assert (found.result, found.why.rpartition("; ")[2]) == ("match", told)


def test_what_others_wrote_and_aborted_in_a_target_of_our_own_is_nothing(cluster: Cluster) -> None:
    recovery = beside(cluster, exclusive=True)
    other = cluster.producer(f"{cluster.unique}other")
    other.begin_transaction()
    for row in rows(5, 1):
        put(other, recovery.target, row)
    other.flush()
    other.abort_transaction()
    cluster.settled_end(recovery.target)
    found = verify(recovery.spec)
    assert (found.result, found.extra_records, found.why) == ("match", 0, "")


def test_times_that_were_not_compared_are_told(cluster: Cluster) -> None:
    spec = two_topics(cluster, rows(3), rows(3), configs=({}, {"message_timestamp_type": "LogAppendTime"}))
    told = "the target stamps records with the time they land: times were not compared"
    assert [(f.result, f.why) for f in (verify(spec), spilled(hashed(spec)))] == [("match", told)] * 2


def test_times_that_the_source_stamped_are_compared(cluster: Cluster) -> None:
    spec = two_topics(cluster, rows(3), rows(3), configs=({"message_timestamp_type": "LogAppendTime"}, {}))
    assert {d.kind for d in verify(spec).differences} == {"altered"}


def two_recoveries(cluster: Cluster) -> tuple[Recovery, Recovery]:
    """Both append to one target: a chunk of the first, all of the second, another chunk of the first."""
    target, sources = cluster.topic("out"), (cluster.topic("in"), cluster.topic("other-in"))
    for topic, name in zip(sources, (b"first", b"second"), strict=True):
        cluster.fill(topic, [replace(r, value=name) for r in rows(20)])
    shared = {"exclusive": False}
    first = Recovery(cluster, sources[0], target, ranges=[[PartitionRange(0, 0, 10)]], target_more=shared)
    assert run_lane(first.spec, first.spec.lanes[0]) == LaneOutcome(0, "done")
    neighbour = Cluster(cluster.client["bootstrap.servers"], f"{cluster.unique}second-")
    second = Recovery(neighbour, sources[1], target, ranges=[[PartitionRange(0, 0, 20)]], target_more=shared)
    assert run_lane(second.spec, second.spec.lanes[0]) == LaneOutcome(0, "done")
    whole = (replace(first.spec.lanes[0], partitions=(PartitionRange(0, 0, 20),)),)
    first.spec = replace(first.attempt(2), lanes=whole)
    assert run_lane(first.spec, first.spec.lanes[0]) == LaneOutcome(0, "done")
    return first, second


def test_two_recoveries_of_one_target_each_prove_their_own_and_count_the_other(cluster: Cluster) -> None:
    for recovery in two_recoveries(cluster):
        found = verify(recovery.spec)
        assert (found.result, found.source_records) == ("match", 20)
        assert found.extra_records in {0, 20}
    first, _ = two_recoveries(Cluster(cluster.client["bootstrap.servers"], f"{cluster.unique}again-"))
    assert verify(first.spec).why == "others wrote to the target meanwhile: 20 in partition 0"


def test_a_receipt_that_claims_the_chunk_of_another_recovery_is_found(cluster: Cluster) -> None:
    first, second = two_recoveries(cluster)
    chunk = second.ledger()[0].targets[0]
    [at, _] = chunk.runs[0]

    def steal(receipt: Receipt) -> Receipt:
        run = replace(receipt.targets[0], runs=((at, receipt.copied),), count=receipt.copied)
        return replace(receipt, targets=(run,))

    first.write_receipts([steal(first.ledger()[0])])
    found = verify(first.spec)
    assert {(d.kind, d.source_offset, d.target_offset) for d in found.differences} >= {
        ("altered", n, at + n) for n in range(10)
    }


MIXED = [replace(r, time_ms=FIRST_MS + t) for r, t in zip(rows(8), (50, 10, 99, 20, 100, 15, 5, 60), strict=True)]
WINDOW = {"from_time_ms": FIRST_MS + 10, "to_time_ms": FIRST_MS + 100}


@pytest.mark.parametrize(("engine", "prepare"), [(verify, lambda s: s), (spilled, hashed)], ids=["same", "key_hash"])
def test_a_window_of_time_chooses_by_the_time_of_each_record_on_both_sides(
    cluster: Cluster, engine: Engine, prepare: Callable[[JobSpec], JobSpec]
) -> None:
    """The target holds none of what is outside on the source's side, and other records outside of its own."""
    outside = [replace(r, time_ms=FIRST_MS + t, value=b"elsewhere") for r, t in zip(rows(3), (0, 9, 100), strict=True)]
    inside = [r for r in MIXED if 10 <= r.time_ms - FIRST_MS < 100]
    stored = [outside[0], *inside[:3], outside[2], *inside[3:], outside[1]]
    found = engine(prepare(two_topics(cluster, MIXED, stored, source_more=WINDOW)))
    assert (found.result, found.source_records, found.target_records, found.extra_records) == ("match", 6, 6, 0)

    late = engine(prepare(two_topics(cluster, MIXED, [r for r in stored if r.offset != 7], source_more=WINDOW)))
    assert [(d.kind, d.source_offset) for d in late.differences] == [("missing", 7)]


def test_a_record_moved_out_of_the_window_by_its_time_is_missing(cluster: Cluster) -> None:
    stored = [replace(r, time_ms=FIRST_MS) if r.offset == 3 else r for r in MIXED]
    assert places(verify(two_topics(cluster, MIXED, stored, source_more=WINDOW))) == [("missing", 0, 3, 0, None, 1)]


@pytest.mark.parametrize(("engine", "prepare"), [(verify, lambda s: s), (spilled, hashed)], ids=["same", "key_hash"])
def test_records_without_a_time_are_in_no_window_and_the_report_says_how_many_were_passed_over(
    cluster: Cluster, engine: Engine, prepare: Callable[[JobSpec], JobSpec]
) -> None:
    """Time -1 means no time, not a time before 1970."""
    data = [replace(r, time_ms=-1) if r.offset in {2, 5} else r for r in MIXED]
    stored = [r for r in data if r.offset != 5]
    from_1970 = {"from_time_ms": 0}
    found = engine(prepare(two_topics(cluster, data, stored, source_more=from_1970)))
    assert (found.result, found.source_records) == ("match", 6)
    assert found.why == (
        "records without a time lie in no window and were not compared, 2 in the source, 1 in the target"
    )


@pytest.mark.parametrize("window", [{}, {"to_time_ms": FIRST_MS + 1_000}], ids=["no times", "an end only"])
@pytest.mark.parametrize(("engine", "prepare"), [(verify, lambda s: s), (spilled, hashed)], ids=["same", "key_hash"])
def test_records_without_a_time_are_compared_where_no_window_begins(
    cluster: Cluster, engine: Engine, prepare: Callable[[JobSpec], JobSpec], window: dict[str, int]
) -> None:
    data = [replace(r, time_ms=-1) if r.offset in {2, 5} else r for r in MIXED]
    found = engine(prepare(two_topics(cluster, data, data, source_more=window)))
    assert (found.result, found.source_records, found.why) == ("match", 8, "")
    damaged_there = [r for r in data if r.offset != 5]
    assert engine(prepare(two_topics(cluster, data, damaged_there, source_more=window))).result == "mismatch"


def test_last_values_are_those_inside_the_window(cluster: Cluster) -> None:
    data = [replace(r, key=b"k") for r in MIXED]
    spec = replace(two_topics(cluster, data, data[:3], source_more=WINDOW), compare="latest")
    assert [d.kind for d in spilled(spec).differences] == ["altered"]
    spec = replace(two_topics(cluster, data, [data[7], data[4]], source_more=WINDOW), compare="latest")
    assert spilled(spec).result == "match"


def test_the_window_of_a_copy_filters_nothing_of_its_target(cluster: Cluster) -> None:
    """A record of others is extra, whatever its time."""
    recovery = copied(cluster, MIXED, source_more=WINDOW)
    foreign = Row(0, 0, b"k", b"foreign", FIRST_MS)
    spec = damaged(recovery, lambda stored: [*stored, foreign])
    assert places(verify(spec)) == [("extra", None, None, 0, 6, 1)]
