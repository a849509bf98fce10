"""A verification, of a replay and on its own, is paused, resumed, throttled, stopped and loses attempts like a copy."""

import re
from dataclasses import replace

import pytest

from recoveryd.kernel.states import State, StopReason
from recoveryd.live.events import OffsetsSampled
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.recovery.spec import AtOffset, AtTime, CaughtUp, Limits
from recoveryd.verification.spec import ComparedRef
from recoveryd_jobs.contract import Difference, LaneHeartbeat, Verification
from tests.builders.core import NOW_MS, command, make_facts, make_spec, make_target, make_verification
from tests.builders.world import PARAMS, Application, World, illegal_moves

MISSING = Verification(
    "mismatch",
    150,
    149,
    "d",
    (Difference("missing", 0, 7, 0, 7, 1, "source offset 7 is not in the target"),),
    "",
    "source",
)


def verifying_world(seconds: int = 30, **limits: int) -> World:
    """A replay whose copy is over, five seconds into its verification."""
    world = World(speed=100)
    world.verify_s = seconds
    world.feed(command("replay", spec=make_spec(limits=Limits(**limits))))
    world.run_until(State.VERIFYING)
    world.second(5)
    return world


def states(world: World) -> list[State]:
    return [m[2] for m in world.moves]


def progress(recovery: Recovery) -> tuple[int, int]:
    return recovery.progress.verified_offsets, recovery.progress.offsets_to_verify


def test_a_verification_shows_what_both_sides_have_given_and_how_fast() -> None:
    recovery = verifying_world().recovery()
    done, whole = progress(recovery)
    assert (whole, recovery.progress.bytes_per_s, recovery.progress.records) == (600, 2000.0, 150)
    assert 0 < done < whole
    assert recovery.progress.eta_seconds == (whole - done) / 20
    assert re.fullmatch(r"2 tasks compare at 2.0 kB/s, \d+%, 2\d s left", recovery.why)


def test_a_pause_while_verifying_reads_nothing_and_resume_goes_on_in_the_same_application() -> None:
    world = verifying_world()
    world.feed(command("pause", offset=1))
    assert world.recovery().state is State.PAUSING
    paused = world.run_until(State.PAUSED)
    assert paused.why == "paused: the verification reads nothing"
    assert (paused.progress.bytes_per_s, paused.progress.eta_seconds) == (0.0, None)
    world.second(20)
    assert (world.recovery().state, progress(world.recovery())) == (State.PAUSED, progress(paused))
    world.feed(command("resume", offset=2))
    assert world.recovery().state is State.VERIFYING
    done = world.run_until(State.COMPLETED)
    assert (done.attempt.number, done.verification.result, illegal_moves(world)) == (1, "match", [])


def test_no_ledger_is_read_to_pause_or_stop_a_verification() -> None:
    for verb, end in (("pause", State.PAUSED), ("stop", State.STOPPED)):
        world = verifying_world()
        world.failing = {"ReadLedger"}
        world.feed(command(verb, offset=1))
        world.run_until(end, seconds=5)


def test_a_stop_while_verifying_ends_stopped_with_exact_positions_and_no_verdict() -> None:
    world = verifying_world()
    world.feed(command("stop", offset=1))
    stopped = world.recovery()
    assert (stopped.state, stopped.stop.reason) == (State.STOPPED, StopReason.OPERATOR)
    assert [(r.stop, r.copied, r.unexplained) for r in stopped.completeness] == [(100, 100, 0), (50, 50, 0)]
    assert (stopped.verification.result, stopped.verification.why) == (
        "skipped",
        "it ended before it had a verdict: stopped by //ops/alice: because",
    )
    world.second(3)
    assert not world.applications["r1"].alive


def test_an_attempt_lost_while_verifying_starts_the_verification_again() -> None:
    world = verifying_world()
    world.applications["r1"].alive = False
    world.second(8)
    assert world.recovery().state is State.VERIFYING
    done = world.run_until(State.COMPLETED)
    assert (done.attempt.number, done.verification.result, progress(done)) == (2, "match", (600, 600))


def test_attempts_that_die_again_and_again_while_verifying_end_it_as_failed() -> None:
    world = verifying_world(seconds=1_000)
    for _ in range(200):
        world.second()
        for app in world.applications.values():
            app.alive = False
    failed = world.run_until(State.FAILED)
    assert (failed.attempt.number, failed.verification.result) == (PARAMS.max_failures, "skipped")
    assert sum(r.unexplained for r in failed.completeness) == 0


def test_a_paused_verification_survives_a_restart_of_daemon_and_application() -> None:
    world = verifying_world()
    world.feed(command("pause", offset=1))
    world.run_until(State.PAUSED)
    world.restart_daemon(applications_die=True)
    world.second(30)
    assert world.recovery().state is State.PAUSED
    world.feed(command("resume", offset=2))
    assert world.recovery().state is State.VERIFYING
    done = world.run_until(State.COMPLETED)
    assert (done.attempt.number, done.verification.result) == (2, "match")


def test_a_restarted_daemon_adopts_a_verification_that_goes_on() -> None:
    world = verifying_world()
    world.restart_daemon()
    done = world.run_until(State.COMPLETED)
    assert (done.attempt.number, "attempt_adopted" in [n.type for n in world.notices]) == (1, True)


def test_a_pause_of_a_verification_that_does_not_answer_lets_the_application_go() -> None:
    world = verifying_world()
    world.applications["r1"].silent = True
    world.feed(command("pause", offset=1))
    paused = world.run_until(State.PAUSED, seconds=30)
    assert paused.attempt.released


def test_throttle_changes_the_directive_of_the_verification() -> None:
    world = verifying_world()
    decision = world.feed(command("throttle", offset=1, max_bytes_per_s=1e6))
    assert [(d.max_bytes_per_s, d.wanted) for d in decision.directives] == [(1e6, "verify")]


def test_the_lease_is_renewed_while_it_verifies_and_while_that_is_paused() -> None:
    world = verifying_world()
    for wanted in ("verify", "pause"):
        known = len(world.directives)
        world.second(20)
        assert {d.wanted for d in world.directives[known:]} == {wanted}
        if wanted == "verify":
            world.feed(command("pause", offset=1))
            world.run_until(State.PAUSED)


def test_limits_of_time_end_a_verification_on_purpose() -> None:
    for limits, reason in (
        ({"max_runtime_ms": 20_000}, StopReason.MAX_RUNTIME),
        ({"deadline_ms": NOW_MS + 20_000}, StopReason.DEADLINE),
    ):
        stopped = verifying_world(**limits).run_until(State.STOPPED)
        assert (stopped.stop.reason, stopped.verification.result) == (reason, "skipped")


def test_a_following_replay_is_judged_once_and_then_verified_whatever_the_live_head_does() -> None:
    world = World(speed=50)
    world.live_per_s, world.verify_s = 3, 60
    world.feed(command("replay", spec=make_spec(stop=CaughtUp())))
    world.run_until(State.VERIFYING)
    world.live_per_s = 0
    done = world.run_until(State.COMPLETED)
    assert (done.stop.mode, [n.type for n in world.notices].count("auto_stop")) == ("caught_up", 1)


def test_a_task_that_falls_silent_loses_the_attempt_and_the_next_one_begins_to_read_anew() -> None:
    world = verifying_world()
    world.applications["r1"].frozen_tasks.add(1)
    world.second(8)
    [lost] = [n.data for n in world.notices if n.type == "attempt_lost"]
    assert re.fullmatch(r"nothing was heard of task 1 for \d s", str(lost["why"]))
    assert (lost["code"], world.recovery().state) == ("internal", State.VERIFYING)
    done = world.run_until(State.COMPLETED)
    assert (done.attempt.number, done.verification.result, progress(done)) == (2, "match", (600, 600))


class OneTaskEnds(World):
    """Task 1 of its verification is done long before task 0, and says nothing after that."""

    def _read(self, app: Application, wanted: str) -> None:
        app.frozen_tasks = {1} if 1 < app.left_to_read < app.to_read else set()
        super()._read(app, wanted)

    def _reader(self, app: Application, task: int, state: str) -> LaneHeartbeat:
        return super()._reader(app, task, "done" if task == 1 else state)


def test_a_task_that_is_done_or_was_never_heard_may_be_silent() -> None:
    ended, never = OneTaskEnds(speed=100), World(speed=100)
    for world in (ended, never):
        world.verify_s = 30
        world.feed(command("replay"))
        world.run_until(State.VERIFYING)
    never.applications["r1"].frozen_tasks.add(1)
    never.second(25)
    never.applications["r1"].frozen_tasks.clear()
    for world in (ended, never):
        assert world.run_until(State.COMPLETED).attempt.number == 1


def test_a_task_that_fell_silent_in_a_pause_costs_nothing_before_the_verification_goes_on() -> None:
    world = verifying_world()
    world.feed(command("pause", offset=1))
    world.run_until(State.PAUSED)
    world.applications["r1"].frozen_tasks.add(1)
    world.second(30)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.PAUSED, 1)
    world.feed(command("resume", offset=2))
    assert world.run_until(State.COMPLETED).attempt.number == 2


class Stalls(World):
    """The tasks of its verification come to `until` of 10,000 offsets in an attempt, by its number, and no further;
    they say so in `says`, or as it is.
    """

    says = ""

    def __init__(self, until: dict[int, int], **params: int) -> None:
        self.until = until
        super().__init__(params=replace(PARAMS, stall_after_ms=20_000, **{"stop_wait_ms": 20_000, **params}), speed=100)
        self.verify_s = 1_000
        self.feed(command("replay"))
        self.run_until(State.VERIFYING)

    def _reader(self, app: Application, task: int, state: str) -> LaneHeartbeat:
        beat = super()._reader(app, task, self.says or state)
        at = min(beat.verified_offsets, self.until.get(app.attempt, 10_000))
        return replace(beat, verified_records=at, verified_offsets=at)


def test_a_verification_that_stalls_gets_another_attempt_and_fails_when_that_comes_no_further() -> None:
    world = Stalls({1: 30, 2: 30})
    world.second(60)
    assert world.recovery().attempt.number == 1  # its tasks may say why, which says more
    world.second(35)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.VERIFYING, 2)
    [lost] = [n.data for n in world.notices if n.type == "attempt_lost"]
    assert lost["code"] == "stalled"
    failed = world.run_until(State.FAILED)
    assert (failed.stop.reason, failed.error_code, failed.attempt.number) == (StopReason.STALLED, "RCV-3009", 2)
    assert "the verification read and compared nothing for" in failed.why
    assert "at 60 of 20,000 offsets, in two attempts in a row" in failed.why
    assert [(r.copied, r.unexplained) for r in failed.completeness] == [(100, 0), (50, 0)]


def test_a_verification_may_say_itself_for_which_transaction_it_waits_however_long_that_may_take() -> None:
    world = Stalls({1: 30}, stop_wait_ms=200_000)
    world.second(250)
    assert world.recovery().attempt.number == 1
    world.second(40)
    assert world.recovery().attempt.number == 2


def test_a_verification_that_came_further_before_it_stalled_again_gets_another_attempt() -> None:
    world = Stalls({1: 30, 2: 50, 3: 50})
    failed = world.run_until(State.FAILED)
    assert (failed.attempt.number, failed.stop.reason) == (3, StopReason.STALLED)


def test_tasks_without_a_lease_do_not_stall() -> None:
    world = Stalls({1: 30})
    world.says = "leaseless"
    world.second(120)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.VERIFYING, 1)


def test_an_application_of_which_no_task_is_ever_heard_is_lost_although_its_driver_answers() -> None:
    world = Stalls({})
    world.applications["r1"].alive = False  # the copy ended with it, so that the next one begins with the proof
    world.run_until(State.VERIFYING)
    while world.recovery().attempt.number < 2:
        world.second()
    world.applications["r1"].frozen_tasks |= {0, 1}
    world.second(30)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.VERIFYING, 3)
    assert "no task of the verification was heard in" in world.recovery().attempt.last_error


class OffsetsStandStill(World):
    """The tasks of its verification pass no offset; `moving`: the count of their heartbeats that changes all
    the same.
    """

    moving = ""

    def _reader(self, app: Application, task: int, state: str) -> LaneHeartbeat:
        beat = super()._reader(app, task, state)
        still = replace(beat, verified_records=7, verified_offsets=0, offsets_to_verify=0)
        return replace(still, **{self.moving: beat.verified_records}) if self.moving else still


@pytest.mark.parametrize(
    ("moving", "told"),
    [
        ("verified_records", State.VERIFYING),  # the closer look reads records a second time
        ("verified_steps", State.VERIFYING),  # what was read is compared on disk
        ("", StopReason.STALLED),
    ],
)
def test_a_verification_that_passes_no_offset_stalls_only_if_it_does_nothing_else(moving: str, told: object) -> None:
    world = OffsetsStandStill(params=replace(PARAMS, stall_after_ms=20_000, stop_wait_ms=20_000), speed=100)
    world.moving, world.verify_s = moving, 1_000
    world.feed(command("replay"))
    world.run_until(State.VERIFYING)
    world.second(190)
    recovery = world.recovery()
    assert (recovery.stop.reason if recovery.state is State.FAILED else recovery.state) == told


def test_a_topic_that_is_deleted_under_a_verification_ends_it() -> None:
    world = verifying_world()
    for _ in range(2):
        world.feed(OffsetsSampled((), (("main", "flights.v2"),)))
    assert (world.recovery().state, world.recovery().stop.reason) == (State.FAILED, StopReason.TARGET_UNAVAILABLE)


def test_a_verification_on_its_own_goes_from_starting_to_verifying_and_ends_completed() -> None:
    world = World()
    world.verify_s = 5
    world.feed(command("verify"))
    done = world.run_until(State.COMPLETED)
    assert [a.kind for a in world.answers] == ["accepted"]
    assert states(world) == [State.STARTING, State.VERIFYING, State.COMPLETED]
    assert (done.kind, done.completeness, done.stop, done.verification.result) == ("verification", (), None, "match")
    assert (done.plan.lanes, done.plan.target_starts, done.plan.target_stops) == (
        (),
        ((0, 0), (1, 0)),
        ((0, 100), (1, 50)),
    )
    world.second(3)
    assert done.attempt.number == 1
    assert not world.applications["r1"].alive


def test_differences_complete_a_verification_and_fail_a_replay_with_the_same_code() -> None:
    for verb, end in (("verify", State.COMPLETED), ("replay", State.FAILED)):
        world = World()
        world.verdict = MISSING
        world.feed(command(verb))
        ended = world.run_until(end)
        assert (ended.error_code, ended.verification) == ("RCV-3007", MISSING)
        assert "in 1 place; the first: missing, source offset 7 is not in the target" in ended.why


def test_a_verification_on_its_own_is_paused_before_it_began_and_stopped_without_a_ledger() -> None:
    world = World()
    world.verify_s = 20
    world.failing = {"ReadLedger"}
    world.feed(command("verify"))
    world.feed(command("pause", offset=1))
    assert world.run_until(State.PAUSED).progress.verified_offsets == 0
    world.feed(command("resume", offset=2))
    world.run_until(State.VERIFYING)
    world.feed(command("stop", offset=3))
    stopped = world.recovery()
    assert (stopped.state, stopped.completeness, stopped.verification.result) == (State.STOPPED, (), "skipped")


def test_a_verification_is_in_nobodys_way() -> None:
    world = World(speed=1)
    world.verify_s = 50
    world.feed(command("replay", "copy", offset=0))
    world.feed(command("verify", "check", offset=1))
    world.feed(command("replay", "again", offset=2))
    assert [(a.subject, a.code) for a in world.answers] == [("copy", ""), ("check", ""), ("again", "RCV-2007")]


def test_a_dry_run_of_a_verification_pins_both_sides_and_starts_nothing() -> None:
    world = World()
    world.feed(command("verify", spec=make_verification(dry_run=True)))
    planned = world.recovery()
    assert (planned.state, world.launches, planned.plan.records_at_most, planned.plan.bytes_at_most) == (
        State.PLANNED,
        [],
        150,
        30_000,
    )
    world.feed(command("verify", command_id="c2", offset=1, spec=make_verification(plan_hash=planned.plan.hash)))
    assert world.run_until(State.COMPLETED).plan.hash == planned.plan.hash


def test_an_empty_range_is_compared_as_well_because_the_target_may_not_be_empty() -> None:
    world = World(make_facts((0, 0), target_ends=(3, 0)))
    world.verify_s = 1
    world.feed(command("verify"))
    world.run_until(State.COMPLETED)
    assert world.launches == [("r1", 1)]


def test_large_plans_of_verifications_wait_for_approval() -> None:
    world = World(params=replace(PARAMS, approval_above_records=10))
    world.feed(command("verify"))
    assert world.recovery().state is State.AWAITING_APPROVAL
    world.feed(command("approve", offset=1, plan_hash=world.recovery().plan.hash))
    assert world.run_until(State.COMPLETED)


def test_what_a_verification_may_not_compare_is_refused_by_name() -> None:
    facts = make_facts()
    for spec, seen, code in (
        (make_verification(), make_facts(no_target=True), "RCV-2004"),
        (make_verification(), replace(facts, source=None), "RCV-2001"),
        (make_verification(partitions=(7,)), facts, "RCV-2002"),
        (make_verification(), make_facts(target=make_target(1), target_ends=(10,)), "RCV-2006"),
        (make_verification(target=ComparedRef("own")), facts, "RCV-1018"),
        (make_verification(target=ComparedRef("flights")), facts, "RCV-1019"),
        (make_verification(target=ComparedRef("flights.v2", "other")), facts, "RCV-1016"),
        (make_verification(profile="large"), facts, "RCV-1017"),
    ):
        world = World(seen, replace(PARAMS, own_topics=frozenset({"own"})))
        world.feed(command("verify", spec=spec))
        assert [(a.kind, a.code) for a in world.answers] == [("rejected", code)], spec


def test_internal_topics_may_be_compared_because_nothing_is_written() -> None:
    world = World()
    world.feed(command("verify", spec=make_verification(target=ComparedRef("__consumer_offsets"))))
    assert world.answers[0].kind == "accepted"


def timed() -> PlanFacts:
    """Facts about both logs, with the offsets of two times."""
    facts = make_facts((100, 50), target_ends=(90, 40))
    return replace(
        facts,
        source_partitions=tuple(replace(p, start_at=20, stop_at=40) for p in facts.source_partitions),
        target_partitions=tuple(replace(p, start_at=10, stop_at=30) for p in facts.target_partitions),
    )


def test_times_choose_records_and_each_log_is_read_from_the_first_one_that_is_so_new_to_its_end() -> None:
    world = World(timed())
    world.feed(command("verify", spec=make_verification(AtTime(1_000), AtTime(2_000))))
    plan = world.recovery().plan
    assert (plan.from_time_ms, plan.to_time_ms) == (1_000, 2_000)
    assert [(p.start, p.stop) for p in plan.partitions] == [(20, 100), (20, 50)]
    assert (plan.target_starts, plan.target_stops) == (((0, 10), (1, 10)), ((0, 90), (1, 40)))


def test_a_beginning_of_the_target_says_where_to_read_it_and_chooses_nothing() -> None:
    world = World(timed())
    compared = ComparedRef("flights.v2", start=AtTime(1_000))
    world.feed(command("verify", spec=make_verification(AtOffset(7), target=compared)))
    plan = world.recovery().plan
    assert (plan.from_time_ms, plan.to_time_ms, plan.target_starts) == (None, None, ((0, 10), (1, 10)))


def test_times_between_which_nothing_can_lie_or_that_the_target_does_not_keep_are_refused() -> None:
    stamped = make_target(message_timestamp_type="LogAppendTime")
    for spec, facts, code, why in (
        (make_verification(AtTime(2_000), AtTime(2_000)), timed(), "RCV-2010", "source.from is not before source.to"),
        (make_verification(AtTime(1_000)), replace(timed(), target=stamped), "RCV-1005", "name offsets"),
    ):
        world = World(facts)
        world.feed(command("verify", spec=spec))
        [answer] = world.answers
        assert (answer.kind, answer.code) == ("rejected", code)
        assert why in answer.message


def test_an_approved_verification_starts_only_if_both_topics_are_as_planned() -> None:
    for facts, why in (
        (make_facts((100, 50, 10), target=make_target(2)), "topic flights has 3 partitions, planned were 2"),
        (make_facts(no_target=True), "topic flights.v2 does not exist any more"),
        (make_facts(target=make_target(3)), "has 3 partitions, planned were 2"),
    ):
        world = World(params=replace(PARAMS, approval_above_records=10))
        world.feed(command("verify"))
        world.facts = facts
        world.feed(command("approve", offset=1, plan_hash=world.recovery().plan.hash))
        found = world.recovery()
        assert (found.state, found.error_code, world.launches) == (State.REJECTED, "RCV-1012", [])
        assert why in found.why
