"""Recoveries whose topics are held: nothing begins to write there, what runs pauses drained, and goes on at release if
it was the hold that paused it.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import BecameLeader, ControlRead, ControlUnread, Leaving
from recoveryd.kernel.states import State
from recoveryd.recovery.events import FactsGathered
from recoveryd.recovery.model import Wanted
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import Limits
from recoveryd.replay.spec import TargetRef
from tests.builders.core import command, make_facts, make_hold, make_spec, make_verification
from tests.builders.live_world import LiveWorld
from tests.builders.world import PARAMS, World, illegal_moves

S = State
HELD = "flights.v2 is held by h1 of //ops/alice: because"


class HeldWorld(World):
    """A world in which holds are placed and released in a word each."""

    def send(self, verb: str, subject: str, **more: object) -> None:
        number = len(self.answers) + 100
        self.feed(command(verb, subject, f"c{number}", offset=number, **more))  # type: ignore[arg-type]

    def hold(self, *topics: str, subject: str = "h1", reads: bool = False) -> None:
        self.send("hold", subject, spec=make_hold(*topics, reads=reads))
        assert self.answers[-1].kind == "accepted", self.answers[-1]

    def release(self, subject: str = "h1", **more: object) -> None:
        self.send("release", subject, **more)
        assert self.answers[-1].kind == "accepted", self.answers[-1]

    def running(self, **spec: object) -> "HeldWorld":
        self.send("replay", "r1", spec=make_spec(**spec))  # type: ignore[arg-type]
        self.run_until(S.RUNNING)
        return self


def copied(world: World) -> int:
    return sum(world.receipts["r1"].values())


def rejected(world: HeldWorld) -> tuple[str, str]:
    answer = world.answers[-1]
    assert answer.kind == "rejected", answer
    return answer.code, answer.message


def test_a_replay_into_a_held_topic_is_refused_at_once_by_name_of_the_hold() -> None:
    world = HeldWorld()
    world.hold()
    world.send("replay", "r1")
    assert rejected(world) == (Code.TOPIC_HELD.value, HELD)
    assert "r1" not in world.state.of(RECOVERY).recoveries
    world.release()
    world.send("replay", "r1")
    assert world.run_until(S.COMPLETED).state is S.COMPLETED


def test_the_source_of_a_replay_may_be_held_unless_nobody_may_read_it() -> None:
    world = HeldWorld()
    world.hold("flights")
    world.running()
    world.hold("flights", subject="h2", reads=True)
    world.run_until(S.PAUSED)
    assert "flights is held by h2" in world.recovery().why
    world.release("h2")
    assert world.run_until(S.COMPLETED).state is S.COMPLETED
    world.hold("flights", subject="h3", reads=True)
    world.send("replay", "r2", spec=make_spec(target=TargetRef("elsewhere")))
    assert rejected(world)[0] == Code.TOPIC_HELD.value


def test_a_hold_while_the_plan_is_made_refuses_the_plan() -> None:
    world = HeldWorld()
    world.lost_effects = True
    world.send("replay", "r1")
    world.lost_effects = False
    world.hold()
    world.feed(FactsGathered("r1", make_facts()))
    assert (world.recovery().state, world.recovery().error_code) == (S.REJECTED, Code.TOPIC_HELD.value)
    assert rejected(world) == (Code.TOPIC_HELD.value, HELD)
    assert world.launches == []


def test_a_hold_that_is_released_before_the_plan_is_made_was_never_there() -> None:
    world = HeldWorld()
    world.lost_effects = True
    world.send("replay", "r1")
    world.lost_effects = False
    world.hold()
    world.release()
    world.feed(FactsGathered("r1", make_facts()))
    assert world.run_until(S.COMPLETED).state is S.COMPLETED


def test_a_dry_run_is_planned_and_says_that_the_topic_is_held() -> None:
    world = HeldWorld()
    free = HeldWorld()
    world.hold()
    for one in (world, free):
        one.send("replay", "r1", spec=make_spec(dry_run=True))
        assert one.recovery().state is S.PLANNED
    plans = world.recovery().plan, free.recovery().plan
    assert plans[0] is not None
    assert plans[1] is not None
    assert [f.message for f in plans[0].findings if f.code == "topic_held"] == [HELD]
    assert plans[0].hash == plans[1].hash  # so that the plan can be run under its hash once the topic is free


def test_an_approval_is_refused_while_held_and_the_plan_goes_on_waiting() -> None:
    world = HeldWorld(params=replace(PARAMS, approval_above_records=10))
    world.send("replay", "r1")
    waiting = world.recovery()
    assert waiting.plan is not None
    world.hold()
    world.send("approve", "r1", plan_hash=waiting.plan.hash)
    assert rejected(world) == (Code.TOPIC_HELD.value, HELD)
    assert world.recovery().state is S.AWAITING_APPROVAL
    world.release()
    world.send("approve", "r1", plan_hash=waiting.plan.hash)
    assert world.run_until(S.COMPLETED).state is S.COMPLETED


def test_a_hold_between_approval_and_start_refuses_the_start() -> None:
    world = HeldWorld(params=replace(PARAMS, approval_above_records=10))
    world.send("replay", "r1")
    plan = world.recovery().plan
    assert plan is not None
    world.lost_effects = True
    world.send("approve", "r1", plan_hash=plan.hash)
    world.lost_effects = False
    world.hold()
    world.feed(FactsGathered("r1", make_facts()))
    assert (world.recovery().state, world.recovery().error_code) == (S.REJECTED, Code.TOPIC_HELD.value)
    assert world.launches == []


def test_what_runs_pauses_drained_and_goes_on_by_itself_at_release() -> None:
    world = HeldWorld(speed=2).running()
    world.hold()
    assert (world.recovery().state, world.recovery().wanted, world.recovery().held) == (
        S.PAUSING, Wanted.PAUSE, "topic_held",
    )  # fmt: skip
    paused = world.run_until(S.PAUSED)
    assert paused.why == f"paused until its topics are free: {HELD}; every position is in a receipt"
    (told,) = [notice for notice in world.notices if notice.type == "auto_pause"]
    assert (told.data["reason"], told.data["evidence"]) == ("topic_held", {"code": "RCV-1060"})
    before = copied(world)
    world.second(100)
    assert (copied(world), world.recovery().state) == (before, S.PAUSED)
    world.release()
    assert world.recovery().state in {S.RUNNING, S.STARTING}
    done = world.run_until(S.COMPLETED)
    assert (copied(world), [r.unexplained for r in done.completeness], illegal_moves(world)) == (150, [0, 0], [])


def test_a_hold_that_is_gone_before_the_lanes_are_drained_lets_it_go_on() -> None:
    world = HeldWorld(speed=2).running()
    world.hold()
    world.release()
    assert (world.recovery().state, world.recovery().held) == (S.RUNNING, "")
    world.run_until(S.COMPLETED)
    assert copied(world) == 150


@pytest.mark.parametrize("state", [S.STARTING, S.RUNNING])
def test_of_several_holds_the_last_one_lets_it_go_on(state: State) -> None:
    world = HeldWorld(speed=2)
    world.send("replay", "r1")
    world.run_until(state)
    world.hold()
    world.hold(subject="h2")
    world.run_until(S.PAUSED)
    world.release("h1")
    assert "held by h2" in world.recovery().why
    world.second(5)
    assert world.recovery().state is S.PAUSED
    world.release("h2")
    assert world.run_until(S.COMPLETED).state is S.COMPLETED


def test_resume_is_refused_while_held() -> None:
    world = HeldWorld(speed=2).running()
    world.hold()
    world.run_until(S.PAUSED)
    world.send("resume", "r1")
    assert rejected(world) == (Code.TOPIC_HELD.value, HELD)
    assert world.recovery().state is S.PAUSED


def test_what_an_operator_paused_before_stays_paused_at_release() -> None:
    world = HeldWorld(speed=2).running()
    world.send("pause", "r1")
    world.run_until(S.PAUSED)
    world.hold()
    assert world.recovery().held == ""
    world.send("resume", "r1")
    assert rejected(world)[0] == Code.TOPIC_HELD.value
    world.release()
    world.second(20)
    assert world.recovery().state is S.PAUSED
    world.send("resume", "r1")
    assert world.run_until(S.COMPLETED).state is S.COMPLETED


def test_an_operators_pause_takes_over_that_of_a_hold() -> None:
    world = HeldWorld(speed=2).running()
    world.hold()
    world.run_until(S.PAUSED)
    world.send("pause", "r1")
    world.release()
    world.second(20)
    assert (world.recovery().state, world.recovery().held) == (S.PAUSED, "")


def test_a_held_recovery_can_be_stopped_and_its_deadline_ends_it() -> None:
    world = HeldWorld(speed=2).running()
    world.hold()
    world.run_until(S.PAUSED)
    world.send("stop", "r1")
    assert world.run_until(S.STOPPED).state is S.STOPPED
    late = HeldWorld(speed=2)
    late.running(limits=Limits(deadline_ms=late.now_ms + 60_000))
    late.hold()
    assert late.run_until(S.STOPPED).state is S.STOPPED


def test_what_is_only_proved_goes_on_while_held() -> None:
    world = HeldWorld(speed=100)
    world.verify_s = 10
    world.send("replay", "r1")
    world.run_until(S.VERIFYING)
    world.hold()
    world.second(3)
    assert world.recovery().state is S.VERIFYING
    assert world.run_until(S.COMPLETED).state is S.COMPLETED
    world.send("verify", "v1", spec=make_verification())
    assert world.run_until(S.COMPLETED, recovery_id="v1").state is S.COMPLETED


@pytest.mark.parametrize("applications_die", [False, True])
def test_a_restart_between_hold_and_pause_or_release_and_resume_changes_nothing(applications_die: bool) -> None:
    world = HeldWorld(speed=2).running()
    world.lost_effects = True  # the daemon dies once the hold is journaled
    world.hold()
    world.restart_daemon(applications_die=applications_die)
    assert world.run_until(S.PAUSED).held == "topic_held"
    before = copied(world)
    world.restart_daemon(applications_die=applications_die)
    world.second(30)
    assert (world.recovery().state, copied(world)) == (S.PAUSED, before)
    world.lost_effects = True
    world.release()
    world.restart_daemon(applications_die=applications_die)
    world.run_until(S.COMPLETED)
    assert copied(world) == 150


def rested() -> HeldWorld:
    """A copy whose daemon ended on purpose."""
    world = HeldWorld(speed=2).running()
    world.feed(Leaving())
    world.run_until(S.PAUSED)
    world.second(2)
    assert (world.recovery().held, world.recovery().attempt.released) == ("leaving", True)
    return world


def test_a_hold_that_was_placed_while_no_daemon_ran_lets_no_attempt_start() -> None:
    world = rested()
    launches = len(world.launches)
    world.restart_daemon(unread=world.hold)
    world.run_until(S.PAUSED)
    assert (world.recovery().held, len(world.launches)) == ("topic_held", launches)
    world.release()
    assert world.run_until(S.COMPLETED).state is S.COMPLETED
    assert illegal_moves(world) == []


UNTIL_READ = "all commands on the control topic are read; every position is in a receipt"


def test_where_nobody_holds_its_topics_it_goes_on_once_that_is_known() -> None:
    world = rested()
    launches = len(world.launches)
    assert world.recovery().why == "rests until a daemon runs again; every position is in a receipt"

    def unread() -> None:
        assert world.recovery().why == f"rests until {UNTIL_READ}"
        world.send("resume", "r1")
        assert world.answers[-1].message.endswith("exact position once all commands on the control topic are read")
        world.hold("other")

    world.restart_daemon(unread=unread)
    assert (world.recovery().state, len(world.launches)) == (S.STARTING, launches + 1)
    assert world.run_until(S.COMPLETED).state is S.COMPLETED


def test_what_a_hold_kept_goes_on_with_the_first_daemon_after_its_time() -> None:
    world = HeldWorld(speed=2).running()
    world.send("hold", "h1", spec=make_hold(expires_ms=world.now_ms + 60_000))
    world.run_until(S.PAUSED)
    world.now_ms += 60_000
    assert list(world.decider.remaining(world.state, world.now_ms)) == []
    world.restart_daemon()
    assert list(world.decider.remaining(world.state, world.now_ms)) == ["r1"], (
        "a run that ends by itself goes on with it"
    )
    assert world.run_until(S.COMPLETED).state is S.COMPLETED


def held_for_a_minute() -> HeldWorld:
    """A copy that a hold paused, whose application still runs, after the time of the hold."""
    world = HeldWorld(speed=2).running()
    world.send("hold", "h1", spec=make_hold(expires_ms=world.now_ms + 60_000))
    world.run_until(S.PAUSED)
    world.now_ms += 60_000
    assert not world.recovery().attempt.released
    return world


def test_what_a_hold_kept_goes_on_only_once_it_is_known_whether_another_one_keeps_it() -> None:
    world = held_for_a_minute()
    before = copied(world)
    world.restart_daemon(unread=lambda: world.hold(subject="h2"))
    assert (world.recovery().state, copied(world)) == (S.PAUSED, before)
    assert "held by h2" in world.recovery().why
    world.second(20)
    assert (world.recovery().state, copied(world)) == (S.PAUSED, before)
    world.release("h2")
    assert world.run_until(S.COMPLETED).state is S.COMPLETED
    assert (copied(world), illegal_moves(world)) == (150, [])


def test_where_no_other_hold_keeps_it_it_goes_on_with_the_application_that_runs() -> None:
    world = held_for_a_minute()

    def unread() -> None:
        assert world.recovery().why == f"paused until its topics are free and {UNTIL_READ}"

    world.restart_daemon(unread=unread)
    assert (world.recovery().state, len(world.launches)) == (S.RUNNING, 1)
    assert world.run_until(S.COMPLETED).state is S.COMPLETED


def test_nor_does_it_go_on_where_the_daemon_died_before_it_let_the_application_go() -> None:
    world = HeldWorld(speed=2).running()
    world.send("pause", "r1")
    paused = replace(world.run_until(S.PAUSED), held="leaving")  # the effects of `Leaving` would end the application
    world.state = world.decider.restore(world.state.daemon, {"r1": paused}, {})
    before = copied(world)
    world.restart_daemon(unread=world.hold)
    assert (world.recovery().state, world.recovery().held, copied(world)) == (S.PAUSED, "topic_held", before)
    world.second(20)
    assert copied(world) == before
    world.release()
    assert world.run_until(S.COMPLETED).state is S.COMPLETED


def test_an_operators_resume_waits_for_a_hold_that_was_sent_after_it() -> None:
    world = HeldWorld(speed=2).running()
    world.send("pause", "r1")
    world.run_until(S.PAUSED)
    before = copied(world)

    def unread() -> None:
        world.send("resume", "r1")
        told = "r1 goes on at its exact position once all commands on the control topic are read"
        assert (world.answers[-1].kind, world.answers[-1].message) == ("accepted", told)
        world.second(5)
        assert copied(world) == before
        world.hold()

    world.restart_daemon(unread=unread)
    assert (world.recovery().state, world.recovery().held, copied(world)) == (S.PAUSED, "topic_held", before)
    world.release()
    assert world.run_until(S.COMPLETED).state is S.COMPLETED


def test_one_that_rests_while_its_daemon_ends_waits_for_the_next_whatever_is_read() -> None:
    world = HeldWorld(speed=2).running()
    world.feed(ControlUnread())
    world.feed(Leaving())
    world.run_until(S.PAUSED)
    world.second(2)
    assert world.recovery().why == "rests until a daemon runs again; every position is in a receipt"


def test_nor_is_its_target_made() -> None:
    world = HeldWorld(make_facts(no_target=True))
    world.lost_effects = True
    world.send("replay", "r1", spec=make_spec(target=TargetRef("flights.v2", create=True)))
    world.feed(FactsGathered("r1", world.facts))
    assert world.recovery().state is S.STARTING
    world.restart_daemon(unread=world.hold)
    world.run_until(S.PAUSED)
    assert (world.recovery().plan.target.topic_id, world.launches) == ("", [])  # type: ignore[union-attr]
    world.release()
    assert world.run_until(S.COMPLETED).state is S.COMPLETED


def test_a_verification_waits_for_no_holds() -> None:
    world = HeldWorld(speed=100)
    world.verify_s = 30
    world.send("verify", "v1", spec=make_verification())
    world.run_until(S.VERIFYING, recovery_id="v1")
    world.feed(Leaving())
    world.run_until(S.PAUSED, recovery_id="v1")
    world.second(2)
    launches = len(world.launches)
    world.restart_daemon(unread=lambda: world.second(1))
    assert len(world.launches) == launches + 1


def test_a_daemon_that_takes_over_where_hold_and_recovery_disagree_obeys_the_hold() -> None:
    """As if only the hold had reached the journal: both nouns are there, and the recovery still runs."""
    world = HeldWorld(speed=2).running()
    running = world.recovery()
    world.hold()
    nouns = {noun.id: noun for noun in (running, *world.decider.known(world.state).values()) if noun.id != "r1"}
    world.state = world.decider.restore(world.state.daemon, {**nouns, "r1": running}, {})
    world.feed(BecameLeader(9, "control"))
    assert world.run_until(S.PAUSED).held == "topic_held"


def test_telemetry_that_comes_back_is_not_enough_while_a_hold_may_lie_unread() -> None:
    world = LiveWorld().copying()
    healthy, world.latency_s = world.latency_s, None
    world.live(320)
    world.feed(ControlUnread())
    world.latency_s = healthy
    world.live(60)
    why = f"paused by itself until live traffic is measured again and {UNTIL_READ}"
    assert (world.recovery().state, world.recovery().why) == (S.PAUSED, why)
    world.feed(command("resume", "r1", offset=50))
    assert (world.answers[-1].kind, world.answers[-1].message) == ("rejected", f"r1: {why}")
    world.feed(ControlRead())
    world.live(5)
    assert world.recovery().state is S.RUNNING


def test_an_application_is_kept_in_a_pause_for_no_longer_because_commands_were_unread() -> None:
    world = LiveWorld().copying()
    world.latency_s = None
    world.live(320)
    version = world.recovery().version
    assert not world.recovery().attempt.released
    for _ in range(world.params.paused_keep_application_ms // 60_000 + 1):
        world.feed(ControlUnread())
        world.live(2)
        world.feed(ControlRead())
        world.live(58)
    assert world.recovery().attempt.released
    assert world.recovery().version > version, "each change of what keeps it is told"


def test_telemetry_that_comes_back_hands_the_pause_over_to_the_hold() -> None:
    world = LiveWorld().copying()
    healthy, world.latency_s = world.latency_s, None
    world.live(320)
    assert world.recovery().held == "telemetry"
    world.feed(command("hold", "h1", offset=50, spec=make_hold()))
    world.latency_s = healthy
    world.live(60)
    assert (world.recovery().state, world.recovery().held) == (S.PAUSED, "topic_held")
    world.feed(command("release", "h1", offset=51))
    world.live(5)
    assert (world.recovery().state, world.recovery().held) == (S.RUNNING, "")
