"""A cap that leaves no record of the range out ends the lane as done: also when it begins again behind its cap, rests
there, or meets records that the time bounds leave out.
"""

import random
import threading
from typing import Any

import pytest
from confluent_kafka import Consumer, Message

from recoveryd_jobs.clients import make_reader
from recoveryd_jobs.contract import JobSpec, LaneSpec, PartitionRange
from recoveryd_jobs.lane import chunk_filler
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.sources import range_reader
from tests.builders.copying import Cluster, LaneThread, Recovery, Row, assert_exact, rows
from tests.builders.lane_log import Log, MemoryLane, Visible, make_spec
from tests.builders.proving import verify
from tests.e2e.processes import wait_for

CAP, DONE = 10, LaneOutcome(0, "done")
OLD_MS, NEW_MS = 5, 1_000


def lane_behind_its_cap(*times_ms: int, stop: int = CAP + 3) -> MemoryLane:
    """Ten records are committed, which is all that the cap allows. Behind them are records of these times, then offsets
    without any up to `stop`.
    """
    records = [Visible(0, at, b"k", b"v", ms) for at, ms in enumerate((*[NEW_MS] * CAP, *times_ms))]
    spec = make_spec(LaneSpec(0, (PartitionRange(0, 0, stop),), CAP), (100, None), {"mapping": "same"})
    lane = MemoryLane(spec, {0: Log(records, stop)}, random.Random(1))
    while (left := CAP - lane.chunk.parts[0].position) > 0:
        lane.intake.take(left, 0.0)
    lane.commit()
    return lane


def ends(lane: MemoryLane) -> tuple[bool, int, int, int]:
    """(whether it is done, its position, what it copied and what it filtered)."""
    for _ in range(100):
        if lane.is_over:
            break
        lane.intake.take(1, 0.0)
    assert lane.is_over
    lane.commit()
    standing = lane.ledger.standings[0]
    return not lane.intake.unfinished, standing.position, standing.copied, standing.filtered


@pytest.mark.parametrize("begins_again", [False, True])
@pytest.mark.parametrize(
    ("times_ms", "end"),
    [
        ((), (True, 13, 10, 0)),
        ((NEW_MS,), (False, 10, 10, 0)),
        ((OLD_MS, OLD_MS), (True, 13, 10, 2)),
        ((OLD_MS, NEW_MS, OLD_MS), (False, 11, 10, 1)),
    ],
)
def test_what_lies_behind_the_cap_decides(
    begins_again: bool, times_ms: tuple[int, ...], end: tuple[bool, int, int, int]
) -> None:
    lane = lane_behind_its_cap(*times_ms)
    if begins_again:
        lane.restart()
    assert ends(lane) == end


def test_a_rest_takes_nothing_from_the_time_of_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now_s = 1_000.0

        def monotonic(self) -> float:
            return self.now_s

    clock = Clock()
    monkeypatch.setattr(chunk_filler, "time", clock)
    lane = lane_behind_its_cap()
    lane.intake.rest()
    clock.now_s += 1_000.0
    assert ends(lane) == (True, 13, 10, 0)


def test_what_was_deleted_behind_the_cap_is_left_out_and_not_lost() -> None:
    lane = lane_behind_its_cap(NEW_MS, NEW_MS)
    lane.logs[0].delete_before(CAP + 2)
    lane.restart()
    assert ends(lane) == (False, 10, 10, 0)
    assert lane.intake.loss is None


def test_records_that_are_passed_over_count_for_the_rate() -> None:
    lane = lane_behind_its_cap(OLD_MS, OLD_MS)
    assert lane.intake.is_free
    assert [lane.intake.take(1, 0.0)[0] for _ in range(3)].count(1) >= 1
    assert not lane.intake.is_free


class Tail:
    """Keeps back what a consumer gives from offset 10 on until it may come."""

    def __init__(self, real: Consumer, may_come: threading.Event) -> None:
        self._real, self._may_come = real, may_come
        self._kept: list[Message] = []

    def consume(self, count: int, wait_s: float) -> list[Message]:
        found = [*self._kept, *self._real.consume(count, wait_s)]
        if self._may_come.is_set():
            self._kept.clear()
            return found
        self._kept = [m for m in found if m.error() is not None or (m.offset() or 0) >= CAP]
        return [m for m in found if m.error() is None and (m.offset() or 0) < CAP]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def may_come(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    made = threading.Event()
    monkeypatch.setattr(range_reader, "make_reader", lambda *a, **more: Tail(make_reader(*a, **more), made))
    return made


def behind_a_cap(cluster: Cluster, *tail: Row, **more: Any) -> Recovery:
    """Ten records, their marker and the tail."""
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.foreign(source, *rows(CAP)).commit_transaction(60)
    if tail:
        cluster.foreign(source, *tail).commit_transaction(60)
    ranges = [[PartitionRange(0, 0, cluster.settled_end(source))]]
    chunk = Recovery.chunk_limits(max_records=CAP)
    return Recovery(cluster, source, target, ranges=ranges, caps=(CAP, None), chunk=chunk, **more)


def has_copied_all(recovery: Recovery) -> bool:
    return sum(r.copied for r in recovery.ledger()) == CAP


def assert_whole(recovery: Recovery, spec: JobSpec) -> None:
    assert_exact(recovery.ledger(), spec)
    assert has_copied_all(recovery)
    assert verify(spec).result == "match"


@pytest.mark.broker
def test_an_attempt_that_begins_behind_the_cap_ends_as_done(cluster: Cluster, may_come: threading.Event) -> None:
    recovery = behind_a_cap(cluster)
    lane = LaneThread(recovery.spec)
    wait_for(lambda: has_copied_all(recovery), 60.0)
    recovery.direct("exit")
    assert lane.outcome() == LaneOutcome(0, "left")
    may_come.set()
    again = recovery.attempt(2)
    assert run_lane(again, again.lanes[0]) == DONE
    assert_whole(recovery, again)


@pytest.mark.broker
def test_a_lane_that_was_paused_behind_its_cap_ends_as_done(
    cluster: Cluster, may_come: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_filler, "TAIL_S", 2.0)
    recovery = behind_a_cap(cluster)
    lane = LaneThread(recovery.spec)
    wait_for(lambda: has_copied_all(recovery), 60.0)
    sequence = recovery.direct("pause")
    paused = recovery.await_heartbeat(lambda h: h.state == "paused" and h.directive_sequence == sequence)
    recovery.await_heartbeat(lambda h: h.state == "paused" and h.sent_ms > paused.sent_ms + 4_000)
    may_come.set()
    recovery.direct("run")
    assert lane.outcome() == DONE
    assert_whole(recovery, recovery.spec)


@pytest.mark.broker
def test_late_records_of_before_the_window_are_no_more_than_a_cap_allows(cluster: Cluster) -> None:
    late = [Row(0, 0, b"k", b"late", OLD_MS) for _ in range(5)]
    recovery = behind_a_cap(cluster, *late, source_more={"from_time_ms": 100})
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == DONE
    assert_whole(recovery, recovery.spec)
    assert sum(r.filtered for r in recovery.ledger()) == 5
