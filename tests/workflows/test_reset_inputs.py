"""A `reset` of all inputs of a unit is carried out on those that it was planned for, or not at all."""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.spec import Earliest
from recoveryd.units.events import UnitsRead
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.commands import Reset
from recoveryd.workflows.model.effects import GatherForWorkflow
from recoveryd.workflows.model.events import WorkflowFacts
from recoveryd.workflows.model.spec import ResetSpec
from recoveryd.workflows.wire.status import WorkflowForm
from tests.workflows.test_reset import BEFORE, at
from tests.workflows.world import LOG, OWNED, TOPIC, GroupWorld

ALL_INPUTS = ResetSpec("", "", Earliest(), unit="owned")


@pytest.mark.parametrize(
    ("inputs", "change"),
    [
        ((TOPIC, "returns"), "owned reads returns now, and did not"),
        (("returns",), "owned reads returns now, and did not"),
        ((), f"owned does not read {TOPIC} any more, and did"),
    ],
)
def test_a_unit_that_has_other_inputs_when_it_is_approved_is_not_reset_by_those_of_before(
    inputs: tuple[str, ...], change: str
) -> None:
    world = GroupWorld(OWNED)
    world.topics.add("returns")
    assert world.send(lambda meta: Reset(meta, ALL_INPUTS)) == "accepted"
    world.feed(UnitsRead({"owned": replace(OWNED, inputs=inputs)}))
    assert world.approve("//ops/kim") == "accepted"
    assert (world.workflow.state, world.workflow.error_code) == (State.REJECTED, Code.STALE_PLAN.value)
    assert world.workflow.why == f"{change} when the command was taken; nothing was changed"
    assert world.committed == BEFORE


def test_a_unit_that_gets_other_inputs_while_its_plan_is_made_is_not_reset_by_those_of_before() -> None:
    world = GroupWorld(replace(OWNED, approvers=()))
    world.topics.add("returns")
    gather = world.gather

    def reads_more(effect: GatherForWorkflow) -> WorkflowFacts:
        world.feed(UnitsRead({"owned": replace(OWNED, approvers=(), inputs=(TOPIC, "returns"))}))
        return gather(effect)

    world.gather = reads_more  # type: ignore[method-assign]
    world.send(lambda meta: Reset(meta, ALL_INPUTS))
    assert (world.answers[-1].code, world.committed) == (Code.STALE_PLAN.value, BEFORE)


def test_topics_that_the_command_names_are_meant_whatever_the_unit_reads_by_then() -> None:
    world = GroupWorld(OWNED)
    world.send(lambda meta: Reset(meta, replace(ALL_INPUTS, topics={TOPIC: ()})))
    world.feed(UnitsRead({"owned": replace(OWNED, inputs=(TOPIC, "returns"))}))
    assert world.approve("//ops/kim") == "accepted"
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(LOG[0]))


def test_a_reset_of_an_earlier_release_that_waits_is_read_and_goes_on() -> None:
    world = GroupWorld(OWNED)
    world.send(lambda meta: Reset(meta, ALL_INPUTS))
    written = WorkflowForm().write(world.workflow)
    assert written["internal"]["spec"].pop("all_inputs") is True
    earlier = WorkflowForm().read(written)
    assert earlier == replace(world.workflow, spec=replace(world.workflow.spec, all_inputs=False))
    known = world.state.of(WORKFLOWS)
    world.state = world.state.having(WORKFLOWS, known.with_workflow(earlier))
    world.feed(UnitsRead({"owned": replace(OWNED, inputs=(TOPIC, "returns"))}))
    assert world.approve("//ops/kim") == "accepted"
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(LOG[0]))
