"""Resets of groups that read a held topic: nothing is set there before it is released."""

import pytest

from recoveryd.holds.draft import HOLDS
from recoveryd.holds.spec import Release, StartHold
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.spec import Earliest, Latest
from recoveryd.units.facts import Member
from recoveryd.workflows.model.positions import moving_notes
from recoveryd.workflows.model.spec import Reset, ResetSpec
from tests.builders.core import make_hold
from tests.workflows.test_reset import BEFORE, BUSY, at, states
from tests.workflows.world import LOG, OWNED, TOPIC, GroupWorld


def hold(world: GroupWorld, topic: str = TOPIC) -> None:
    assert world.send(lambda meta: StartHold(meta, make_hold(topic)), subject="h1") == "accepted"


def release(world: GroupWorld) -> None:
    assert world.send(Release, subject="h1") == "accepted"


def refused(world: GroupWorld) -> bool:
    answer = world.answers[-1]
    held = world.state.of(HOLDS).held["main", TOPIC][0]
    return (answer.code, answer.message) == (
        Code.TOPIC_HELD.value, f"orders is held by h1 of //ops/ann: {held.reason}",
    )  # fmt: skip


@pytest.mark.scenario("S-RUN-26a")
def test_a_reset_in_a_held_topic_is_refused_by_name_of_the_hold() -> None:
    world = GroupWorld()
    hold(world)
    assert world.reset() == "rejected"
    assert refused(world)
    assert (world.workflow.state, world.committed) == (State.REJECTED, BEFORE)
    release(world)
    assert world.reset() == "accepted"
    assert world.committed == at(LOG[0])


def test_a_hold_on_another_topic_is_not_in_the_way() -> None:
    world = GroupWorld()
    hold(world, "other")
    assert world.reset() == "accepted"
    assert world.workflow.state is State.COMPLETED


def test_a_dry_run_says_so_and_its_hash_is_that_of_the_free_topic() -> None:
    world, free = GroupWorld(), GroupWorld()
    hold(world)
    plans = []
    for one in (world, free):
        assert one.reset(dry_run=True) == "accepted"
        assert one.workflow.plan is not None
        plans.append(one.workflow.plan)
    assert [finding for finding in plans[0].findings if "is held by h1" in finding]
    assert (plans[0].hash, plans[1].findings) == (plans[1].hash, moving_notes(Earliest()))


def test_an_approval_is_refused_while_held_and_goes_on_waiting() -> None:
    world = GroupWorld(OWNED)
    world.send(lambda meta: Reset(meta, ResetSpec("", "", Latest(), unit="owned")), "//ops/ann")
    hold(world)
    assert world.approve("//ops/kim") == "rejected"
    assert refused(world)
    assert world.workflow.state is State.AWAITING_APPROVAL
    release(world)
    assert world.approve("//ops/kim") == "accepted"
    assert world.committed == at(LOG[1])


def test_a_hold_that_comes_while_members_are_waited_for_keeps_the_offsets_as_they_are() -> None:
    world = GroupWorld()
    world.members = [Member(BUSY.id, BUSY.client_id, BUSY.host)]
    assert world.reset() == "accepted"
    hold(world)
    world.members = []
    world.pass_time(10)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.TOPIC_HELD.value)
    assert states(world)[-1] == ("set_offsets", "failed")
    assert (world.committed, world.sets) == (BEFORE, 0)


def test_a_rollback_in_a_held_topic_is_refused_and_works_later() -> None:
    world = GroupWorld()
    world.reset()
    hold(world)
    assert world.rollback() == "rejected"
    assert refused(world)
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(LOG[0]))
    release(world)
    assert world.rollback() == "accepted"
    assert world.committed == BEFORE
