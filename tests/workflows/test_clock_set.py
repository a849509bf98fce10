"""What workflows wait for when the wall clock is set: no wait ends earlier or later by it."""

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.units.facts import Member
from recoveryd.workflows.model.commands import Promote
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import RunbookPath
from recoveryd.workflows.model.workflow import WaitingFor
from tests.workflows.runbook_world import RunbookWorld
from tests.workflows.test_runbook import shadowed
from tests.workflows.world import OWNED, GroupWorld, report

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SET = "the clock of the daemon was set"
BUSY = Member("m1", "busy", "host", "static-1")


def waiting() -> GroupWorld:
    world = GroupWorld()
    world.members = [BUSY]
    world.reset()
    world.pass_time(20)
    assert world.workflow.state is State.WAITING
    return world


@pytest.mark.parametrize("by_ms", [HOUR_MS, DAY_MS, -HOUR_MS, -DAY_MS])
def test_a_reset_waits_its_whole_time_for_the_group_and_no_longer(by_ms: int) -> None:
    world = waiting()
    world.now_ms += by_ms
    world.lead(why=SET)
    world.pass_time(590)
    assert world.workflow.state is State.WAITING
    world.pass_time(20)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_NOT_EMPTY.value)


def test_a_clock_that_was_set_back_between_two_daemons_makes_no_wait_longer() -> None:
    world = waiting()
    world.now_ms -= DAY_MS
    world.lead()
    world.pass_time(610)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_NOT_EMPTY.value)


def test_a_wait_goes_on_to_its_deadline_under_another_daemon() -> None:
    world = waiting()
    before = world.workflow.waiting_for
    world.lead()
    assert world.workflow.waiting_for == before


@pytest.mark.parametrize("by_ms", [DAY_MS, -DAY_MS])
def test_a_look_that_is_not_answered_has_its_whole_time_too(by_ms: int) -> None:
    world = GroupWorld()
    world.fail_at("await_empty", retriable=True)
    world.reset()
    world.pass_time(20)
    world.now_ms += by_ms
    world.lead(why=SET)
    world.pass_time(560)
    assert world.workflow.state is State.WAITING
    world.pass_time(120)
    assert world.workflow.state is State.FAILED


def test_an_approval_is_waited_for_no_longer_than_a_day_by_a_clock_set_back() -> None:
    world = GroupWorld(OWNED)
    world.reset()
    world.now_ms -= 365 * DAY_MS
    world.lead(why=SET)
    assert world.workflow.waiting_for == WaitingFor("approval", "", world.now_ms, world.now_ms + DAY_MS)
    world.pass_time(86_400 + 60, every_s=600)
    assert (world.workflow.state, world.workflow.error_code) == (State.EXPIRED, Code.APPROVAL_EXPIRED.value)


@pytest.mark.parametrize("by_ms", [2 * DAY_MS, -2 * DAY_MS])
def test_what_is_put_back_is_tried_for_its_whole_time(by_ms: int) -> None:
    world = RunbookWorld()
    world.fault = refuse_quotas
    world.begin(RunbookPath.RESUME, quotas={"my app": 2_000_000.0})
    world.go_through()
    assert world.workflow.state is State.CLOSING
    world.now_ms += by_ms
    world.lead(why=SET)
    world.pass_time(86_000, every_s=100)
    assert world.workflow.state is State.CLOSING
    world.pass_time(2_000, every_s=100)
    assert world.workflow.state is State.FAILED


def refuse_quotas(effect: TakeStep) -> StepReported | None:
    return report(effect, Outcome.FAILED, "no") if effect.step == "restore_quotas" else None


@pytest.mark.parametrize("by_ms", [6_000, 600_000, HOUR_MS, -DAY_MS])
def test_of_a_hold_counts_what_was_seen_whatever_the_clock_says(by_ms: int) -> None:
    """It is seen to some minutes. A machine that stood still for some seconds throws no hold of a day away."""
    world = shadowed(hold_ms=600_000)
    world.pass_time(300, every_s=10)
    world.now_ms += by_ms
    world.lead(why=SET)
    world.pass_time(200, every_s=10)
    assert world.say(Promote) == "rejected"
    world.pass_time(180, every_s=10)
    assert world.say(Promote) == "accepted"
