"""A cluster that takes connections and answers nothing keeps nobody waiting who asks another one."""

import asyncio
import socket
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.control.controls import ManualApplications
from recoveryd.adapters.kafka.clusters import KafkaClusters
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.recovery.effects import GatherFacts
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.workflows.model.actions import LookAtTopics
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome
from tests.builders.records import make_facts_question
from tests.contract.harness import EXPECTATIONS, KafkaHarness
from tests.patience import patient_s

pytestmark = pytest.mark.broker

WAITING = 10


@pytest.fixture
def harness(bootstrap: str, unique: str) -> Iterator[KafkaHarness]:
    made = KafkaHarness(bootstrap, unique)
    yield made
    made.close()


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0), backlog=1_000) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def asked_in_vain(questions: list[Coroutine[Any, Any, object]]) -> Iterator[None]:
    """Inside the block all of them wait for their answers, and so they do at its end."""
    waiting = [asyncio.ensure_future(question) for question in questions]
    try:
        yield
        assert not any(task.done() for task in waiting)
    finally:
        for task in waiting:
            task.cancel()


def into(question: GatherFacts, cluster: str) -> GatherFacts:
    spec = question.spec
    return replace(question, spec=replace(spec, target=replace(spec.target, cluster=cluster)))


async def test_plans_for_a_silent_cluster_keep_no_plan_for_another_waiting(
    harness: KafkaHarness, silent: str, unique: str
) -> None:
    source, target = unique + "source", unique + "target"
    harness.create(source)
    harness.create(target)
    asked = {"main": harness.properties, "silent": {"bootstrap.servers": silent}}
    clusters = KafkaClusters(asked, harness.names, EXPECTATIONS, harness.now_ms)
    question = make_facts_question(source, target)
    assert (await clusters.gather_facts(question)).target is not None
    with asked_in_vain([clusters.gather_facts(into(question, "silent")) for _ in range(WAITING)]):
        await asyncio.sleep(0)
        assert await clusters.control_topic_id()
        assert (await clusters.gather_facts(question)).target is not None
    await clusters.close()


async def test_workflows_of_a_silent_cluster_keep_no_workflow_of_another_waiting(
    harness: KafkaHarness, silent: str, unique: str
) -> None:
    harness.create(unique + "orders")
    asked = {"main": harness.properties, "silent": {"bootstrap.servers": silent}}
    accesses = {name: ClientAccess(properties["bootstrap.servers"]) for name, properties in asked.items()}
    steps = KafkaSteps(asked, accesses, dict, ManualApplications(), SystemClock().now_ms)

    def look(cluster: str) -> TakeStep:
        return TakeStep("w", "look", 1, LookAtTopics(cluster, (unique + "orders",)))

    with asked_in_vain([steps.take(look("silent")) for _ in range(WAITING)]):
        await asyncio.sleep(0)
        async with asyncio.timeout(patient_s(5)):
            assert (await steps.take(look("main"))).outcome is Outcome.DONE
    await steps.close()
