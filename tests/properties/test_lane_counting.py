"""A lane reports exactly what it copied, whatever limits or interrupts it: caps, windows, header rules, holes, losses,
restarts.
"""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoveryd_jobs.contract import JobSpec, LaneSpec, PartitionRange
from recoveryd_jobs.errors import JobError, Redo
from recoveryd_jobs.lane import asking, chunk_filler, hearing
from recoveryd_jobs.murmur2 import KeyPartitioner
from tests.builders.lane_log import Log, MemoryLane, MemorySource, Visible, make_spec

_STEPS = 2_000  # more than any lane needs, unless it waits for a time:
_LEAST_S = 0.5  # a fast machine makes so many steps in less than the shortest of those


@st.composite
def logs(draw: st.DrawFn) -> dict[int, Log]:
    """One to three partitions of up to 40 offsets, of which any may be invisible."""
    made = {}
    chance = random.Random(draw(st.integers(0, 2**32)))
    for partition in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, 5))
        high = start + draw(st.integers(0, 40))
        visible_share = draw(st.sampled_from([0.3, 0.8, 1.0]))
        offsets = (o for o in range(start, high) if chance.random() < visible_share)
        made[partition] = Log([made_record(partition, o, chance) for o in offsets], high, start)
    return made


def made_record(partition: int, offset: int, chance: random.Random) -> Visible:
    names = ("keep", "drop", "other")
    headers = [(chance.choice(names), some_bytes(chance, 40)) for _ in range(chance.randint(0, 3))]
    return Visible(
        partition, offset, some_bytes(chance, 3), some_bytes(chance, 60), chance.randint(1, 20), tuple(headers)
    )


def some_bytes(chance: random.Random, most: int) -> bytes | None:
    return None if chance.random() < 0.2 else chance.randbytes(chance.randint(0, most))


@dataclass(frozen=True)
class Case:
    spec: JobSpec
    logs: dict[int, Log]
    seed: int


@st.composite
def cases(draw: st.DrawFn, *, capped: bool = True) -> Case:
    source = draw(logs())
    ranges = []
    for partition, log in source.items():
        start = draw(st.integers(log.start, log.high))
        ranges.append(PartitionRange(partition, start, draw(st.integers(start, log.high))))
    caps = (
        draw(st.tuples(st.none() | st.integers(0, 60), st.none() | st.integers(0, 2_000))) if capped else (None, None)
    )
    low, high = draw(st.none() | st.integers(1, 20)), draw(st.none() | st.integers(1, 20))
    target: dict[str, Any] = {
        "mapping": draw(st.sampled_from(["same", "key_hash"])),
        "headers_drop": draw(st.sampled_from([(), ("drop",), ("drop", "other")])),
        "headers_add": draw(st.sampled_from([(), (("by", "us"),)])),
        "exclusive": draw(st.booleans()),
    }
    spec = make_spec(
        LaneSpec(0, tuple(ranges), *caps), (low, high), target, on_data_loss=draw(st.sampled_from(["fail", "continue"]))
    )
    return Case(spec, source, draw(st.integers(0, 2**32)))


def run(case: Case, disturb: Callable[[MemoryLane], None] | None = None, *, restarts: bool = True) -> MemoryLane:
    """Run the lane to its end, with slices of random size and random commits and restarts."""
    chance = random.Random(case.seed)
    lane = MemoryLane(case.spec, case.logs, chance)
    until_s = time.monotonic() + _LEAST_S
    for step in count():
        if lane.is_over or (step >= _STEPS and time.monotonic() >= until_s):
            break
        if step == 3 and disturb is not None:
            disturb(lane)
        try:
            lane.intake.take(chance.randint(1, 12), 0)
        except Redo:
            lane.restart()
        fate = chance.random()
        if fate < 0.2:
            lane.commit()
        elif fate < 0.3 and restarts and lane.intake.loss is None:
            lane.restart()
        elif fate < 0.4:
            lane.intake.rest()
    assert lane.is_over, "the lane does not end"
    lane.commit()
    return lane


def as_sent(spec: JobSpec, record: Visible) -> Visible:
    """`record` as the target must hold it, and in which partition, without an offset."""
    kept = tuple(h for h in record.headers if h[0] not in spec.target.headers_drop)
    added = tuple((name, text.encode()) for name, text in spec.target.headers_add)
    to = record.partition
    if spec.target.mapping == "key_hash":
        of = KeyPartitioner(spec.target.partitions)
        to = of.of_null(record.partition, record.offset) if record.key is None else of.of_key(record.key)
    return replace(record, partition=to, offset=0, headers=kept + added)


def size(record: Visible) -> int:
    return len(record.key or b"") + len(record.value or b"") + sum(len(n) + len(v or b"") for n, v in record.headers)


def is_selected(spec: JobSpec, record: Visible) -> bool:
    low, high = spec.source.from_time_ms, spec.source.to_time_ms
    return (low is None or record.time_ms >= low) and (high is None or record.time_ms < high)


def covered(lane: MemoryLane) -> dict[int, tuple[int, int]]:
    """[start, position) per partition by the receipts. The fold raises unless they are contiguous and explain every
    offset.
    """
    return {r.partition: (r.start, lane.ledger.standings[r.partition].position) for r in lane.lane.partitions}


@given(cases())
def test_the_copy_is_the_visible_selected_records_before_each_position_and_nothing_else(case: Case) -> None:
    visible = {p: list(log.records) for p, log in case.logs.items()}
    lane = run(case)
    expected, sizes = defaultdict(list), []
    for partition, (start, position) in covered(lane).items():
        seen = [r for r in visible[partition] if start <= r.offset < position]
        chosen = [r for r in seen if is_selected(case.spec, r)]
        standing = lane.ledger.standings[partition]
        sent = [as_sent(case.spec, r) for r in chosen]
        assert (standing.copied, standing.filtered, standing.skipped, standing.lost, standing.bytes) == (
            len(chosen), len(seen) - len(chosen), position - start - len(seen), 0, sum(map(size, sent)),
        )  # fmt: skip
        sizes += [size(r) for r in sent]
        for record in sent:
            expected[partition, record.partition].append(record)
    assert in_target(lane) == expected
    assert_caps_hold(lane, sizes)


def in_target(lane: MemoryLane) -> dict[tuple[int, int], list[Visible]]:
    """Committed records by (source partition, target partition) in target order, found by the runs of the receipts."""
    at = {(r.partition, r.offset): r for r in lane.target.sent}
    found = defaultdict(list)
    for receipt in lane.receipts:
        for to in receipt.targets:
            offsets = [o for first, count in to.runs for o in range(first, first + count)]
            found[receipt.partition, to.partition] += [replace(at.pop((to.partition, o)), offset=0) for o in offsets]
    assert not at, "records that no receipt claims"
    return found


def assert_caps_hold(lane: MemoryLane, sizes: list[int]) -> None:
    """At most the cap in records; in bytes at most up to and with the record that reaches it; less only when all is
    copied.
    """
    records, most = lane.lane.max_records, lane.lane.max_bytes
    last_receipts = [r for r in lane.receipts if r.copied]
    assert records is None or len(sizes) <= records
    assert most is None or sum(sizes) - (max(sizes, default=0) if last_receipts else 0) < max(most, 1)
    if lane.intake.unfinished:
        assert (records is not None and len(sizes) == records) or (most is not None and sum(sizes) >= most)


@given(cases(), st.sets(st.integers(0, 2)))
def test_a_consumer_that_hears_no_more_of_some_partitions_is_made_anew_and_nothing_is_missing_or_doubled(
    case: Case, deaf: set[int]
) -> None:
    undisturbed = run(case)
    # Where the cap is used up, no consumer is made anew to look whether anything is left: that look ends by time.
    with (
        patch.object(hearing, "QUIET_S", 0.0),
        patch.object(hearing, "DEAF_S", 0.0),
        patch.object(chunk_filler, "TAIL_S", 0.001),
    ):
        lane = run(case, lambda lane: lane.source.deaf.update(deaf), restarts=False)
    assert_caps_hold(lane, [size(r) for rows in in_target(lane).values() for r in rows])
    if not lane.intake.unfinished and not undisturbed.intake.unfinished:  # a cap may end either early
        assert lane.ledger.standings == undisturbed.ledger.standings
        assert in_target(lane) == in_target(undisturbed)


def lane_beside_a_busy_partition() -> MemoryLane:
    """Of partition 0 it hears nothing; partition 1 gives a record each time, for long."""
    chance = random.Random(1)
    lengths = {0: 10, 1: 5_000}
    logs = {p: Log([made_record(p, o, chance) for o in range(n)], n) for p, n in lengths.items()}
    lane = MemoryLane(
        make_spec(LaneSpec(0, tuple(PartitionRange(p, 0, n) for p, n in lengths.items())), (None, None), {}),
        logs, chance,
    )  # fmt: skip
    while not lane.source.positions:
        lane.intake.take(1, 0)
    lane.source.deaf.add(0)
    return lane


def test_a_consumer_that_leaves_out_one_partition_is_made_anew_although_another_one_never_pauses() -> None:
    lane = lane_beside_a_busy_partition()
    with patch.object(hearing, "QUIET_S", 0.0), patch.object(hearing, "DEAF_S", 0.0):
        for _ in range(200):
            lane.intake.take(1, 0)
            lane.commit()
    assert set(lane.intake.unfinished) == {1}
    assert [r.value for r in lane.logs[0].records] == [r.value for r in lane.target.sent if r.partition == 0]


def test_what_was_fetched_before_is_taken_before_a_consumer_counts_as_deaf() -> None:
    lane = lane_beside_a_busy_partition()
    lane.source.queue_bytes = 1_000_000
    with patch.object(hearing, "QUIET_S", 0.0), patch.object(hearing, "DEAF_S", 0.0):
        for _ in range(200):
            lane.intake.take(1, 0)
    assert (lane.intake.is_deaf, lane.source.deaf) == (True, {0})


def test_at_a_head_the_turn_of_a_partition_comes_when_the_others_were_at_their_ends() -> None:
    """However little they give, and however long it would take until that fills what a client may fetch of them."""
    chance, clock = random.Random(1), 1_000.0
    logs = {p: Log([made_record(p, o, chance) for o in range(10)], 10) for p in range(4)}
    lane = MemoryLane(
        make_spec(LaneSpec(0, tuple(PartitionRange(p, 0, None) for p in logs)), (None, None), {}), logs, chance
    )
    lane.source.queue_bytes = 1_000_000_000
    with patch.object(time, "monotonic", lambda: clock):
        while not lane.source.positions:
            lane.intake.take(1, 0)
        lane.source.deaf.add(0)
        while lane.source.deaf and clock < 1_060:
            clock += 0.1
            grow(logs[chance.randint(1, 3)], chance)
            lane.source.told.clear()
            lane.intake.take(100, 0)
            lane.commit()
    assert 1_025 < clock < 1_040


def grow(log: Log, chance: random.Random) -> None:
    log.records.append(made_record(log.records[0].partition, log.high, chance))
    log.high += 1


def test_what_others_give_keeps_a_partition_from_its_turn_for_a_minute_only() -> None:
    lane, clock = lane_beside_a_busy_partition(), 1_000.0
    lane.source.queue_bytes = 1_000_000_000
    with patch.object(time, "monotonic", lambda: clock):
        lane.restart()
        while not lane.intake.take(1, 0)[0]:
            continue
        lane.source.deaf.add(0)
        while lane.source.deaf and clock < 5_000:
            clock += 0.5
            lane.intake.take(1, 0)
    assert 1_060 <= clock < 1_200


def test_a_source_that_is_slow_to_give_gets_longer_with_each_new_consumer() -> None:
    """Twice as long each time, up to about ten minutes."""
    made: list[float] = []
    clock = 1_000.0

    assign = MemorySource.assign

    def noted(source: MemorySource, positions: Mapping[int, int]) -> None:
        made.append(clock)
        assign(source, positions)

    with patch.object(time, "monotonic", lambda: clock):
        lane = lane_beside_a_busy_partition()
        with patch.object(MemorySource, "assign", noted):
            for _ in range(4_000):
                clock += 0.5
                lane.source.deaf = {0, 1} if clock > 1_010 else {0}
                lane.intake.take(1, 0)
    waits = [after - before for before, after in pairwise(made)]
    assert len(waits) == 5
    assert waits == [pytest.approx(wait, rel=0.05) for wait in (80, 160, 320, 640, 640)]


@given(cases(capped=False), st.sampled_from(["delete", "cut back"]), st.integers(0, 45))
def test_what_the_source_lost_is_in_the_receipts_and_everything_before_and_behind_it_is_copied(
    case: Case, how: str, offset: int
) -> None:
    visible = {p: list(log.records) for p, log in case.logs.items()}
    log = case.logs[0]
    with patch.object(asking, "CUT_BACK_AFTER_S", 0.0), patch.object(chunk_filler, "BLOCKED_ASK_S", 0.0):
        lane = run(case, lambda _: (log.delete_before if how == "delete" else log.cut_back_to)(offset))
    allowed = case.spec.on_data_loss == "continue"
    assert allowed or (lane.intake.loss is not None) == any(s.lost for s in lane.ledger.standings.values())
    if allowed:
        assert not lane.intake.unfinished
    sent = {key: [r.value for r in rows] for key, rows in in_target(lane).items()}
    for planned in case.spec.lanes[0].partitions:
        standing, partition = lane.ledger.standings[planned.partition], planned.partition
        gone = gone_range(planned, standing.lost, case.logs[partition], how) if standing.lost else (0, 0)
        kept = [
            r for r in visible[partition]
            if planned.start <= r.offset < standing.position and not gone[0] <= r.offset < gone[1] and is_selected(case.spec, r)
        ]  # fmt: skip
        assert standing.copied == len(kept)
        copied = [v for (p, _), rows in sorted(sent.items()) if p == partition for v in rows]
        assert sorted(map(repr, copied)) == sorted(repr(r.value) for r in kept)


def gone_range(planned: PartitionRange, lost: int, log: Log, how: str) -> tuple[int, int]:
    """The lost offsets. A hole ends at the new log start; a truncation begins at the new log end (or at what was
    committed behind it) and takes all the rest.
    """
    assert planned.stop is not None
    stop = min(log.start, planned.stop) if how == "delete" else planned.stop
    return stop - lost, stop


@pytest.mark.parametrize("stop", [None, 40])
@pytest.mark.parametrize("end", [9, 10, 15])
def test_a_log_that_was_cut_back_lost_nothing_that_only_the_open_chunk_had(stop: int | None, end: int) -> None:
    """Ten records are committed, ten more are read."""
    chance = random.Random(1)
    log = Log([made_record(0, o, chance) for o in range(40)], 40)
    spec = make_spec(LaneSpec(0, (PartitionRange(0, 0, stop),)), (None, None), {}, on_data_loss="continue")
    lane = MemoryLane(spec, {0: log}, chance)
    read_up_to(lane, 10)
    lane.commit()
    read_up_to(lane, 20)
    log.cut_back_to(end)
    expected = pytest.raises(Redo) if end >= 10 else pytest.raises(JobError) if stop is None else nullcontext()
    with patch.object(asking, "CUT_BACK_AFTER_S", 0.0), expected:
        for _ in range(20):
            lane.intake.take(5, 0)
    if end < 10:
        return
    lane.restart()
    log.records, log.high = [*log.records, *(made_record(0, o, chance) for o in range(end, 40))], 40  # it goes on
    read_up_to(lane, 40)
    lane.commit()
    assert [r.value for r in lane.target.sent] == [r.value for r in log.records]
    assert lane.ledger.standings[0].lost == 0


def read_up_to(lane: MemoryLane, position: int) -> None:
    for _ in range(100):
        if (left := position - lane.chunk.parts[0].position) == 0:
            return
        lane.intake.take(left, 0)
    raise AssertionError(f"it does not read up to {position}")
