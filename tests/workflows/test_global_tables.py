"""Applications that read an input into a global table: nobody commits there, so nothing is set there and nobody is
waited for. Where no topology tells, a person may say so.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.units.model import Unit
from recoveryd.units.topology import parse_topology
from recoveryd.workflows.kinds.runbook.gates import evidence_of
from recoveryd.workflows.model.actions import AwaitReady, TakeSnapshot
from recoveryd.workflows.model.commands import Ack, Reset, RestoreSavepoint, Savepoint, Upgrade
from recoveryd.workflows.model.events import Outcome
from recoveryd.workflows.model.positions import AtTopicOffsets, To
from recoveryd.workflows.model.spec import (
    ResetSpec,
    RestoreSpec,
    RunbookPath,
    SavepointSpec,
    StateChoice,
    UpgradeMode,
    UpgradeSpec,
)
from recoveryd.workflows.model.workflow import Workflow
from tests.workflows.app_world import INTERNAL, UNIT, AppWorld, Log
from tests.workflows.runbook_world import SAFE, RunbookWorld
from tests.workflows.test_savepoint import APPEND
from tests.workflows.test_upgrade_online import LIVE, OLD, READY, STAGED, TAIL
from tests.workflows.two_versions import TwoVersions
from tests.workflows.world import report

TEXT = """
   Sub-topology: 0 for global store (will not generate tasks)
    Source: KSTREAM-SOURCE-0000000001 (topics: [prices])
      --> KTABLE-SOURCE-0000000002
    Processor: KTABLE-SOURCE-0000000002 (stores: [prices-STATE-STORE-0000000000])
      --> none
  Sub-topology: 1
    Source: KSTREAM-SOURCE-0000000003 (topics: [READ])
      --> COUNT
    Processor: COUNT (stores: [counts])
      --> SINK
    Sink: SINK (topic: WRITTEN)
"""
TABLE = "prices"
INPUTS = ("orders", TABLE)


def tabled(unit: Unit, *, read: str = "orders, steps", written: str = "steps", knows: bool = True) -> Unit:
    """The unit with an input more, which it reads into a global table."""
    text = TEXT.replace("READ", read).replace("WRITTEN", written)
    inputs = tuple(dict.fromkeys((*unit.inputs, TABLE)))
    return replace(unit, inputs=inputs, topology=parse_topology(text) if knows else None)


SHOP, UNTOLD = tabled(UNIT), tabled(UNIT, knows=False)


def world_of(*units: Unit) -> AppWorld:
    world = AppWorld(*units)
    world.topics[TABLE] = Log("prices-1", 0, 50)
    return world


def begun(unit: Unit = SHOP, to: To | None = None) -> AppWorld:
    world = world_of(unit)
    assert world.reprocess(to) == "accepted", world.answers[-1]
    return world


def set_in(workflow: Workflow) -> set[str]:
    assert workflow.plan is not None
    return {change.name for change in workflow.plan.changes if change.what == "offset"}


@pytest.mark.scenario("S-WIKI-1a")
def test_no_offset_is_set_where_only_a_global_table_reads_and_nobody_waits_for_one() -> None:
    world = begun()
    assert set_in(world.workflow) == {"orders", "steps"}
    world.run_through()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    assert not [place for place in world.committed if place[0] == TABLE]


def test_a_savepoint_of_such_an_application_is_restored() -> None:
    world = world_of(SHOP)
    world.send(lambda meta: Savepoint(meta, SavepointSpec(SHOP.name, "before")))
    world.run_through()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    spec = RestoreSpec("before", SHOP.name, APPEND)
    assert world.send(lambda meta: RestoreSavepoint(meta, spec), subject="w2") == "accepted"
    restored = world.look("w2")
    assert restored.plan is not None
    assert set_in(restored) == {"orders", "steps", INTERNAL[1]}
    assert not any("auto.offset.reset" in finding for finding in restored.plan.findings)
    world.run_through("w2")
    assert world.look("w2").state is State.COMPLETED, world.look("w2").why


def test_a_newer_version_of_it_takes_over_without_a_word_about_the_table() -> None:
    world = world_of(SHOP, replace(SHOP, name="shop-v2"))
    assert world.send(lambda meta: Upgrade(meta, UpgradeSpec(SHOP.name, "shop-v2"))) == "accepted"
    assert world.workflow.plan is not None
    assert not any(TABLE in finding for finding in world.workflow.plan.findings)
    world.stops()
    world.starts()
    world.ack("start_application")
    world.pass_time(6)
    assert world.workflow.state is State.COMPLETED, world.workflow.why


def test_a_version_beside_the_old_one_is_ready_and_exchanged() -> None:
    tail = tabled(TAIL, read="orders.tail", written="totals.staged")
    roles = [tabled(unit, read="orders", written="totals") for unit in (OLD, LIVE, STAGED)]
    world = TwoVersions(*roles, tail, suffixes=("counts-changelog",))
    world.topics[TABLE] = Log("prices-1", 0, 50)
    spec = UpgradeSpec(
        OLD.name, LIVE.name, UpgradeMode.ONLINE, ready=READY, staged_unit=STAGED.name, tail_unit=TAIL.name
    )
    assert world.send(lambda meta: Upgrade(meta, spec)) == "accepted", world.answers[-1]
    read = [step.action.topics for step in world.workflow.steps if isinstance(step.action, AwaitReady)]
    read += [
        s.action.topics for s in world.workflow.steps if isinstance(s.action, TakeSnapshot) and s.name == "snapshot"
    ]
    assert read == [("orders",), ("orders",)]
    world.people()
    assert world.workflow.state is State.COMPLETED, world.workflow.why


def test_the_gate_of_a_runbook_does_not_wait_for_it() -> None:
    world = RunbookWorld(tabled(SAFE))
    world.topics[TABLE] = Log("prices-1", 0, 50)
    world.begin(RunbookPath.RESUME)
    world.go_through()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    gates = evidence_of(world.workflow, "verify")["gates"]
    assert gates["lag"]["state"] == "green"  # type: ignore[index]


def test_a_reset_leaves_it_out_and_says_so_where_it_is_named() -> None:
    world = world_of(SHOP)
    spec = ResetSpec("main", "app", AtTopicOffsets({"orders": {0: 5, 1: 5}}), unit=SHOP.name, state=StateChoice.KEEP)
    assert world.send(lambda meta: Reset(meta, replace(spec, topics={"orders": (), TABLE: ()}))) == "rejected"
    assert f"{SHOP.name} reads {TABLE} as a global table" in world.answers[-1].message
    assert world.send(lambda meta: Reset(meta, spec)) == "accepted"
    assert set_in(world.workflow) == {"orders"}
    assert world.workflow.plan is not None
    scope = next(each for each in world.workflow.plan.confirmations if each.item == "scope")
    assert TABLE not in scope.told
    assert world.reprocess_as("w2", AtTopicOffsets({"orders": {0: 5, 1: 5}, TABLE: {0: 5}})) == "rejected"
    assert (world.answers[-1].code, TABLE in world.answers[-1].message) == (Code.INVALID_VALUE.value, True)


def gone(world: AppWorld) -> None:
    del world.topics[TABLE]


@pytest.mark.parametrize(
    "begin", [lambda w: w.reprocess(), lambda w: w.send(lambda m: Upgrade(m, UpgradeSpec("shop", "shop-v2")))]
)
def test_the_topic_of_a_table_has_to_be_there(begin: Callable[[AppWorld], str]) -> None:
    world = world_of(SHOP, replace(SHOP, name="shop-v2"))
    gone(world)
    assert begin(world) == "rejected"
    assert (world.answers[-1].code, TABLE in world.answers[-1].message) == (Code.SOURCE_TOPIC_MISSING.value, True)


def test_where_no_topology_tells_it_is_said_and_a_person_may_say_that_enough_is_read() -> None:
    world = begun(UNTOLD)
    assert world.workflow.plan is not None
    assert any(f"nothing was ever committed on {TABLE}" in finding for finding in world.workflow.plan.findings)
    world.run_through()
    assert world.waits_at == "await_caught_up"
    assert world.ack("await_caught_up") == "rejected"
    assert world.answers[-1].code == Code.MISSING_FIELD.value
    note = "prices is a global table"
    assert world.send(lambda meta: Ack(meta, "await_caught_up", note)) == "accepted"
    assert world.waits_at == "confirm_output"
    step = next(step for step in world.workflow.steps if step.name == "await_caught_up")
    assert note in step.why
    assert step.evidence["note"] == note
    assert world.send(lambda meta: Ack(meta, "await_caught_up", note)) == "accepted", "said twice"
    world.run_through()
    assert world.workflow.state is State.COMPLETED


def test_nothing_is_said_of_an_input_without_records_or_of_a_group_that_never_committed() -> None:
    world = world_of(UNTOLD)
    world.topics[TABLE].end = 0
    assert world.reprocess() == "accepted"
    assert world.workflow.plan is not None
    assert not any("ever committed" in finding for finding in world.workflow.plan.findings)
    world = world_of(UNTOLD)
    world.committed.clear()
    assert world.reprocess() == "accepted"
    assert world.workflow.plan is not None
    assert not any("ever committed" in finding for finding in world.workflow.plan.findings)


def test_a_restore_says_it_by_what_was_committed_at_the_cut() -> None:
    world = world_of(UNTOLD)
    world.send(lambda meta: Savepoint(meta, SavepointSpec(UNTOLD.name, "before")))
    world.run_through()
    world.committed.clear()
    spec = RestoreSpec("before", UNTOLD.name, APPEND)
    assert world.send(lambda meta: RestoreSavepoint(meta, spec), subject="w2") == "accepted"
    plan = world.look("w2").plan
    assert plan is not None
    assert any(f"nothing was ever committed on {TABLE}" in finding for finding in plan.findings)


@pytest.mark.parametrize("name", ["await_old_version_there", "await_tail_read"])
def test_steps_on_whose_exact_offsets_others_rest_cannot_be_said_to_be_done(name: str) -> None:
    world = TwoVersions(OLD, LIVE, STAGED, TAIL, suffixes=("counts-changelog",))
    spec = UpgradeSpec(
        OLD.name, LIVE.name, UpgradeMode.ONLINE, ready=READY, staged_unit=STAGED.name, tail_unit=TAIL.name
    )
    assert world.send(lambda meta: Upgrade(meta, spec)) == "accepted"
    world.fault = lambda effect: report(effect, Outcome.NOT_YET, "5 left", left=5) if effect.step == name else None
    world.people(until=name)
    assert world.waits_at == name
    assert world.send(lambda meta: Ack(meta, name, "it is")) == "rejected"
    assert world.answers[-1].code == Code.NOT_IN_THIS_STATE.value
