"""Looks of workflows at a cluster that takes connections and answers nothing: each ends with a reason that says it may
be asked again.
"""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.control.controls import ManualApplications
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.model import Unit, UnitKind
from recoveryd.workflows.model.actions import (
    Action,
    AwaitCaughtUp,
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
    LookAtTopics,
    LookAtUnit,
    TakeSnapshot,
)
from recoveryd.workflows.model.effects import TakeStep

pytestmark = pytest.mark.broker  # it waits for timeouts, as those do

UNIT = Unit("shop", UnitKind.GROUP, "main", "app", ("orders",))
LOOKS: tuple[Action, ...] = (
    AwaitEmpty("main", "app"),
    AwaitStopped("main", "app", "shop"),
    AwaitStarted("main", "app", "shop"),
    AwaitCaughtUp("main", "app", {"orders": {0: 5}}),
    TakeSnapshot("main", "app", ("orders",), topic_ids={"orders": "id"}),
    LookAtTopics("main", ("orders",)),
    LookAtUnit("main", "app", "shop", ends={"orders": {0: 5}}),
)


@pytest.fixture
async def steps() -> AsyncIterator[KafkaSteps]:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        clusters, accesses = {"main": {"bootstrap.servers": address}}, {"main": ClientAccess(address)}
        made = KafkaSteps(clusters, accesses, lambda: {"shop": UNIT}, ManualApplications(), SystemClock().now_ms)
        yield made
        await made.close()


async def problem_of(steps: KafkaSteps, action: Action) -> ClusterProblem:
    with pytest.raises(ClusterProblem) as found:
        await steps.take(TakeStep("w", "look", 1, action))
    return found.value


async def test_a_look_at_a_silent_cluster_says_that_it_may_be_repeated(steps: KafkaSteps) -> None:
    found = await asyncio.gather(*(problem_of(steps, action) for action in LOOKS))
    assert [(problem.code, problem.retriable) for problem in found] == [(Code.CLUSTER_UNREACHABLE, True)] * len(LOOKS)
    assert all(problem.message for problem in found)
