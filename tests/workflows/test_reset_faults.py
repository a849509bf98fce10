"""What goes wrong around a reset in the core: a group that comes alive, errors after a long wait, a stop in between."""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Pause
from recoveryd.recovery.spec import AtOffset, Earliest
from recoveryd.units.facts import Member, PartitionEnds
from recoveryd.workflows.model.commands import Reset
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.positions import AtTopicOffsets, Current, OnOutOfRange, Shift, To
from recoveryd.workflows.model.spec import ResetSpec
from recoveryd.workflows.model.workflow import OffsetUndo, StepState
from tests.patience import Counted
from tests.workflows.world import LOG, PARTITIONS, TOPIC, GroupWorld, report

BEFORE = dict.fromkeys(range(PARTITIONS), 50)
SET = dict.fromkeys(range(PARTITIONS), 10)
BUSY = Member("m1", "busy", "host")


def comes_alive(world: GroupWorld) -> None:
    """Between the look at the group and the commit, somebody starts the application: the commit is refused."""

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step != "set_offsets" or not world.members:
            return None
        return report(effect, Outcome.NOT_YET, "1 members", members=("busy on host",))

    def joins(effect: TakeStep) -> StepReported | None:
        if effect.step == "set_offsets":
            world.members, world.fault = [BUSY], fault
            return fault(effect)
        return None

    world.fault = joins


def test_a_group_that_comes_alive_before_the_commit_is_waited_for_again() -> None:
    world = GroupWorld()
    comes_alive(world)
    world.reset()
    waiting = world.workflow.waiting_for
    assert waiting is not None
    assert (world.workflow.state, waiting.step, waiting.members) == (State.WAITING, "set_offsets", ("busy on host",))
    assert world.committed == BEFORE
    world.members = []
    world.pass_time(5)
    assert (world.workflow.state, world.committed) == (State.COMPLETED, SET)


def test_what_it_committed_meanwhile_is_not_overwritten() -> None:
    world = GroupWorld()
    comes_alive(world)
    world.reset()
    world.committed[1], world.members = 77, []
    world.pass_time(5)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_CHANGED.value)
    assert world.committed == {**BEFORE, 1: 77}


def test_a_group_that_stays_alive_ends_the_wait_with_its_reason() -> None:
    world = GroupWorld()
    comes_alive(world)
    world.reset()
    world.pass_time(700)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_NOT_EMPTY.value)
    assert world.committed == BEFORE


def test_a_stop_while_the_commit_waits_ends_it_once_nothing_is_being_set() -> None:
    world = GroupWorld()
    comes_alive(world)
    world.reset()
    assert world.stop() == "accepted"
    world.pass_time(5)
    assert (world.workflow.state, world.workflow.waiting_for) == (State.STOPPED, None)
    assert world.committed == BEFORE


def test_a_pause_while_a_try_of_the_commit_is_under_way_waits_until_something_is_heard_of_it() -> None:
    world = GroupWorld()
    comes_alive(world)
    world.reset()
    world.lost = True
    world.pass_time(3)
    assert world.send(Pause) == "accepted"
    assert world.workflow.state is State.PAUSING
    world.lost = False
    world.pass_time(130)
    assert (world.workflow.state, world.committed) == (State.PAUSED, BEFORE)
    world.lead()
    world.members = []
    assert world.stop() == "accepted", "what is paused is at rest, also for the next daemon"
    world.pass_time(5)
    assert (world.workflow.state, world.committed) == (State.STOPPED, BEFORE)


@pytest.mark.parametrize("how", ["stop", "pause", "pause and stop"])
def test_what_was_called_off_while_the_commit_waits_is_not_set_once_the_group_is_empty(how: str) -> None:
    world = GroupWorld()
    comes_alive(world)
    world.reset()
    world.members = []
    if "pause" in how:
        assert world.send(Pause) == "accepted"
        world.pass_time(5)
    if "stop" in how:
        assert world.stop() == "accepted"
        world.pass_time(5)
    assert (world.workflow.state, world.committed) == (State.STOPPED if "stop" in how else State.PAUSED, BEFORE)


@pytest.mark.parametrize("how", ["stop", "pause"])
@pytest.mark.parametrize("is_known", [True, False])
def test_what_was_called_off_after_a_try_that_failed_before_it_changed_anything_is_not_tried_again(
    how: str, is_known: bool
) -> None:
    """Of a try that may have changed something it has to be known, so it is looked how far it came."""
    world = GroupWorld()
    world.fail_at("set_offsets", retriable=True, times=2, untried=is_known)
    world.reset()
    assert (world.workflow.step.name, world.workflow.step.failures) == ("set_offsets", 1)  # type: ignore[union-attr]
    assert (world.stop() if how == "stop" else world.send(Pause)) == "accepted"
    world.pass_time(60)
    assert world.workflow.state is (State.STOPPED if how == "stop" else State.PAUSED)
    assert (world.committed, world.sets) == (BEFORE, 0)
    assert "was under way" not in world.workflow.why


def test_errors_after_a_long_wait_are_tried_again_as_often_as_at_first() -> None:
    """The looks at a group that has members are no failures."""
    world = GroupWorld()
    world.members = [BUSY]
    world.reset()
    world.pass_time(120)
    failed = 0

    def fault(effect: TakeStep) -> StepReported | None:
        nonlocal failed
        failed += 1
        code = Code.CLUSTER_UNREACHABLE.value
        return report(effect, Outcome.FAILED, "no answer", code=code, is_retriable=True) if failed <= 3 else None

    world.fault = fault
    world.members = []
    world.pass_time(120)
    assert failed > 3
    assert world.workflow.state is State.COMPLETED


def test_a_change_that_fails_in_a_row_too_often_ends_it() -> None:
    world = GroupWorld()
    world.fail_at("set_offsets", retriable=True)
    world.reset()
    world.pass_time(600)
    (*_rest, last) = world.workflow.steps
    assert (world.workflow.state, last.state, last.tries) == (State.FAILED, StepState.FAILED, 5)


def loses(world: GroupWorld, log_start: int, partitions: int = PARTITIONS) -> None:
    """Retention takes records while the group is waited for, or partitions are added."""
    world.members = [BUSY]

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step != "snapshot":
            return None
        logs = {TOPIC: {p: PartitionEnds(log_start, LOG[1]) for p in range(partitions)}}
        return replace(world.take(effect), logs=logs)

    world.fault = fault


@pytest.mark.parametrize(
    ("to", "policy", "stands"),
    [
        (AtOffset(20), OnOutOfRange.FAIL, None),
        (AtOffset(20), OnOutOfRange.CLAMP, 30),
        (AtOffset(40), OnOutOfRange.FAIL, 40),
        (Earliest(), OnOutOfRange.FAIL, 30),
    ],
)
def test_a_position_that_the_log_lost_meanwhile_is_not_set(to: To, policy: OnOutOfRange, stands: int | None) -> None:
    world = GroupWorld()
    loses(world, 30)
    world.reset(to, on_out_of_range=policy)
    world.members = []
    world.pass_time(5)
    if stands is None:
        assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.OFFSET_OUTSIDE_LOG.value)
        assert "orders 0: offset 20 lies outside the log, which has [30, 100)" in world.workflow.why
        assert world.committed == BEFORE
    else:
        assert world.workflow.state is State.COMPLETED
        assert world.committed == dict.fromkeys(range(PARTITIONS), stands)


@pytest.mark.parametrize(
    ("to", "topics", "is_refused"),
    [
        (Earliest(), None, True),
        (AtOffset(20), {TOPIC: ()}, True),
        (AtOffset(20), {TOPIC: (0, 1)}, False),
        (Current(), None, False),
        (AtTopicOffsets({TOPIC: {0: 20}}), None, False),
    ],
)
def test_partitions_that_come_after_the_plan_do_not_stay_where_they_are_without_a_word(
    to: To, topics: dict[str, tuple[int, ...]] | None, is_refused: bool
) -> None:
    world = GroupWorld()
    loses(world, LOG[0], PARTITIONS + 1)
    world.send(lambda meta: Reset(meta, ResetSpec("main", "app", to, topics=topics)))
    world.members = []
    world.pass_time(5)
    if is_refused:
        assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.STALE_PLAN.value)
        assert "orders has 4 partitions, and had 3" in world.workflow.why
        assert (world.committed, world.sets) == (BEFORE, 0)
    else:
        assert world.workflow.state is State.COMPLETED


@pytest.mark.parametrize(("by", "moves_to", "stands"), [(-60, 62, 10), (-60, 80, 20), (60, 55, 100), (60, 35, 95)])
def test_a_shift_that_is_clamped_counts_from_where_the_group_is_in_the_end(by: int, moves_to: int, stands: int) -> None:
    """At 50, which is where it is when the plan is made, each of them would lie outside the log."""
    world = GroupWorld()
    loses(world, LOG[0])
    assert world.reset(Shift(by), on_out_of_range=OnOutOfRange.CLAMP) == "accepted"
    world.committed = dict.fromkeys(range(PARTITIONS), moves_to)
    world.members = []
    world.pass_time(5)
    assert (world.workflow.state, world.committed) == (State.COMPLETED, dict.fromkeys(range(PARTITIONS), stands))


def test_what_was_noted_is_not_gone_through_once_for_each_partition() -> None:
    """A group may have ten thousand, and the daemon decides nothing else meanwhile."""
    world = GroupWorld()

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step != "snapshot":
            return None
        rows = tuple(OffsetUndo(TOPIC, p, 50, group="app") for p in range(1_000))
        return replace(world.take(effect), undo=Counted(rows))

    world.fault = fault
    Counted.visits = 0
    world.reset(Shift(-1))
    assert world.workflow.state is State.COMPLETED
    assert Counted.visits == 2
