"""Whole lives of replays in a simulated world: their states, sentences and events, and the sums of their numbers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from recoveryd.kernel.effects import Effect
from recoveryd.kernel.events import Event, Seen
from recoveryd.kernel.states import State, StopReason
from recoveryd.live.events import TopicSample
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.ending import FAILURES
from recoveryd.recovery.events import AttemptExited, EffectFailed, FactsGathered
from recoveryd.recovery.observed import Candidate, Heard, Observed
from recoveryd.recovery.params import Params
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import CaughtUp, Latest, Limits, Never
from recoveryd.recovery.stops.caught_up import evaluate_caught_up, is_caught_up, judge_partitions
from recoveryd.replay.spec import TargetRef
from recoveryd_jobs.contract import ERROR_CODES, DriverHeartbeat, LaneHeartbeat, LanePosition, Verification
from tests.builders.core import NOW_MS, command, make_facts, make_spec
from tests.builders.world import PARAMS, World, illegal_moves


def kinds(world: World) -> list[str]:
    return [a.kind for a in world.answers]


def test_a_bounded_replay_goes_from_command_to_verified_completion() -> None:
    world = World()
    world.feed(command("replay"))
    done = world.run_until(State.COMPLETED)
    assert kinds(world) == ["accepted"]
    assert (done.stop.reason, done.stop.mode) == (StopReason.ZERO_LAG, "bounded")
    assert [(r.partition, r.start, r.stop, r.copied, r.unexplained) for r in done.completeness] == [
        (0, 0, 100, 100, 0),
        (1, 0, 50, 50, 0),
    ]
    assert done.verification.result == "match"
    assert [m[2] for m in world.moves if m[0] == "r1"] == [
        State.STARTING,
        State.RUNNING,
        State.VERIFYING,
        State.COMPLETED,
    ]


def test_the_application_of_an_ended_recovery_is_told_to_exit() -> None:
    world = World()
    world.feed(command("replay"))
    world.run_until(State.COMPLETED)
    world.second(3)
    assert world.recovery().attempt.released
    assert not world.applications["r1"].alive


def test_a_range_without_offsets_completes_without_an_application() -> None:
    world = World(make_facts((0, 0)))
    world.feed(command("replay"))
    done = world.recovery()
    assert (done.state, done.attempt.number, world.launches) == (State.COMPLETED, 0, [])
    assert [(r.offsets, r.copied, r.unexplained) for r in done.completeness] == [(0, 0, 0), (0, 0, 0)]


def test_a_missing_target_is_created_before_the_first_attempt() -> None:
    world = World(make_facts(no_target=True))
    world.feed(command("replay", spec=make_spec(target=TargetRef("flights.v2", create=True))))
    assert world.recovery().plan.target.topic_id == "target-topic-id"
    assert world.run_until(State.COMPLETED).verification.result == "match"


def test_a_dry_run_ends_planned_and_its_id_can_be_used_to_run_the_plan() -> None:
    world = World()
    world.feed(command("replay", spec=make_spec(dry_run=True)))
    planned = world.recovery()
    assert (planned.state, world.launches) == (State.PLANNED, [])
    world.feed(command("replay", command_id="c2", offset=1, spec=make_spec(plan_hash=planned.plan.hash)))
    assert world.run_until(State.COMPLETED).plan.hash == planned.plan.hash


def test_a_plan_that_changed_since_is_rejected() -> None:
    world = World()
    world.feed(command("replay", spec=make_spec(plan_hash="sha256:other")))
    assert (kinds(world), world.answers[0].code, world.recovery().state) == (["rejected"], "RCV-1012", State.REJECTED)


def test_a_following_replay_stops_by_itself_at_zero_lag() -> None:
    world = World(speed=50)
    world.live_per_s = 3
    world.feed(command("replay", spec=make_spec(stop=CaughtUp())))
    done = world.run_until(State.COMPLETED)
    assert (done.stop.reason, done.stop.mode) == (StopReason.ZERO_LAG, "caught_up")
    assert done.stop.evidence["evaluations"] >= PARAMS.caught_up_evaluations
    assert all(r.stop == world.receipts["r1"][r.partition] and r.unexplained == 0 for r in done.completeness)


def test_a_row_of_evaluations_ends_with_one_that_holds_and_not_by_time_alone() -> None:
    params = replace(PARAMS, caught_up_span_ms=30_000)
    at_ms = NOW_MS
    world = World(speed=50)
    world.feed(command("replay", spec=make_spec(stop=CaughtUp())))
    world.run_until(State.RUNNING)
    recovery, plan = world.recovery(), world.recovery().plan
    assert plan is not None

    def evaluated(lags: Sequence[int], *, every_ms: int = 5_000) -> Candidate | None:
        """After samples that are `every_ms` apart, with 100 records in each period."""
        candidate, samples = None, ()
        for number, lag in enumerate(lags):
            now_ms, end = at_ms + number * every_ms, 10_000 + 100 * number
            ends = dict.fromkeys((p.partition for p in plan.partitions), end)
            sample = TopicSample("main", "flights", plan.source.topic_id, {}, ends, ends, now_ms, len(ends))
            samples = (*samples, sample)[-20:]
            rows = tuple(LanePosition(p, end - lag, None, "copying") for p in ends)
            beat = LaneHeartbeat(recovery.id, 1, 0, 1, "copying", False, 0.0, 0.0, rows, "")
            seen = Observed(lanes={0: Heard(beat, now_ms - 100)}, candidate=candidate)
            candidate = evaluate_caught_up(recovery, seen, SampleHistory(samples), now_ms, params)
            again = replace(seen, candidate=candidate)
            assert evaluate_caught_up(recovery, again, SampleHistory(samples), now_ms, params) == candidate
        return candidate

    near = [0, 0, 0, 0, 0, 300, 400, 500, 550]
    found = evaluated(near)
    assert found is not None
    assert not is_caught_up(found, at_ms + 5_000 * len(near), params), "30 s passed, but the last ones do not hold"
    found = evaluated([0] * 9)
    assert is_caught_up(found, at_ms + 40_000, params)
    assert not is_caught_up(found, at_ms + 80_000, params), "nobody looked for long"


def test_a_partition_that_is_held_is_not_caught_up_and_says_why() -> None:
    ends = {0: 100, 1: 100}
    sample = TopicSample("main", "flights", "id", {}, ends, ends, NOW_MS, 2)
    rows = (LanePosition(0, 90, None, "blocked"), LanePosition(1, 100, None, "copying"))
    beat = LaneHeartbeat("r1", 1, 0, 1, "copying", False, 0.0, 0.0, rows, "")
    seen = Observed(lanes={0: Heard(beat, NOW_MS - 100, held=frozenset({0}))})
    clauses = judge_partitions([0, 1], seen, SampleHistory((sample,)), NOW_MS, PARAMS, {})
    assert [(c.holds, c.why) for c in clauses] == [
        (False, "lag 10, held by a foreign transaction"),
        (True, "lag 0"),
    ]


def test_a_following_replay_that_falls_behind_does_not_stop() -> None:
    world = World(speed=10)
    world.live_per_s = 12
    world.feed(command("replay", spec=make_spec(stop=CaughtUp())))
    world.second(120)
    assert world.recovery().state is State.RUNNING


def test_never_follows_until_told() -> None:
    world = World(speed=50)
    world.feed(command("replay", spec=make_spec(stop=Never())))
    world.second(120)
    assert world.recovery().state is State.RUNNING
    world.feed(command("stop", offset=1))
    stopped = world.run_until(State.STOPPED)
    assert (stopped.stop.reason, [r.copied for r in stopped.completeness]) == (StopReason.OPERATOR, [100, 50])


@pytest.mark.scenario("S-WIKI-C1", "S-WIKI-C1a", "S-WIKI-C1c")
def test_pause_is_acknowledged_only_when_drained_and_resume_goes_on_in_the_same_application() -> None:
    world = World(speed=5)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.feed(command("pause", offset=1))
    assert world.recovery().state is State.PAUSING
    paused = world.run_until(State.PAUSED)
    told = [n for n in world.notices if n.type == "recovery_paused"][-1]
    assert told.data["positions"] == [{"partition": p, "position": at} for p, at in world.receipts["r1"].items()]
    world.second(20)
    assert world.recovery().progress == replace(
        paused.progress, **{f: getattr(world.recovery().progress, f) for f in ("records_per_s", "bytes_per_s")}
    )
    world.feed(command("resume", offset=2))
    assert world.run_until(State.COMPLETED).attempt.number == 1


@pytest.mark.scenario("S-WIKI-C1c")
@pytest.mark.parametrize("is_said_later", [False, True])
def test_a_pause_that_lets_the_application_go_does_so_once_it_is_paused_and_resume_starts_another(
    is_said_later: bool,
) -> None:
    world = World(speed=5)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.feed(command("pause", offset=1, release=not is_said_later))
    world.run_until(State.PAUSED)
    if is_said_later:
        assert not world.recovery().attempt.released
        world.feed(command("pause", command_id="again", offset=2, release=True))
    world.second(2)
    assert (world.recovery().state, world.recovery().attempt.released) == (State.PAUSED, True)
    world.restart_daemon(applications_die=True)
    world.second(30)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.PAUSED, 1)
    world.feed(command("resume", offset=3))
    world.run_until(State.COMPLETED)
    assert (world.recovery().attempt.number, world.recovery().releases) == (2, False)


@pytest.mark.scenario("S-WIKI-C1")
def test_a_pause_survives_a_restart_of_daemon_and_application() -> None:
    world = World(speed=5)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.feed(command("pause", offset=1))
    world.run_until(State.PAUSED)
    before = dict(world.receipts["r1"])
    world.restart_daemon(applications_die=True)
    world.second(30)
    assert (world.recovery().state, world.receipts["r1"]) == (State.PAUSED, before)
    world.feed(command("resume", offset=2))
    assert world.run_until(State.COMPLETED).attempt.number == 2


def test_pausing_with_a_dead_application_fences_the_lanes_and_ends_paused() -> None:
    world = World(speed=5)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.applications["r1"].alive = False
    world.feed(command("pause", offset=1))
    assert world.run_until(State.PAUSED).attempt.released


def test_a_lost_application_is_followed_by_the_next_attempt() -> None:
    world = World(speed=5)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(2)
    world.applications["r1"].alive = False
    done = world.run_until(State.COMPLETED)
    assert (done.attempt.number, [n.data["why"] for n in world.notices if n.type == "attempt_lost"]) == (
        2,
        ["nothing was heard of it for 6 s"],
    )


def test_applications_that_never_progress_end_the_recovery_as_failed() -> None:
    world = World(speed=0)
    world.feed(command("replay"))
    for _ in range(200):
        world.second()
        for app in world.applications.values():
            app.alive = False
    failed = world.run_until(State.FAILED)
    assert failed.attempt.number == PARAMS.max_failures
    assert sum(r.unexplained for r in failed.completeness) == 0


def test_a_final_error_of_the_driver_fails_the_recovery_with_its_reason() -> None:
    world = World(speed=5)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.applications["r1"].alive = False
    world.feed(DriverHeartbeat("r1", 1, "failed", 1, None, "data_lost", "offsets [10, 20) of partition 0 are gone"))
    failed = world.run_until(State.FAILED)
    assert (failed.stop.reason, failed.error_code) == (StopReason.DATA_LOST, "RCV-3001")
    assert "offsets [10, 20) of partition 0 are gone" in failed.why


def test_a_verification_mismatch_is_never_completed() -> None:
    world = World()
    world.feed(command("replay"))
    world.run_until(State.VERIFYING)
    found = Verification("mismatch", 150, 149, "d")
    world.feed(DriverHeartbeat("r1", 1, "verified", 9, found))
    assert (world.recovery().state, world.recovery().error_code) == (State.FAILED, "RCV-3007")


def test_a_daemon_that_dies_before_its_effects_starts_the_next_attempt() -> None:
    world = World()
    world.lost_effects = True
    world.feed(command("replay"))
    world.restart_daemon()
    assert world.run_until(State.COMPLETED).verification.result == "match"
    assert kinds(world) == ["accepted"]


def test_a_restarted_daemon_adopts_a_running_application() -> None:
    world = World(speed=5)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.restart_daemon()
    assert world.run_until(State.COMPLETED).attempt.number == 1
    assert "attempt_adopted" in [n.type for n in world.notices]


def test_limits_end_a_recovery_on_purpose() -> None:
    for limits, reason in (
        (Limits(max_runtime_ms=5_000), StopReason.MAX_RUNTIME),
        (Limits(deadline_ms=1_800_000_006_000), StopReason.DEADLINE),
    ):
        world = World(speed=1)
        world.feed(command("replay", spec=make_spec(limits=limits)))
        stopped = world.run_until(State.STOPPED)
        assert (stopped.stop.reason, stopped.verification.result) == (reason, "skipped")


@pytest.mark.parametrize("limits", [Limits(max_runtime_ms=60_000), Limits(deadline_ms=NOW_MS + 60_000)])
def test_the_time_that_a_command_allows_passes_in_a_pause_too(limits: Limits) -> None:
    world = World(speed=1)
    world.feed(command("replay", spec=make_spec(limits=limits)))
    world.run_until(State.RUNNING)
    world.feed(command("pause", offset=1))
    world.run_until(State.PAUSED)
    world.second(40)
    assert world.recovery().state is State.PAUSED
    world.run_until(State.STOPPED, seconds=60)


def test_a_lane_that_ended_and_an_application_that_died_have_no_rate() -> None:
    world = World(make_facts((100, 10_000)), speed=5)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(1)
    assert world.recovery().progress.bytes_per_s == 1_000.0
    world.second(30)
    states = [h.heartbeat.state for h in world.state.of(RECOVERY).observed["r1"].lanes.values()]
    assert sorted(states) == ["copying", "done"]
    assert world.recovery().progress.bytes_per_s == 500.0
    world.applications["r1"].alive = False
    world.feed(AttemptExited("r1", 1, 137, "killed"))
    world.second(2)
    assert world.recovery().state is State.STARTING
    assert (world.recovery().progress.bytes_per_s, world.recovery().progress.records_per_s) == (0.0, 0.0)


def test_throttle_changes_the_directive_of_the_running_application() -> None:
    world = World(speed=1)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    decision = world.feed(command("throttle", offset=1, max_bytes_per_s=1e6))
    assert [(d.max_bytes_per_s, d.wanted, d.attempt) for d in decision.directives] == [(1e6, "run", 1)]
    assert world.recovery().effective_bytes_per_s == 1e6


def test_a_throttle_changes_what_it_names_and_nothing_else() -> None:
    world = World(speed=1)
    asked = Limits(max_bytes_per_s=5e6, max_records_per_s=70.0, max_records=90, weight=2.0, tier=3)
    world.feed(command("replay", spec=make_spec(limits=asked)))
    steps = (
        ({"max_bytes_per_s": 1e6}, replace(asked, max_bytes_per_s=1e6)),
        ({"max_bytes_per_s": None}, replace(asked, max_bytes_per_s=None)),
        ({"tier": None, "weight": 4.0}, replace(asked, max_bytes_per_s=None, weight=4.0, tier=0)),
        ({"mode": "fixed"}, replace(asked, max_bytes_per_s=None, weight=4.0, tier=0, mode="fixed")),
        (
            {"mode": "unlimited"},
            replace(asked, max_bytes_per_s=None, max_records_per_s=None, weight=4.0, tier=0, mode="unlimited"),
        ),
    )
    for number, (changes, limits) in enumerate(steps, 1):
        world.feed(command("throttle", command_id=f"t{number}", offset=number, **changes))
        assert world.recovery().limits == limits
    world.feed(command("throttle", command_id="t9", offset=9, mode="fixed"))
    assert (kinds(world)[-1], world.answers[-1].code) == ("rejected", "RCV-1006")
    assert world.recovery().limits == steps[-1][1]


def test_the_lease_is_renewed_while_lanes_run() -> None:
    world = World(speed=1)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(30)
    sequences = [d.sequence for d in world.directives]
    assert len(sequences) >= 3
    assert sequences == sorted(set(sequences))


def test_commands_get_exactly_one_answer_each() -> None:
    world = World()
    world.feed(command("replay", offset=0))
    world.feed(command("replay", offset=1, previous=Seen(0, "h")))
    world.feed(command("replay", offset=2, previous=Seen(0, "other")))
    world.feed(command("replay", command_id="c9", offset=3))
    world.feed(command("pause", subject="nobody", offset=4))
    world.feed(command("approve", offset=5, plan_hash="x"))
    assert [(a.kind, a.code) for a in world.answers] == [
        ("accepted", ""),
        ("duplicate", ""),
        ("rejected", "RCV-1009"),
        ("rejected", "RCV-1008"),
        ("rejected", "RCV-1010"),
        ("rejected", "RCV-1011"),
    ]
    assert world.state.daemon.applied_control_offset == 5


def test_a_large_plan_waits_for_approval_and_expires_without_one() -> None:
    params = replace(PARAMS, approval_above_records=10, approval_ttl_ms=20_000)
    world = World(params=params)
    world.feed(command("replay"))
    assert world.recovery().state is State.AWAITING_APPROVAL
    world.feed(command("approve", offset=1, plan_hash="wrong"))
    world.feed(command("approve", command_id="a2", offset=2, plan_hash=world.recovery().plan.hash))
    assert [a.code for a in world.answers] == ["", "RCV-1012", ""]
    assert world.run_until(State.COMPLETED)
    other = World(params=params)
    other.feed(command("replay"))
    assert other.run_until(State.EXPIRED).error_code == "RCV-1022"


def test_two_replays_into_one_target_are_refused_unless_both_append() -> None:
    world = World(speed=1)
    world.feed(command("replay", "a", offset=0))
    world.feed(command("replay", "b", offset=1))
    append = make_spec(target=TargetRef("flights.v2", on_existing="append"))
    world.feed(command("replay", "c", offset=2, spec=append))
    assert [(a.subject, a.code) for a in world.answers] == [("a", ""), ("b", "RCV-2007"), ("c", "RCV-2007")]
    other = World(speed=1)
    other.feed(command("replay", "a", offset=0, spec=append))
    other.feed(command("replay", "b", offset=1, spec=append))
    assert [a.kind for a in other.answers] == ["accepted", "accepted"]


def test_two_replays_into_different_partitions_of_one_target_are_refused_unless_both_append() -> None:
    """Without `append`, the proof counts records in any partition of the target."""
    world = World(speed=1)

    def replay(subject: str, partition: int, on_existing: str) -> None:
        plain = make_spec(target=TargetRef("flights.v2", on_existing=on_existing))
        spec = replace(plain, source=replace(plain.source, partitions=(partition,)))
        world.feed(command("replay", subject, offset=len(world.answers), spec=spec))

    replay("a", 0, "refuse")
    replay("b", 1, "refuse")
    replay("c", 1, "append")
    assert [(a.subject, a.code) for a in world.answers] == [("a", ""), ("b", "RCV-2007"), ("c", "RCV-2007")]
    world.run_until(State.COMPLETED, recovery_id="a")
    replay("d", 1, "append")
    replay("e", 0, "append")
    assert [(a.subject, a.code) for a in world.answers[3:]] == [("d", ""), ("e", "")]


def following(world: World, subject: str, source: str, target: str, stop: object = None) -> str:
    """The code with which a copy that follows is answered, "" = it is accepted."""
    plain = make_spec(stop=stop or Never(), target=TargetRef(target, on_existing="append"))  # type: ignore[arg-type]
    spec = replace(plain, source=replace(plain.source, topic=source))
    world.feed(command("replay", subject, offset=len(world.answers), spec=spec))
    return world.answers[-1].code


@pytest.mark.parametrize("stop", [Never(), CaughtUp()])
def test_copies_that_would_follow_each_other_in_a_ring_are_refused(stop: object) -> None:
    world = World(speed=1)
    assert [following(world, "a", "x", "y", stop), following(world, "b", "y", "x", stop)] == ["", "RCV-1019"]
    assert "recovery a follows x back into y" in world.answers[-1].message
    assert following(world, "c", "y", "z", stop) == ""
    assert following(world, "d", "z", "x", stop) == "RCV-1019"
    assert "recoveries a, c follow x back into z" in world.answers[-1].message
    assert following(world, "e", "w", "x", stop) == ""
    assert following(world, "f", "z", "x", Latest()) == "", "it ends, whatever comes back"
    world.feed(command("stop", "a", offset=50))
    world.run_until(State.STOPPED, recovery_id="a")
    assert following(world, "g", "z", "x", stop) == ""


def test_a_deleted_source_fails_a_running_recovery() -> None:
    world = World(speed=1)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    gone = replace(world.sample(), topics=(), missing=(("main", "flights"),))
    world.feed(gone)
    world.feed(gone)
    assert world.run_until(State.FAILED).stop.reason is StopReason.SOURCE_UNAVAILABLE


def test_no_world_here_made_an_illegal_move() -> None:
    world = World(params=Params())
    world.feed(command("replay"))
    world.run_until(State.COMPLETED)
    assert illegal_moves(world) == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("not_authorised", StopReason.SOURCE_UNAVAILABLE),
        ("target_not_authorised", StopReason.TARGET_UNAVAILABLE),
        ("slots_missing", StopReason.SPARK_UNAVAILABLE),
        ("executors_unfit", StopReason.SPARK_UNAVAILABLE),
        ("spark_unsecured", StopReason.SPARK_UNAVAILABLE),
    ],
)
def test_the_stop_reason_names_the_side_that_another_attempt_cannot_mend(error: str, reason: StopReason) -> None:
    world = World()
    world.feed(command("replay"))
    world.second(2)
    world.feed(DriverHeartbeat("r1", 1, "failed", 1, None, error, "it says why"))
    done = world.run_until(State.FAILED)
    assert (done.stop.reason, done.attempt.number) == (reason, 1)
    assert "it says why" in done.why


def lost_whys(world: World) -> list[tuple[object, object]]:
    return [(n.data["code"], n.data["why"]) for n in world.notices if n.type == "attempt_lost"]


def driver_fails(world: World, error: str, why: str) -> None:
    world.applications["r1"].alive = False
    world.feed(DriverHeartbeat("r1", 1, "failed", 99, None, error, why))


@pytest.mark.parametrize("state", [State.RUNNING, State.VERIFYING])
@pytest.mark.parametrize(("error", "code"), [("internal", None), ("topic_recreated", "RCV-3002")])
def test_a_driver_that_fails_while_it_comes_to_rest_costs_the_attempt_and_for_a_final_error_the_recovery(
    state: State, error: str, code: str | None
) -> None:
    world = World(make_facts((200, 200)), speed=50)
    world.verify_s = 100
    world.feed(command("replay"))
    world.run_until(state)
    world.feed(command("pause", offset=1))
    driver_fails(world, error, "this is why")
    assert lost_whys(world) == [(error, "this is why")]
    ended = world.run_until(State.PAUSED, State.FAILED)
    assert (ended.state, ended.error_code) == (State.FAILED if code else State.PAUSED, code)
    assert ended.attempt.released
    assert illegal_moves(world) == []


@pytest.mark.parametrize("error", ["internal", "topic_recreated"])
def test_a_driver_that_fails_while_it_is_stopped_is_told_of_and_the_stop_ends_as_it_was_meant(error: str) -> None:
    world = World(make_facts((10_000, 10_000)))
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.feed(command("stop", offset=1))
    driver_fails(world, error, "this is why")
    assert lost_whys(world) == [(error, "this is why")]
    stopped = world.run_until(State.STOPPED)
    assert (stopped.stop.reason, stopped.error_code) == (StopReason.OPERATOR, None)


@pytest.mark.parametrize(("error", "code"), [("internal", None), ("data_lost", "RCV-3001")])
def test_a_driver_that_fails_at_zero_lag_costs_the_attempt_and_for_a_final_error_the_recovery(
    error: str, code: str | None
) -> None:
    world = World(speed=50)
    world.live_per_s = 3
    world.feed(command("replay", spec=make_spec(stop=CaughtUp())))
    world.run_until(State.STOPPING)
    driver_fails(world, error, "offsets [10, 20) of partition 0 are gone")
    ended = world.run_until(State.COMPLETED, State.FAILED)
    assert lost_whys(world) == [(error, "offsets [10, 20) of partition 0 are gone")]
    assert (ended.state, ended.error_code) == (State.FAILED if code else State.COMPLETED, code)
    assert ended.stop.reason is (StopReason.DATA_LOST if code else StopReason.ZERO_LAG)
    if code:
        assert "offsets [10, 20) of partition 0 are gone" in ended.why


class NeverStarts(World):
    """A world in which no application can be started; `is_retriable` says whether trying again may help."""

    is_retriable = False

    def _run(self, effect: Effect) -> list[Event]:
        if isinstance(effect, LaunchAttempt):
            code, what = ("RCV-3012", "no memory") if self.is_retriable else ("RCV-4007", "no java on PATH")
            return [EffectFailed(effect.recovery, "launch", effect.attempt, code, what, self.is_retriable)]
        return super()._run(effect)


@pytest.mark.parametrize(
    ("is_retriable", "code", "attempts"), [(False, "RCV-4007", 1), (True, "RCV-3012", PARAMS.max_failures)]
)
@pytest.mark.parametrize("verb", ["replay", "verify"])
def test_an_application_that_cannot_be_started_ends_the_recovery_with_the_code_of_that(
    verb: str, is_retriable: bool, code: str, attempts: int
) -> None:
    world = NeverStarts()
    world.is_retriable = is_retriable
    world.feed(command(verb))
    failed = world.run_until(State.FAILED)
    assert (failed.error_code, failed.stop.reason) == (code, StopReason.SPARK_UNAVAILABLE)
    assert failed.attempt.number == attempts
    assert ("no memory" if is_retriable else "no java on PATH") in failed.why


def test_an_application_that_cannot_be_started_keeps_a_pause_from_nothing() -> None:
    world = World()
    world.lost_effects = True
    world.feed(command("replay"))
    world.feed(FactsGathered("r1", world.facts))
    world.feed(command("pause", offset=1))
    world.lost_effects = False
    world.feed(EffectFailed("r1", "launch", 1, "RCV-4007", "no java on PATH", False))
    assert world.run_until(State.PAUSED).attempt.released


def test_every_error_of_a_job_has_a_stop_reason_of_its_own() -> None:
    assert set(ERROR_CODES) - set(FAILURES) == {"fenced"}  # for which another attempt helps


def test_throttles_keep_no_pause_waiting_for_a_lane_that_hangs() -> None:
    world = World(make_facts((100_000, 100_000)))
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.applications["r1"].frozen = {0}
    world.feed(command("pause", offset=1))
    for nth in range(24):
        world.second(5)
        world.feed(command("throttle", command_id=f"t{nth}", offset=2 + nth, max_bytes_per_s=1e6 + nth))
        assert world.answers[-1].kind == "accepted"
    assert world.recovery().state is State.PAUSED


def test_facts_of_a_first_question_that_were_out_of_date_when_it_was_repeated_make_no_plan() -> None:
    world = World(speed=5)
    appends = make_spec(target=TargetRef("copy", on_existing="append"))
    world.feed(command("replay", "r1", spec=appends))
    world.lost_effects = True  # the question of r2 is under way for as long as r1 copies
    world.feed(command("replay", "r2", spec=appends))
    version = world.recovery("r2").version
    world.lost_effects = False
    world.failing.add("GatherFacts")
    world.second(2)
    world.run_until(State.COMPLETED)
    world.failing.clear()
    world.lost_effects = True
    world.second(20)  # asked once more
    world.feed(FactsGathered("r2", world.facts, version))
    assert world.recovery("r2").state is State.PLANNING
    world.lost_effects = False
    world.feed(FactsGathered("r2", world.facts, version))
    assert world.recovery("r2").state is State.STARTING
