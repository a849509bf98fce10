"""A cut of an application that runs, on a real broker: whether its state and its offsets are of one moment."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.control.controls import ManualApplications
from recoveryd.adapters.kafka.group_facts import read_committed
from recoveryd.adapters.kafka.steps import offset_steps
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.kafka.topic_admin import await_topic
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.workflows.model.actions import TakeSnapshot
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import OffsetUndo
from tests.builders.history import create_topics
from tests.e2e.clients import commit
from tests.e2e.processes import wait_for
from tests.integration.step_world import done

pytestmark = pytest.mark.broker

THREAD = "0199f0c2-1111-4222-8333-123456789abc-1"
DEADLINE_S = 120.0


class Cutter:
    """An application with an input and a changelog, one partition each."""

    def __init__(self, bootstrap: str, unique: str) -> None:
        self.bootstrap, self.group = bootstrap, f"{unique}app"
        self.input, self.state = f"{unique}in", f"{unique}app-counts-changelog"
        clusters = {"main": {"bootstrap.servers": bootstrap}}
        self.steps = KafkaSteps(
            clusters, {"main": ClientAccess(bootstrap)}, dict, ManualApplications(), SystemClock().now_ms
        )

    def make(self) -> None:
        create_topics(self.bootstrap, {self.input: 1, self.state: 1})
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for topic in (self.input, self.state):
            await_topic(admin, topic, 60.0)
        with self.member(f"{self.group}-{THREAD}", 3) as producer:
            producer.commit_transaction(60)

    @contextmanager
    def member(self, name: str, offset: int | None) -> Iterator[Producer]:
        """It has written a change of its state, and with it where it stands, and did not commit either."""
        settings = {"transactional.id": name, "transaction.timeout.ms": 900_000}
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(self.state, b"value", b"key")
        producer.flush(60)
        if offset is not None:
            consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
            places = [TopicPartition(self.input, 0, offset)]
            producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 60)
            consumer.close()
        yield producer

    async def cut(self) -> tuple[bool, int | None, int]:
        """Whether all is of one moment, where the group stands, and up to where the state goes."""
        action = TakeSnapshot(
            "main", self.group, (self.input,), (self.state,), is_live=True, state_topics=(self.state,)
        )
        told = await self.steps.take(TakeStep("w", "snapshot", 1, action))
        (row,) = told.undo
        assert isinstance(row, OffsetUndo)
        return bool(told.evidence["is_still"]), row.to, told.logs[self.state][0].high_watermark

    async def settled_cut(self) -> tuple[bool, int | None, int]:
        """Cut again while it is inexact: a commit is answered before its markers are in the logs."""
        give_up_s = time.monotonic() + DEADLINE_S
        while True:
            found = await self.cut()
            if found[0] or time.monotonic() > give_up_s:
                return found
            await asyncio.sleep(0.1)


@pytest.fixture
async def cutter(bootstrap: str, unique: str) -> AsyncIterator[Cutter]:
    made = Cutter(bootstrap, unique)
    await asyncio.to_thread(made.make)
    yield made
    await made.steps.close()


async def test_between_two_transactions_state_and_offsets_are_of_one_moment(cutter: Cutter) -> None:
    assert await cutter.settled_cut() == (True, 3, 2)


async def test_what_a_transaction_did_that_is_open_is_in_neither(cutter: Cutter) -> None:
    with cutter.member(f"{cutter.group}-{THREAD}", None) as producer:
        assert await cutter.settled_cut() == (True, 3, 2)
        producer.abort_transaction(60)


async def test_offsets_that_are_about_to_be_committed_make_it_inexact(cutter: Cutter) -> None:
    """Its state may be seen already."""
    with cutter.member(f"{cutter.group}-{THREAD}", 5) as producer:
        is_still, _, _ = await cutter.cut()
        assert not is_still
        producer.commit_transaction(60)
    assert await cutter.settled_cut() == (True, 5, 4)


async def test_a_cut_of_one_that_stands_still_waits_for_offsets_that_are_about_to_be_committed(cutter: Cutter) -> None:
    """As where it was killed between the two: its state may be in the log, and its offsets not yet."""
    action = TakeSnapshot("main", cutter.group, (cutter.input,), (cutter.state,), is_stable=True)

    async def noted(number: int) -> StepReported:
        return await cutter.steps.take(TakeStep("w", "snapshot", number, action))

    with cutter.member(f"{cutter.group}-{THREAD}", 5) as producer:
        told = await noted(1)
        assert (told.outcome, told.undo) == (Outcome.NOT_YET, ())
        assert "is about to commit" in told.why
        producer.commit_transaction(60)
    told = await done(lambda: noted(2))
    assert [row.to for row in told.undo] == [5]  # type: ignore[union-attr]


def joined(cutter: Cutter) -> Consumer:
    """Somebody started the application again."""
    settings = {"group.id": cutter.group, "enable.auto.commit": False, "client.id": "again"}
    member = Consumer({"bootstrap.servers": cutter.bootstrap, **settings})
    member.subscribe([cutter.input])
    wait_for(lambda: (member.poll(0.2), member.assignment())[1], 60.0)
    return member


async def test_one_that_was_started_again_is_not_cut_as_if_it_stood_still(cutter: Cutter) -> None:
    action = TakeSnapshot("main", cutter.group, (cutter.input,), (cutter.state,), is_stable=True)
    member = await asyncio.to_thread(joined, cutter)
    told = await cutter.steps.take(TakeStep("w", "snapshot", 1, action))
    assert (told.outcome, told.undo, told.members) == (Outcome.NOT_YET, (), ("again on 127.0.0.1",))
    await asyncio.to_thread(member.close)
    await done(lambda: cutter.steps.take(TakeStep("w", "snapshot", 2, action)))


@pytest.mark.parametrize("is_there_still", [True, False])
async def test_one_that_is_started_again_while_it_is_noted_is_noticed(
    cutter: Cutter, monkeypatch: pytest.MonkeyPatch, is_there_still: bool
) -> None:
    """By its members, and where they are gone already by what they committed."""
    action = TakeSnapshot("main", cutter.group, (cutter.input,), (cutter.state,), is_stable=True)
    members: list[Consumer] = []

    def look(*where: Any, **how: Any) -> Any:
        found = read_committed(*where, **how)
        if not how.get("stable") and not members:
            members.append(joined(cutter))
            if not is_there_still:
                commit(members[0], [TopicPartition(cutter.input, 0, 9)])
                members[0].close()
        return found

    monkeypatch.setattr(offset_steps, "read_committed", look)
    told = await cutter.steps.take(TakeStep("w", "snapshot", 1, action))
    assert (told.outcome, told.undo) == (Outcome.NOT_YET, ())
    if is_there_still:
        assert told.members == ("again on 127.0.0.1",)
        await asyncio.to_thread(members[0].close)
    else:
        assert "somebody committed" in told.why


async def test_offsets_that_are_committed_while_it_looks_make_it_inexact(
    cutter: Cutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state may have been seen before its offsets were."""
    has_come_there = threading.Event()

    def look(*where: Any, **how: Any) -> Any:
        if how.get("stable"):
            has_come_there.set()
        return read_committed(*where, **how)

    monkeypatch.setattr(offset_steps, "read_committed", look)
    monkeypatch.setattr(offset_steps, "_STABLE_S", DEADLINE_S)
    with cutter.member(f"{cutter.group}-{THREAD}", 5) as producer:
        cutting = asyncio.create_task(cutter.cut())
        assert await asyncio.to_thread(has_come_there.wait, DEADLINE_S)
        await asyncio.to_thread(producer.commit_transaction, DEADLINE_S)
        is_still, _, _ = await cutting
        assert not is_still


async def test_a_transaction_whose_state_cannot_be_seen_makes_it_inexact(cutter: Cutter, unique: str) -> None:
    """As where the right to see it is missing: offsets that are seen may be of one whose state is not."""
    hidden = Cutter(cutter.bootstrap, f"{unique}other")
    with cutter.member(f"{unique}foreign-1", None) as producer:
        hidden.group, hidden.input, hidden.state = f"{unique}none", cutter.input, cutter.state
        is_still, _, _ = await hidden.cut()
        assert not is_still
        producer.abort_transaction(60)
    await hidden.steps.close()
