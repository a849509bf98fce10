"""What a workflow changes for its own time only: by one workflow at a time, put back also in a held topic, and only
what was really set by it.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd.holds.spec import StartHold
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import Tick
from recoveryd.kernel.states import State
from recoveryd.recovery.params import Params
from recoveryd.recovery.spec import Earliest
from recoveryd.units.model import Behaviour, Output, Unit
from recoveryd.workflows.model.commands import Reprocess, Runbook
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import OutputChoice, OutputPolicy, ReprocessSpec, RunbookPath, RunbookSpec
from recoveryd.workflows.model.workflow import ConfigUndo, QuotaUndo, UndoState
from tests.builders.core import make_hold
from tests.builders.deciding import make_decider
from tests.workflows.app_world import AppWorld
from tests.workflows.runbook_world import SAFE, WAIVED, RunbookWorld
from tests.workflows.world import report

ONE = replace(SAFE, name="one", outputs={}, intermediate=())
OTHER = replace(ONE, name="other", group="other")
RETENTION = {"retention.ms": "-1", "retention.bytes": "-1"}


def keep(world: AppWorld, unit: Unit, workflow: str, **more: object) -> str:
    spec = ReprocessSpec(unit.name, Earliest(), keep_inputs=True, **more)  # type: ignore[arg-type]
    return world.send(lambda meta: Reprocess(meta, spec), subject=workflow)


def test_two_workflows_do_not_change_the_configs_of_one_topic_at_a_time() -> None:
    world = AppWorld(ONE, OTHER)
    assert keep(world, ONE, "w1") == "accepted"
    assert {name: world.configs["orders"][name] for name in RETENTION} == RETENTION
    assert keep(world, OTHER, "w2") == "rejected"
    answer = world.answers[-1]
    assert (answer.code, answer.message) == (
        Code.IN_USE.value, "workflow w1 has changed retention.ms of orders until it ends, and is waiting",
    )  # fmt: skip
    assert keep(world, OTHER, "w2", dry_run=True) == "accepted"
    assert any("w1 has changed retention.ms" in finding for finding in world.look("w2").plan.findings)  # type: ignore[union-attr]
    world.stop()
    assert "retention.ms" not in world.configs["orders"]
    world.pass_time(1)
    assert keep(world, OTHER, "w3") == "accepted"
    assert {name: world.configs["orders"][name] for name in RETENTION} == RETENTION


@pytest.mark.parametrize("choice", [OutputChoice(OutputPolicy.RECREATE), OutputChoice(OutputPolicy.NEW, "orders-2")])
def test_what_is_changed_for_a_time_is_not_made_to_last_by_making_a_topic_like_it(choice: OutputChoice) -> None:
    makes = replace(OTHER, name="makes", inputs=("steps",), outputs={"orders": Output(Behaviour.IDEMPOTENT)})
    world = AppWorld(ONE, makes)
    assert keep(world, ONE, "w1") == "accepted"
    spec = ReprocessSpec("makes", Earliest(), outputs={"orders": choice})
    assert world.send(lambda meta: Reprocess(meta, spec), subject="w2") == "rejected"
    answer = world.answers[-1]
    assert (answer.code, "w1 has changed retention.ms of orders until it ends" in answer.message) == (
        Code.IN_USE.value, True,
    )  # fmt: skip
    world.stop()
    world.pass_time(1)
    assert world.send(lambda meta: Reprocess(meta, spec), subject="w2") == "accepted"
    world.run_through("w2")
    assert world.topics[choice.name or "orders"].id.startswith(f"{choice.name or 'orders'}-made")
    assert "retention.ms" not in world.configs[choice.name or "orders"]


@pytest.mark.parametrize("is_ours", [True, False])
def test_what_was_left_changed_is_put_back_by_a_rollback_unless_somebody_else_set_it_since(is_ours: bool) -> None:
    world = AppWorld(ONE)
    keep(world, ONE, "w1")
    world.fail_at("restore_configs", retriable=False)
    world.stop()
    assert world.workflow.state is State.CLOSING
    world.stop()
    assert world.workflow.state is State.STOPPED
    assert {row.state for row in world.workflow.undo} == {UndoState.LEFT}
    world.fault = lambda _: None
    if not is_ours:
        world.configs["orders"]["retention.ms"] = "7"
    assert world.rollback() == "accepted"
    assert world.workflow.state is State.ROLLED_BACK
    assert "retention.bytes" not in world.configs["orders"]
    assert world.configs["orders"].get("retention.ms") == (None if is_ours else "7")
    assert [step.name for step in world.workflow.steps].count("restore_configs") == 1


def test_two_runbooks_do_not_slow_one_client_at_a_time() -> None:
    world = RunbookWorld()
    world.core = make_decider(Params(units={"shop": SAFE, "other": replace(SAFE, name="other", group="other")}))
    assert world.begin(RunbookPath.RESUME, quotas={"shop-1": 1_000.0}) == "accepted"
    answer = _runbook_of_other(world, {"shop-1": 2_000.0})
    assert answer == "rejected"
    assert "workflow w1 has changed the quota of shop-1 until it ends" in world.answers[-1].message
    assert world.quotas == {"shop-1": 1_000.0}


def _runbook_of_other(world: RunbookWorld, quotas: dict[str, float]) -> str:
    spec = RunbookSpec("other", RunbookPath.RESUME, waive=WAIVED, quotas=quotas)
    gather = world.gather

    def gathers(effect: GatherForWorkflow) -> object:
        facts = gather(effect)
        return replace(facts, found=replace(facts.found, units={"other": world.facts()}))

    world.gather = gathers  # type: ignore[method-assign, assignment]
    return world.send(lambda meta: Runbook(meta, spec), subject="w2")


def test_what_was_looked_at_before_another_put_it_back_is_looked_at_again() -> None:
    """The facts of the second are older than the end of the first, and show its value."""
    world = AppWorld(ONE, OTHER)
    keep(world, ONE, "w1")
    late: list[Callable[[], None]] = []
    gather = world.gather

    def slowly(effect: GatherForWorkflow) -> object:
        facts = gather(effect)
        if effect.workflow == "w2" and not late:
            late.append(lambda: world.feed(facts) and None)
            return Tick()
        return facts

    world.gather = slowly  # type: ignore[method-assign, assignment]
    keep(world, OTHER, "w2")
    world.now_ms += 1_000
    world.stop()
    late[0]()
    assert world.look("w2").state is State.PLANNING
    world.pass_time(5)
    assert world.look("w2").state is State.WAITING
    assert {name: world.configs["orders"][name] for name in RETENTION} == RETENTION


def test_what_another_put_back_before_the_clock_was_set_back_is_not_looked_at_again_and_again() -> None:
    world = AppWorld(ONE, OTHER)
    keep(world, ONE, "w1")
    world.stop()
    world.now_ms -= 3_600_000
    world.lead()
    keep(world, OTHER, "w2")
    world.pass_time(5)
    assert world.look("w2").state is State.WAITING


@pytest.mark.parametrize("path", [RunbookPath.RESUME])
def test_a_hold_is_not_in_the_way_of_putting_back(path: RunbookPath) -> None:
    world = AppWorld(ONE)
    keep(world, ONE, "w1")
    assert world.send(lambda meta: StartHold(meta, make_hold("orders")), subject="h1") == "accepted"
    world.stop()
    assert world.workflow.state is State.STOPPED, world.workflow.why
    assert "retention.ms" not in world.configs["orders"]
    runbook = RunbookWorld()
    runbook.begin(path, quotas={"shop-1": 1_000.0})
    runbook.send(lambda meta: StartHold(meta, make_hold("orders")), subject="h1")
    runbook.stop()
    assert (runbook.workflow.state, runbook.quotas) == (State.STOPPED, {})


def test_a_value_like_ours_that_somebody_set_before_we_did_stays() -> None:
    world = AppWorld(ONE)

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step != "keep_inputs":
            return None
        return report(effect, Outcome.FAILED, "no", code=Code.CLUSTER_UNREACHABLE.value)

    gather = world.gather

    def then_somebody_sets_it(effect: GatherForWorkflow) -> object:
        facts = gather(effect)
        world.configs["orders"] = dict(RETENTION)
        return facts

    world.gather = then_somebody_sets_it  # type: ignore[method-assign, assignment]
    assert keep(world, ONE, "w1") == "accepted"
    rows = [row for row in world.workflow.undo if isinstance(row, ConfigUndo)]
    assert {row.state for row in rows} == {UndoState.KEPT}
    world.stop()
    assert world.configs["orders"] == RETENTION
    failing = AppWorld(ONE)
    failing.fault = fault
    keep(failing, ONE, "w1")
    assert failing.workflow.state is State.FAILED
    assert not failing.workflow.temporary


def test_a_quota_that_was_never_set_is_not_taken_away() -> None:
    world = RunbookWorld()
    world.fault = lambda effect: report(effect, Outcome.FAILED, "no") if effect.step == "confirm_input" else None
    gather = world.gather

    def then_somebody_sets_it(effect: GatherForWorkflow) -> object:
        facts = gather(effect)
        world.quotas = {"shop-1": 1_000.0}
        return facts

    world.gather = then_somebody_sets_it  # type: ignore[method-assign, assignment]
    world.begin(RunbookPath.RESUME, quotas={"shop-1": 1_000.0})
    assert (world.workflow.state, world.quotas) == (State.FAILED, {"shop-1": 1_000.0})
    assert not [row for row in world.workflow.undo if isinstance(row, QuotaUndo)]
    assert world.workflow.report["open"] == [line for line in world.workflow.report["open"] if "quota" not in line]  # type: ignore[index]


def test_offsets_that_somebody_else_set_to_the_same_place_are_not_put_back() -> None:
    world = AppWorld()
    world.fail_at("delete_internal_topics", retriable=False)
    world.reprocess()
    world.stops()
    assert world.workflow.state is State.FAILED
    world.fault = lambda _: None
    world.committed["orders", 0] = 0  # where the plan wanted it, and did not set it
    assert world.rollback() == "accepted"
    world.pass_time(10)
    assert world.workflow.state is State.ROLLED_BACK
    assert world.committed["orders", 0] == 0
