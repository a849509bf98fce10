"""Units that leave the config while a plan is made, and a defect in one workflow: the others go on."""

from dataclasses import replace
from typing import NoReturn

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import Tick
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Approve
from recoveryd.recovery.params import Params
from recoveryd.recovery.spec import Earliest
from recoveryd.units.approvals import ApprovalBy, ApprovalRule
from recoveryd.workflows.kinds.all_kinds import KINDS
from recoveryd.workflows.model.commands import Reprocess, RestoreSavepoint, Runbook, Savepoint, Upgrade
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep, take_step
from recoveryd.workflows.model.events import GatheringFailed
from recoveryd.workflows.model.spec import (
    OutputChoice,
    OutputPolicy,
    ReprocessSpec,
    RestoreSpec,
    RunbookSpec,
    SavepointSpec,
    UpgradeSpec,
)
from recoveryd.workflows.model.workflow import Workflow, WorkflowStep
from tests.builders.deciding import make_decider
from tests.workflows.app_world import INTERNAL, OUTPUTS, UNIT, AppWorld
from tests.workflows.test_savepoint import saved

NEXT = replace(UNIT, name="shop-2")
APPEND = {name: OutputChoice(OutputPolicy.APPEND) for name in UNIT.outputs}
BEGUN = {
    "reprocess": lambda meta: Reprocess(meta, ReprocessSpec(UNIT.name, Earliest(), OUTPUTS)),
    "savepoint": lambda meta: Savepoint(meta, SavepointSpec(UNIT.name, "other")),
    "restore_savepoint": lambda meta: RestoreSavepoint(meta, RestoreSpec("before", UNIT.name, APPEND)),
    "upgrade": lambda meta: Upgrade(meta, UpgradeSpec(UNIT.name, NEXT.name)),
    "runbook": lambda meta: Runbook(meta, RunbookSpec(UNIT.name)),
}


def without_units(world: AppWorld) -> None:
    world.params = Params()
    world.core = make_decider(world.params)


@pytest.mark.parametrize("verb", list(BEGUN))
def test_a_unit_that_leaves_the_config_while_a_plan_is_made_ends_it(verb: str) -> None:
    world = saved()
    world.core = make_decider(Params(units={unit.name: unit for unit in (UNIT, NEXT)}))
    world.gathering_fails = [GatheringFailed("w2", Code.CLUSTER_UNREACHABLE.value, "no answer", True)]
    world.send(BEGUN[verb], subject="w2")
    assert world.look("w2").state is State.PLANNING
    without_units(world)
    world.pass_time(10)
    ended = world.look("w2")
    assert (ended.state, ended.error_code) == (State.REJECTED, Code.UNKNOWN_UNIT.value)
    assert world.answers[-1].kind == "rejected"


def test_the_second_unit_of_an_upgrade_counts_as_well() -> None:
    world = saved()
    world.core = make_decider(Params(units={unit.name: unit for unit in (UNIT, NEXT)}))
    world.gathering_fails = [GatheringFailed("w2", Code.CLUSTER_UNREACHABLE.value, "no answer", True)]
    world.send(BEGUN["upgrade"], subject="w2")
    world.core = make_decider(Params(units={UNIT.name: UNIT}))
    world.pass_time(10)
    assert world.look("w2").error_code == Code.UNKNOWN_UNIT.value
    assert "'shop-2'" in world.look("w2").why


@pytest.mark.parametrize("verb", list(BEGUN))
def test_a_unit_that_became_another_application_while_a_plan_is_made_ends_it(verb: str) -> None:
    world = saved()
    world.core = make_decider(Params(units={unit.name: unit for unit in (UNIT, NEXT)}))
    world.gathering_fails = [GatheringFailed("w2", Code.CLUSTER_UNREACHABLE.value, "no answer", True)]
    world.send(BEGUN[verb], subject="w2")
    changed = "shop-2" if verb == "upgrade" else UNIT.name
    units = {unit.name: replace(unit, group="other") if unit.name == changed else unit for unit in (UNIT, NEXT)}
    world.core = make_decider(Params(units=units))
    world.pass_time(10)
    ended = world.look("w2")
    assert (ended.state, ended.error_code) == (State.REJECTED, Code.STALE_PLAN.value)
    assert f"{changed} has another cluster or group now" in ended.why
    assert world.done == [f"make savepoint.before.{name}" for name in INTERNAL]


def test_an_input_that_a_unit_got_while_the_cluster_was_asked_is_not_passed_over() -> None:
    world = AppWorld()
    asked: list[GatherForWorkflow] = []
    gather = world.gather
    world.gather = lambda effect: asked.append(effect) or Tick()  # type: ignore[method-assign, assignment, func-returns-value, return-value]
    world.reprocess()
    world.core = make_decider(Params(units={UNIT.name: replace(UNIT, inputs=(*UNIT.inputs, "customers"))}))
    world.feed(gather(asked[0]))
    assert (world.workflow.state, world.workflow.error_code) == (State.REJECTED, Code.STALE_PLAN.value)
    assert "shop reads customers now" in world.workflow.why


@pytest.mark.parametrize("verb", ["reprocess", "restore_savepoint"])
@pytest.mark.parametrize(
    ("now", "code", "says"),
    [
        ({"outputs": {**UNIT.outputs, "more": UNIT.outputs["totals"]}}, Code.MISSING_FIELD, "more"),
        ({"outputs": {"totals": UNIT.outputs["totals"]}}, Code.INVALID_VALUE, "log"),
        ({"intermediate": (*UNIT.intermediate, "log")}, None, "log"),
    ],
)
def test_what_a_unit_writes_since_the_command_was_taken_is_not_passed_over(
    verb: str, now: dict[str, object], code: Code | None, says: str
) -> None:
    world = saved()
    rule = ApprovalRule(ApprovalBy.APPROVERS)
    asking = replace(UNIT, approvers=("//ops/kim",))
    world.core = make_decider(Params(units={UNIT.name: asking}, approvals=(rule,)))
    world.send(BEGUN[verb], subject="w2")
    waiting = world.look("w2")
    assert waiting.state is State.AWAITING_APPROVAL
    assert waiting.plan is not None
    world.core = make_decider(Params(units={UNIT.name: replace(asking, **now)}, approvals=(rule,)))  # type: ignore[arg-type]
    plan_hash = waiting.plan.hash
    assert world.send(lambda meta: Approve(meta, plan_hash), "//ops/kim", "w2") == "accepted"
    ended = world.look("w2")
    expected = code or {"reprocess": Code.STALE_PLAN, "restore_savepoint": Code.INVALID_VALUE}[verb]
    assert (ended.state, ended.error_code) == (State.REJECTED, expected.value)
    assert says in ended.why


def _raises(*_: object) -> NoReturn:
    raise KeyError("a defect")


def test_one_whose_plan_cannot_be_made_by_a_defect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = AppWorld()
    monkeypatch.setitem(KINDS, "reprocess", replace(KINDS["reprocess"], plan=_raises))  # type: ignore[arg-type]
    assert world.reprocess() == "rejected"
    assert (world.workflow.state, world.workflow.error_code) == (State.REJECTED, Code.INVARIANT_BROKEN.value)
    assert "KeyError('a defect') at _raises" in world.workflow.why


def test_one_that_stands_still_by_a_defect_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    world = AppWorld(UNIT, replace(UNIT, name="other", group="other"))
    world.reprocess()
    spec = SavepointSpec("other", "before")
    world.send(lambda meta: Savepoint(meta, spec), subject="w2")
    monkeypatch.setattr("recoveryd.workflows.machine.asking.take_step", _of_w2_only)
    world.pass_time(5)
    assert world.workflow.state is State.WAITING
    assert "stands still by a defect of recoveryd: ValueError('w1')" in world.workflow.why
    assert [notice.subject for notice in world.notices if notice.type == "workflow_broken"] == ["w1"]
    world.members = []
    world.pass_time(5)
    assert world.waiting("w2") == "copy_state"
    monkeypatch.undo()
    world.pass_time(90)
    assert world.waits_at == "clean_local_state", "it goes on when the defect is mended"
    assert world.stop() == "accepted"


def test_one_whose_step_is_not_understood_by_a_defect_stands_still_and_can_be_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = AppWorld()
    monkeypatch.setitem(KINDS, "reprocess", replace(KINDS["reprocess"], after_step=_raises))  # type: ignore[arg-type]
    world.reprocess()
    world.stops()
    assert world.workflow.state is State.WAITING
    assert "stands still by a defect of recoveryd: KeyError('a defect')" in world.workflow.why
    assert world.stop() == "accepted"
    assert world.workflow.state is State.STOPPED


def _of_w2_only(workflow: Workflow, step: WorkflowStep, *, is_look: bool) -> TakeStep:
    if workflow.id == "w1":
        raise ValueError("w1")
    return take_step(workflow, step, is_look=is_look)
