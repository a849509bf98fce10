"""Names that a real broker does not let stand side by side, as the plans that ask for them know; and copies of a
savepoint that are not what they were, which are not compared as if they were.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.control.controls import ManualApplications
from recoveryd.adapters.kafka.cut_reading import diff_stores
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.kafka.topic_admin import await_topic, create
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.kept_topics import AS_WRITTEN
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.workflows.model.actions import TopicForm
from recoveryd.workflows.model.colliding import is_there, refuse_collision
from recoveryd.workflows.model.cut import Cut, CutTopic
from recoveryd.workflows.model.cut_diff import StoreDiff
from recoveryd.workflows.model.effects import GatherForWorkflow
from recoveryd.workflows.model.facts import WantedFacts
from tests.builders.history import create_topics
from tests.e2e.clients import writer

pytestmark = pytest.mark.broker


@pytest.fixture
async def steps(bootstrap: str) -> AsyncIterator[KafkaSteps]:
    clusters = {"main": {"bootstrap.servers": bootstrap}}
    access = {"main": ClientAccess(bootstrap)}
    made = KafkaSteps(clusters, access, dict, ManualApplications(), SystemClock().now_ms)
    yield made
    await made.close()


@pytest.mark.parametrize(("there", "wanted"), [("a_b.c", "a.b.c"), ("a_b.c", "a_b_c"), ("a.b", "a_b"), ("a-b", "a.b")])
async def test_a_broker_refuses_just_the_names_that_a_plan_refuses(
    steps: KafkaSteps, bootstrap: str, unique: str, there: str, wanted: str
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    await asyncio.to_thread(create_topics, bootstrap, {unique + there: 1})
    await asyncio.to_thread(await_topic, admin, unique + there, 60.0)
    facts = await steps.gather(GatherForWorkflow("w", WantedFacts(names_on="main")))
    assert is_there(unique + there, facts.found.names)
    refused = refuse_collision([unique + wanted], facts.found.names)
    if refused is None:
        assert await asyncio.to_thread(create, admin, unique + wanted, 1, 1, {}, 60.0)
        return
    with pytest.raises(ClusterProblem, match="collide") as problem:
        await asyncio.to_thread(create, admin, unique + wanted, 1, 1, {}, 60.0)
    assert problem.value.code is Code.TARGET_CREATE_FAILED


class Copies:
    """A store of two keys in each of two savepoints, which differ in one."""

    def __init__(self, bootstrap: str, unique: str) -> None:
        self.properties = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.properties)
        self.cuts = [self.make(f"{unique}{name}", value) for name, value in (("before", b"1"), ("after", b"2"))]

    def make(self, copy: str, value: bytes, copy_id: str = "", ends: Mapping[int, int] | None = None) -> Cut:
        create_topics(self.properties["bootstrap.servers"], {copy: 1}, AS_WRITTEN)
        topic_id = await_topic(self.admin, copy, 60.0).topic_id
        producer = writer(self.properties["bootstrap.servers"])
        for key, each in ((b"same", b"0"), (b"other", value)):
            producer.produce(copy, each, key, partition=0)
        assert producer.flush(60.0) == 0
        name = "app-counts-changelog"
        topic = CutTopic(name, copy, TopicForm(name, 1, 1), False, {0: 0}, {0: 2}, copy_id or topic_id, ends or {})
        return Cut(copy, "shop", "main", "app", 0, topics=(topic,))

    def diff(self, before: Cut | None = None) -> list[StoreDiff]:
        return list(diff_stores((before or self.cuts[0], self.properties), (self.cuts[1], self.properties), 1))


@pytest.fixture
def copies(bootstrap: str, unique: str) -> Copies:
    return Copies(bootstrap, unique)


def test_copies_are_compared_by_key(copies: Copies) -> None:
    (store,) = copies.diff()
    assert (store.keys_before, store.keys_after, store.added, store.changed, store.removed) == (2, 2, 0, 1, 0)


def test_what_came_to_a_copy_after_it_was_made_is_told_and_not_compared(copies: Copies, unique: str) -> None:
    before = copies.make(f"{unique}grown", b"1", ends={0: 2})
    producer = writer(copies.properties["bootstrap.servers"])
    for key in (b"other", b"stray"):
        producer.produce(before.topics[0].copy, b"9", key, partition=0)
    assert producer.flush(60.0) == 0
    (store,) = copies.diff(before)
    assert (store.keys_before, store.added, store.changed, store.removed) == (2, 0, 1, 0)
    assert (store.later_before, store.later_after) == (2, 0)


def test_a_copy_that_ends_before_it_did_is_not_compared(copies: Copies, unique: str) -> None:
    cut_back = copies.make(f"{unique}shorter", b"1", ends={0: 3})
    with pytest.raises(ClusterProblem, match="are gone") as problem:
        copies.diff(cut_back)
    assert problem.value.code is Code.OFFSET_OUTSIDE_LOG


def test_a_copy_that_was_created_again_is_not_compared(copies: Copies, unique: str) -> None:
    other = copies.make(f"{unique}again", b"3", copy_id="of-the-one-before")
    with pytest.raises(ClusterProblem, match="was created again") as problem:
        copies.diff(other)
    assert problem.value.code is Code.TOPIC_RECREATED


def test_a_copy_that_somebody_lets_be_compacted_is_not_compared(copies: Copies) -> None:
    resource = ConfigResource(ResourceType.TOPIC, copies.cuts[0].topics[0].copy)
    resource.add_incremental_config(
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    )
    [answer] = copies.admin.incremental_alter_configs([resource]).values()
    answer.result(60.0)
    with pytest.raises(ClusterProblem, match=r"has the cleanup\.policy compact") as problem:
        copies.diff()
    assert problem.value.code is Code.OFFSET_OUTSIDE_LOG


def test_a_copy_that_lost_records_is_not_compared(copies: Copies) -> None:
    copy = copies.cuts[0].topics[0].copy
    [answer] = copies.admin.delete_records([TopicPartition(copy, 0, 1)]).values()
    answer.result(60.0)
    with pytest.raises(ClusterProblem, match=f"records of {copy} 0 are gone") as problem:
        copies.diff()
    assert problem.value.code is Code.OFFSET_OUTSIDE_LOG
