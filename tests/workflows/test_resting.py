"""What waits for a person is looked at once by each daemon, before a run that ends when nothing is left may end: who
answers it may have done so while no daemon ran.
"""

import pytest

from recoveryd.kernel.states import State
from recoveryd.recovery.spec import Latest
from recoveryd.workflows.model.commands import Reset
from recoveryd.workflows.model.spec import ResetSpec
from tests.workflows.app_world import AppWorld
from tests.workflows.world import OWNED, GroupWorld


def remaining(world: AppWorld | GroupWorld) -> list[str]:
    return list(world.core.remaining(world.state, world.now_ms))


def waiting() -> AppWorld:
    """Nobody has stopped the application yet."""
    world = AppWorld()
    world.reprocess()
    world.pass_time(3)
    assert (world.waits_at, remaining(world)) == ("stop_application", [])
    return world


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_look_that_takes_long_is_waited_for_by_the_next_run(is_stopped: bool) -> None:
    world = waiting()
    world.members = [] if is_stopped else world.members
    world.lost = True
    world.lead()
    world.pass_time(100)
    assert remaining(world) == ["w1"], "nobody has looked yet"
    world.lost = False
    world.pass_time(60)
    assert world.waits_at == ("clean_local_state" if is_stopped else "stop_application")
    assert remaining(world) == [], "a person is waited for, as the look says"


def test_a_look_that_failed_is_taken_again_before_anything_is_said_to_wait_for_a_person() -> None:
    world = waiting()
    world.fail_at("stop_application", retriable=True, times=1)
    world.lead()
    assert remaining(world) == ["w1"]
    world.pass_time(10)
    assert (world.waits_at, remaining(world)) == ("stop_application", [])


def test_looks_that_fail_now_and_then_end_nothing() -> None:
    """Each is told, and that it is answered again."""
    world = waiting()
    version = world.workflow.version
    for _ in range(8):
        world.fail_at("stop_application", retriable=True, times=1)
        world.pass_time(20)
    assert (world.workflow.state, world.waits_at) == (State.WAITING, "stop_application")
    assert (world.workflow.version, world.workflow.waiting_for.unanswered_since_ms) == (version + 16, None)


def test_what_only_a_command_answers_is_not_looked_at() -> None:
    world = waiting()
    world.stops()
    assert world.waits_at == "clean_local_state"
    world.lead()
    assert remaining(world) == []


def test_nor_is_a_plan_that_waits_for_its_approval() -> None:
    world = GroupWorld(OWNED)
    world.send(lambda meta: Reset(meta, ResetSpec("", "", Latest(), unit="owned")), "//ops/ann")
    world.lead()
    assert (world.workflow.state, remaining(world)) == (State.AWAITING_APPROVAL, [])
