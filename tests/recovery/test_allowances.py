"""A cap holds for the whole recovery: it is shared out to lanes, and again when a lane could not use its part. The copy
neither exceeds the cap nor ends below it while records are left.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd.kernel.states import State, StopReason
from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.lane_shares import allowances, fill_up, share_out, shared_out_again
from recoveryd.recovery.model import Allowance, PartitionProgress, Progress, Recovery, Wanted
from recoveryd.recovery.spec import CaughtUp, Limits, Never
from recoveryd.recovery.stops.auto_stop import capped
from tests.builders.core import command, make_facts, make_spec
from tests.builders.world import PARAMS, World

Log = list[list[int | None]]  # per partition the size of each record, None = filtered


@st.composite
def logs(draw: st.DrawFn) -> Log:
    record = st.none() | st.integers(1, 40)
    return draw(st.lists(st.lists(record, min_size=1, max_size=60), min_size=1, max_size=5))


def planned(log: Log, limits: Limits) -> Recovery:
    """A recovery that is about to start: a lane per partition."""
    world = World(make_facts(tuple(map(len, log)), slots=len(log)))
    world.failing.add("LaunchAttempt")
    world.feed(command("replay", spec=make_spec(limits=limits)))
    return world.recovery()


def copy(recovery: Recovery, log: Log) -> Recovery:
    """One attempt: each lane copies to its partition's end, or up to and with the record that uses its allowance up."""
    rows = {p.partition: p for p in recovery.progress.partitions}
    for lane, allowed in zip(recovery.plan.lanes, allowances(recovery), strict=True):
        [partition] = lane
        row = rows[partition]
        for size in log[partition][row.position :]:
            if allowed.is_used_up(row.copied, row.bytes):
                break
            copied, more = (row.copied, 0) if size is None else (row.copied + 1, size)
            row = replace(row, position=row.position + 1, copied=copied, bytes=row.bytes + more)
        rows[partition] = row
    return replace(recovery, progress=Progress(tuple(rows.values())))


@given(logs(), st.none() | st.integers(1, 150), st.none() | st.integers(1, 2_000))
def test_a_run_ends_at_its_cap_or_at_the_end_of_every_partition_and_never_beyond(
    log: Log, records: int | None, size: int | None
) -> None:
    recovery = planned(log, Limits(max_records=records, max_bytes=size))
    for _ in range(60):
        given_out = allowances(recovery)
        assert records is None or sum(a.records for a in given_out) == records
        recovery = copy(recovery, log)
        progress = recovery.progress
        assert records is None or progress.records <= records
        assert size is None or progress.bytes < size + 40 * len(log)
        if all(p.position == p.stop for p in progress.partitions) or capped(recovery) is not None:
            return
        shared = shared_out_again(recovery)
        assert shared
        recovery = replace(recovery, allowances=shared)
    pytest.fail("it never came to an end")


def test_what_a_lane_could_not_use_goes_to_the_lanes_that_have_records_left() -> None:
    recovery = planned([[1] * 10, [1] * 100, [1] * 100], Limits(max_records=90))
    assert [a.records for a in allowances(recovery)] == [43, 43, 4]
    rows = [PartitionProgress(0, 10, 10, copied=2), *(PartitionProgress(p, 43, 100, copied=43) for p in (1, 2))]
    drained = replace(recovery, progress=Progress(tuple(rows)))
    by_partition = dict(zip(recovery.plan.lanes, shared_out_again(drained), strict=True))
    assert by_partition == {(0,): Allowance(2), (1,): Allowance(44), (2,): Allowance(44)}


def test_lanes_that_return_with_an_allowance_left_get_no_other_one() -> None:
    recovery = planned([[1] * 10, [1] * 10], Limits(max_records=15))
    rows = [PartitionProgress(0, 10, 10, copied=7), PartitionProgress(1, 5, 10, copied=5)]
    assert shared_out_again(replace(recovery, progress=Progress(tuple(rows)))) == ()


def test_the_parts_of_a_following_replay_are_equal() -> None:
    world = World(make_facts((100, 50)))
    world.failing.add("LaunchAttempt")
    world.feed(command("replay", spec=make_spec(stop=CaughtUp(), limits=Limits(max_records=7))))
    assert [a.records for a in allowances(world.recovery())] == [4, 3]


def following(limits: Limits, ends: tuple[int, ...], stop: CaughtUp | Never | None = None) -> World:
    """A world in which zero lag must last longer than the last heartbeat of a returned lane counts as recent."""
    world = World(make_facts(ends, slots=len(ends)), replace(PARAMS, caught_up_span_ms=30_000))
    world.feed(command("replay", spec=make_spec(stop=stop or CaughtUp(), limits=limits)))
    return world


def test_a_following_lane_gets_what_one_at_the_head_does_not_use_of_the_cap() -> None:
    world = following(Limits(max_records=120), (100, 50))
    done = world.run_until(State.STOPPED)
    assert (done.stop.reason, done.progress.records) == (StopReason.MAX_RECORDS, 120)
    assert sorted(world.receipts["r1"].values()) == [50, 70]
    assert done.attempt.number == 2


def test_a_following_replay_under_a_large_cap_catches_up_although_a_lane_used_its_part_up() -> None:
    world = following(Limits(max_bytes=100_000), (900, 10))
    done = world.run_until(State.COMPLETED)
    assert (done.stop.reason, done.stop.mode) == (StopReason.ZERO_LAG, "caught_up")
    assert world.receipts["r1"] == {0: 900, 1: 10}


def test_a_lane_that_returned_at_the_very_end_of_its_partition_is_caught_up() -> None:
    world = following(Limits(max_records=200), (100, 50))
    done = world.run_until(State.COMPLETED)
    assert (done.stop.reason, done.progress.records, done.attempt.number) == (StopReason.ZERO_LAG, 150, 1)


def test_a_lane_that_returned_with_one_record_left_is_not_caught_up() -> None:
    world = following(Limits(max_records=200), (101, 50))
    done = world.run_until(State.COMPLETED)
    assert (done.progress.records, done.attempt.number) == (151, 2)


@pytest.mark.parametrize(("cap", "copied", "attempts"), [(200, 150, 1), (120, 120, 2)])
def test_a_lane_that_returned_before_the_daemon_started_is_no_missing_one(cap: int, copied: int, attempts: int) -> None:
    world = following(Limits(max_records=cap), (100, 50))
    world.sees_source = False  # so that nothing is shared out before the daemon changes
    world.second(20)
    world.restart_daemon()
    world.sees_source = True
    done = world.run_until(State.COMPLETED, State.STOPPED)
    assert (done.progress.records, done.attempt.number) == (copied, attempts)
    assert done.attempt.failures == 0


def test_a_replay_that_never_ends_ends_at_its_cap_though_only_one_partition_goes_on() -> None:
    world = following(Limits(max_records=400), (20, 20, 20), Never())
    for _ in range(900):
        if world.recovery().is_terminal:
            break
        world.ends[1] += 1
        world.second()
    done = world.recovery()
    assert (done.stop.reason, done.progress.records) == (StopReason.MAX_RECORDS, 400)
    assert world.receipts["r1"] == {0: 20, 1: 360, 2: 20}
    assert done.attempt.number <= 10, "half of the rest is used each time, not a record"


@pytest.mark.parametrize("dies_every_s", [7, 11, 16])
def test_a_capped_following_replay_ends_with_whatever_daemons_and_applications_it_has(dies_every_s: int) -> None:
    world = following(Limits(max_records=700), (600, 50, 10))
    for second in range(1, 900):
        world.second()
        assert sum(world.receipts.get("r1", {}).values()) <= 700
        if second % dies_every_s == 0 and second < 200:
            world.restart_daemon(applications_die=second % (2 * dies_every_s) == 0)
        if world.recovery().is_terminal:
            break
    done = world.recovery()
    assert (done.state, done.stop.reason, done.progress.records) == (State.COMPLETED, StopReason.ZERO_LAG, 660)


def told_to_return(limits: Limits, stop: CaughtUp | Never, late: set[int]) -> World:
    """A world of three lanes that were just told to return, since the first has used its part up. The `late` ones are
    in a slow commit and have not looked.
    """
    world = following(limits, (450, 20, 20), stop)
    for _ in range(100):
        if world.recovery().wanted is Wanted.STOP:
            break
        world.second()
    before = world.recovery().wanted_sequence - 1
    world.applications["r1"].busy = dict.fromkeys(late, before)
    return world


def grow(world: World, seconds: int, per_s: dict[int, int]) -> None:
    for _ in range(seconds):
        for partition, records in per_s.items():
            world.ends[partition] += records
        world.second()


def lost(world: World) -> list[object]:
    return [notice.data["why"] for notice in world.notices if notice.type == "attempt_lost"]


def end_at_cap(world: World, per_s: dict[int, int]) -> Recovery:
    for _ in range(300):
        if world.recovery().is_terminal:
            break
        grow(world, 1, per_s)
    return world.recovery()


def test_a_lane_that_returned_before_a_pause_that_another_heard_instead_goes_on_after_it() -> None:
    world = told_to_return(Limits(max_records=1_200), Never(), {2})
    world.second()
    world.feed(command("pause", "r1", "c1", offset=1))
    world.applications["r1"].busy.clear()
    assert world.run_until(State.PAUSED).attempt.number == 1
    grow(world, 5, {1: 1, 2: 5})
    world.feed(command("resume", "r1", "c2", offset=2))
    assert "lane 1 has returned although it may go on" in world.directives[-1].why
    grow(world, 10, {1: 1, 2: 5})
    assert world.receipts["r1"][1] > 20
    done = end_at_cap(world, {1: 1, 2: 25})
    assert (done.stop.reason, done.progress.records, done.attempt.failures) == (StopReason.MAX_RECORDS, 1_200, 0)
    assert lost(world) == []


@pytest.mark.parametrize("late", [set(), {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}], ids=str)
@pytest.mark.parametrize("pause_after_s", [0, 1, 2, 4])
def test_no_partition_is_left_alone_whichever_lanes_hear_of_the_pause_only(late: set[int], pause_after_s: int) -> None:
    pause_and_go_on(Never(), False, late, pause_after_s, 2, True, 15, 1)


@settings(max_examples=30)
@given(
    stop=st.sampled_from([Never(), CaughtUp()]),
    is_bytes=st.booleans(),
    late=st.sets(st.integers(0, 2)),
    pause_after_s=st.integers(0, 4),
    busy_s=st.integers(0, 8),
    resumes_at_rest=st.booleans(),
    rests_s=st.integers(0, 10),
    pauses=st.integers(1, 3),
)
def test_no_partition_is_left_alone_however_pauses_overtake_the_word_to_return(**drawn: Any) -> None:
    pause_and_go_on(**drawn)


def pause_and_go_on(
    stop: CaughtUp | Never,
    is_bytes: bool,
    late: set[int],
    pause_after_s: int,
    busy_s: int,
    resumes_at_rest: bool,
    rests_s: int,
    pauses: int,
) -> None:
    """Pauses that come while lanes are told to return: they copy up to the cap all the same, and nothing counts as a
    failure.
    """
    limits = Limits(max_bytes=120_000) if is_bytes else Limits(max_records=1_200)
    world, per_s = told_to_return(limits, stop, late), {0: 1, 1: 1, 2: 25}
    grow(world, pause_after_s, per_s)
    for number in range(pauses):
        world.feed(command("pause", "r1", f"p{number}", offset=2 * number + 1))
        grow(world, busy_s, per_s)
        world.applications["r1"].busy.clear()
        if resumes_at_rest:
            world.run_until(State.PAUSED)
        grow(world, rests_s, per_s)
        world.feed(command("resume", "r1", f"r{number}", offset=2 * number + 2))
    grow(world, 12, per_s)
    copied, now = world.receipts["r1"][1], world.recovery()
    is_used_up = allowances(now)[1].is_used_up(copied, copied * 100)
    assert world.ends[1] - copied <= 5 or is_used_up or now.is_terminal
    done = end_at_cap(world, per_s)
    assert done.stop.reason is (StopReason.MAX_BYTES if is_bytes else StopReason.MAX_RECORDS)
    assert 1_200 <= done.progress.records < 1_200 + (3 if is_bytes else 1)
    assert (lost(world), done.attempt.failures) == ([], 0)
    assert done.attempt.number <= 10


@pytest.mark.parametrize("restarts", ["before the pause", "in the pause", "after it"])
def test_a_lane_that_returned_early_and_was_not_heard_by_this_daemon_costs_no_failure(restarts: str) -> None:
    world = told_to_return(Limits(max_records=1_200), Never(), {2})
    world.second()
    if restarts == "before the pause":
        world.restart_daemon()
    world.feed(command("pause", "r1", "c1", offset=1))
    world.applications["r1"].busy.clear()
    world.run_until(State.PAUSED)
    if restarts == "in the pause":
        world.restart_daemon()
    world.feed(command("resume", "r1", "c2", offset=2))
    if restarts == "after it":
        world.restart_daemon()
    grow(world, 30, {1: 1, 2: 25})
    assert world.receipts["r1"][1] > 20
    assert all("since the daemon's restart" in str(why) for why in lost(world))
    done = end_at_cap(world, {1: 1, 2: 25})
    assert (done.stop.reason, done.progress.records, done.attempt.failures) == (StopReason.MAX_RECORDS, 1_200, 0)


def test_a_lane_that_never_returns_when_told_to_keeps_the_others_waiting_for_a_time_only() -> None:
    world = told_to_return(Limits(max_records=1_200), Never(), {2})
    grow(world, 13, {1: 1, 2: 25})
    assert lost(world) == ["its lanes did not return in 10 s"]
    assert world.receipts["r1"][1] > 20
    assert world.recovery().wanted is Wanted.RUN, "the next attempt is not told to return at once"
    done = end_at_cap(world, {1: 1, 2: 25})
    assert (done.stop.reason, done.progress.records, done.attempt.failures) == (StopReason.MAX_RECORDS, 1_200, 0)


@pytest.mark.parametrize("limits", [Limits(), Limits(max_records=400)])
def test_a_following_lane_that_returns_untold_is_followed_by_another_attempt(limits: Limits) -> None:
    world = following(limits, (100, 100), Never())
    world.run_until(State.RUNNING)
    world.second(2)
    world.applications["r1"].ended.add(1)
    grow(world, 30, {0: 1, 1: 1})
    assert world.receipts["r1"] == {0: 130, 1: 130}
    assert (world.recovery().attempt.number, world.recovery().attempt.failures) == (2, 0)


class Returning(World):
    """A world whose lane 1 returns as soon as it starts, in every attempt."""

    def _launch(self, effect: LaunchAttempt) -> None:
        super()._launch(effect)
        self.applications[effect.recovery].ended.add(1)


@pytest.mark.parametrize("limits", [Limits(), Limits(max_records=400)])
def test_a_following_lane_that_returns_in_every_attempt_ends_the_recovery(limits: Limits) -> None:
    world = Returning(make_facts((20, 100), slots=2))
    world.feed(command("replay", spec=make_spec(stop=Never(), limits=limits)))
    failed = world.run_until(State.FAILED)
    assert "the lanes returned although partition" in failed.why


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=4),
    st.integers(1, 500),
    st.booleans(),
    st.integers(0, 3),
)
def test_a_capped_following_replay_ends_at_its_cap_or_caught_up(
    ends: list[int], cap: int, is_bytes: bool, live_per_s: int
) -> None:
    world = following(Limits(max_bytes=cap * 100) if is_bytes else Limits(max_records=cap), tuple(ends))
    world.live_per_s = live_per_s
    for _ in range(900):
        if world.recovery().is_terminal:
            break
        world.second()
    done = world.recovery()
    assert done.stop is not None, done.why
    if done.stop.reason is StopReason.ZERO_LAG:
        assert done.state is State.COMPLETED
        assert done.progress.records <= cap
    else:
        assert done.stop.reason is (StopReason.MAX_BYTES if is_bytes else StopReason.MAX_RECORDS)
        assert cap <= done.progress.records < cap + (len(ends) if is_bytes else 1)


@pytest.mark.parametrize("dies_every_s", [None, 7, 11])
def test_a_capped_replay_copies_up_to_its_cap_in_further_attempts_also_with_another_daemon(
    dies_every_s: int | None,
) -> None:
    world = World(make_facts((100, 50)), speed=3)
    world.feed(command("replay", spec=make_spec(limits=Limits(max_records=120))))
    for second in range(1, 600):
        world.second()
        assert sum(world.receipts.get("r1", {}).values()) <= 120
        if dies_every_s is not None and second % dies_every_s == 0:
            world.restart_daemon(applications_die=second % (2 * dies_every_s) == 0)
        if world.recovery().is_terminal:
            break
    done = world.recovery()
    assert (done.state, done.stop.reason, done.progress.records) == (State.STOPPED, StopReason.MAX_RECORDS, 120)


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [
        (None, [1, 2], [None, None]),
        (10, [1, 1, 1], [4, 3, 3]),
        (10, [0, 0], [5, 5]),
        (10, [3, 0], [10, 0]),
        (2, [1, 1, 1], [1, 1, 0]),
        (0, [1, 2], [0, 0]),
        (5, [], []),
    ],
)
def test_shares(total: int | None, weights: list[int], parts: list[int | None]) -> None:
    assert share_out(total, weights) == parts


@pytest.mark.parametrize(
    ("total", "needs", "parts"),
    [
        (None, [5, 0], [None, None]),
        (4, [5, 0], [4, 0]),
        (6, [6, 3], [4, 2]),
        (9, [5, 0], [7, 2]),
        (7, [0, 0], [4, 3]),
    ],
)
def test_needs_are_met_first_and_the_rest_is_shared_equally(
    total: int | None, needs: list[int], parts: list[int | None]
) -> None:
    assert fill_up(total, needs) == parts


@given(st.integers(0, 2**62), st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_shares_add_up_exactly_and_starve_no_lane_of_what_it_could_use(total: int, weights: list[int]) -> None:
    parts = [part for part in share_out(total, weights) if part is not None]
    assert sum(parts) == total
    assert min(parts) >= 0
    if total >= sum(weights):
        assert all(part >= weight for part, weight in zip(parts, weights, strict=True))
