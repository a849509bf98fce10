"""Heads of the ledger: a lane and the daemon begin to read there, and read everything if a head does not fit."""

import asyncio
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Message

from recoveryd.adapters.kafka import ledger
from recoveryd.adapters.kafka.ledger import KafkaLedger
from recoveryd.adapters.kafka.reading import read_range
from recoveryd.recovery.effects import ReadLedger
from recoveryd.recovery.events import LedgerRead
from recoveryd_jobs import failpoints, receipts
from recoveryd_jobs.contract import (
    JobSpec,
    LedgerHead,
    PartitionRange,
    Receipt,
    ReceiptsHome,
    TargetRun,
    decode,
    encode,
    head_key,
)
from recoveryd_jobs.lane import heads
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from tests.builders.copying import Cluster, LaneThread, Recovery, assert_exact, rows
from tests.builders.records import make_plan
from tests.patience import patient_s

pytestmark = pytest.mark.broker

COUNT = 3_000
COMPACTED_WITHIN_S = 240.0


@pytest.fixture
def recovery(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Recovery:
    """3,000 records in chunks of 50, and a head after every tenth."""
    monkeypatch.setattr(heads, "RECEIPTS_MAX", 10)
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(COUNT))
    ranges = [PartitionRange(0, 0, COUNT)]
    return Recovery(cluster, source, target, ranges=[ranges], chunk=Recovery.chunk_limits(max_records=50))


def half_way(recovery: Recovery) -> tuple[JobSpec, int]:
    """The spec of the next attempt after a lane that came to its cap after its second head, and the offset of that
    head.
    """
    capped = replace(recovery.spec.lanes[0], max_records=1_200)
    assert run_lane(replace(recovery.spec, lanes=(capped,)), capped) == LaneOutcome(0, "capped")
    last = recovery.heartbeats()[-1]
    assert last.ledger_from > 0
    again = recovery.attempt(2)
    ranges = (replace(again.lanes[0].partitions[0], journaled=last.positions[0].position),)
    return replace(
        again, lanes=(replace(again.lanes[0], partitions=ranges, ledger_from=last.ledger_from),)
    ), last.ledger_from


def finish(cluster: Cluster, recovery: Recovery, spec: JobSpec) -> None:
    assert run_lane(spec, spec.lanes[0]) == LaneOutcome(0, "done")
    assert [r.content for r in cluster.read(recovery.target)] == [r.content for r in cluster.read(recovery.source)]
    assert_exact(recovery.ledger(), recovery.spec)


def ask(
    recovery: Recovery, cluster: Cluster, offsets: tuple[int, ...], positions: Mapping[int, int] | None = None
) -> LedgerRead:
    home = recovery.spec.receipts
    assert home is not None
    source, target = recovery.spec.source, recovery.spec.target
    ranges = [(r.partition, r.start, r.stop) for lane in recovery.spec.lanes for r in lane.partitions]
    plan = make_plan(*ranges, source=(source.topic, source.topic_id), target=(target.topic, target.topic_id))
    plan = replace(
        plan,
        receipts=ReceiptsHome(home.topic, home.topic_id, home.partition, home.partitions, home.start),
    )
    known = KafkaLedger({"main": cluster.client}, recovery.receipts, "test")
    question = ReadLedger(recovery.id, 1, plan, fence=False, positions=positions or {}, ledger_from=offsets)
    return asyncio.run(known.read(question))


def test_the_next_attempt_and_the_daemon_read_only_what_lies_behind_the_newest_head(
    cluster: Cluster, recovery: Recovery
) -> None:
    again, offset = half_way(recovery)
    found = receipts.read(again, "reader", lambda _why: None, 0, offset)
    everything = receipts.read(again, "reader", lambda _why: None)
    assert found.head is not None
    assert (len(found.receipts) < 10, len(everything.receipts) > 20, everything.head) == (True, True, None)
    ids = again.source.topic_id, again.target.topic_id
    ledgers = [receipts.fold(f.receipts, again.lanes[0].partitions, 0, *ids, head=f.head) for f in (found, everything)]
    assert ledgers[0] == ledgers[1]
    assert ask(recovery, cluster, (offset,)) == ask(recovery, cluster, ())
    finish(cluster, recovery, again)


def bounds_of_the_daemon(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What it reads from now on."""
    bounds: list[tuple[int, int]] = []

    def noted(properties: Any, topic: str, partition: int, asked: tuple[int, int], *more: Any) -> Iterator[Message]:
        bounds.append(asked)
        return read_range(properties, topic, partition, asked, *more)

    monkeypatch.setattr(ledger, "read_range", noted)
    return bounds


def bounds_of_lanes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What they read of the ledger from now on."""
    bounds: list[tuple[int, int]] = []
    collect = receipts._collect

    def noted(*arguments: Any) -> Any:
        bounds.append(arguments[4])
        return collect(*arguments)

    monkeypatch.setattr(receipts, "_collect", noted)
    return bounds


def newest_head(cluster: Cluster, recovery: Recovery, lane: int = 0) -> int:
    key = head_key("test", recovery.id, lane).encode()
    return max(r.offset for r in cluster.read(recovery.receipts, 2) if r.key == key)


def test_a_chunk_that_was_given_up_behind_its_receipts_does_not_make_the_next_attempt_read_everything(
    cluster: Cluster, recovery: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = count(1)

    def die_at_the_25th(point: str) -> None:
        if point == "lane.before_commit" and next(passes) == 25:
            raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "hit", die_at_the_25th)
        assert run_lane(recovery.spec, recovery.spec.lanes[0]).error_code == "internal"
    head = newest_head(cluster, recovery)
    lane = recovery.spec.lanes[0]
    ranges = (replace(lane.partitions[0], journaled=1_200),)
    again = replace(recovery.attempt(2), lanes=(replace(lane, partitions=ranges, ledger_from=head),))
    bounds = bounds_of_lanes(monkeypatch)
    finish(cluster, recovery, again)
    assert bounds
    assert min(start for start, _ in bounds) == head


@pytest.mark.parametrize("early", [0, 5])
def test_a_lane_without_anything_to_commit_does_not_make_others_receipts_be_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, early: int
) -> None:
    monkeypatch.setattr(heads, "RECEIPTS_MAX", 10)
    monkeypatch.setattr(heads, "OFFSETS_MAX", 60)
    monkeypatch.setattr(heads, "ASK_S", 0.2, raising=False)
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    cluster.fill(source, [*rows(early, partition=0), *rows(COUNT, partition=1)])
    ranges = [[PartitionRange(0, 0, None)], [PartitionRange(1, 0, COUNT)]]
    limits = Recovery.chunk_limits(max_records=50)
    recovery = Recovery(cluster, source, target, ranges=ranges, partitions=2, chunk=limits)
    silent = LaneThread(recovery.spec, 0)
    recovery.await_heartbeat(lambda h: h.state == "copying" and h.positions[0].position == early)
    assert run_lane(recovery.spec, recovery.spec.lanes[1]) == LaneOutcome(1, "done")
    offset = recovery.await_heartbeat(lambda h: h.ledger_from > 0).ledger_from
    recovery.direct("stop")
    assert silent.outcome() == LaneOutcome(0, "stopped")
    assert offset >= 60
    whole = ask(recovery, cluster, ())
    assert (whole.problems, [p.position for p in whole.partitions]) == ((), [early, COUNT])
    bounds = bounds_of_the_daemon(monkeypatch)
    told = offset, newest_head(cluster, recovery, 1)
    assert ask(recovery, cluster, told, {0: early, 1: COUNT}) == whole
    assert min(start for start, _ in bounds) >= min(told) > 0
    lanes = bounds_of_lanes(monkeypatch)
    found = receipts.read(recovery.spec, "reader", lambda _why: None, 0, offset)
    ids = recovery.spec.source.topic_id, recovery.spec.target.topic_id
    folded = receipts.fold(found.receipts, recovery.spec.lanes[0].partitions, 0, *ids, head=found.head)
    assert (folded.standings[0].position, folded.standings[0].copied) == (early, early)
    assert [start for start, _ in lanes] == [offset]


MANY, PEAK_BYTES = 20_000, 6_000_000


@pytest.fixture
def with_many(cluster: Cluster) -> Recovery:
    """Each record of partition 1 has a receipt of lane 1; the newest is of attempt 3."""
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    ranges = [[PartitionRange(0, 0, MANY)], [PartitionRange(1, 0, MANY)]]
    recovery = Recovery(cluster, source, target, ranges=ranges, partitions=2)
    ids = recovery.spec.source.topic_id, recovery.spec.target.topic_id
    one = Receipt("test", recovery.id, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 20, (TargetRun(1, 1, ((0, 1),), "ab" * 16),), *ids)
    receipts_of = [replace(one, chunk=n, start=n, stop=n + 1) for n in range(MANY)]
    recovery.write_receipts([*receipts_of[:-1], replace(receipts_of[-1], attempt=3)])
    return recovery


def peak_bytes_of(read: Callable[[], Any]) -> tuple[Any, int]:
    tracemalloc.start()
    try:
        return read(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_lane_keeps_nothing_of_other_lanes_but_their_newest_attempt(with_many: Recovery) -> None:
    found, peak_bytes = peak_bytes_of(lambda: receipts.read(with_many.spec, "reader", lambda _why: None))
    ids = with_many.spec.source.topic_id, with_many.spec.target.topic_id
    ranges = with_many.spec.lanes[0].partitions
    newest = receipts.fold(found.receipts, ranges, 0, *ids, newest_attempt=found.newest_attempt).newest_attempt
    assert (found.receipts, newest) == ([], 3)
    assert peak_bytes < PEAK_BYTES


def test_the_daemon_adds_receipts_up_without_holding_them(cluster: Cluster, with_many: Recovery) -> None:
    found, peak_bytes = peak_bytes_of(lambda: ask(with_many, cluster, ()))
    assert (found.problems, [(p.position, p.copied) for p in found.partitions]) == ((), [(0, 0), (MANY, MANY)])
    assert peak_bytes < PEAK_BYTES


def test_a_lane_that_ended_early_does_not_make_others_receipts_be_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made one receipt, and what the other lane made lies behind it."""
    monkeypatch.setattr(heads, "RECEIPTS_MAX", 10)
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    cluster.fill(source, [*rows(20, partition=0), *rows(COUNT, partition=1)])
    ranges = [[PartitionRange(0, 0, 20)], [PartitionRange(1, 0, COUNT)]]
    recovery = Recovery(cluster, source, target, ranges=ranges, chunk=Recovery.chunk_limits(max_records=50))
    for lane in recovery.spec.lanes:
        assert run_lane(recovery.spec, lane) == LaneOutcome(lane.lane, "done")
    early, late = (recovery.heartbeats(lane.lane)[-1].ledger_from for lane in recovery.spec.lanes)
    assert 0 < early < late
    bounds = bounds_of_the_daemon(monkeypatch)
    whole = ask(recovery, cluster, ())
    assert sum(stop - start for start, stop in bounds) > COUNT / 50
    for positions in ({0: 20, 1: COUNT}, {0: 20, 1: COUNT - 1}):
        bounds.clear()
        assert ask(recovery, cluster, (early, late), positions) == whole
        assert sum(stop - start for start, stop in bounds) < 15
    bounds.clear()
    # One that died before it told of its last head is read from the one before.
    before = max(
        r.offset
        for r in cluster.read(recovery.receipts, 2)
        if r.key == head_key("test", recovery.id, 1).encode() and r.offset < late
    )
    assert ask(recovery, cluster, (early, before), {0: 20, 1: COUNT}) == whole
    assert sum(stop - start for start, stop in bounds) < 30
    bounds.clear()
    assert ask(recovery, cluster, (early, late), {0: 19, 1: COUNT}) == whole  # it may have gone on
    assert min(bounds)[0] == early
    assert max(stop for _, stop in bounds) > late


@pytest.mark.parametrize("beside", [1, 10_000], ids=["another record", "past the end"])
def test_where_no_head_is_everything_is_read(cluster: Cluster, recovery: Recovery, beside: int) -> None:
    again, offset = half_way(recovery)
    lost = replace(again, lanes=(replace(again.lanes[0], ledger_from=offset + beside),))
    assert receipts.read(lost, "reader", lambda _why: None, 0, offset + beside).head is None
    assert ask(recovery, cluster, (offset + beside,)) == ask(recovery, cluster, ())
    finish(cluster, recovery, lost)


def with_rows(head: LedgerHead, position: Callable[[int], int]) -> LedgerHead:
    return replace(head, rows=tuple(replace(row, position=position(row.position)) for row in head.rows))


@pytest.mark.parametrize(
    "falsify",
    [
        lambda head: with_rows(head, lambda position: position - 10),
        lambda head: with_rows(replace(head, source_topic_id="made again"), lambda _: COUNT),
        lambda head: with_rows(replace(head, target_topic_id="made again"), lambda _: COUNT),
    ],
    ids=["receipts do not follow", "another source", "another target"],
)
def test_a_head_that_does_not_go_with_the_receipts_is_not_believed(
    cluster: Cluster, recovery: Recovery, falsify: Callable[[LedgerHead], LedgerHead]
) -> None:
    """The false head lies after the true one, so that both readers find it."""
    again, offset = half_way(recovery)
    home = again.receipts
    assert home is not None
    key = head_key("test", recovery.id, 0).encode()
    [true] = [r for r in cluster.read(recovery.receipts, 2) if r.key == key and r.offset == offset]
    head = decode(LedgerHead, true.value or b"")
    false = falsify(head)
    producer = cluster.producer()
    producer.produce(recovery.receipts, encode(false), key, home.partition)
    assert producer.flush(60) == 0
    assert ask(recovery, cluster, (offset,)) == ask(recovery, cluster, ())
    finish(cluster, recovery, again)


def test_an_old_head_that_compaction_took_leads_to_the_newest_one_and_to_the_same_ledger(
    cluster: Cluster, recovery: Recovery
) -> None:
    """A reader that last heard of a lane long ago begins at a head that newer ones have replaced. All receipts stay."""
    again, newest = half_way(recovery)
    key = head_key("test", recovery.id, 0).encode()
    first = min(r.offset for r in cluster.read(recovery.receipts, 2) if r.key == key)
    assert first < newest
    before, whole = recovery.ledger(), ask(recovery, cluster, ())
    compact_away(cluster, recovery, first)
    assert recovery.ledger() == before
    found = receipts.read(again, "reader", lambda _why: None, 0, first)
    assert found.head is not None
    assert found.head.next_chunk > len(before) - 10
    assert ask(recovery, cluster, (first,)) == ask(recovery, cluster, (newest,)) == ask(recovery, cluster, ()) == whole
    finish(cluster, recovery, replace(again, lanes=(replace(again.lanes[0], ledger_from=first),)))


def compact_away(cluster: Cluster, recovery: Recovery, offset: int) -> None:
    """Waits until the broker's own cleaner has removed the head at `offset`."""
    home = recovery.spec.receipts
    assert home is not None
    for name, value in (("segment.ms", "100"), ("min.cleanable.dirty.ratio", "0.001"), ("max.compaction.lag.ms", "1")):
        cluster.set_config(recovery.receipts, name, value)
    producer, give_up_s = cluster.producer(), time.monotonic() + patient_s(COMPACTED_WITHIN_S)
    while any(r.offset == offset for r in cluster.read(recovery.receipts, 2) if r.partition == home.partition):
        assert time.monotonic() < give_up_s, "the broker did not compact the receipts"
        producer.produce(recovery.receipts, b"x", b"other#", home.partition)  # closes the segment before it
        assert producer.flush(60) == 0
        time.sleep(0.2)
