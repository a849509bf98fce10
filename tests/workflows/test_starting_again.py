"""A rollback of `reprocess` and `restore_savepoint` starts the application again that was stopped for them by who
controls it, if it ran before; what somebody stopped by hand is left to them.
"""

from dataclasses import replace
from typing import TypeVar

import pytest

from recoveryd.kernel.states import State
from recoveryd.units.model import Behaviour, ControlKind, Output
from recoveryd.workflows.model.actions import AwaitStarted, AwaitStopped
from recoveryd.workflows.model.commands import Rollback
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import OutputChoice, OutputPolicy
from tests.workflows.app_world import UNIT, AppWorld
from tests.workflows.test_savepoint import restore, save
from tests.workflows.world import report

PLAIN = replace(UNIT, stateful=False, intermediate=(), outputs={"log": Output(Behaviour.IDEMPOTENT)})

W = TypeVar("W", bound=AppWorld)


class ControlledWorld(AppWorld):
    """The daemon stops and starts the application, which runs with three instances. `broken`: it does not come up."""

    def __init__(self, *units: object, ran: bool = True) -> None:
        self.replicas, self.broken = 3 if ran else 0, False
        self.asked: list[str] = []
        super().__init__(*units)  # type: ignore[arg-type]
        self.members = self.members if ran else []

    def take(self, effect: TakeStep) -> StepReported:
        action = effect.action
        if isinstance(action, AwaitStopped):
            if "before" not in effect.seen:
                before = {"replicas": self.replicas} if self.replicas else {}
                evidence = {"before": before, "ran_before": bool(self.replicas)}
                return report(effect, Outcome.NOT_YET, "looked at", evidence=evidence)
            self._ask(effect, 0)
            self.members = []
            return report(effect, Outcome.DONE, "stopped", evidence=effect.seen)
        if isinstance(action, AwaitStarted):
            if self.broken:
                return report(effect, Outcome.FAILED, "it ends at once")
            if (left_out := self.left_out(effect, action)) is not None:
                return left_out
            self._ask(effect, int(action.before.get("replicas", 1)))
            self.starts_now()
            return report(effect, Outcome.DONE, "runs")
        return super().take(effect)

    def starts_now(self) -> None:
        self.members = list(AppWorld().members)

    def _ask(self, effect: TakeStep, replicas: int) -> None:
        if self.replicas != replicas:
            self.replicas = replicas
            self.asked.append(f"{effect.step}: {replicas}")


def remaining(world: AppWorld) -> list[str]:
    return list(world.core.remaining(world.state, world.now_ms))


def plain(*, ran: bool = True) -> ControlledWorld:
    return without_state(ControlledWorld(PLAIN, ran=ran))


def without_state(world: W) -> W:
    """An application without state and internal topics."""
    for name in ("app-counts-changelog", "app-by-key-repartition"):
        del world.topics[name]
    world.committed = {place: at for place, at in world.committed.items() if place[0] == "orders"}
    return world


CONTROLLED = {"outputs": {"log": OutputChoice(OutputPolicy.APPEND)}}


def failed(world: ControlledWorld, step: str, **more: object) -> ControlledWorld:
    world.fail_at(step, retriable=False)
    assert world.reprocess(**{**CONTROLLED, **more}) == "accepted"
    world.pass_time(10)
    assert world.workflow.state is State.FAILED, world.workflow.why
    world.fault = lambda _: None
    return world


def orders(world: AppWorld) -> set[int]:
    return {at for (topic, _), at in world.committed.items() if topic == "orders"}


def taken_back(world: ControlledWorld, *steps: str) -> None:
    """By just these steps, without anybody who does anything, and `confirm_start` acknowledged."""
    if world.waits_at == "confirm_start":
        assert world.ack("confirm_start") == "accepted"
    world.pass_time(20)
    assert world.workflow.state is State.ROLLED_BACK, world.workflow.why
    back = [step.name for step in world.workflow.steps][-len(steps) :]
    assert back == list(steps)
    assert world.workflow.step is None


BACK = ("await_empty_again", "put_back_offsets", "start_application_again")


def test_an_application_that_was_stopped_is_started_as_it_ran_once_its_offsets_are_back() -> None:
    world = failed(plain(), "start_application")
    assert (world.asked, orders(world)) == (["stop_application: 0"], {0})
    assert world.rollback() == "accepted"
    assert "not started" not in world.answers[-1].message
    taken_back(world, "stop_application_again", *BACK)
    assert (world.asked[1:], orders(world)) == (["start_application_again: 3"], {60})


def test_one_that_did_not_run_before_is_not_started() -> None:
    world = failed(plain(ran=False), "start_application")
    assert world.rollback() == "accepted"
    taken_back(world, *BACK[:2])
    assert (world.asked, world.replicas) == ([], 0)


def test_one_that_was_only_stopped_is_started_again() -> None:
    world = failed(plain(), "snapshot")
    assert "`rollback` puts back what was changed" in world.workflow.why
    assert world.rollback() == "accepted"
    taken_back(world, "start_application_again")
    assert world.replicas == 3


def test_one_that_was_started_since_is_stopped_before_its_offsets_are_put_back() -> None:
    world = failed(plain(), "await_caught_up")
    assert (world.replicas, orders(world)) == (3, {0})
    assert world.rollback() == "accepted"
    taken_back(world, "stop_application_again", *BACK)
    assert world.asked[2:] == ["stop_application_again: 0", "start_application_again: 3"]
    assert orders(world) == {60}


@pytest.mark.parametrize("step", ["set_offsets", "start_application"])
def test_one_that_people_or_a_platform_started_since_is_stopped_before_its_offsets_are_put_back(step: str) -> None:
    world = failed(plain(), step)
    world.replicas = 3
    world.starts_now()
    assert world.rollback() == "accepted"
    taken_back(world, "stop_application_again", *BACK)
    assert world.asked[1:] == ["stop_application_again: 0", "start_application_again: 3"]
    assert orders(world) == {60}


def test_one_that_people_started_since_runs_on_where_nothing_has_to_be_put_back() -> None:
    world = failed(plain(), "recreate_topics", outputs={"log": OutputChoice(OutputPolicy.RECREATE)})
    world.replicas = 3
    world.starts_now()
    assert world.rollback() == "accepted"
    taken_back(world, "start_application_again")
    assert (world.asked, orders(world)) == (["stop_application: 0"], {60})
    assert "put_back_offsets" not in {step.name for step in world.workflow.steps}


def test_a_rollback_that_fails_says_that_it_left_the_application_stopped() -> None:
    world = failed(plain(), "await_caught_up")
    world.fail_at("put_back_offsets", retriable=False)
    assert world.rollback() == "accepted"
    world.pass_time(20)
    assert (world.workflow.state, world.replicas) == (State.FAILED, 0)
    assert world.workflow.why == "put_back_offsets: no answer; shop is stopped"


def test_one_that_was_told_to_stop_is_stopped_before_it_is_started() -> None:
    world = plain()

    def never_stops(effect: TakeStep) -> StepReported | None:
        if effect.step == "stop_application" and "before" in effect.seen:
            return report(effect, Outcome.NOT_YET, "it stops", evidence=effect.seen)
        return None

    world.fault = never_stops
    assert world.reprocess(**CONTROLLED) == "accepted"
    world.pass_time(5)
    assert world.stop() == "accepted"
    assert world.workflow.state is State.STOPPED
    world.fault = lambda _: None
    assert world.rollback() == "accepted"
    taken_back(world, "stop_application_again", "start_application_again")
    assert world.asked == ["stop_application_again: 0", "start_application_again: 3"]


def test_where_records_went_it_is_started_once_a_person_says_that_it_can_go_on() -> None:
    world = failed(plain(), "start_application", outputs={"log": OutputChoice(OutputPolicy.RECREATE)})
    assert world.rollback() == "accepted"
    world.pass_time(20)
    assert (world.waits_at, world.replicas, orders(world)) == ("confirm_start", 0, {60})
    assert world.workflow.why == "say that shop can go on with what is left: records of log are gone for good"
    taken_back(world, *BACK[:2], "confirm_start", BACK[2])
    assert world.replicas == 3


def test_one_that_does_not_come_up_fails_the_rollback_which_can_be_sent_again() -> None:
    world = failed(plain(), "start_application")
    world.broken = True
    assert world.rollback() == "accepted"
    world.pass_time(20)
    assert (world.workflow.state, "start_application_again: it ends" in world.workflow.why) == (State.FAILED, True)
    world.broken = False
    assert world.rollback() == "accepted"
    taken_back(world, *BACK)
    assert world.replicas == 3


@pytest.mark.parametrize("name", ["stop_application_again", *BACK])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_daemon_that_dies_on_the_way_back_goes_on_there_and_starts_it_once(name: str, is_done: bool) -> None:
    world = failed(plain(), "await_caught_up")
    world.die_at(name, is_done=is_done)
    assert world.rollback() == "accepted"
    world.pass_time(10)
    world.live_again()
    taken_back(world, "stop_application_again", *BACK)
    assert world.asked[2:] == ["stop_application_again: 0", "start_application_again: 3"]


def saved_and_started() -> ControlledWorld:
    """A savepoint was made, for which the application was stopped, and somebody has started it since."""
    world = ControlledWorld()
    assert save(world) == "accepted"
    for _ in range(3):
        world.complete_children()
    assert (world.workflow.state, world.replicas) == (State.COMPLETED, 0), world.workflow.why
    world.replicas = 3
    world.starts_now()
    return world


def restore_failed() -> ControlledWorld:
    """The restore of a savepoint failed and is taken back, as far as it can be without a word of a person."""
    world = saved_and_started()
    world.fail_at("set_offsets", retriable=False)
    assert restore(world) == "accepted"
    for _ in range(3):
        world.complete_children()
    assert (world.look("w2").state, world.replicas) == (State.FAILED, 0), world.look("w2").why
    world.fault = lambda _: None
    assert world.send(Rollback, subject="w2") == "accepted"
    world.pass_time(20)
    return world


def test_a_restore_that_is_taken_back_starts_it_too() -> None:
    world = restore_failed()
    assert world.waiting("w2") == "confirm_start"
    assert world.ack("confirm_start", "w2") == "accepted"
    world.pass_time(10)
    assert (world.look("w2").state, world.asked[-1]) == (State.ROLLED_BACK, "start_application_again: 3")


def test_a_savepoint_says_beforehand_and_at_its_end_that_it_leaves_the_application_stopped() -> None:
    world = ControlledWorld(replace(UNIT, control=ControlKind.PROCESS))
    assert save(world) == "accepted"
    plan = world.workflow.plan
    assert plan is not None
    assert "shop is stopped for it, and not started again" in "\n".join(plan.findings)
    for _ in range(3):
        world.complete_children()
    assert (world.workflow.state, world.replicas) == (State.COMPLETED, 0), world.workflow.why
    assert world.workflow.why.endswith("completed; shop is stopped")
    by_hand = AppWorld()
    assert save(by_hand) == "accepted"
    assert by_hand.workflow.plan is not None
    assert "stopped for it" not in "\n".join(by_hand.workflow.plan.findings)


def test_whether_the_application_of_a_completed_savepoint_runs_nobody_knows_who_deletes_it() -> None:
    world = saved_and_started()
    world.fail_at("delete_copies", retriable=False)
    assert world.rollback() == "accepted"
    assert "stopped" not in world.answers[-1].message
    assert (world.workflow.state, world.workflow.why) == (State.FAILED, "delete_copies: no answer")
    assert world.rollback() == "accepted"
    assert (world.workflow.state, world.workflow.why) == (State.FAILED, "delete_copies: no answer")


def test_one_that_was_stopped_for_a_savepoint_that_ended_early_is_said_to_be_stopped() -> None:
    world = ControlledWorld()
    assert save(world) == "accepted"
    world.pass_time(10)
    assert (world.waits_at, world.stop()) == ("copy_state", "accepted")
    assert world.workflow.state is State.STOPPED
    world.fail_at("delete_copies", retriable=False)
    assert world.rollback() == "accepted"
    assert (world.workflow.state, world.workflow.why) == (State.FAILED, "delete_copies: no answer; shop is stopped")


class SlowWorld(ControlledWorld):
    """The application takes its time to end. `is_at_it`: whoever controls it needs nobody for that."""

    def __init__(self, *units: object, ran: bool = True) -> None:
        self.is_at_it = True
        super().__init__(*units, ran=ran)

    def take(self, effect: TakeStep) -> StepReported:
        if isinstance(effect.action, AwaitStopped) and "before" in effect.seen and self.members:
            return report(effect, Outcome.NOT_YET, "it ends", evidence=effect.seen, is_under_way=self.is_at_it)
        return super().take(effect)


def test_a_run_that_ends_when_nothing_is_left_waits_for_an_application_that_is_being_stopped() -> None:
    world = without_state(SlowWorld(PLAIN))
    assert world.reprocess(**CONTROLLED) == "accepted"
    world.pass_time(10)
    assert (world.waits_at, remaining(world)) == ("stop_application", ["w1"])
    world.is_at_it = False
    world.pass_time(10)
    assert (world.waits_at, remaining(world)) == ("stop_application", []), "a person has to mend something"
    world.is_at_it = True
    world.pass_time(10)
    assert remaining(world) == ["w1"]
