"""Looks that take longer than they are waited for, as on a cluster with very many groups: they are heard all the same.
What changes something is heard of its last try only.
"""

from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Pause, Resume
from recoveryd.workflows.model.actions import LookAtUnit
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import RunbookPath
from tests.workflows.app_world import PARTITIONS
from tests.workflows.runbook_world import RunbookWorld
from tests.workflows.test_reset import BEFORE
from tests.workflows.world import GroupWorld


def late_at(world: RunbookWorld | GroupWorld, step: str) -> list[TakeStep]:
    """Of this step nothing is heard, until what is in the list is taken."""
    late: list[TakeStep] = []

    def slow(effect: TakeStep) -> StepReported | None:
        if effect.step != step:
            return None
        late.append(effect)
        return StepReported("nobody", "", 0, Outcome.DONE)

    world.fault = slow
    return late


def test_a_look_that_was_asked_for_once_more_meanwhile_is_heard() -> None:
    world = RunbookWorld()
    late = late_at(world, "identify")
    world.begin(**world.marks)
    world.pass_time(130)
    assert [effect.try_number for effect in late] == [1, 2]
    world.feed(world.take(late[0]))
    assert world.waits_at == "choose_path"
    world.feed(world.take(late[1]))
    assert world.waits_at == "choose_path"


def test_the_newer_of_two_looks_is_not_overtaken_by_the_older() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.RESUME)
    world.starts(reads_all=False)
    late = late_at(world, "verify")
    world.pass_time(130)
    assert len(late) == 2
    older = world.take(late[0])
    world.committed |= {("orders", p): 100 for p in range(PARTITIONS)}
    for seen in (world.take(late[1]), older):
        world.feed(seen)
        step = world.workflow.step
        assert step is not None
        assert (step.name, step.evidence["left"]) == ("verify", 0)


def test_what_was_looked_at_before_a_pause_does_not_count_after_it() -> None:
    world = RunbookWorld()
    late = late_at(world, "identify")
    world.begin(**world.marks)
    world.send(Pause)
    world.send(Resume)
    assert len(late) == 2
    world.feed(world.take(late[0]))
    assert (world.workflow.state, world.waits_at) == (State.RUNNING, None)
    world.feed(world.take(late[1]))
    assert world.waits_at == "choose_path"


def test_a_change_is_heard_of_its_last_try_only() -> None:
    world = GroupWorld()
    late = late_at(world, "set_offsets")
    world.reset()
    world.pass_time(130)
    assert len(late) == 2
    world.feed(StepReported("w1", "set_offsets", 1, Outcome.DONE, "set"))
    assert (world.workflow.state, world.committed) == (State.RUNNING, BEFORE)
    world.feed(world.take(late[1]))
    assert world.workflow.state is State.COMPLETED


def test_who_reads_the_outputs_is_asked_once_and_not_with_each_look() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.RESUME)
    looks = {step.name: step.action for step in world.workflow.steps if isinstance(step.action, LookAtUnit)}
    assert {name for name, look in looks.items() if look.with_readers} == {"identify"}
