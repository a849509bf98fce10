"""A workflow that ends while an application was told to start, and was not seen to run, says so and why, however it
ends, and so does a rollback. Else nobody would know that nothing runs.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Pause
from recoveryd.units.model import ControlKind
from recoveryd.workflows.model.actions import AwaitStarted, AwaitStopped
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from tests.workflows.app_world import AppWorld
from tests.workflows.test_starting_again import CONTROLLED, PLAIN, ControlledWorld, failed, plain, without_state
from tests.workflows.test_upgrade import FITS, OLD, UpgradeWorld
from tests.workflows.world import report

CRASH = "shop is stopped: it ended with exit code 1; mend it and `pause` and `resume` w1"
UNSEEN = "shop was told to start, and was not seen to run"


def never_runs(step: str, why: str = CRASH) -> Callable[[TakeStep], StepReported | None]:
    return lambda effect: report(effect, Outcome.NOT_YET, why, evidence=effect.seen) if effect.step == step else None


def starting(world: ControlledWorld) -> ControlledWorld:
    world.fault = never_runs("start_application")
    assert world.reprocess(**CONTROLLED) == "accepted"
    world.pass_time(10)
    assert world.waits_at == "start_application", world.workflow.why
    return world


def told_at_the_end(world: AppWorld, state: State) -> str:
    """As status and event both say."""
    assert world.workflow.state is state, world.workflow.why
    event = next(notice for notice in reversed(world.notices) if notice.type == f"workflow_{state.value}")
    assert event.data["why"] == world.workflow.why
    return world.workflow.why


@pytest.mark.parametrize("paused", [False, True])
def test_a_stop_says_that_it_was_not_seen_to_run_and_why(*, paused: bool) -> None:
    world = starting(plain())
    assert not paused or world.send(Pause) == "accepted"
    assert world.stop() == "accepted"
    assert told_at_the_end(world, State.STOPPED) == f"stopped by //ops/ann: r; {UNSEEN}: {CRASH}"


def test_one_of_whose_start_nothing_was_heard_yet_is_not_said_to_run() -> None:
    world = plain()
    world.die_at("start_application", is_done=False)
    world.reprocess(**CONTROLLED)
    world.pass_time(10)
    world.fault, world.lost = (lambda _: None), False
    world.stop()
    assert told_at_the_end(world, State.STOPPED) == f"stopped by //ops/ann: r; {UNSEEN}"


def test_a_start_that_was_waited_for_long_enough_says_so_too() -> None:
    world = starting(plain())
    world.pass_time(90_000, every_s=600)
    assert f"waited for long enough; {UNSEEN}; `rollback`" in told_at_the_end(world, State.FAILED)


def test_one_that_was_seen_to_run_is_not_named_and_neither_is_one_that_people_start() -> None:
    world = failed(plain(), "await_caught_up")
    assert "seen to run" not in world.workflow.why
    by_hand = without_state(AppWorld(PLAIN))
    by_hand.reprocess(**CONTROLLED)
    by_hand.stops()
    assert by_hand.waits_at == "start_application"
    by_hand.stop()
    assert told_at_the_end(by_hand, State.STOPPED) == "stopped by //ops/ann: r"


def test_a_rollback_that_is_stopped_while_it_is_started_again_says_so() -> None:
    world = failed(plain(), "await_caught_up")
    world.fault = never_runs("start_application_again")
    world.rollback()
    world.pass_time(20)
    assert world.waits_at == "start_application_again"
    world.stop()
    assert told_at_the_end(world, State.STOPPED) == f"stopped by //ops/ann: r; {UNSEEN}: {CRASH}"


def test_a_rollback_that_starts_nothing_itself_says_so_at_its_end() -> None:
    world = starting(plain(ran=False))
    world.stop()
    world.fault = lambda _: None
    world.rollback()
    world.pass_time(20)
    assert told_at_the_end(world, State.ROLLED_BACK).endswith(f"; {UNSEEN}: {CRASH}")


def test_of_two_versions_of_which_none_may_run_both_are_named() -> None:
    world = UpgradeWorld(replace(FITS, control=ControlKind.PROCESS), replace(OLD, control=ControlKind.PROCESS))

    def controlled(effect: TakeStep) -> StepReported | None:
        if isinstance(effect.action, AwaitStarted):
            return report(effect, Outcome.NOT_YET, "it ended with 1")
        if not isinstance(effect.action, AwaitStopped):
            return None
        world.members = []
        return report(effect, Outcome.DONE, "stopped", evidence={"before": {"replicas": 3}, "ran_before": True})

    world.fault = controlled
    assert world.upgrade() == "accepted"
    world.pass_time(20)
    assert world.waits_at == "start_application", world.workflow.why
    assert world.send(StopCommand) == "accepted"
    told = "shop is stopped; shop-v2 was told to start, and was not seen to run: it ended with 1"
    assert told_at_the_end(world, State.STOPPED) == f"stopped by //ops/ann: r; {told}"
