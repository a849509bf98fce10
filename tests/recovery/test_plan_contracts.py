"""The plan of a copy looks at the contracts of the units whose inputs it copies, or writes to."""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.recovery.concerned import concerned_units
from recoveryd.recovery.model import Plan, Severity
from recoveryd.recovery.params import Params
from recoveryd.replay.plan import make_plan
from recoveryd.replay.spec import TargetRef
from recoveryd.units.contract import version_of
from recoveryd.units.facts import Committed, Group, GroupType, PartitionEnds, UnitFacts, UnitTopic
from recoveryd.units.model import ClauseName, Unit, UnitKind
from tests.builders.core import make_facts, make_spec, make_verification

READS = Unit("board", UnitKind.GROUP, "main", "board", ("flights",), schema="v2", is_deterministic=True)
BESIDE = replace(READS, name="beside", inputs=("others",))
FACTS = UnitFacts(
    0,
    {"flights": UnitTopic("flights", "id", {0: PartitionEnds(0, 100)}, 1, {"retention.ms": "3600000"})},
    Group("board", GroupType.CLASSIC, "empty", committed={"flights": {0: Committed(50)}}),
)


def planned(*units: Unit, told: bool = True) -> Plan | Refused:
    facts = replace(make_facts(), units={unit.name: FACTS for unit in units} if told else {})
    return make_plan(make_spec(), facts, Params(units={unit.name: unit for unit in units}))


def test_it_concerns_who_reads_its_source_or_its_target() -> None:
    into = replace(READS, name="into", inputs=("flights.v2",))
    elsewhere = replace(READS, name="elsewhere", cluster="other")
    units = {unit.name: unit for unit in (READS, BESIDE, into, elsewhere)}
    spec = make_spec(target=TargetRef("flights.v2"))
    assert [unit.name for unit in concerned_units(spec, units)] == ["board", "into"]
    assert concerned_units(make_verification(), units) == ()


@pytest.mark.scenario("S-RUN-9")
def test_a_missing_clause_is_a_warning_and_the_contract_is_in_the_plan_with_its_version() -> None:
    plan = planned(READS, BESIDE)
    assert isinstance(plan, Plan)
    (contract,) = plan.contracts
    assert (contract.unit, contract.version) == ("board", version_of(READS))
    found = {f.code: f for f in plan.findings if f.code.startswith("contract_")}
    assert list(found) == ["contract_retention"]
    assert found["contract_retention"].severity is Severity.WARN
    assert "no objective says how long" in found["contract_retention"].message
    bare = planned(BESIDE)
    assert isinstance(bare, Plan)
    assert (bare.contracts, bare.hash) == ((), plan.hash)


@pytest.mark.scenario("S-RUN-9")
def test_a_clause_that_the_config_requires_refuses_the_copy() -> None:
    strict = replace(READS, required_clauses=(ClauseName.RETENTION,))
    refused = planned(strict)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.hint[:34]) == (Code.CONTRACT_OPEN, "See `recoveryctl unit contract boa")
    assert isinstance(planned(replace(strict, retention_objective_ms=3_600_000)), Plan)
    untold = planned(replace(strict, retention_objective_ms=3_600_000), told=False)
    assert isinstance(untold, Refused)
    assert untold.message.endswith("is unknown: the cluster did not say")
