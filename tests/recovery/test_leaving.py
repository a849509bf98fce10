"""A daemon that ends on purpose: everything comes to rest at exact positions, and the next one goes on with it."""

import pytest

from recoveryd.kernel.events import Leaving, Tick
from recoveryd.kernel.states import State
from recoveryd.recovery.events import AttemptExited
from recoveryd.recovery.pausing import LEAVING
from tests.builders.core import command, make_facts, make_spec, make_verification
from tests.builders.world import World, illegal_moves
from tests.schedules.world import CONTINUED, ScheduleWorld, at


def moving(world: World) -> list[str]:
    return list(world.decider.moving(world.state, world.now_ms))


def remaining(world: World) -> list[str]:
    return list(world.decider.remaining(world.state, world.now_ms))


def leave(world: World, seconds: int = 60) -> None:
    """Let the daemon come to rest."""
    world.feed(Leaving())
    for _ in range(seconds):
        if not moving(world):
            return
        world.second()
    raise AssertionError(f"still moving: {moving(world)}")


def test_a_running_copy_rests_and_the_next_daemon_goes_on_with_it() -> None:
    world = World(make_facts((2_000, 1_000)), speed=50)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.second(5)
    leave(world)
    recovery = world.recovery()
    assert (recovery.state, recovery.held, recovery.attempt.released) == (State.PAUSED, LEAVING, True)
    assert {row.partition: row.position for row in recovery.progress.partitions} == world.receipts["r1"]
    assert not any(app.alive for app in world.applications.values())
    assert remaining(world) == ["r1"]
    world.restart_daemon()
    assert world.recovery().state is State.STARTING
    assert world.recovery().held == ""
    world.run_until(State.COMPLETED)
    assert remaining(world) == []
    assert illegal_moves(world) == []


def test_ten_short_daemons_do_what_one_long_one_does() -> None:
    world = World(make_facts((3_000, 1_500)), speed=50)
    world.feed(command("replay"))
    daemons = 1
    while remaining(world):
        world.second(8)
        if not remaining(world):
            break
        leave(world)
        world.restart_daemon()
        daemons += 1
        assert daemons < 40
    assert daemons >= 8
    assert world.recovery().state is State.COMPLETED
    assert world.receipts["r1"] == {0: 3_000, 1: 1_500}
    assert world.recovery().attempt.failures == 0


@pytest.mark.parametrize("seconds", range(8))
def test_it_rests_from_any_moment_of_its_life(seconds: int) -> None:
    world = World(make_facts((300, 200)), speed=50)
    world.feed(command("replay"))
    world.second(seconds)
    leave(world)
    assert moving(world) == []
    assert not any(app.alive for app in world.applications.values())
    world.restart_daemon()
    assert world.run_until(State.COMPLETED).progress.records == 500


@pytest.mark.parametrize("is_told", [True, False])
def test_an_application_that_does_not_come_up_and_is_ended_with_its_daemon_costs_no_failure(*, is_told: bool) -> None:
    world = World(make_facts((300, 200)), speed=50)
    world.feed(command("replay"))
    world.run_until(State.STARTING)
    application = world.applications["r1"]
    application.silent, application.frozen = True, {0, 1}
    world.feed(Leaving())
    world.second(5)
    assert moving(world) == ["r1"]
    application.alive = False
    if is_told:
        world.feed(AttemptExited("r1", 1, -15, "ended"))
    world.restart_daemon()
    done = world.run_until(State.COMPLETED)
    assert (done.progress.records, done.attempt.failures) == (500, 0)
    assert illegal_moves(world) == []


def test_a_verification_rests_too() -> None:
    world = World(make_facts((300, 200)), speed=50)
    world.verify_s = 20
    world.feed(command("verify", spec=make_verification()))
    world.run_until(State.VERIFYING)
    world.second(3)
    leave(world)
    assert world.recovery().state is State.PAUSED
    (told,) = [notice for notice in world.notices if notice.type == "auto_pause"]
    assert told.data["reason"] == LEAVING
    assert "has to fit into one run" in str(told.data["why"])
    world.restart_daemon()
    world.run_until(State.COMPLETED)


def test_a_command_that_comes_while_it_leaves_is_planned_and_not_begun() -> None:
    world = World(make_facts((300, 200)), speed=50)
    world.feed(Leaving())
    world.feed(command("replay"))
    world.second(5)
    assert world.answers[-1].kind == "accepted"
    assert (world.recovery().state, world.launches) == (State.PAUSED, [])
    assert moving(world) == []
    world.restart_daemon()
    world.run_until(State.COMPLETED)


def test_a_hold_that_ends_while_the_daemon_leaves_starts_no_application() -> None:
    world = World(make_facts((2_000, 1_000)), speed=50)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.feed(command("hold", "h1", offset=1))
    world.run_until(State.PAUSED)
    leave(world)
    world.feed(command("release", "h1", offset=2))
    assert world.answers[-1].kind == "accepted"
    leave(world)
    recovery = world.recovery()
    assert (recovery.state, recovery.held, recovery.attempt.released) == (State.PAUSED, LEAVING, True)
    assert world.launches == [("r1", 1)]
    world.restart_daemon()
    assert world.run_until(State.COMPLETED).attempt.number == 2


def test_what_a_person_paused_stays_paused_and_is_nothing_left() -> None:
    world = World(make_facts((2_000, 1_000)), speed=50)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.feed(command("pause", command_id="p"))
    world.run_until(State.PAUSED)
    assert remaining(world) == []
    leave(world)
    assert world.recovery().attempt.released
    world.restart_daemon()
    world.second(5)
    assert world.recovery().state is State.PAUSED
    world.feed(command("resume", command_id="q", offset=9))
    world.run_until(State.COMPLETED)


def test_a_pause_of_a_person_while_it_rests_holds_over_the_next_daemon() -> None:
    world = World(make_facts((2_000, 1_000)), speed=50)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.feed(Leaving())
    world.feed(command("pause", command_id="p"))
    leave(world)
    world.restart_daemon()
    world.second(5)
    assert world.recovery().state is State.PAUSED


def test_what_is_being_stopped_is_stopped() -> None:
    world = World(make_facts((2_000, 1_000)), speed=50)
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.feed(command("stop", command_id="s"))
    leave(world)
    assert world.recovery().state is State.STOPPED
    assert remaining(world) == []


def test_what_waits_for_approval_is_nothing_left() -> None:
    world = World(make_facts((300, 200)))
    world.feed(command("replay", spec=make_spec(dry_run=True)))
    world.second(2)
    assert remaining(world) == []


def test_a_schedule_whose_run_waits_for_a_person_has_nothing_left() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=50)
    world.add("0 2 * * *", data=CONTINUED)
    world.now_ms = at("2026-11-22T02:00:00")
    world.feed(Tick())
    world.read()
    run = world.schedule().run
    assert run is not None
    world.second(2)
    assert "nightly" in remaining(world)
    assert world.command("pause", run.recovery).kind == "accepted"
    world.second(20)
    assert world.recovery(run.recovery).state is State.PAUSED
    assert remaining(world) == []


def test_a_schedule_has_something_left_while_it_is_due_or_follows_a_run() -> None:
    world = ScheduleWorld(ends=(500, 500), speed=500)
    world.add("0 2 * * *", data=CONTINUED)
    assert remaining(world) == []
    world.now_ms = at("2026-11-22T02:00:00")
    assert remaining(world) == ["nightly"]
    world.feed(Tick())
    world.read()
    assert "nightly" in remaining(world)
    world.second(30)
    assert remaining(world) == []
