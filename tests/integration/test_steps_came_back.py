"""Offsets are set on a real broker after internal topics went: one that came back with records goes once more, with
what is committed there, and one that is empty stays.
"""

import asyncio

import pytest
from confluent_kafka import Consumer, TopicPartition

from recoveryd.adapters.kafka.group_facts import read_committed
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.kafka.topic_admin import await_topic, delete, describe
from recoveryd.workflows.model.actions import SetOffsets
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import OffsetUndo
from tests.builders.history import Draft, create_topics, produce
from tests.e2e.clients import client, commit, writer
from tests.e2e.processes import wait_for
from tests.integration.step_world import Topics, done

pytestmark = pytest.mark.broker


class Between:
    """The changelog and the input of an application that somebody started once more before its offsets were set."""

    def __init__(self, bootstrap: str, unique: str, topics: Topics) -> None:
        self.bootstrap, self.topics, self.group = bootstrap, topics, f"{unique}group"
        self.changelog, self.input = topics.names
        row = OffsetUndo(self.input, 0, None, was_set=0, group=self.group)
        self.action = SetOffsets("main", self.group, gone={self.changelog: topics.ids[self.changelog]})
        self.effect = TakeStep("w", "set_offsets", 2, self.action, (row,))

    def comes_back(self, records: int) -> str:
        """Its changelog is made again. Gives the id."""
        admin = self.topics.admin
        delete(admin, self.changelog, 60.0)
        wait_for(lambda: describe(admin, [self.changelog], 60.0)[self.changelog] is None, 60.0)
        create_topics(self.bootstrap, {self.changelog: 1})
        found = await_topic(admin, self.changelog, 60.0).topic_id
        producer = writer(self.bootstrap)
        for number in range(records):
            produce(producer, self.changelog, Draft(0, b"k", str(number).encode()))
        assert producer.flush(60.0) == 0
        return found

    def commits_there(self) -> None:
        consumer = Consumer({**client(self.bootstrap), "group.id": self.group})
        commit(consumer, [TopicPartition(self.changelog, 0, 2)])
        consumer.close()

    def committed(self, topic: str) -> int | None:
        found = read_committed({"bootstrap.servers": self.bootstrap}, self.group, [(topic, 0)])
        entry = found.get(topic, {}).get(0)
        return None if entry is None else entry.offset

    def there(self) -> str | None:
        return self.topics.there()[self.changelog]


@pytest.fixture
async def between(bootstrap: str, unique: str, topics: Topics) -> Between:
    return Between(bootstrap, unique, topics)


async def take(steps: KafkaSteps, effect: TakeStep) -> StepReported:
    return await steps.take(effect)


async def test_what_came_back_with_records_goes_once_more(steps: KafkaSteps, between: Between) -> None:
    await asyncio.to_thread(between.comes_back, 3)
    await asyncio.to_thread(between.commits_there)
    told = await take(steps, between.effect)
    assert (told.outcome, told.evidence["came_back"]) == (Outcome.DONE, [between.changelog])
    assert f"{between.changelog} had come back with records" in told.why
    assert await asyncio.to_thread(between.there) is None
    assert await asyncio.to_thread(between.committed, between.changelog) is None
    assert await asyncio.to_thread(between.committed, between.input) == 0
    again = await take(steps, between.effect)
    assert (again.outcome, "came_back" in again.evidence) == (Outcome.DONE, False)


async def test_what_came_back_empty_stays(steps: KafkaSteps, between: Between) -> None:
    made = await asyncio.to_thread(between.comes_back, 0)
    told = await take(steps, between.effect)
    assert (told.outcome, "came_back" in told.evidence) == (Outcome.DONE, False)
    assert await asyncio.to_thread(between.there) == made


async def test_it_is_waited_for_whoever_is_there_again(steps: KafkaSteps, between: Between) -> None:
    first = await take(steps, between.effect)
    assert first.outcome is Outcome.DONE
    made = await asyncio.to_thread(between.comes_back, 3)
    consumer = Consumer({**client(between.bootstrap), "group.id": between.group, "enable.auto.commit": False})
    consumer.subscribe([between.input])
    try:
        await asyncio.to_thread(wait_for, lambda: consumer.poll(0.2) is None and bool(consumer.assignment()), 60.0)
        told = await take(steps, between.effect)
        assert (told.outcome, len(told.members)) == (Outcome.NOT_YET, 1)
        assert between.changelog in told.why
        assert await asyncio.to_thread(between.there) == made
    finally:
        await asyncio.to_thread(consumer.close)
    await done(lambda: take(steps, between.effect))
    assert await asyncio.to_thread(between.there) is None
