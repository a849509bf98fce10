"""How long a lane waits for the open transaction of somebody else: for each from when it holds the lane, and not while
the lane rests.
"""

import random
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from recoveryd_jobs.contract import LaneSpec, PartitionRange
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane import chunk_filler
from recoveryd_jobs.lane.held import Held
from recoveryd_jobs.sources.range_reader import End, Item
from recoveryd_jobs.topics import LogBounds
from tests.builders.lane_log import Log, MemoryLane, MemorySource, Visible, make_spec

STOP, STOP_WAIT_S = 10, 60


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


class HeldSource(MemorySource):
    """Readers see nothing from `stable` on."""

    stable, start = 5, 0

    def moves_on_to(self, offset: int) -> None:
        self.stable = offset
        self.told.clear()

    def _next(self, partition: int, most: int) -> Item:
        if any(r.offset >= self.positions[partition] for r in self.logs[partition].records):
            return super()._next(partition, most)
        self.told.add(partition)
        self.positions[partition] = self.stable
        return End(partition, self.stable)

    def bounds_in_steps(self, partitions: Sequence[int]) -> Generator["Future[Any]", None, dict[int, LogBounds]]:
        yield from ()
        return {p: LogBounds(self.start, self.stable, STOP) for p in partitions}

    def ends(self, deleted: int) -> None:
        """The transaction ends and its records are fetched; before they are taken, the log is deleted before
        `deleted`.
        """
        self.stable, self.start = STOP, deleted
        self.logs[0].records += [Visible(0, at, b"k", b"v", 1_000) for at in range(5, STOP)]


class HeldLane:
    def __init__(self, clock: Clock, on_data_loss: str = "fail") -> None:
        spec = make_spec(
            LaneSpec(0, (PartitionRange(0, 0, STOP),)),
            (None, None),
            {"mapping": "same"},
            stop_wait_ms=STOP_WAIT_S * 1_000,
            on_data_loss=on_data_loss,
        )
        lane = MemoryLane(
            spec, {0: Log([Visible(0, at, b"k", b"v", 1_000) for at in range(5)], STOP)}, random.Random(1)
        )
        self.source = HeldSource(lane.logs, random.Random(1))
        self.intake = chunk_filler.ChunkFiller(
            spec,
            lane.lane,
            self.source,
            self.source,
            lane.intake._copier,  # type: ignore[arg-type]
        )
        self.intake.begin(lane.chunk, lane.ledger)
        self.part = lane.chunk.parts[0]
        self._clock = clock

    def runs(self, seconds: int) -> None:
        for _ in range(seconds):
            self._clock.now_s += 1.0
            for _ in range(4):  # a question and its answer
                self.intake.take(100, 0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(chunk_filler, "time", made)
    return made


def test_a_transaction_that_holds_the_stop_for_too_long_ends_the_copy(clock: Clock) -> None:
    lane = HeldLane(clock)
    lane.runs(STOP_WAIT_S - 10)
    assert "last stable offset 5" in lane.intake.blocked[0]
    with pytest.raises(JobError, match="a foreign transaction holds"):
        lane.runs(30)


def test_the_next_transaction_is_waited_for_as_long_as_the_first(clock: Clock) -> None:
    lane = HeldLane(clock)
    lane.runs(STOP_WAIT_S - 10)
    lane.source.moves_on_to(7)
    lane.runs(STOP_WAIT_S - 10)
    assert "last stable offset 7" in lane.intake.blocked[0]


def test_the_wait_does_not_go_on_while_the_lane_rests(clock: Clock) -> None:
    lane = HeldLane(clock)
    lane.runs(10)
    lane.intake.rest()
    clock.now_s += 10 * STOP_WAIT_S
    lane.runs(STOP_WAIT_S - 10)
    assert "last stable offset 5" in lane.intake.blocked[0]


def test_what_was_fetched_before_it_was_deleted_is_lost_as_it_was_accounted_for(clock: Clock) -> None:
    lane = HeldLane(clock, on_data_loss="continue")
    lane.runs(1)
    assert lane.part.position == 5
    clock.now_s += 10.0
    lane.intake.take(100, 0.0)  # asks
    lane.source.ends(deleted=8)
    lane.runs(3)
    assert (lane.part.position, lane.part.copied, lane.part.lost) == (STOP, 7, 3)


@pytest.mark.parametrize(
    ("looks", "is_held"),
    [
        ([(5, 9)], False),  # a producer of short transactions may be seen in the middle of one
        ([(5, 9), (5, 9)], True),
        ([(5, 9), (5, 5), (5, 9)], False),  # it ended meanwhile, and the next one has begun
        ([(4, 9), (5, 9)], False),
        ([(5, 5), (5, 5)], False),  # everything is read
        ([(9, 9), (9, 9)], False),  # the consumer hears no more, which is not the matter of any transaction
    ],
)
def test_what_is_followed_is_held_where_it_stands_at_two_looks_before_the_end(
    looks: list[tuple[int, int]], is_held: bool
) -> None:
    followed = PartitionRange(0, 0, None)
    held = Held(make_spec(LaneSpec(0, (followed,)), (None, None), {"mapping": "same"}))
    for at_s, (stable, high) in enumerate(looks):
        held.look(followed, LogBounds(0, stable, high), 5, 1_000.0 + at_s)
    assert (0 in held.why) == is_held
