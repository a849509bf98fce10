"""A restore that is rolled back leaves no state of the cut beside offsets of another moment, and says that the
application begins with empty state.
"""

from collections.abc import Callable

import pytest

from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.states import State
from recoveryd.units.facts import Member
from recoveryd.workflows.model.commands import Ack, Rollback
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from tests.builders.records import make_recovery
from tests.workflows.app_world import INTERNAL, PARTITIONS, AppWorld, Log
from tests.workflows.test_savepoint import restore, restore_until, save
from tests.workflows.test_starting_again import restore_failed
from tests.workflows.world import report

CHANGELOG, BETWEEN = INTERNAL
SECOND = "app-sums-changelog"
BEGINS = "empty: it begins with empty state at the offsets of its group, where its local state is deleted too"
FAILS = ("settle_state_topics", "set_offsets", "start_application")


def saved_before(at: int, world: AppWorld | None = None) -> AppWorld:
    """A savepoint at 60 of an application that has read up to `at` since."""
    world = world or AppWorld()
    save(world)
    world.run_through()
    assert world.workflow.state is State.COMPLETED
    world.members = [Member("m1", "shop-1", "host")]
    world.committed |= {("orders", p): at for p in range(PARTITIONS)}
    for name in set(world.internal) & set(world.topics):
        world.topics[name].end = 44
    return world


def fails_at(step: str) -> Callable[[AppWorld], None]:
    def fails(world: AppWorld) -> None:
        world.fail_at(step, retriable=False)
        assert restore(world) == "accepted"
        world.run_through("w2")
        world.fault = lambda _: None

    return fails


def fails_to_copy(world: AppWorld) -> None:
    assert restore(world) == "accepted"
    world.stops()
    sent = next(sent for sent in world.sent if sent.subject.startswith("w2-"))
    world.have_recovery(make_recovery(sent.subject, state=State.FAILED))
    world.run_through("w2")


def held_up(effect: TakeStep) -> StepReported:
    return report(effect, Outcome.NOT_YET, "started with old local state")


def taken_back(world: AppWorld) -> str:
    """Why it ended, as its event says too."""
    assert world.send(Rollback, subject="w2") == "accepted"
    world.run_through("w2")
    ended = world.look("w2")
    assert ended.state is State.ROLLED_BACK, ended.why
    told = next(notice for notice in reversed(world.notices) if notice.type == "workflow_rolled_back")
    assert told.data["why"] == ended.why
    return ended.why


def orders(world: AppWorld) -> set[int]:
    return {at for (topic, _), at in world.committed.items() if topic == "orders"}


@pytest.mark.parametrize("fails", [fails_to_copy, *map(fails_at, FAILS)], ids=["copy_state", *FAILS])
def test_the_state_of_the_cut_goes_where_the_offsets_of_before_come_back(fails: Callable[[AppWorld], None]) -> None:
    world = saved_before(90)
    fails(world)
    assert world.look("w2").state is State.FAILED, world.look("w2").why
    why = taken_back(world)
    assert (orders(world), set(INTERNAL) & set(world.topics)) == ({90}, set())
    assert why.endswith(f"; its changelogs are {BEGINS}")


@pytest.mark.parametrize("before", [90, 100])
def test_the_state_stays_where_the_application_ran_with_it_and_went_on(before: int) -> None:
    """Also where it stands again just where it stood before."""
    world = saved_before(before)
    assert restore(world) == "accepted"
    world.run_through("w2")
    assert (world.look("w2").state, orders(world)) == (State.COMPLETED, {100})
    why = taken_back(world)
    assert (orders(world), world.topics[CHANGELOG].end) == ({100}, 20)
    assert "its state stays as it is: shop ran with it, and its group goes on from there" in why
    assert "empty" not in why


def test_the_state_of_the_cut_goes_where_its_offsets_are_put_back_to_before_it_also_after_the_end() -> None:
    world = saved_before(60)
    world.topics["orders"].end = 60
    world.committed |= {("orders", p): 10 for p in range(PARTITIONS)}
    assert restore(world) == "accepted"
    world.run_through("w2")
    assert world.look("w2").state is State.COMPLETED
    assert taken_back(world).endswith(BEGINS)
    assert (orders(world), CHANGELOG in world.topics) == ({10}, False)


@pytest.mark.parametrize("ends", ["fails", "is stopped"])
@pytest.mark.parametrize("moves", ["all", "one", "none"])
def test_the_state_stays_where_the_application_went_on_with_it_though_its_start_was_not_done(
    ends: str, moves: str
) -> None:
    """Where a part of what was set is put back to before, it goes: one part of it would be of another time."""
    world = saved_before(90)
    restore_until(world, "start_application")
    world.fault = lambda effect: held_up(effect) if effect.step == "start_application" else None
    world.starts(reads_all=False)
    read = {"all": PARTITIONS, "one": 1, "none": 0}[moves]
    world.committed |= {("orders", p): 95 for p in range(read)}
    if ends == "fails":
        world.fail_at("start_application", retriable=False)
        world.pass_time(40)
    else:
        assert world.send(StopCommand, subject="w2") == "accepted"
    world.fault = lambda _: None
    world.run_through("w2")
    assert world.look("w2").state is (State.FAILED if ends == "fails" else State.STOPPED)
    why = taken_back(world)
    assert (CHANGELOG in world.topics, why.endswith(BEGINS)) == (moves == "all", moves != "all")
    assert orders(world) == {"all": {95}, "one": {95, 90}, "none": {90}}[moves]


def test_the_state_goes_where_a_start_began_and_only_an_input_was_made_again() -> None:
    world = saved_before(90)
    restore_until(world, "start_application")
    world.fail_at("start_application", retriable=False)
    world.starts(reads_all=False)
    world.fault = lambda _: None
    assert world.look("w2").state is State.FAILED
    world.topics["orders"] = Log("orders-2", 0, 5)
    world.committed = {place: at for place, at in world.committed.items() if place[0] != "orders"}
    assert taken_back(world).endswith(BEGINS)
    assert CHANGELOG not in world.topics


def test_the_state_goes_where_commits_expired_that_nobody_knows_the_place_of_any_more() -> None:
    """The application read on to 150 with it, and stood still for longer than its commits are kept."""
    world = saved_before(90)
    assert restore(world) == "accepted"
    world.run_through("w2")
    assert (world.look("w2").state, orders(world)) == (State.COMPLETED, {100})
    world.members = []
    world.committed = {place: at for place, at in world.committed.items() if place[0] != "orders"}
    assert taken_back(world).endswith(BEGINS)
    assert (orders(world), CHANGELOG in world.topics) == ({90}, False)


@pytest.mark.parametrize("reads", [0, 1])
def test_the_state_of_the_cut_goes_where_a_person_said_that_all_was_read_and_the_offsets_of_before_come_back(
    reads: int,
) -> None:
    """Also where some partitions were read on from the cut."""
    world = saved_before(90)
    restore_until(world, "await_caught_up")
    world.committed |= {("orders", p): 70 for p in range(reads)}
    assert world.send(lambda meta: Ack(meta, "await_caught_up", "it is slow"), subject="w2") == "accepted"
    world.run_through("w2")
    assert world.look("w2").state is State.COMPLETED, world.look("w2").why
    assert taken_back(world).endswith(BEGINS)
    assert (orders(world), CHANGELOG in world.topics) == ({90} | {70 for _ in range(reads)}, False)


def test_state_that_it_did_not_come_to_stays_and_what_is_empty_is_named() -> None:
    world = AppWorld()
    world.internal = (*INTERNAL, SECOND)
    world.topics[SECOND] = Log("sums-1", 0, 20)
    world.configs[SECOND] = {"cleanup.policy": "compact"}
    saved_before(90, world)
    world.refused.add(("delete", SECOND))
    assert restore(world) == "accepted"
    world.run_through("w2")
    assert world.look("w2").state is State.FAILED, world.look("w2").why
    why = taken_back(world)
    assert (CHANGELOG in world.topics, world.topics[SECOND].end) == (False, 44)
    assert why.endswith(f"; {CHANGELOG} is {BEGINS}")


def test_who_says_that_it_may_start_again_is_told_with_what_it_begins() -> None:
    world = restore_failed()
    assert world.waiting("w2") == "confirm_start"
    gone = f"records of {CHANGELOG}, {BETWEEN} are gone for good"
    assert world.look("w2").why == f"say that shop can go on with what is left: {gone}; its changelogs are {BEGINS}"
    assert set(INTERNAL) & set(world.topics) == set(), "before it is asked"
    assert world.ack("confirm_start", "w2") == "accepted"
    world.pass_time(10)
    assert (world.look("w2").state, world.replicas) == (State.ROLLED_BACK, 3)


@pytest.mark.parametrize("is_done", [False, True])
def test_a_daemon_that_dies_while_the_state_goes_is_followed_by_one_that_says_so(is_done: bool) -> None:
    world = saved_before(90)
    fails_at("set_offsets")(world)
    world.die_at("delete_filled_state", is_done=is_done)
    assert world.send(Rollback, subject="w2") == "accepted"
    world.run_through("w2")
    world.live_again()
    world.pass_time(20)
    assert world.look("w2").state is State.ROLLED_BACK, world.look("w2").why
    assert set(INTERNAL) & set(world.topics) == set()
    assert world.look("w2").why.endswith(BEGINS)
