"""A lane copies what is committed, in range and selected, bit for bit and in order, and explains every other offset."""

import random
import threading
import time
from collections import defaultdict
from dataclasses import replace

import pytest

from recoveryd_jobs.contract import DIGEST_FORM, PartitionRange, TargetRun
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.murmur2 import partition_for_key
from tests.builders.copying import Cluster, LaneThread, Recovery, Row, assert_exact, put, rows
from tests.builders.proving import verify
from tests.e2e.processes import wait_for

pytestmark = pytest.mark.broker

DONE = LaneOutcome(0, "done")


def whole(cluster: Cluster, source: str, partitions: int = 1) -> list[PartitionRange]:
    return [PartitionRange(p, 0, cluster.settled_end(source, p)) for p in range(partitions)]


def contents(found: list[Row]) -> list[tuple[object, ...]]:
    return [row.content for row in found]


ODD = [
    Row(0, 0, b"k", b"v", 1_000),
    Row(0, 1, None, b"no key", 999),  # times that go back
    Row(0, 2, b"tombstone", None, 998),
    Row(0, 3, b"", b"", 2),
    Row(0, 4, None, None, 1),
    Row(0, 5, b"k", b"v", -1),  # no time
    Row(0, 6, b"k", b"v", 253_402_300_799_000),  # the year 9999
    Row(0, 7, b"k", b"h", 5, (("a", b"1"), ("a", b"1"), ("b", None), ("a", b""), ("\u00e4", b"\x00\xff"))),
    Row(0, 8, bytes(range(256)), bytes(range(256)), 6),
    Row(0, 9, b"k", b"v" * 900_000, 7),
    Row(0, 10, b"k", b"v", 1_000),  # the same once more
]


def test_every_kind_of_record_arrives_bit_for_bit(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, ODD)
    recovery = Recovery(cluster, source, target, ranges=[whole(cluster, source)])
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    assert cluster.read(target) == ODD
    assert_exact(recovery.ledger(), recovery.spec)


def test_aborted_and_interleaved_transactions_are_left_out_and_explained(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    good, bad, plain = cluster.producer("good"), cluster.producer("bad"), cluster.producer()
    for number in range(30):
        good.begin_transaction()
        bad.begin_transaction()
        for part in range(5):
            for producer, word in ((good, "good"), (bad, "bad"), (plain, "plain")):
                put(producer, source, Row(0, 0, b"k", f"{word}-{number}-{part}".encode(), 1_000 + number))
                producer.flush(60)
        bad.abort_transaction(60)
        good.commit_transaction(60)
    recovery = Recovery(cluster, source, target, ranges=[whole(cluster, source)])
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    assert contents(cluster.read(source)) == contents(cluster.read(target))
    assert_exact(recovery.ledger(), recovery.spec)
    assert (
        sum(r.copied for r in recovery.ledger()),
        sum(r.skipped for r in recovery.ledger()),  # 150 aborted records and 60 markers
    ) == (300, 210)


def test_a_tail_of_markers_ends_cleanly(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(10))
    producer = cluster.producer("x")
    for _ in range(3):
        producer.begin_transaction()
        put(producer, source, rows(1)[0])
        producer.flush(60)
        producer.abort_transaction(60)
    recovery = Recovery(cluster, source, target, ranges=[whole(cluster, source)])
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    assert [(r.start, r.stop, r.copied, r.skipped) for r in recovery.ledger()] == [(0, 16, 10, 6)]


def test_partitions_without_records_and_ranges_without_offsets_end_cleanly(cluster: Cluster) -> None:
    source, target = cluster.topic("in", 4), cluster.topic("out", 4)
    cluster.fill(source, rows(5, 1) + rows(5, 3))
    producer = cluster.producer("x")
    producer.begin_transaction()
    put(producer, source, Row(2, 0, b"k", b"aborted", 1))
    producer.flush(60)
    producer.abort_transaction(60)
    ranges = [PartitionRange(0, 0, 0), PartitionRange(1, 0, 5), PartitionRange(2, 0, 2), PartitionRange(3, 4, 4)]
    recovery = Recovery(cluster, source, target, ranges=[ranges], partitions=4)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    assert [(r.partition, r.copied, r.skipped) for r in recovery.ledger()] == [(1, 5, 0), (2, 0, 2)]
    assert contents(rows(5, 1)) == contents(cluster.read(target, 4))


def test_nothing_at_or_past_the_stop_is_copied_while_the_source_grows(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(5_000))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 100, 4_900)]])
    halt = threading.Event()

    def grow() -> None:
        producer = cluster.producer()
        while not halt.wait(0.001):
            put(producer, source, Row(0, 0, b"late", b"late", 1))
            producer.poll(0)
        producer.flush(60)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    finally:
        halt.set()
        writer.join()
    assert contents(rows(5_000)[100:4_900]) == contents(cluster.read(target))


def test_key_hash_puts_records_where_java_would_and_keeps_their_order(cluster: Cluster) -> None:
    source, target = cluster.topic("in", 2), cluster.topic("out", 5)
    chance = random.Random(7)
    data = [
        Row(p, i, chance.choice([None, b"", f"key-{chance.randrange(50)}".encode()]), f"{p}-{i}".encode(), 1_000 + i)
        for p in (0, 1)
        for i in range(3_000)
    ]
    cluster.fill(source, data)
    recovery = Recovery(
        cluster, source, target, ranges=[whole(cluster, source, 2)], partitions=5, target_more={"mapping": "key_hash"}
    )
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    wanted = defaultdict(list)
    for row in data:
        to = partition_for_key(row.key, 5) if row.key is not None else (row.partition + row.offset) % 5
        wanted[row.partition, to].append(row.content)
    found = defaultdict(list)
    for row in cluster.read(target, 5):
        assert row.value is not None
        found[int(row.value[:1]), row.partition].append(row.content)
    assert wanted == found
    assert_exact(recovery.ledger(), recovery.spec)


def test_a_window_of_time_counts_the_rest_as_filtered(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    data = [Row(0, i, b"k", str(i).encode(), time) for i, time in enumerate([10, 30, 20, 40, 25, 19, 20, 39])]
    cluster.fill(source, data)
    recovery = Recovery(
        cluster, source, target, ranges=[whole(cluster, source)], source_more={"from_time_ms": 20, "to_time_ms": 40}
    )
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    assert [r.time_ms for r in cluster.read(target)] == [30, 20, 25, 20, 39]
    assert [(r.start, r.stop, r.copied, r.filtered) for r in recovery.ledger()] == [(0, 8, 5, 3)]


def test_headers_are_dropped_and_added_as_the_spec_says(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, [Row(0, 0, b"k", b"v", 1, (("a", b"1"), ("b", None), ("a", b"2"))), Row(0, 1, b"k", b"v", 2)])
    changes = {"headers_add": (("by", "us"),), "headers_drop": ("a",)}
    recovery = Recovery(cluster, source, target, ranges=[whole(cluster, source)], target_more=changes)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    assert [r.headers for r in cluster.read(target)] == [(("b", None), ("by", b"us")), (("by", b"us"),)]


@pytest.mark.parametrize("name", ["kept", "Идентификатор"])
def test_a_cap_on_bytes_counts_what_is_written_and_cuts_every_lane_where_its_copy_ends(
    cluster: Cluster, name: str
) -> None:
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    heavy = (("trace", b"x" * 400), (name, b"1"))
    data = [replace(row, headers=heavy) for p in range(2) for row in rows(10_000, p, 90)]
    cluster.fill(source, data)
    recovery = Recovery(
        cluster, source, target, ranges=[[r] for r in whole(cluster, source, 2)], partitions=2,
        caps=(None, 150_000), target_more={"headers_drop": ("trace",)},
    )  # fmt: skip
    assert [run_lane(recovery.spec, lane) for lane in recovery.spec.lanes] == [
        LaneOutcome(i, "capped") for i in range(2)
    ]
    ledger = recovery.ledger()
    assert_exact(ledger, recovery.spec, whole=False)
    found = cluster.read(target, 2)
    for partition in range(2):
        ours = [r for r in found if r.partition == partition]
        wanted = [replace(r, headers=((name, b"1"),)) for r in data if r.partition == partition][: len(ours)]
        assert contents(wanted) == contents(ours)
        sizes = [len(r.key or b"") + len(r.value or b"") + len(name.encode()) + len("1") for r in ours]
        assert sum(sizes[:-1]) < 150_000 <= sum(sizes)
        rows_of = [r for r in ledger if r.partition == partition]
        assert (rows_of[-1].stop, sum(r.copied for r in rows_of), sum(r.bytes for r in rows_of)) == (
            len(ours), len(ours), sum(sizes),
        )  # fmt: skip
        assert sum(r.skipped for r in rows_of) == 0


def runs_of(recovery: Recovery) -> list[tuple[int, int]]:
    return [run for receipt in recovery.ledger() for target in receipt.targets for run in target.runs]


@pytest.mark.parametrize("exclusive", [
    True,
    pytest.param(False, marks=pytest.mark.wide(
        "tests/spark/test_lane_copy.py::test_runs_are_exact_when_others_write_to_the_target"
    )),
])  # fmt: skip
def test_runs_are_exact_when_others_write_to_the_target(cluster: Cluster, exclusive: bool) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(40_000))
    recovery = Recovery(
        cluster, source, target, ranges=[whole(cluster, source)], target_more={"exclusive": exclusive},
        directive=Recovery.run_directive(cluster, max_records_per_s=1_000.0),
    )  # fmt: skip
    halt = threading.Event()

    def interfere() -> None:
        producer = cluster.producer()
        while not halt.wait(0.002):
            put(producer, target, Row(0, 0, b"foreign", b"foreign", 1))
            producer.flush(60)

    writer = threading.Thread(target=interfere)
    writer.start()
    try:
        lane = LaneThread(recovery.spec)
        wait_for(lambda: len(runs_of(recovery)) > len(recovery.ledger()), 60.0, lambda: "nobody interferes")
        recovery.direct("run")
        assert lane.outcome() == DONE
    finally:
        halt.set()
        writer.join()
    runs = runs_of(recovery)
    ours = [row for row in cluster.read(target) if any(first <= row.offset < first + count for first, count in runs)]
    assert contents(rows(40_000)) == contents(ours)
    assert_exact(recovery.ledger(), recovery.spec)


def test_small_batches_are_made_for_a_target_that_takes_only_those(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out", 1, max_message_bytes="20000")
    chance = random.Random(1)
    data = [Row(0, i, b"k", chance.randbytes(1_000), i + 1) for i in range(2_000)]
    cluster.fill(source, data)
    recovery = Recovery(cluster, source, target, ranges=[whole(cluster, source)])
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    assert contents(data) == contents(cluster.read(target))


def test_without_verification_receipts_have_runs_and_no_digest(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(100))
    recovery = Recovery(cluster, source, target, ranges=[whole(cluster, source)], verify="none")
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    assert [(TargetRun(0, 100, ((0, 100),), "", DIGEST_FORM),)] == [r.targets for r in recovery.ledger()]


def test_several_partitions_share_a_chunk_and_a_small_chunk_is_a_transaction_of_its_own(cluster: Cluster) -> None:
    source, target = cluster.topic("in", 3), cluster.topic("out", 3)
    data = [row for p in range(3) for row in rows(2_000, p)]
    cluster.fill(source, data)
    recovery = Recovery(
        cluster, source, target, ranges=[whole(cluster, source, 3)], partitions=3,
        chunk=Recovery.chunk_limits(max_records=700),
    )  # fmt: skip
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    assert contents(data) == contents(cluster.read(target, 3))
    ledger = recovery.ledger()
    assert_exact(ledger, recovery.spec)
    by_chunk: dict[int, int] = defaultdict(int)
    for receipt in ledger:
        by_chunk[receipt.chunk] += receipt.copied
    assert list(range(len(by_chunk))) == sorted(by_chunk)
    assert max(by_chunk.values()) <= 700


def with_a_tail(cluster: Cluster, caps: tuple[int | None, int | None], *tail: Row) -> Recovery:
    """Two partitions of ten records and the marker of their transaction; in the second also an aborted record, and
    behind that what is in `tail`.
    """
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    for partition in range(2):
        cluster.foreign(source, *rows(10, partition)).commit_transaction(60)
    cluster.foreign(source, Row(1, 0, b"k", b"aborted", 1)).abort_transaction(60)
    cluster.fill(source, tail)
    stops = [cluster.settled_end(source, partition) for partition in range(2)]
    ranges = [[PartitionRange(partition, 0, stop) for partition, stop in enumerate(stops)]]
    cluster.fill(source, rows(5, 0))  # behind the range
    return Recovery(cluster, source, target, ranges=ranges, partitions=2, caps=caps)


TEN = sum(len(row.key or b"") + len(row.value or b"") for row in rows(10)) * 2


@pytest.mark.parametrize("caps", [(20, None), (None, TEN)])
def test_a_cap_that_leaves_no_record_out_ends_the_lane_as_done(
    cluster: Cluster, caps: tuple[int | None, int | None]
) -> None:
    recovery = with_a_tail(cluster, caps)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    assert_exact(recovery.ledger(), recovery.spec)
    assert sum(r.copied for r in recovery.ledger()) == 20
    assert verify(recovery.spec).result == "match"


def test_a_cap_that_leaves_a_record_out_behind_others_without_ends_the_lane_there(cluster: Cluster) -> None:
    recovery = with_a_tail(cluster, (20, None), Row(1, 0, b"k", b"one more", 1))
    began_s = time.monotonic()
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome, time.monotonic() - began_s < 60.0) == (LaneOutcome(0, "capped"), True)
    assert_exact(recovery.ledger(), recovery.spec, whole=False)
    assert sum(r.copied for r in recovery.ledger()) == 20


def test_a_cap_behind_which_somebody_has_a_transaction_open_is_not_waited_for(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(10))
    foreign = cluster.foreign(source, Row(0, 0, b"k", b"open", 1))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 11)]], caps=(10, None))
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "capped")
    foreign.abort_transaction(60)
    assert sum(r.copied for r in recovery.ledger()) == 10
