"""A cluster that does not answer ends no workflow that only looks: it goes on to its deadline, and its record says
since when nothing is known and why.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Pause, Resume
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import RunbookPath
from recoveryd.workflows.model.workflow import StepState, WaitingFor
from tests.workflows.app_world import PARTITIONS, AppWorld
from tests.workflows.runbook_world import RunbookWorld
from tests.workflows.test_reset_faults import BEFORE, BUSY, SET
from tests.workflows.world import GroupWorld, WorkflowWorld, report

ACK_S, EMPTY_S, READY_S = 86_400, 600, 1_800  # how long each is waited for


def silence(world: WorkflowWorld, step: str) -> None:
    """Until it is lifted."""
    world.fail_at(step, retriable=True, times=10_000)


def waiting_of(world: WorkflowWorld) -> WaitingFor:
    waiting = world.workflow.waiting_for
    assert waiting is not None
    return waiting


def waits_empty() -> GroupWorld:
    """The group has a member."""
    world = GroupWorld()
    world.members = [BUSY]
    world.reset()
    return world


def at(step: str) -> Callable[[], AppWorld]:
    """A reprocess that waits there."""

    def made() -> AppWorld:
        world = AppWorld()
        world.reprocess()
        if step != "stop_application":
            world.stops()
            world.ack("clean_local_state")
        if step == "await_caught_up":
            world.starts(reads_all=False)
        assert world.waits_at == step
        return world

    return made


def verifies() -> RunbookWorld:
    world = RunbookWorld()
    world.begin(RunbookPath.RESUME)
    world.starts(reads_all=False)
    assert world.waits_at == "verify"
    return world


@pytest.mark.parametrize(
    ("begun", "kind"),
    [
        (waits_empty, "group_empty"),
        (at("stop_application"), "ack"),
        (at("start_application"), "ack"),
        (at("await_caught_up"), "ready"),
        (verifies, "gates"),
    ],
)
def test_a_wait_outlasts_a_cluster_that_is_silent_for_a_while(begun: Callable[[], WorkflowWorld], kind: str) -> None:
    world = begun()
    heard, before = world.workflow.why, waiting_of(world)
    step, began_ms = before.step, world.now_ms
    silence(world, step)
    world.pass_time(500)
    silent = waiting_of(world)
    assert (world.workflow.state, silent.kind, silent.step) == (State.WAITING, kind, step)
    assert silent.unanswered_since_ms is not None
    assert began_ms <= silent.unanswered_since_ms < began_ms + 70_000
    assert replace(silent, unanswered_since_ms=None, last_error="") == before, (
        "what was heard last, until the same time"
    )
    assert world.workflow.why.startswith(f"{heard}; no answer since 2")
    assert world.workflow.why.endswith("Z: no answer")
    assert not world.workflow.waits_for_a_person, "nobody knows"
    world.fault = lambda _: None
    world.pass_time(70)
    assert (waiting_of(world).step, waiting_of(world).unanswered_since_ms) == (step, None)
    assert world.workflow.why == heard


def test_what_was_waited_for_meanwhile_is_seen_when_the_cluster_answers_again() -> None:
    world = waits_empty()
    silence(world, "await_empty")
    world.pass_time(300)
    world.members = []
    assert world.committed == BEFORE
    world.fault = lambda _: None
    world.pass_time(40)
    assert (world.workflow.state, world.committed) == (State.COMPLETED, SET)


def test_nobody_is_kept_from_saying_that_it_is_done() -> None:
    world = at("stop_application")()
    silence(world, "stop_application")
    world.pass_time(400)
    assert world.ack("stop_application") == "accepted"
    world.pass_time(5)
    assert world.waits_at == "await_empty"


@pytest.mark.parametrize(
    ("begun", "after_s", "code"),
    [
        (waits_empty, EMPTY_S, Code.CLUSTER_UNREACHABLE),
        (at("stop_application"), ACK_S, Code.ACK_EXPIRED),
        (at("await_caught_up"), READY_S, Code.CLUSTER_UNREACHABLE),
    ],
)
def test_it_ends_at_the_deadline_that_it_had(begun: Callable[[], WorkflowWorld], after_s: int, code: Code) -> None:
    world = begun()
    deadline_ms = waiting_of(world).deadline_ms
    assert deadline_ms is not None
    silence(world, waiting_of(world).step)
    world.pass_time((deadline_ms - world.now_ms) // 1_000 - 1)
    assert world.workflow.state is State.WAITING
    assert waiting_of(world).deadline_ms == deadline_ms
    world.pass_time(35)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, code.value)
    assert "Z: no answer; it was waited for long enough" in world.workflow.why
    assert abs(deadline_ms - world.workflow.created_ms - after_s * 1_000) < 30_000


def test_one_that_is_not_answered_from_the_beginning_says_so_and_has_the_same_deadline() -> None:
    world = GroupWorld()
    silence(world, "await_empty")
    world.reset()
    waiting = waiting_of(world)
    assert waiting == WaitingFor(
        "group_empty",
        "await_empty",
        world.now_ms,
        world.now_ms + EMPTY_S * 1_000,
        (),
        None,
        False,
        world.now_ms,
        "no answer",
    )
    assert world.workflow.why == "no answer since 2027-01-15T08:00:00.000Z: no answer"
    world.pass_time(EMPTY_S - 1)
    assert world.workflow.state is State.WAITING
    world.pass_time(35)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.CLUSTER_UNREACHABLE.value)


def test_what_is_only_looked_at_once_waits_for_the_answer() -> None:
    world = GroupWorld()
    silence(world, "snapshot")
    world.reset()
    assert (waiting_of(world).kind, waiting_of(world).step) == ("answer", "snapshot")
    world.pass_time(400)
    assert world.workflow.state is State.WAITING
    world.fault = lambda _: None
    world.pass_time(35)
    assert (world.workflow.state, world.committed) == (State.COMPLETED, SET)


def test_gates_that_are_looked_at_late_for_the_first_time_are_waited_for_as_long_as_others() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.RESUME)
    silence(world, "verify")
    world.starts(reads_all=False)
    world.pass_time(1_000)
    assert waiting_of(world).kind == "answer"
    world.fault = lambda _: None
    world.pass_time(35)
    waiting = waiting_of(world)
    assert (waiting.kind, waiting.unanswered_since_ms, waiting.since_ms > world.now_ms - 35_000) == (
        "gates",
        None,
        True,
    )
    assert waiting.deadline_ms == waiting.since_ms + ACK_S * 1_000


def test_a_defect_is_no_silence() -> None:
    world = waits_empty()

    def breaks(effect: TakeStep) -> StepReported:
        return report(effect, Outcome.FAILED, "KeyError: 0", code=Code.INVARIANT_BROKEN.value, is_retriable=True)

    world.fault = breaks
    world.pass_time(120)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.INVARIANT_BROKEN.value)


def test_a_refusal_ends_it_at_once() -> None:
    world = waits_empty()
    world.fail_at("await_empty", retriable=False)
    world.pass_time(5)
    assert world.workflow.state is State.FAILED


def test_looks_become_rare_and_what_is_known_already_is_not_told_again() -> None:
    world = at("stop_application")()
    silence(world, "stop_application")
    world.pass_time(60)
    step = world.workflow.step
    assert step is not None
    version, tries = world.workflow.version, step.tries
    world.pass_time(3_600)
    step = world.workflow.step
    assert step is not None
    assert (world.workflow.version, step.tries - tries <= 121) == (version, True)


def test_the_next_daemon_and_a_pause_keep_to_what_is_known() -> None:
    world = waits_empty()
    silence(world, "await_empty")
    world.pass_time(100)
    before = waiting_of(world)
    world.lead()
    world.pass_time(60)
    assert waiting_of(world) == before
    world.send(Pause)
    assert (world.workflow.state, world.workflow.waiting_for) == (State.PAUSED, None)
    world.send(Resume)
    assert waiting_of(world).unanswered_since_ms == world.now_ms
    assert world.stop() == "accepted"
    assert world.workflow.state is State.STOPPED


@pytest.mark.parametrize("is_moving", [True, False])
def test_silence_is_no_progress_and_does_not_count_once_it_ends(is_moving: bool) -> None:
    world = at("await_caught_up")()
    deadline_ms = waiting_of(world).deadline_ms
    assert deadline_ms is not None
    silence(world, "await_caught_up")
    world.pass_time(1_000)
    assert waiting_of(world).deadline_ms == deadline_ms
    world.fault = lambda _: None
    world.committed |= {("orders", p): 99 for p in range(PARTITIONS)} if is_moving else {}
    world.pass_time(40)
    anew_ms = world.now_ms if is_moving else deadline_ms - READY_S * 1_000 + 1_000_000
    assert abs((waiting_of(world).deadline_ms or 0) - anew_ms - READY_S * 1_000) < 60_000
    step = world.workflow.step
    assert step is not None
    assert (step.state, step.failures) == (StepState.WAITING, 0)
