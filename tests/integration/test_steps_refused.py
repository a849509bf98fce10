"""Steps on a broker whose ACLs refuse the third of five topics: nothing of the others is changed."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.kafka.topic_admin import check_create, describe
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.workflows.model.actions import Action, DeleteTopics, RecreateTopics, TopicForm
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome
from recoveryd_sandbox.broker import Broker
from tests.integration.step_world import Runs, Topics
from tests.patience import patient_s

pytestmark = pytest.mark.broker

ALL = (AclOperation.DESCRIBE, AclOperation.DELETE, AclOperation.CREATE, AclOperation.DESCRIBE_CONFIGS)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker on which topics without ACLs are everybody's, and the cluster gives no right to make any."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Broker(tmp_path_factory.mktemp("guarded"), overrides=settings) as broker:
        cluster = (AclOperation.CLUSTER_ACTION, AclOperation.ALTER, AclOperation.DESCRIBE)
        allow(broker.bootstrap, ResourceType.BROKER, "kafka-cluster", *cluster)
        yield broker


def allow(bootstrap: str, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    place = (kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
    acls = [AclBinding(*place, operation, AclPermissionType.ALLOW) for operation in operations]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_acls(acls).values():
        future.result(60)


@pytest.fixture
async def steps(guarded: Broker) -> AsyncIterator[KafkaSteps]:
    properties, access = {"bootstrap.servers": guarded.bootstrap}, ClientAccess(guarded.bootstrap)
    made = KafkaSteps({"main": properties}, {"main": access}, dict, Runs(), SystemClock().now_ms)
    yield made
    await made.close()


def again(ids: dict[str, str]) -> Action:
    return RecreateTopics("main", tuple(TopicForm(name, 1, 1) for name in ids), ids)


def gone(ids: dict[str, str]) -> Action:
    return DeleteTopics("main", ids)


@pytest.mark.parametrize(
    ("make", "refused", "named"),
    [
        (again, AclOperation.DELETE, "Delete on Topic"),
        (again, AclOperation.CREATE, "Create on Topic"),
        (gone, AclOperation.DELETE, "Delete on Topic"),
    ],
)
async def test_where_the_third_of_five_is_refused_nothing_of_the_others_goes(
    steps: KafkaSteps, guarded: Broker, unique: str, make: Callable[[dict[str, str]], Action],
    refused: AclOperation, named: str,
) -> None:  # fmt: skip
    names = [f"{unique}{letter}" for letter in "abcde"]
    topics = await asyncio.to_thread(Topics, guarded.bootstrap, unique, names)
    action = make(topics.ids)
    left = [operation for operation in ALL if operation is not refused]
    await asyncio.to_thread(allow, guarded.bootstrap, ResourceType.TOPIC, names[2], *left)
    await asyncio.to_thread(await_refusal, topics.admin, names[2], refused)
    told = await steps.take(TakeStep("w", "step", 1, action))
    assert (told.outcome, told.code, told.undo) == (Outcome.FAILED, Code.NOT_AUTHORISED.value, ()), told
    assert f"{named} {names[2]}" in told.why
    assert await asyncio.to_thread(topics.there) == topics.ids
    await asyncio.to_thread(allow, guarded.bootstrap, ResourceType.TOPIC, names[2], refused)
    await taken(steps, action)
    assert not set((await asyncio.to_thread(topics.there)).values()) & set(topics.ids.values())


def await_refusal(admin: AdminClient, topic: str, operation: AclOperation) -> None:
    """ACLs are known a moment after they were made."""
    give_up_s = time.monotonic() + patient_s(30)
    while not is_refused(admin, topic, operation):
        assert time.monotonic() < give_up_s, f"{operation} is not refused"
        time.sleep(0.05)


def is_refused(admin: AdminClient, topic: str, operation: AclOperation) -> bool:
    try:
        if operation is AclOperation.CREATE:
            check_create(admin, [topic], 60.0)
        else:
            describe(admin, [topic], 60.0, ("Delete",))
    except ClusterProblem as problem:
        return problem.code is Code.NOT_AUTHORISED
    return False


async def taken(steps: KafkaSteps, action: Action) -> None:
    """At the try at which the broker knows of the last right."""
    give_up_s = time.monotonic() + patient_s(30)
    for number in itertools.count(2):
        told = await steps.take(TakeStep("w", "step", number, action))
        if told.outcome is Outcome.DONE:
            return
        assert time.monotonic() < give_up_s, told
        await asyncio.sleep(0.05)
