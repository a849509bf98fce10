"""What a plan learns of the contract of a unit whose cluster does not tell it at once."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from recoveryd.adapters.kafka import fact_gathering
from recoveryd.adapters.kafka.fact_gathering import Expectations, FactGatherer
from recoveryd.adapters.kafka.leader_answers import LeaderAnswers
from recoveryd.adapters.kafka.living_clients import AdminClients
from recoveryd.adapters.kafka.steps import gathering
from recoveryd.adapters.kafka.steps.gathering import Gatherer
from recoveryd.adapters.kafka.steps.quota_steps import QuotaSteps
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.workers import ClusterWorkers
from recoveryd.errors import ClusterProblem
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import UnitFacts
from recoveryd.units.model import ClauseName, Unit, UnitKind
from recoveryd.workflows.model.facts import WantedFacts

CLUSTERS = {"main": {"bootstrap.servers": "127.0.0.1:1"}}
PLAIN = Unit("plain", UnitKind.GROUP, "main", "plain", ("in",))
LOADS = ClusterProblem("the coordinator loads")
REFUSED = ClusterProblem("may not", retriable=False)
KNOWN = UnitFacts(0, {}, None)

Look = Callable[[Unit], Awaitable[Mapping[str, UnitFacts]]]


async def by_copy(unit: Unit) -> Mapping[str, UnitFacts]:
    async def no_sinks(_cluster: str, _topic: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (), ()

    workers, leaders = ClusterWorkers("test", 1), LeaderAnswers({})
    gatherer = FactGatherer(
        AdminClients(CLUSTERS), workers, "receipts", Expectations({}), lambda: 0, leaders, {}, no_sinks
    )
    try:
        return await gatherer._contract_facts([unit])
    finally:
        workers.close()


async def by_workflow(unit: Unit) -> Mapping[str, UnitFacts]:
    reach = Reach(CLUSTERS, {"main": ClientAccess("127.0.0.1:1")})
    quotas: QuotaSteps = None  # type: ignore[assignment]  # nobody asks for any
    try:
        found = await Gatherer(reach, lambda: {unit.name: unit}, quotas, lambda: 0).gather(
            WantedFacts(contracts=(unit.name,))
        )
    finally:
        reach.close()
    return found.units


@pytest.fixture(params=[by_copy, by_workflow])
def look(request: pytest.FixtureRequest) -> Look:
    chosen: Look = request.param
    return chosen


def answers(monkeypatch: pytest.MonkeyPatch, *told: ClusterProblem | UnitFacts) -> None:
    left = list(told)

    def read(*_: Any) -> UnitFacts:
        answer = left.pop(0)
        if isinstance(answer, ClusterProblem):
            raise answer
        return answer

    for module in (fact_gathering, gathering):
        monkeypatch.setattr(module, "read_contract", read)


@pytest.mark.parametrize("clause", [ClauseName.RETENTION, ClauseName.OFFSETS, ClauseName.TOPIC_DESIGN])
async def test_a_clause_that_only_the_cluster_can_tell_is_asked_for_again_where_the_unit_requires_it(
    monkeypatch: pytest.MonkeyPatch, look: Look, clause: ClauseName
) -> None:
    answers(monkeypatch, LOADS, KNOWN)
    strict = replace(PLAIN, required_clauses=(clause,))
    with pytest.raises(ClusterProblem, match="coordinator loads") as caught:
        await look(strict)
    assert caught.value.retriable
    assert await look(strict) == {"plain": KNOWN}


@pytest.mark.parametrize(
    ("required", "reason"),
    [((), LOADS), ((ClauseName.SCHEMA, ClauseName.DETERMINISM), LOADS), ((ClauseName.RETENTION,), REFUSED)],
)
async def test_no_plan_waits_for_what_it_can_do_without_or_will_not_be_told(
    monkeypatch: pytest.MonkeyPatch, look: Look, required: tuple[ClauseName, ...], reason: ClusterProblem
) -> None:
    answers(monkeypatch, reason)
    assert await look(replace(PLAIN, required_clauses=required)) == {}
