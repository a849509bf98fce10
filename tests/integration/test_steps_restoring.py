"""The step that waits for a group to read, on a real broker: an application that brings state commits nothing until it
has restored that, which is told apart from one that reads.
"""

import asyncio
import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.kernel.catalogue import Code
from recoveryd.workflows.model.actions import RESTORING, AwaitCaughtUp
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome
from recoveryd.workflows.model.workflow import OffsetUndo
from tests.builders.history import Draft, produce
from tests.e2e.clients import client, commit, writer
from tests.integration.step_world import Topics
from tests.patience import patient_s

pytestmark = pytest.mark.broker


def stand(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Commit it for a group that nobody is in."""
    consumer = Consumer({**client(bootstrap), "group.id": group})
    commit(consumer, [TopicPartition(topic, 0, offset)])
    consumer.close()


async def written(bootstrap: str, topic: str) -> None:
    """Five records."""
    producer = writer(bootstrap)
    for number in range(5):
        produce(producer, topic, Draft(0, b"k", str(number).encode(), (), 1_700_000_000_000))
    assert await asyncio.to_thread(producer.flush, 60.0) == 0


def joined(bootstrap: str, group: str, topic: str) -> Consumer:
    """A member that commits nothing by itself."""
    member = Consumer({**client(bootstrap), "group.id": group, "enable.auto.commit": False})
    member.subscribe([topic])
    deadline_s = time.monotonic() + patient_s(10)
    while not member.assignment():
        assert time.monotonic() < deadline_s, "no partition was assigned"
        member.poll(0.2)
    return member


@pytest.mark.parametrize("start", [3, 5])
async def test_records_that_go_while_it_restores_its_state_end_the_wait(
    steps: KafkaSteps, topics: Topics, bootstrap: str, unique: str, start: int
) -> None:
    """Also where nothing is left that it could read."""
    (topic, _), group = topics.names, f"{unique}group"
    await written(bootstrap, topic)
    await asyncio.to_thread(stand, bootstrap, group, topic, 1)
    admin = AdminClient(client(bootstrap))
    deleted = admin.delete_records([TopicPartition(topic, 0, start)])
    await asyncio.to_thread(next(iter(deleted.values())).result, 60.0)
    action = AwaitCaughtUp("main", group, {topic: {0: 5}}, brings_state=True)
    row = OffsetUndo(topic, 0, 4, 1, group=group)
    told = await steps.take(TakeStep("w", "await_caught_up", 1, action, (row,)))
    assert (told.outcome, told.code) == (Outcome.FAILED, Code.OFFSET_OUTSIDE_LOG.value)
    assert f"{topic} 0 [1, {start})" in told.why
    assert told.evidence["gone"] == [{"topic": topic, "partition": 0, "from": 1, "to": start}]
    await asyncio.to_thread(stand, bootstrap, group, topic, 5)
    told = await steps.take(TakeStep("w", "await_caught_up", 1, action, (row,)))
    assert told.outcome is Outcome.DONE, "it was read before it went"


@pytest.mark.parametrize("was_set", [0, None])
async def test_it_may_be_restoring_its_state_until_it_commits(
    steps: KafkaSteps, topics: Topics, bootstrap: str, unique: str, was_set: int | None
) -> None:
    """Also where nothing was set, and it was only noted where it stood."""
    (topic, _), group = topics.names, f"{unique}group"
    await written(bootstrap, topic)
    await asyncio.to_thread(stand, bootstrap, group, topic, 0)
    row = OffsetUndo(topic, 0, 4 if was_set is not None else 0, was_set, group=group)
    action = AwaitCaughtUp("main", group, {topic: {0: 5}}, brings_state=True)

    async def told() -> tuple[Outcome, object, bool]:
        report = await steps.take(TakeStep("w", "await_caught_up", 1, action, (row,)))
        return report.outcome, report.evidence.get(RESTORING), "may still be restoring its state" in report.why

    assert await told() == (Outcome.NOT_YET, None, False), "nothing runs that could restore it"
    member = await asyncio.to_thread(joined, bootstrap, group, topic)
    try:
        assert await told() == (Outcome.NOT_YET, True, True)
        await asyncio.to_thread(commit, member, [TopicPartition(topic, 0, 1)])
        assert await told() == (Outcome.NOT_YET, None, False)
        await asyncio.to_thread(commit, member, [TopicPartition(topic, 0, 5)])
        assert await told() == (Outcome.DONE, None, False)
    finally:
        await asyncio.to_thread(member.close)


async def test_it_may_be_restoring_as_long_as_it_has_not_committed_where_it_is_behind(
    steps: KafkaSteps, topics: Topics, bootstrap: str, unique: str
) -> None:
    """What it has read to the end says nothing of the rest, and no more what it stands at without anything to read."""
    (topic, other), group = topics.names, f"{unique}group"
    await written(bootstrap, topic)
    await asyncio.to_thread(stand, bootstrap, group, topic, 0)
    await asyncio.to_thread(stand, bootstrap, group, other, 0)
    rows = (OffsetUndo(topic, 0, 4, 0, group=group), OffsetUndo(other, 0, 4, 0, group=group))
    member = await asyncio.to_thread(joined, bootstrap, group, topic)

    async def told(other_end: int) -> tuple[Outcome, object]:
        action = AwaitCaughtUp("main", group, {topic: {0: 5}, other: {0: other_end}}, brings_state=True)
        report = await steps.take(TakeStep("w", "await_caught_up", 1, action, rows))
        return report.outcome, report.evidence.get(RESTORING)

    try:
        await written(bootstrap, other)
        await asyncio.to_thread(commit, member, [TopicPartition(topic, 0, 3)])
        assert await told(5) == (Outcome.NOT_YET, True)
        assert await told(0) == (Outcome.NOT_YET, None)
        await asyncio.to_thread(commit, member, [TopicPartition(topic, 0, 5)])
        assert await told(5) == (Outcome.NOT_YET, True)
        await asyncio.to_thread(commit, member, [TopicPartition(other, 0, 2)])
        assert await told(5) == (Outcome.NOT_YET, None)
    finally:
        await asyncio.to_thread(member.close)
