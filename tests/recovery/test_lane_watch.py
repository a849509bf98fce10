"""One lane in trouble costs the attempt while the others move; receipts that cannot be read end the wait for them."""

from dataclasses import replace
from typing import Any

import pytest

from recoveryd.kernel.effects import Effect
from recoveryd.kernel.events import Event, Tick
from recoveryd.kernel.states import State, StopReason
from recoveryd.live.events import OffsetsSampled
from recoveryd.recovery.effects import LaunchAttempt, ReadLedger
from recoveryd.recovery.events import EffectFailed, LedgerMoved
from recoveryd.recovery.params import Params
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import Never
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat, LanePosition
from tests.builders.core import FOLLOWING, command, make_facts, make_spec
from tests.builders.world import PARAMS, Application, World

LONG = make_facts((100_000, 100_000))
QUICK = replace(PARAMS, stall_after_ms=30_000)


def running(params=PARAMS, spec=None) -> World:  # type: ignore[no-untyped-def]
    world = World(LONG, params=params)
    world.feed(command("replay", spec=spec))
    world.run_until(State.RUNNING)
    return world


def run_until_attempt(world: World, number: int) -> None:
    for _ in range(200):
        if world.recovery().attempt.number >= number:
            return
        world.second()
    raise AssertionError(f"no attempt {number}: {world.recovery().why}")


@pytest.mark.parametrize("spec", [None, FOLLOWING])
def test_a_frozen_lane_loses_the_attempt_although_the_others_move(spec: object) -> None:
    world = running(spec=spec)
    world.applications["r1"].frozen.add(1)
    world.second(10)
    [lost] = [n.data for n in world.notices if n.type == "attempt_lost"]
    assert "nothing was heard of lane 1 for" in str(lost["why"])
    assert world.recovery().attempt.number == 2
    assert world.launches == [("r1", 1), ("r1", 2)]


def test_a_lane_that_ended_may_be_silent() -> None:
    world = World(make_facts((100_000, 20)))
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(5)
    world.applications["r1"].frozen.add(1)
    world.second(30)
    assert world.recovery().attempt.number == 1


@pytest.mark.parametrize("lane", [-1, 2, 2**62])
def test_a_heartbeat_of_a_lane_that_is_not_planned_is_passed_over(lane: int) -> None:
    world = running()
    before = world.state.of(RECOVERY)
    world.feed(LaneHeartbeat("r1", 1, lane, 99, "done", False, 5.0, 5.0, (), failed_chunks=99, ledger_from=7))
    after = world.state.of(RECOVERY)
    assert (after.recoveries["r1"], after.observed["r1"]) == (before.recoveries["r1"], before.observed["r1"])


def test_a_position_behind_the_end_of_the_range_is_passed_over() -> None:
    world = running()
    told = LanePosition(0, 100_001, 100_000, "done", 100_001)
    world.feed(LaneHeartbeat("r1", 1, 0, 99, "copying", False, 5.0, 5.0, (told,)))
    assert world.recovery().progress.partitions[0].position < 100_000


@pytest.mark.parametrize("phase", ["copy", "verify"])
def test_a_late_heartbeat_of_a_lost_attempt_is_no_sign_that_the_next_one_runs(phase: str) -> None:
    world = running()
    world.applications["r1"].alive = False
    for _ in range(20):
        if world.recovery().attempt.released:
            break
        world.second()
    assert (world.recovery().state, world.recovery().attempt.released) == (State.STARTING, True)
    before = world.state.of(RECOVERY)
    told = (LanePosition(0, 99_000, 100_000, "copying", 99_000),)
    world.feed(LaneHeartbeat("r1", 1, 0, 99, "copying", True, 5.0, 500.0, told, "", phase=phase))
    after = world.state.of(RECOVERY)
    assert (after.recoveries["r1"], after.observed["r1"]) == (before.recoveries["r1"], before.observed["r1"])
    assert world.run_until(State.RUNNING).attempt.number == 2


class Stuck(World):
    """A world in which lane 0 never copies, in any attempt."""

    def _launch(self, effect: LaunchAttempt) -> None:
        super()._launch(effect)
        self.applications[effect.recovery].stuck.add(0)


def test_a_lane_that_stands_still_loses_the_attempt_and_the_second_time_in_a_row_the_recovery() -> None:
    world = Stuck(LONG, params=QUICK)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(40)
    assert world.recovery().attempt.number == 2
    assert "lane 0 made nothing durable" in world.recovery().attempt.last_error
    failed = world.run_until(State.FAILED)
    assert failed.stop is not None
    assert failed.stop.reason is StopReason.STALLED
    assert "lane 0 made nothing durable" in failed.why
    assert "in two attempts in a row" in failed.why


def test_the_only_lane_of_a_copy_too_loses_the_attempt_first() -> None:
    world = Stuck(make_facts((100_000,)), params=QUICK)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(40)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.RUNNING, 2)
    failed = world.run_until(State.FAILED)
    assert (failed.error_code, failed.attempt.number) == ("RCV-3009", 2)
    assert "in two attempts in a row" in failed.why


def test_a_copy_whose_other_lanes_are_done_and_whose_last_one_never_starts_costs_attempts_too() -> None:
    class NeverStarts(World):
        def _launch(self, effect: LaunchAttempt) -> None:
            super()._launch(effect)
            self.applications[effect.recovery].frozen.add(0)

    world = NeverStarts(make_facts((100_000, 20)), params=QUICK)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(50)
    assert "no durable position moved" in world.recovery().attempt.last_error
    failed = world.run_until(State.FAILED)
    assert (failed.error_code, failed.attempt.number) == ("RCV-3009", 2)


def test_a_daemon_that_decided_nothing_for_longer_than_a_stall_ends_no_copy() -> None:
    """As when the broker of its journal stood still."""
    world = running()
    world.second(3)
    world.now_ms += 700_000
    world.feed(Tick())
    assert world.recovery().state is State.STARTING, "the application fell silent"
    assert world.run_until(State.RUNNING).attempt.number == 2


@pytest.mark.parametrize("lanes", [1, 2])
def test_the_first_heartbeat_after_such_a_time_ends_no_copy_either(lanes: int) -> None:
    world = World(make_facts((100_000,) * lanes))
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(3)
    world.now_ms += 700_000
    world.feed(DriverHeartbeat("r1", 1, "lanes", 1))
    assert world.recovery().state is State.STARTING
    assert world.run_until(State.RUNNING).attempt.number == 2


@pytest.mark.parametrize("told", ["leaseless", "paused"])
def test_lanes_that_must_not_copy_do_not_stall(told: str) -> None:
    class Kept(World):
        def _heartbeat(self, app: Application, lane: int, state: str) -> LaneHeartbeat:
            return replace(super()._heartbeat(app, lane, state), state=told)

    world = Kept(LONG, params=QUICK)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.applications["r1"].stuck |= {0, 1}
    world.second(120)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.RUNNING, 1)


class HardOfHearing(World):
    """In the first attempt, a lane or task in `deaf` rests by the directive of this sequence."""

    def __init__(self, state: str, **more: Any) -> None:
        self.deaf: dict[int, int] = {}
        self.told = state
        super().__init__(LONG, **more)

    def _heartbeat(self, app: Application, lane: int, state: str) -> LaneHeartbeat:
        return self._misheard(super()._heartbeat(app, lane, state))

    def _reader(self, app: Application, task: int, state: str) -> LaneHeartbeat:
        return self._misheard(super()._reader(app, task, state))

    def _misheard(self, beat: LaneHeartbeat) -> LaneHeartbeat:
        if beat.lane not in self.deaf or beat.attempt > 1:
            return beat
        return replace(beat, state=self.told, directive_sequence=self.deaf[beat.lane])


@pytest.mark.parametrize("told", ["leaseless", "paused"])
def test_a_lane_that_hears_no_directives_loses_the_attempt_although_others_do(told: str) -> None:
    world = HardOfHearing(told)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.applications["r1"].stuck.add(1)
    world.deaf[1] = world.recovery().directive_sequence
    world.second(8 + 10)  # until the lease is renewed once, and some time after it
    assert "lane 1 has not heard for 6 s what the others are told" in world.recovery().attempt.last_error
    assert world.run_until(State.RUNNING).attempt.number == 2


def test_the_only_lane_is_compared_with_the_driver() -> None:
    world = HardOfHearing("leaseless")
    world.facts = make_facts((100_000,))
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.applications["r1"].stuck.add(0)
    world.deaf[0] = world.recovery().directive_sequence
    world.second(8 + 10)
    assert "lane 0 has not heard for 6 s" in world.recovery().attempt.last_error


def test_a_lane_that_hears_some_seconds_later_than_the_others_loses_nothing() -> None:
    world = HardOfHearing("leaseless")
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    for _ in range(5):
        told = world.deaf[1] = world.recovery().directive_sequence
        while world.recovery().directive_sequence == told:
            world.second()
        world.second(3)
        world.deaf.clear()
        world.second(2)
    assert world.recovery().attempt.number == 1


def test_a_task_of_the_proof_that_hears_no_directives_loses_the_attempt() -> None:
    world = HardOfHearing("leaseless", speed=10_000)
    world.verify_s = 60
    world.feed(command("replay"))
    world.run_until(State.VERIFYING)
    world.second(3)
    world.deaf[1] = world.recovery().directive_sequence
    world.second(8 + 10)
    assert "task 1 has not heard for 6 s what the others are told" in world.recovery().attempt.last_error
    assert world.run_until(State.COMPLETED).attempt.number == 2


@pytest.mark.parametrize("state", ["starting", "blocked"])
@pytest.mark.parametrize("stop_wait_s", [10, 100])
def test_a_lane_that_waits_for_a_transaction_of_others_may_say_so_itself(state: str, stop_wait_s: int) -> None:
    """It does after `attempts.stop_wait`, and names the transaction. Only one that never does has stalled."""

    class Held(World):
        def _heartbeat(self, app: Application, lane: int, told: str) -> LaneHeartbeat:
            return replace(super()._heartbeat(app, lane, told), state=state if 0 in app.stuck else told)

    world = Held(LONG, params=replace(QUICK, stop_wait_ms=stop_wait_s * 1_000))
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.applications["r1"].stuck |= {0, 1}
    world.second(max(30, stop_wait_s) + 50)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.RUNNING, 1)
    world.second(20)
    assert "made nothing durable" in world.recovery().attempt.last_error


HELD_WHY = "a foreign transaction holds flights partition 0"


class Occupied(World):
    """A world in which open transactions of others hold the partitions in `held`."""

    def __init__(self, facts: PlanFacts, params: Params) -> None:
        self.held: set[int] = set()
        super().__init__(facts, params)

    def _copy(self, app: Application) -> None:
        durable = self.receipts[app.recovery]
        before = {p: durable[p] for p in self.held}
        super()._copy(app)
        durable.update(before)

    def _position(self, app: Application, partition: int, state: str) -> LanePosition:
        told = super()._position(app, partition, state)
        return replace(told, state="blocked") if partition in self.held else told

    def _heartbeat(self, app: Application, lane: int, state: str) -> LaneHeartbeat:
        told = super()._heartbeat(app, lane, state)
        return replace(told, why=HELD_WHY) if self.held & set(app.lanes[lane]) else told


@pytest.mark.parametrize("slots", [1, 2])
def test_what_is_followed_for_ever_may_be_held_for_as_long_as_that_takes(slots: int) -> None:
    world = Occupied(make_facts((100, 50), slots=slots), replace(QUICK, stop_wait_ms=10_000))
    world.feed(command("replay", spec=make_spec(stop=Never())))
    world.run_until(State.RUNNING)
    world.second(10)
    world.held.add(0)
    world.ends[0] += 1_000
    world.second(300)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.RUNNING, 1)
    assert world.recovery().why == HELD_WHY
    world.applications["r1"].stuck.add(0)
    world.held.clear()
    world.second(25)
    assert world.recovery().attempt.number == 1, "it has had 25 s for what it may read now"
    world.second(10)
    assert "lane 0 made nothing durable" in world.recovery().attempt.last_error


@pytest.mark.parametrize("slots", [1, 2])
def test_a_copy_that_is_to_catch_up_and_is_held_ends_by_the_name_of_the_transaction(slots: int) -> None:
    world = Occupied(make_facts((100, 50), slots=slots), replace(QUICK, stop_wait_ms=100_000))
    world.held.add(0)
    world.feed(command("replay", spec=FOLLOWING))
    world.run_until(State.RUNNING)
    world.second(120)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.RUNNING, 1)
    assert world.recovery().why == HELD_WHY
    world.applications["r1"].silent = True
    said = f"After 100 s {HELD_WHY}."
    world.feed(DriverHeartbeat("r1", 1, "failed", error_code="stop_blocked", error_message=said))
    failed = world.run_until(State.FAILED)
    assert (failed.error_code, failed.stop.reason) == ("RCV-3011", StopReason.STALLED)
    assert HELD_WHY in failed.why


def test_one_that_is_held_and_never_says_so_has_stalled() -> None:
    world = Occupied(make_facts((100, 50)), replace(QUICK, stop_wait_ms=100_000))
    world.held.add(0)
    world.feed(command("replay", spec=FOLLOWING))
    world.run_until(State.RUNNING)
    world.second(180)
    assert "lane 0 made nothing durable" in world.recovery().attempt.last_error


def test_a_lane_with_a_held_partition_is_judged_by_the_others() -> None:
    world = Occupied(make_facts((100, 100_000), slots=1), replace(QUICK, stop_wait_ms=100_000))
    world.held.add(0)
    world.feed(command("replay", spec=make_spec(stop=Never())))
    world.run_until(State.RUNNING)
    world.applications["r1"].stuck.add(0)
    world.second(40)
    assert "lane 0 made nothing durable" in world.recovery().attempt.last_error


class Passing(Stuck):
    """Its stuck lanes say that they fetch further."""

    is_fetching = True

    def _heartbeat(self, app: Application, lane: int, told: str) -> LaneHeartbeat:
        return replace(super()._heartbeat(app, lane, told), fetching=self.is_fetching and lane in app.stuck)


def test_a_lane_that_passes_over_aborted_records_is_not_stalled_before_it_comes_no_further() -> None:
    world = Passing(LONG, params=QUICK)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(60)
    assert world.recovery().attempt.number == 1
    world.is_fetching = False
    world.second(35)
    assert "lane 0 made nothing durable" in world.recovery().attempt.last_error


def stalled_once() -> Stuck:
    """Its second attempt runs; the lane is stuck again."""
    world = Stuck(LONG, params=QUICK)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    run_until_attempt(world, 2)
    world.run_until(State.RUNNING)
    return world


def test_a_lane_that_moved_before_the_daemon_restarted_and_then_stalls_again_gets_another_attempt() -> None:
    world = stalled_once()
    world.applications["r1"].stuck.clear()
    world.second(5)
    world.applications["r1"].stuck.add(0)
    world.second(3)
    world.restart_daemon()
    run_until_attempt(world, 3)
    assert world.recovery().state in {State.STARTING, State.RUNNING}
    assert "in two attempts in a row" in world.run_until(State.FAILED).why


def test_a_lane_that_stalls_where_it_did_before_ends_the_recovery_also_when_the_daemon_restarted() -> None:
    world = stalled_once()
    world.restart_daemon()
    assert world.run_until(State.FAILED).attempt.number == 2


def test_another_lane_that_stalls_is_no_second_stall() -> None:
    world = running(QUICK)
    world.applications["r1"].stuck.add(0)
    run_until_attempt(world, 2)
    world.run_until(State.RUNNING)
    world.applications["r1"].stuck.add(1)
    run_until_attempt(world, 3)
    assert "lane 1 made nothing durable" in world.recovery().attempt.last_error
    assert world.recovery().state in {State.STARTING, State.RUNNING}


def test_a_lane_that_moved_between_two_stalls_gets_another_attempt() -> None:
    world = running(QUICK)
    for attempt in (2, 3, 4):
        world.second(5)
        world.applications["r1"].stuck.add(0)
        while world.recovery().attempt.number < attempt:
            world.second()
        assert world.recovery().state in {State.STARTING, State.RUNNING}


def test_a_lane_at_the_live_head_has_nothing_to_do_and_is_not_stalled() -> None:
    world = World(make_facts((50, 50)), params=replace(QUICK, caught_up_span_ms=10**9))
    world.feed(command("replay", spec=FOLLOWING))
    world.run_until(State.RUNNING)
    world.second(120)
    assert world.recovery().attempt.number == 1


@pytest.mark.parametrize(("slots", "held"), [(1, False), (2, False), (1, True)])
def test_what_comes_to_a_source_that_was_quiet_for_long_may_take_its_time(slots: int, held: bool) -> None:
    """The first record lies there for some seconds before it is durable, and that alone is counted."""
    world = Occupied(make_facts((50, 50), slots=slots), replace(QUICK, caught_up_span_ms=10**9))
    world.feed(command("replay", spec=make_spec(stop=Never())))
    world.run_until(State.RUNNING)
    world.second(10)
    world.held |= {1} if held else set()
    world.ends[1] += 10 if held else 0
    world.second(120)
    world.applications["r1"].stuck.add(0)
    world.ends[0] += 5
    world.second(25)
    assert world.recovery().attempt.number == 1
    world.second(15)
    assert "lane 0 made nothing durable" in world.recovery().attempt.last_error


class Shaky(World):
    """Each fourth look at the source lacks partition 0, or is at another topic of the name."""

    is_anew = False

    def sample(self) -> OffsetsSampled:
        found = super().sample()
        if (self.now_ms // 5_000) % 4:
            return found
        source = found.topics[0]
        known = {p: end for p, end in source.high_watermark.items() if p != 0}
        anew = replace(source, topic_id="new", high_watermark=dict.fromkeys(source.high_watermark, 0))
        odd = anew if self.is_anew else replace(source, high_watermark=known)
        return replace(found, topics=(odd, *found.topics[1:]))


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("is_anew", [False, True])
def test_a_look_that_does_not_tell_the_end_does_not_excuse_a_lane_that_hangs(slots: int, is_anew: bool) -> None:
    world = Shaky(make_facts((50, 50), slots=slots), params=replace(QUICK, caught_up_span_ms=10**9))
    world.feed(command("replay", spec=make_spec(stop=Never())))
    world.run_until(State.RUNNING)
    world.second(60)
    assert world.recovery().attempt.number == 1
    world.is_anew = is_anew
    world.applications["r1"].stuck.add(0)
    world.ends[0] += 5_000
    world.second(45)
    assert world.recovery().attempt.number == 2
    assert "5000 records are left" in world.recovery().attempt.last_error


@pytest.mark.parametrize(("spec", "attempts"), [(FOLLOWING, 2), (None, 1)])
def test_a_lane_that_never_started_is_an_error_only_behind_a_live_head(spec: object, attempts: int) -> None:
    world = World(LONG)
    world.feed(command("replay", spec=spec))
    world.applications["r1"].frozen.add(1)
    world.second(15)
    assert world.recovery().attempt.number == attempts


def test_an_application_of_which_no_lane_ever_starts_is_lost_although_its_driver_answers() -> None:
    world = World(LONG, params=QUICK)
    world.feed(command("replay"))
    world.applications["r1"].frozen |= {0, 1}
    world.second(40)
    assert world.recovery().attempt.number == 2
    assert "no lane of it started" in world.recovery().attempt.last_error


class Unreadable(World):
    """A world whose receipts cannot be read; `is_retriable` says whether waiting may help."""

    is_retriable = False

    def _run(self, effect: Effect) -> list[Event]:
        if isinstance(effect, ReadLedger):
            what = "no right to read recovery.receipts.v1"
            return [
                EffectFailed(
                    effect.recovery, "read_ledger", effect.attempt, "RCV-2012", what, self.is_retriable, effect.sequence
                )
            ]
        return super()._run(effect)


@pytest.mark.parametrize(("is_retriable", "within_s"), [(False, 10), (True, 300)])
@pytest.mark.parametrize("verb", ["", "pause", "stop"])
def test_a_drain_whose_receipts_cannot_be_read_ends_with_the_reason(
    is_retriable: bool, within_s: int, verb: str
) -> None:
    world = Unreadable(make_facts((100, 100)) if not verb else LONG)
    world.is_retriable = is_retriable
    world.feed(command("replay"))
    if verb:
        world.run_until(State.RUNNING)
        world.feed(command(verb, offset=1))
    failed = world.run_until(State.FAILED, seconds=within_s + 10)
    assert (failed.error_code, failed.stop.reason) == ("RCV-3004", StopReason.TARGET_UNAVAILABLE)
    assert "no right to read recovery.receipts.v1" in failed.why
    assert "the positions are the last ones heard" in failed.why


class SlowLedger(World):
    """A world in which questions for receipts wait in `asked` until the test answers them."""

    def __init__(self) -> None:
        self.asked: list[ReadLedger] = []
        super().__init__(LONG)

    def _run(self, effect: Effect) -> list[Event]:
        if isinstance(effect, ReadLedger):
            self.asked.append(effect)
            return []
        return super()._run(effect)


def test_a_late_word_about_an_older_question_does_not_end_the_present_one() -> None:
    world = SlowLedger()
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.feed(command("pause", offset=1))
    world.second(5)
    world.feed(command("stop", offset=2))
    world.second(5)
    first, last = world.asked[0], world.asked[-1]
    assert first.sequence != last.sequence
    world.feed(EffectFailed("r1", "read_ledger", first.attempt, "RCV-2012", "no right", False, first.sequence))
    world.second(2)
    assert world.recovery().state is State.STOPPING
    world.feed(EffectFailed("r1", "read_ledger", last.attempt, "RCV-2012", "no right", False, last.sequence))
    world.second(2)
    assert world.recovery().state is State.FAILED


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize(("verb", "state"), [("pause", State.PAUSING), ("stop", State.STOPPING)])
def test_receipts_are_waited_for_as_long_as_their_reading_gets_on(verb: str, state: State, is_lost: bool) -> None:
    world = SlowLedger()
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    if is_lost:
        world.applications["r1"].silent = True
    world.feed(command(verb, offset=1))
    world.second(100 if is_lost else 5)
    [asked] = world.asked[-1:]
    assert asked.fence is is_lost
    count = len(world.asked)
    for _ in range(60):
        world.feed(LedgerMoved("r1", asked.attempt, asked.sequence))
        world.second(5)
    assert (world.recovery().state, len(world.asked)) == (state, count), "nor is it asked again"
    failed = world.run_until(State.FAILED, seconds=260)  # a pause that fails asks once more before it ends
    assert "the receipts could not be read for 12" in failed.why


@pytest.mark.parametrize("set_back_ms", [0, 3_600_000])
def test_an_application_that_does_not_leave_is_ended_in_time_also_when_the_clock_was_set_back(set_back_ms: int) -> None:
    world = running()
    world.feed(command("stop", "r1", "s"))
    world.run_until(State.STOPPED)
    world.applications["r1"].alive = False  # it does not work, and its exit is told by nobody
    world.now_ms -= set_back_ms
    world.restart_daemon()
    world.second(15)
    assert world.recovery().attempt.released
