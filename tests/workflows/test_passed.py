"""Retention goes on between the time at which offsets are set and the time at which the application reads, in the core:
what would be left out then ends the workflow.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.units.model import UnitKind
from recoveryd.workflows.model.commands import Ack
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.passed import RAN
from recoveryd.workflows.model.spec import StateChoice
from tests.workflows.app_world import UNIT, AppWorld
from tests.workflows.test_appending import DECIDE, Starting, begun
from tests.workflows.test_reset_state import BEFORE, KEEPS, ask
from tests.workflows.test_savepoint import restore, saved
from tests.workflows.world import GroupWorld


def waiting_to_clean() -> AppWorld:
    world = AppWorld()
    assert world.reprocess() == "accepted"
    world.stops()
    assert world.waits_at == "clean_local_state"
    return world


@pytest.mark.parametrize("is_awaited", [False, True])
def test_records_that_go_between_the_offsets_and_the_start_end_it(is_awaited: bool) -> None:
    """While a person cleans, or before the first member joins."""
    world = waiting_to_clean()
    if is_awaited:
        world.ack("clean_local_state")
        assert world.waits_at == "start_application"
        world.topics["orders"].start = 40
        world.starts()
    else:
        world.topics["orders"].start = 40
        world.ack("clean_local_state")
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.INPUT_INCOMPLETE.value)
    assert "up to 80 records went from the inputs" in world.workflow.why
    assert "orders 0 [0, 40), orders 1 [0, 40)" in world.workflow.why


@pytest.mark.parametrize(
    ("kind", "start", "is_accepted"),
    [
        (UnitKind.STREAMS, 25, True),
        (UnitKind.STREAMS, 26, False),
        (UnitKind.GROUP, 10, True),
        (UnitKind.GROUP, 11, False),  # it would go to the end, by default
    ],
)
def test_what_is_left_of_the_records_that_may_be_missing_may_go_until_the_start(
    kind: UnitKind, start: int, is_accepted: bool
) -> None:
    world = AppWorld(replace(UNIT, kind=kind))
    world.topics["orders"].start = 5
    assert world.reprocess(accept_missing=50) == "accepted"
    world.topics["orders"].start = 10
    world.stops()
    assert world.committed[("orders", 0)] == 10
    world.topics["orders"].start = start
    world.ack("clean_local_state")
    assert (world.waits_at == "start_application") is is_accepted, world.workflow.why
    assert (world.workflow.error_code == Code.INPUT_INCOMPLETE.value) is not is_accepted


def test_records_that_go_while_state_is_being_emptied_end_it() -> None:
    world = GroupWorld(KEEPS)
    assert ask(world, state=StateChoice.CLEAN) == "accepted"
    world.log_start = 25
    world.send(lambda meta: Ack(meta, "clean_local_state"))
    world.pass_time(5)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.OFFSET_OUTSIDE_LOG.value)
    assert "up to 15 records went from the inputs" in world.workflow.why
    assert "orders 0 [20, 25), orders 1 [20, 25), orders 2 [20, 25)" in world.workflow.why
    assert world.rollback() == "accepted"
    assert world.committed == BEFORE


@pytest.mark.parametrize(("topic", "start", "lacks"), [("orders", 70, "[60, 70)"), ("steps", 72, "[70, 72)")])
def test_records_that_go_before_a_restored_application_starts_end_it(topic: str, start: int, lacks: str) -> None:
    """Also of a topic that it writes and reads again: what lay there at the cut was not read yet."""
    world = saved()
    assert restore(world) == "accepted"
    world.stops()
    world.complete_children()
    assert world.waiting("w2") == "clean_local_state"
    world.topics[topic].start = start
    world.ack("clean_local_state", "w2")
    workflow = world.look("w2")
    assert (workflow.state, workflow.error_code) == (State.FAILED, Code.OFFSET_OUTSIDE_LOG.value)
    assert f"{topic} 0 {lacks}, {topic} 1 {lacks}" in workflow.why


def test_a_start_that_comes_after_one_that_failed_is_told_that_some_of_it_may_have_been_read() -> None:
    starting, seen = Starting(fails=1), list[Mapping[str, object]]()
    world = begun(starting)

    def listens(effect: TakeStep) -> StepReported | None:
        seen.extend([effect.seen] if effect.step == "start_application" else [])
        return starting(effect)

    world.fault = listens
    assert world.ack(DECIDE) == "accepted"
    world.pass_time(5)
    assert seen == [{RAN: True}]
