"""The four confirmations of a reset in the core: what the plan finds, what is asked, and what is refused."""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.spec import AtOffset, Earliest
from recoveryd.units.model import Behaviour, ConfirmationPolicy, Output, Unit
from recoveryd.workflows.model.commands import Ack, Reset
from recoveryd.workflows.model.positions import AtTopicOffsets, OnOutOfRange
from recoveryd.workflows.model.spec import ResetSpec, StateChoice
from tests.workflows.world import LOG, OWNED, PARTITIONS, TOPIC, GroupWorld

BEFORE = dict.fromkeys(range(PARTITIONS), 50)
APPENDS = replace(
    OWNED,
    approvers=(),
    outputs={"out": Output(Behaviour.APPEND_ONLY)},
    confirmations=ConfirmationPolicy.ASKED,
)
STRICT = replace(APPENDS, approvers=("//ops/kim",), confirmations=ConfirmationPolicy.REQUIRED)
SAID = {"outputs": "the last day of `out` is made again; readers drop doubles by id"}
INSIDE = AtOffset(LOG[0] + 10)


def ask(world: GroupWorld, **more: object) -> str:
    spec = ResetSpec("", "", more.pop("to", INSIDE), unit="owned", **more)  # type: ignore[arg-type]
    return world.send(lambda meta: Reset(meta, spec))


def found(world: GroupWorld) -> dict[str, str]:
    assert world.workflow.plan is not None
    return {each.item.value: each.by.value for each in world.workflow.plan.confirmations}


def test_who_says_nothing_of_an_output_that_is_not_idempotent_is_asked_before_anything_happens() -> None:
    world = GroupWorld(APPENDS)
    assert ask(world) == "accepted"
    assert found(world) == {"retention": "plan", "outputs": "open", "scope": "plan", "owner": "open"}
    waiting = world.workflow.waiting_for
    assert waiting is not None
    assert (world.workflow.state, waiting.kind, waiting.step) == (State.WAITING, "ack", "confirm_output")
    assert "out is append_only where a record is written twice" in world.workflow.why
    assert world.committed == BEFORE
    world.send(lambda meta: Ack(meta, "confirm_output", SAID["outputs"]))
    world.pass_time(5)
    assert (world.workflow.state, world.committed) == (State.COMPLETED, dict.fromkeys(range(PARTITIONS), 20))
    assert SAID["outputs"] in world.workflow.steps[0].why


@pytest.mark.parametrize(
    ("unit", "said"),
    [(APPENDS, SAID), (replace(APPENDS, outputs={"out": Output(Behaviour.IDEMPOTENT)}), {}), (replace(APPENDS, outputs={}), {})],
)  # fmt: skip
def test_who_said_it_or_has_nothing_to_say_is_not_asked(unit: Unit, said: dict[str, str]) -> None:
    world = GroupWorld(unit)
    ask(world, confirm=said)
    assert world.workflow.state is State.COMPLETED
    assert found(world)["outputs"] == ("person" if said else "plan")


@pytest.mark.scenario("S-RUN-27", "S-RUN-31")
@pytest.mark.parametrize(
    ("unit", "more", "item"),
    [
        (STRICT, {}, "outputs"),
        (replace(STRICT, approvers=()), {"confirm": SAID}, "owner"),
        (STRICT, {"confirm": SAID, "to": Earliest()}, "retention"),
        (STRICT, {"confirm": SAID, "to": AtOffset(1), "on_out_of_range": OnOutOfRange.CLAMP}, "retention"),
        (replace(STRICT, stateful=True), {"confirm": SAID, "state": StateChoice.KEEP}, "scope"),
        (STRICT, {"confirm": SAID, "topics": {TOPIC: (0,)}}, "scope"),
        (STRICT, {"confirm": SAID, "to": AtTopicOffsets({TOPIC: {0: 20}})}, "scope"),
        (replace(STRICT, inputs=(TOPIC, "more")), {"confirm": SAID, "topics": {TOPIC: ()}}, "scope"),
    ],
)
def test_where_all_four_are_required_one_that_is_open_refuses_it(
    unit: Unit, more: dict[str, object], item: str
) -> None:
    world = GroupWorld(unit)
    assert ask(world, **more) == "rejected"
    assert world.answers[-1].code == Code.NOT_CONFIRMED.value
    assert world.answers[-1].message.startswith(f"{item} is not confirmed for owned: ")
    assert world.committed == BEFORE


@pytest.mark.scenario("S-RUN-31")
def test_with_all_four_it_waits_for_the_owner_alone() -> None:
    world = GroupWorld(replace(STRICT, stateful=True))
    said = {**SAID, "scope": "the store is a cache", "retention": "the first day is not needed"}
    assert ask(world, confirm=said, to=Earliest(), state=StateChoice.KEEP) == "accepted"
    assert found(world) == {"retention": "person", "outputs": "person", "scope": "person", "owner": "plan"}
    assert world.workflow.state is State.AWAITING_APPROVAL
    assert world.approve("//ops/kim") == "accepted"
    assert (world.workflow.state, world.committed) == (State.COMPLETED, dict.fromkeys(range(PARTITIONS), LOG[0]))


def test_by_itself_a_plan_says_what_is_open_and_holds_nothing_up() -> None:
    world = GroupWorld(replace(OWNED, approvers=(), outputs={"out": Output(Behaviour.APPEND_ONLY)}))
    ask(world)
    assert found(world) == {"retention": "plan", "outputs": "open", "scope": "plan", "owner": "open"}
    assert world.workflow.state is State.COMPLETED


def test_a_group_that_is_no_units_keeps_what_was_said() -> None:
    world = GroupWorld()
    world.reset(confirm=SAID)
    assert (world.workflow.state, found(world)) == (State.COMPLETED, {"outputs": "person"})
