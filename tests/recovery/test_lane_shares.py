"""Lanes share the rate of a recovery so that none is starved, and a lane that only its rate keeps waiting is not taken
for stalled.
"""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoveryd.kernel.states import State, StopReason
from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.lane_shares import lane_shares, reader_shares
from recoveryd.recovery.model import PartitionProgress, Progress
from recoveryd.recovery.observed import Heard, Observed
from recoveryd.recovery.spec import Limits
from recoveryd_jobs.contract import LaneHeartbeat
from recoveryd_jobs.pacing import Lease, Pacer
from tests.builders.core import FOLLOWING, command, make_facts, make_spec
from tests.builders.records import make_plan, make_recovery
from tests.builders.world import PARAMS, Application, World

BIG, SMALL = 40_000_000, 10
QUICK = replace(PARAMS, stall_after_ms=10_000, stop_wait_ms=10_000)
RECORD_BYTES = 100


class Paced(World):
    """Lanes copy as fast as the pacers of real ones let them, and say when only their rate keeps them waiting. Those in
    `hung` copy nothing, and say nothing about it.
    """

    def _launch(self, effect: LaunchAttempt) -> None:
        super()._launch(effect)
        self.pacers = [Pacer(self.now_ms / 1000) for _ in effect.plan.lanes]
        self.waiting: set[int] = set()
        self.hung: set[int] = set()

    def _copy(self, app: Application) -> None:
        durable, now_s = self.receipts[app.recovery], self.now_ms / 1000
        assert app.directive is not None
        for lane, partitions in enumerate(app.lanes):
            pacer = self.pacers[lane]
            pacer.set_rates(Lease(app.directive, lane, len(app.lanes), now_s).rates(now_s, 0.0), now_s)
            for partition in partitions:
                end = app.stops[partition] or self.ends[partition]
                for _ in range(min(self.speed, end - durable[partition]) if lane not in self.hung else 0):
                    if pacer.wait_s(now_s) > 0:
                        break
                    durable[partition] += 1
                    pacer.took(1, RECORD_BYTES, now_s)
        self.waiting = {n for n, pacer in enumerate(self.pacers) if pacer.wait_s(now_s) >= 1} - self.hung

    def _heartbeat(self, app: Application, lane: int, state: str) -> LaneHeartbeat:
        return replace(super()._heartbeat(app, lane, state), throttled=lane in self.waiting and state == "copying")


def paced(ends: tuple[int, ...], limits: Limits, *, spec: object = None, speed: int = 100) -> Paced:
    world = Paced(make_facts(ends, slots=len(ends)), params=QUICK, speed=speed)
    world.feed(command("replay", spec=spec or make_spec(limits=limits)))
    world.run_until(State.RUNNING)
    return world


def shares_of(left: list[int]) -> dict[int, float]:
    plan = make_plan(*[(n, 0, max(1, count)) for n, count in enumerate(left)])
    rows = tuple(PartitionProgress(p.partition, p.stop - left[p.partition], p.stop) for p in plan.partitions)
    return dict(lane_shares(make_recovery(plan=plan, progress=Progress(rows)), Observed()))


@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 100, 1_000])
def test_a_small_lane_gets_a_tenth_of_an_equal_part_however_large_another_is(lanes: int) -> None:
    shares = shares_of([BIG, *([1] * (lanes - 1))])
    assert min(shares.values()) >= 0.0999 / lanes
    assert math.fsum(shares.values()) == pytest.approx(1.0, abs=1e-5)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=200))
def test_shares_never_exceed_the_whole_and_leave_out_only_lanes_that_ended(left: list[int]) -> None:
    shares = shares_of(left)
    assert math.fsum(shares.values()) <= 1.0
    assert not any(left) or [n for n, share in shares.items() if not share] == [
        n for n, count in enumerate(left) if not count
    ]


def task_shares(left: list[int | None]) -> dict[int, float]:
    """Of tasks that have so many of 2**63 offsets left to read; None = it is done."""
    whole = 2**63
    beats = [
        LaneHeartbeat(
            "r1", 1, task, 1, "done" if rest is None else "verifying", False, 0.0, 0.0, (), phase="verify",
            verified_offsets=whole - (rest or 0), offsets_to_verify=whole,
        )
        for task, rest in enumerate(left)
    ]  # fmt: skip
    return dict(reader_shares(Observed(readers={beat.lane: Heard(beat, 1) for beat in beats})))


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**63 - 1)), max_size=200))
def test_shares_of_tasks_never_exceed_the_whole_and_leave_out_only_those_that_are_done(left: list[int | None]) -> None:
    shares = task_shares(left)
    assert math.fsum(shares.values()) <= 1.0
    assert [n for n, share in shares.items() if not share] == [n for n, rest in enumerate(left) if rest is None]


def test_the_last_task_of_a_verification_has_the_whole_rate_and_a_large_one_most_of_it() -> None:
    assert task_shares([None, 5, None]) == {0: 0.0, 1: pytest.approx(1.0), 2: 0.0}
    assert task_shares([BIG, SMALL]) == {0: pytest.approx(0.95, abs=1e-3), 1: pytest.approx(0.05, abs=1e-3)}


def test_a_verification_is_told_shares_of_the_tasks_that_were_heard_and_none_of_lanes() -> None:
    world = World(speed=100)
    world.verify_s = 60
    world.feed(command("replay"))
    world.run_until(State.VERIFYING)
    [begun] = [d for d in world.directives if d.wanted == "verify"]
    world.second(20)
    assert (begun.shares, world.directives[-1].shares) == (
        {},
        {0: pytest.approx(0.5, abs=0.02), 1: pytest.approx(0.5, abs=0.02)},
    )


def test_a_small_partition_beside_a_large_one_is_copied_at_once_and_ends_nothing() -> None:
    world = paced((BIG, SMALL), Limits(max_bytes_per_s=5e6))
    world.second(10)
    assert world.receipts["r1"][1] == SMALL
    world.second(60)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.RUNNING, 1)


@pytest.mark.parametrize(
    ("lanes", "limits"),
    [
        (30, Limits(max_records_per_s=1.0)),  # a record of each lane in 30 s
        (2, Limits(max_bytes_per_s=5.0)),  # in 40 s
        (1, Limits(max_records_per_s=0.01)),
        (10, Limits(max_bytes_per_s=1e-9)),  # never
    ],
)
def test_lanes_whose_rate_allows_no_record_for_longer_than_a_stall_are_not_stalled(lanes: int, limits: Limits) -> None:
    world = paced((1_000,) * lanes, limits)
    world.second(60)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.RUNNING, 1)


def test_a_rate_over_many_lanes_is_kept_after_the_first_record_of_each() -> None:
    world = paced((1_000,) * 30, Limits(max_records_per_s=1.0))
    world.second(100)
    assert 90 <= sum(world.receipts["r1"].values()) <= 30 + 110


def test_lanes_that_follow_at_a_tiny_rate_are_not_stalled() -> None:
    spec = replace(FOLLOWING, limits=Limits(max_records_per_s=0.01))
    world = paced((1_000, 1_000), Limits(), spec=spec)
    world.second(60)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.RUNNING, 1)


def test_a_lane_that_hangs_after_it_waited_for_its_rate_is_stalled() -> None:
    world = paced((1_000, 1_000), Limits(max_records_per_s=0.01))
    world.second(30)
    world.hung.add(0)
    world.second(12)
    assert "lane 0 made nothing durable" in world.recovery().attempt.last_error


def test_a_lane_that_was_paused_for_longer_than_a_stall_is_not_stalled_when_it_goes_on() -> None:
    world = paced((BIG, BIG), Limits(max_bytes_per_s=5e6))
    world.feed(command("pause", offset=1))
    world.run_until(State.PAUSED)
    world.second(60)
    world.feed(command("resume", command_id="c3", offset=2))
    world.run_until(State.RUNNING)
    world.second(3)
    assert world.recovery().attempt.number == 1


class SlowProof(World):
    """The tasks of its verification read nothing new; `is_throttled`: because their rate allows none."""

    is_throttled = True

    def _reader(self, app: Application, task: int, state: str) -> LaneHeartbeat:
        return replace(
            super()._reader(app, task, state), throttled=self.is_throttled, verified_offsets=1, verified_records=1
        )


@pytest.mark.parametrize("is_throttled", [True, False])
def test_a_verification_stalls_only_if_it_is_not_its_rate_that_keeps_it_waiting(is_throttled: bool) -> None:
    world = SlowProof(params=QUICK, speed=100)
    world.is_throttled, world.verify_s = is_throttled, 10_000
    world.feed(command("replay"))
    world.run_until(State.VERIFYING)
    world.second(150)
    recovery = world.recovery()
    told = recovery.stop.reason if recovery.state is State.FAILED else recovery.state
    assert told is (State.VERIFYING if is_throttled else StopReason.STALLED)
