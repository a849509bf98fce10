"""Offsets of groups of others set and put back on a real broker, where the broker decides: members that come alive,
offsets that somebody else set, logs and topics that changed meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.control.controls import ManualApplications
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.kafka.topic_admin import await_topic, delete, describe
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.workflows.model.actions import SetOffsets, TakeSnapshot
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import OffsetUndo, UndoState
from tests.builders.history import create_topics
from tests.e2e.clients import commit, writer
from tests.e2e.processes import wait_for
from tests.integration.step_world import done

pytestmark = pytest.mark.broker

EACH = 20


class Setter:
    """A topic with two partitions of 20 records, and a group that committed 7 on the first."""

    def __init__(self, bootstrap: str, unique: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, f"{unique}in", f"{unique}group"
        clusters = {"main": {"bootstrap.servers": bootstrap}}
        self.steps = KafkaSteps(
            clusters, {"main": ClientAccess(bootstrap)}, dict, ManualApplications(), SystemClock().now_ms
        )
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.rows = (OffsetUndo(self.topic, 0, 7, 3, metadata="mine"), OffsetUndo(self.topic, 1, None, 4))

    def fill(self) -> None:
        create_topics(self.bootstrap, {self.topic: 2})
        await_topic(self.admin, self.topic, 60.0)
        producer = writer(self.bootstrap)
        for number in range(2 * EACH):
            producer.produce(self.topic, b"x", partition=number % 2)
        assert producer.flush(60.0) == 0

    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        consumer = self.consumer()
        commit(consumer, [TopicPartition(self.topic, partition, offset, metadata)])
        consumer.close()

    def committed(self) -> list[int]:
        consumer = self.consumer()
        found = consumer.committed([TopicPartition(self.topic, p) for p in range(2)], timeout=60)
        consumer.close()
        return [where.offset for where in found]

    def consumer(self, **more: str | bool) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, **more})

    def member(self, protocol: str) -> Consumer:
        """One that has joined, and commits nothing."""
        found = self.consumer(**{"group.protocol": protocol, "enable.auto.commit": False, "client.id": "busy"})
        found.subscribe([self.topic])
        wait_for(lambda: (found.poll(0.2), found.assignment())[1], 60.0)
        return found

    async def set(self, *, is_back: bool = False) -> StepReported:
        return await self.steps.take(TakeStep("w", "s", 1, SetOffsets("main", self.group, is_back), self.rows))


@pytest.fixture
async def setter(bootstrap: str, unique: str) -> AsyncIterator[Setter]:
    made = Setter(bootstrap, unique)
    await asyncio.to_thread(made.fill)
    await asyncio.to_thread(made.commit, 0, 7, "mine")
    yield made
    await made.steps.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_while_the_group_has_members_again_nothing_is_set_and_nothing_taken_away(
    setter: Setter, protocol: str
) -> None:
    member = await asyncio.to_thread(setter.member, protocol)
    told = await setter.set()
    assert (told.outcome, told.members) == (Outcome.NOT_YET, ("busy on 127.0.0.1",))
    await asyncio.to_thread(member.close)
    await done(setter.set)
    assert await asyncio.to_thread(setter.committed) == [3, 4]
    member = await asyncio.to_thread(setter.member, protocol)
    told = await setter.set(is_back=True)
    assert (told.outcome, told.members) == (Outcome.NOT_YET, ("busy on 127.0.0.1",))
    await asyncio.to_thread(member.close)
    await done(lambda: setter.set(is_back=True))
    assert await asyncio.to_thread(setter.committed) == [7, -1001]


async def test_an_assigned_consumer_that_commits_is_noticed_though_the_group_has_no_members(setter: Setter) -> None:
    note = TakeSnapshot("main", setter.group, (setter.topic,), looks_twice=True)
    consumer = await asyncio.to_thread(setter.consumer, **{"enable.auto.commit": False})
    consumer.assign([TopicPartition(setter.topic, 0, 7)])
    looking = asyncio.create_task(setter.steps.take(TakeStep("w", "s", 1, note)))
    for offset in range(8, EACH):
        await asyncio.to_thread(commit, consumer, [TopicPartition(setter.topic, 0, offset)])
        await asyncio.wait([looking], timeout=1.0)
        if looking.done():
            break
    told = await looking
    consumer.close()
    assert told.outcome is Outcome.NOT_YET, told.why
    assert f"{setter.topic} 0 of {setter.group} went from " in told.why
    assert "stop the consumer that commits for it" in told.why
    told = await setter.steps.take(TakeStep("w", "s", 2, note))
    assert told.outcome is Outcome.DONE
    assert {row.partition: row.to for row in told.undo if isinstance(row, OffsetUndo)} == {
        0: (await asyncio.to_thread(setter.committed))[0], 1: None
    }  # fmt: skip


async def test_what_somebody_else_set_meanwhile_is_named_and_stays(setter: Setter) -> None:
    await asyncio.to_thread(setter.commit, 1, 9)
    told = await setter.set()
    assert (told.outcome, told.code, f"{setter.topic} 1 " in told.why) == (
        Outcome.FAILED, Code.GROUP_CHANGED.value, True,
    )  # fmt: skip
    assert await asyncio.to_thread(setter.committed) == [7, 9]


@pytest.mark.parametrize("is_back", [False, True])
async def test_in_a_topic_that_was_created_again_meanwhile_nothing_is_set(setter: Setter, is_back: bool) -> None:
    """Forward where nothing was committed before, back where the commit went with the topic."""
    known = await asyncio.to_thread(await_topic, setter.admin, setter.topic, 60.0)
    await asyncio.to_thread(create_again, setter)
    row = OffsetUndo(setter.topic, 0, 7, None) if is_back else OffsetUndo(setter.topic, 1, None, 4)
    action = SetOffsets("main", setter.group, is_back, topic_ids={setter.topic: known.topic_id})
    told = await setter.steps.take(TakeStep("w", "s", 1, action, (row,)))
    if is_back:
        assert told.outcome is Outcome.DONE
        assert ([each.state for each in told.undo], told.evidence["moved"]) == ([UndoState.KEPT], 0)
    else:
        assert (told.outcome, told.code) == (Outcome.FAILED, Code.TOPIC_RECREATED.value)
    assert await asyncio.to_thread(setter.committed) == [-1001, -1001]


def create_again(setter: Setter) -> None:
    delete(setter.admin, setter.topic, 60.0)
    wait_for(lambda: describe(setter.admin, [setter.topic], 60.0)[setter.topic] is None, 60.0)
    setter.fill()
    wait_for(lambda: setter.committed() == [-1001, -1001], 60.0)


async def test_a_position_that_retention_took_meanwhile_is_not_set(setter: Setter) -> None:
    await asyncio.to_thread(delete_before, setter, 0, 5)
    told = await setter.set()
    assert (told.outcome, told.code) == (Outcome.FAILED, Code.OFFSET_OUTSIDE_LOG.value)
    assert "offset 3 lies outside the log, which has [5, 20) now" in told.why
    assert await asyncio.to_thread(setter.committed) == [7, -1001]


async def test_what_is_put_back_says_which_records_are_gone(setter: Setter) -> None:
    assert (await setter.set()).outcome is Outcome.DONE
    await asyncio.to_thread(delete_before, setter, 0, 9)
    told = await setter.set(is_back=True)
    assert told.outcome is Outcome.DONE
    assert "offset 7 lies outside the log, which has [9, 20) now" in told.why
    assert await asyncio.to_thread(setter.committed) == [7, -1001]


async def test_a_topic_that_was_created_again_is_neither_noted_nor_set_back(setter: Setter) -> None:
    found = await asyncio.to_thread(describe, setter.admin, [setter.topic], 60.0)
    shape = found[setter.topic]
    assert shape is not None
    note = TakeSnapshot("main", setter.group, (setter.topic,), topic_ids={setter.topic: shape.topic_id})
    assert (await setter.steps.take(TakeStep("w", "s", 1, note))).outcome is Outcome.DONE
    assert (await setter.set()).outcome is Outcome.DONE
    await asyncio.to_thread(recreate, setter)
    told = await setter.steps.take(TakeStep("w", "s", 1, note))
    assert (told.outcome, told.code) == (Outcome.FAILED, Code.TOPIC_RECREATED.value)
    told = await setter.set(is_back=True)
    assert told.outcome is Outcome.DONE
    assert [row.state for row in told.undo if isinstance(row, OffsetUndo)] == [UndoState.KEPT, UndoState.DONE], (
        "its commits went with the old topic"
    )
    assert await asyncio.to_thread(setter.committed) == [-1001, -1001]


@pytest.mark.parametrize("is_known", [True, False])
async def test_commits_that_expired_meanwhile_are_put_back_in_the_topic_that_is_known(
    setter: Setter, is_known: bool
) -> None:
    """Of a topic whose id nobody noted it may be that they went with it."""
    shape = await asyncio.to_thread(await_topic, setter.admin, setter.topic, 60.0)
    assert (await setter.set()).outcome is Outcome.DONE
    await asyncio.to_thread(expire, setter)
    action = SetOffsets("main", setter.group, True, topic_ids={setter.topic: shape.topic_id} if is_known else {})
    told = await setter.steps.take(TakeStep("w", "s", 1, action, setter.rows))
    states = [row.state for row in told.undo if isinstance(row, OffsetUndo)]
    assert (told.outcome, states) == (
        Outcome.DONE, [UndoState.DONE if is_known else UndoState.KEPT, UndoState.DONE],
    )  # fmt: skip
    assert ("1 had no commit any more" in told.why, told.evidence["were_gone"]) == (is_known, int(is_known))
    assert await asyncio.to_thread(setter.committed) == [7 if is_known else -1001, -1001]


async def test_where_the_group_has_moved_on_it_stays_and_that_is_counted(setter: Setter) -> None:
    assert (await setter.set()).outcome is Outcome.DONE
    await asyncio.to_thread(setter.commit, 0, 15)
    told = await setter.set(is_back=True)
    states = [row.state for row in told.undo if isinstance(row, OffsetUndo)]
    assert (states, told.evidence["moved"]) == ([UndoState.KEPT, UndoState.DONE], 1)
    assert await asyncio.to_thread(setter.committed) == [15, -1001]


def expire(setter: Setter) -> None:
    """As the broker does with commits of a group that had no members for long."""
    setter.admin.delete_consumer_groups([setter.group])[setter.group].result(60.0)
    wait_for(lambda: setter.committed() == [-1001, -1001], 60.0)


async def test_offsets_of_a_topic_that_is_gone_are_left_and_do_not_keep_others_from_being_put_back(
    setter: Setter, bootstrap: str, unique: str
) -> None:
    gone = Setter(bootstrap, f"{unique}gone-")
    gone.group = setter.group
    await asyncio.to_thread(gone.fill)
    await asyncio.to_thread(gone.commit, 0, 3)
    await asyncio.to_thread(delete, gone.admin, gone.topic, 60.0)
    await asyncio.to_thread(
        wait_for, lambda: describe(gone.admin, [gone.topic], 60.0)[gone.topic] is None and gone.committed()[0] < 0, 60.0
    )
    assert (await setter.set()).outcome is Outcome.DONE
    lost = (OffsetUndo(gone.topic, 0, 7, None), OffsetUndo(gone.topic, 1, 7, 3), OffsetUndo(setter.topic, 9, 7, None))
    action = SetOffsets("main", setter.group, is_back=True)
    told = await setter.steps.take(TakeStep("w", "s", 1, action, (*lost, *setter.rows)))
    assert told.outcome is Outcome.DONE, told.why
    states = [row.state for row in told.undo if isinstance(row, OffsetUndo)]
    assert (states, told.evidence["moved"]) == ([UndoState.KEPT] * 3 + [UndoState.DONE] * 2, 0)
    assert await asyncio.to_thread(setter.committed) == [7, -1001]
    await gone.steps.close()


def delete_before(setter: Setter, partition: int, offset: int) -> None:
    where = TopicPartition(setter.topic, partition, offset)
    for answer in setter.admin.delete_records([where]).values():
        answer.result(60.0)


def recreate(setter: Setter) -> None:
    setter.admin.delete_topics([setter.topic])[setter.topic].result(60.0)
    wait_for(lambda: describe(setter.admin, [setter.topic], 60.0)[setter.topic] is None, 60.0)
    wait_for(lambda: setter.committed() == [-1001, -1001], 60.0)
    setter.fill()
