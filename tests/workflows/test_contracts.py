"""Plans that have inputs processed again look at the contract of their unit, in the core."""

import json
from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.spec import AtOffset
from recoveryd.units.contract import version_of
from recoveryd.units.model import ClauseName, Unit
from recoveryd.workflows.model.commands import Reset
from recoveryd.workflows.model.spec import ResetSpec
from recoveryd.workflows.model.workflow import Workflow, WorkflowPlan
from tests.builders.core import STATUS
from tests.workflows.app_world import UNIT, AppWorld
from tests.workflows.world import LOG, OWNED, PARTITIONS, GroupWorld

BARE = replace(OWNED, approvers=())
TOLD = replace(BARE, schema="one subject each", is_deterministic=True, retention_objective_ms=3_600_000)
INSIDE = AtOffset(LOG[0] + 10)
BEFORE = dict.fromkeys(range(PARTITIONS), 50)


def reset(unit: Unit, *, dry_run: bool = False) -> tuple[GroupWorld, str]:
    world = GroupWorld(unit)
    spec = ResetSpec("", "", INSIDE, unit=unit.name, dry_run=dry_run)
    return world, world.send(lambda meta: Reset(meta, spec))


def plan_of(world: GroupWorld | AppWorld) -> WorkflowPlan:
    assert world.workflow.plan is not None
    return world.workflow.plan


@pytest.mark.scenario("S-RUN-9")
def test_a_reset_tells_each_clause_that_is_missing_and_keeps_the_contract_with_its_version() -> None:
    world, answer = reset(BARE)
    assert (answer, world.workflow.state) == ("accepted", State.COMPLETED)
    (contract,) = plan_of(world).contracts
    assert (contract.unit, contract.version) == ("owned", version_of(BARE))
    assert [clause.name for clause in contract.clauses] == list(ClauseName)
    bad = [clause.name.value for clause in contract.problems]
    assert bad == ["retention", "schema", "determinism"]
    told = [finding for finding in plan_of(world).findings if "of the contract of owned (version " in finding]
    assert [finding.split(" ")[0] for finding in told] == bad
    world.lead()
    assert plan_of(world).contracts == (contract,)


@pytest.mark.scenario("S-RUN-9")
def test_a_contract_without_a_gap_is_kept_and_says_nothing() -> None:
    world, _ = reset(TOLD)
    assert plan_of(world).contracts[0].problems == ()
    assert not any("contract" in finding for finding in plan_of(world).findings)


@pytest.mark.scenario("S-RUN-9")
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_clause_that_the_config_requires_refuses_the_plan(*, dry_run: bool) -> None:
    strict = replace(BARE, required_clauses=(ClauseName.OFFSETS, ClauseName.SCHEMA))
    world, answer = reset(strict, dry_run=dry_run)
    assert (answer, world.answers[-1].code) == ("rejected", Code.CONTRACT_OPEN.value)
    assert world.answers[-1].message == (
        f"schema of the contract of owned (version {version_of(strict)}) is unknown: "
        "nothing says which schemas its inputs had and have"
    )
    assert world.committed == BEFORE
    assert reset(replace(strict, schema="one subject each"), dry_run=dry_run)[1] == "accepted"


@pytest.mark.scenario("S-RUN-9")
def test_what_the_cluster_does_not_say_is_unknown_and_never_good() -> None:
    world = GroupWorld(replace(TOLD, required_clauses=(ClauseName.RETENTION,)))
    world.tells_contracts = False
    spec = ResetSpec("", "", INSIDE, unit="owned")
    assert world.send(lambda meta: Reset(meta, spec)) == "rejected"
    assert world.answers[-1].message.endswith("is unknown: the cluster did not say")


def test_a_group_of_nobody_has_no_contract() -> None:
    world = GroupWorld()
    world.reset(INSIDE)
    assert plan_of(world).contracts == ()


@pytest.mark.scenario("S-RUN-9")
def test_a_reprocess_looks_at_it_too() -> None:
    world = AppWorld()
    assert world.reprocess(dry_run=True) == "accepted"
    (contract,) = plan_of(world).contracts
    assert [c.name.value for c in contract.problems] == ["retention", "schema", "determinism", "output_idempotence"]
    assert any(f.startswith("output_idempotence of the contract of shop") for f in plan_of(world).findings)
    strict = AppWorld(replace(UNIT, required_clauses=(ClauseName.OUTPUT_IDEMPOTENCE,)))
    assert strict.reprocess() == "rejected"
    assert strict.answers[-1].code == Code.CONTRACT_OPEN.value
    assert strict.done == []


def test_a_workflow_that_was_written_before_there_were_contracts_reads_as_one_without() -> None:
    world, _ = reset(TOLD)
    key, value = STATUS.encode(world.workflow)
    document = json.loads(value)
    del document["plan"]["contracts"]
    del document["internal"]["spec"]["state"]
    old = STATUS.read(document)
    assert isinstance(old, Workflow)
    assert old.plan == replace(plan_of(world), contracts=())
    assert (key, old.spec) == (b"w1", world.workflow.spec)
