"""A reset says what becomes of the state of a unit that keeps some, in the core."""

from dataclasses import replace
from typing import Any

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.spec import AtOffset
from recoveryd.units.model import Unit, UnitKind
from recoveryd.units.topology import Topology
from recoveryd.workflows.model.commands import Ack, Reset
from recoveryd.workflows.model.positions import Current
from recoveryd.workflows.model.spec import ResetSpec, StateChoice
from tests.workflows.world import LOG, OWNED, PARTITIONS, TOPIC, GroupWorld

BARE = replace(OWNED, approvers=())
KEEPS = replace(BARE, stateful=True)
STREAMS = replace(BARE, kind=UnitKind.STREAMS)
INSIDE = AtOffset(LOG[0] + 10)
BEFORE, AFTER = dict.fromkeys(range(PARTITIONS), 50), dict.fromkeys(range(PARTITIONS), 20)


def ask(world: GroupWorld, **more: Any) -> str:
    spec = ResetSpec("", "", more.pop("to", INSIDE), unit="owned", **more)
    return world.send(lambda meta: Reset(meta, spec))


@pytest.mark.scenario("S-RUN-6")
@pytest.mark.parametrize(
    ("unit", "hint"),
    [
        (KEEPS, "Say `state: keep` if it is right as it is, or say `state: clean` if somebody will empty it, or use `reprocess`"),
        (STREAMS, "Say `state: keep` if it is right as it is, or use `reprocess` to begin with empty state."),
        (replace(KEEPS, kind=UnitKind.FLINK), "Say `state: keep` if it is right as it is, or say `state: clean` if somebody will"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", [{}, {"dry_run": True}, {"confirm": {"scope": "all of it"}}])
def test_a_unit_that_keeps_state_is_refused_without_a_word_about_it(
    unit: Unit, hint: str, more: dict[str, Any]
) -> None:
    world = GroupWorld(unit)
    assert ask(world, **more) == "rejected"
    assert world.answers[-1].code == Code.MISSING_FIELD.value
    assert world.answers[-1].message == (
        "state: nothing is said about the state of owned, which does not go back with its offsets"
    )
    assert world.answers[-1].hint.startswith(hint)
    assert world.committed == BEFORE


@pytest.mark.scenario("S-RUN-6")
def test_its_group_by_its_own_name_is_the_unit_too() -> None:
    world = GroupWorld(KEEPS)
    assert world.reset(INSIDE) == "rejected"
    assert world.answers[-1].code == Code.MISSING_FIELD.value
    assert world.reset(INSIDE, state=StateChoice.KEEP) == "accepted"


@pytest.mark.scenario("S-RUN-6")
def test_state_that_is_kept_on_purpose_is_told_in_the_plan() -> None:
    world = GroupWorld(KEEPS)
    assert ask(world, state=StateChoice.KEEP) == "accepted"
    assert (world.workflow.state, world.committed) == (State.COMPLETED, AFTER)
    assert world.workflow.plan is not None
    assert (
        "the state of owned stays as it is: what is read again counts in it twice, what is left out never"
        in world.workflow.plan.findings
    )


@pytest.mark.scenario("S-RUN-6")
def test_state_that_is_to_be_emptied_is_waited_for_once_offsets_are_set() -> None:
    world = GroupWorld(KEEPS)
    assert ask(world, state=StateChoice.CLEAN) == "accepted"
    waiting = world.workflow.waiting_for
    assert waiting is not None
    assert (world.workflow.state, waiting.kind, waiting.step) == (State.WAITING, "ack", "clean_local_state")
    assert world.committed == AFTER
    assert [step.name for step in world.workflow.steps] == [
        "await_empty",
        "snapshot",
        "set_offsets",
        "clean_local_state",
        "look_at_inputs",
    ]
    world.lead()
    world.send(lambda meta: Ack(meta, "clean_local_state", "the table is truncated"))
    world.pass_time(5)
    assert world.workflow.state is State.COMPLETED
    assert world.rollback() == "accepted"
    assert world.committed == BEFORE


@pytest.mark.scenario("S-RUN-6")
@pytest.mark.parametrize(
    ("unit", "more"),
    [
        (BARE, {}),
        (BARE, {"state": StateChoice.KEEP}),
        (replace(BARE, stateful=False), {}),
        (replace(STREAMS, stateful=False), {}),
        (replace(STREAMS, topology=Topology(())), {}),
        (KEEPS, {"to": Current()}),
    ],
)
def test_without_state_or_without_a_move_nothing_has_to_be_said(unit: Unit, more: dict[str, Any]) -> None:
    world = GroupWorld(unit)
    assert ask(world, **more) == "accepted"
    assert world.workflow.state is State.COMPLETED


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (BARE, "state: owned has none in the config that could be cleaned"),
        (STREAMS, "state: the changelogs of owned would bring its state back"),
    ],
)
def test_state_that_nobody_could_empty_by_hand_is_refused(unit: Unit, message: str) -> None:
    world = GroupWorld(unit)
    assert ask(world, state=StateChoice.CLEAN) == "rejected"
    assert (world.answers[-1].code, world.answers[-1].message) == (Code.INVALID_VALUE.value, message)
    assert world.committed == BEFORE


def test_a_group_of_nobody_has_no_state_to_be_emptied() -> None:
    world = GroupWorld()
    assert world.reset(INSIDE, state=StateChoice.CLEAN) == "rejected"
    assert world.reset(INSIDE) == "accepted"
    assert world.committed == {**BEFORE, **AFTER}


def test_who_approves_approves_what_becomes_of_the_state() -> None:
    world, hashes = GroupWorld(KEEPS), []
    for choice in StateChoice:
        assert ask(world, state=choice, dry_run=True) == "accepted"
        assert world.workflow.plan is not None
        hashes.append(world.workflow.plan.hash)
    assert len(set(hashes)) == 2
    assert ask(world, state=StateChoice.KEEP, plan_hash=hashes[1]) == "rejected"
    assert world.answers[-1].code == Code.STALE_PLAN.value


def test_a_topic_by_itself_needs_a_word_about_state_as_well() -> None:
    world = GroupWorld(KEEPS)
    assert ask(world, topics={TOPIC: (0,)}) == "rejected"
    assert ask(world, topics={TOPIC: (0,)}, state=StateChoice.KEEP) == "accepted"


@pytest.mark.scenario("S-RUN-22")
def test_a_job_of_flink_cannot_keep_its_state_and_begin_with_other_offsets() -> None:
    world = GroupWorld(replace(KEEPS, kind=UnitKind.FLINK))
    assert ask(world, state=StateChoice.KEEP) == "rejected"
    assert "goes on with the offsets in it" in world.answers[-1].message
    assert world.committed == BEFORE
