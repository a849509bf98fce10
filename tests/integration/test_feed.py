"""The Faust worker on the real broker: what is acknowledged, and when."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.errors import UnknownError
from aiokafka.protocol.commit import OffsetFetchRequest, OffsetFetchResponse_v3
from aiokafka.protocol.group import LeaveGroupRequest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from faust.types import TP

from recoveryd.adapters.kafka.client import make_admin
from recoveryd.adapters.kafka.control_log import KafkaControlLog
from recoveryd.adapters.kafka.offsets import LATEST, read_offsets
from recoveryd.app.feed import Feed
from recoveryd.app.worker import FeedConfig, coordinator_of
from recoveryd.collectors.control_topic import ControlTopicWatch
from recoveryd.errors import ClusterProblem, OwnTopicProblem, RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import Event, SignalRefused
from recoveryd.ports import ControlRecord
from recoveryd.runtime import ControlIntake, Inbox
from recoveryd.runtime.inbox import Item
from recoveryd_sandbox.topics import make_topics
from tests.e2e.clients import commit, writer
from tests.e2e.proxy import Api, ProxiedBroker
from tests.runtime.fakes import QuietClusters, until, within

pytestmark = pytest.mark.broker

RECORDS = 40
COMMIT_INTERVAL_S = 0.05
LOOK_INTERVAL_S = 2.5 * COMMIT_INTERVAL_S  # of Faust, for records that get stuck
SESSION_S, REQUEST_S = 6.0, 7.0  # the shortest that broker and Faust allow
LONG_SESSION_S = 45.0  # more than a request usually gets
HEARTBEAT_S = 0.5
JOINED_S = 120.0
LONG_S = 3_600.0  # who waits so long for something that never comes has not left within JOINED_S


class Leadership:
    """Notes what the feed tells. An expelled feed waits for `may_join`."""

    waits_for_journal = False

    def __init__(self) -> None:
        self.told: list[str] = []
        self.may_join = asyncio.Event()

    def assigned(self) -> None:
        self.told.append("assigned")

    def passed_over(self) -> None:
        self.told.append("passed over")

    def revoked(self) -> None:
        self.told.append("revoked")

    async def expelled(self) -> None:
        self.told.append("expelled")
        await self.may_join.wait()


class Rig:
    """A feed into an inbox that the test empties itself."""

    def __init__(self, bootstrap: str, name: str, folder: Path, **settings: Any) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, f"{name}control", f"{name}group"
        self.leadership = Leadership()
        self.inbox = Inbox()
        self.intake = ControlIntake(self.inbox, KafkaControlLog({"bootstrap.servers": bootstrap}, self.topic), _decode)
        config = FeedConfig(
            (bootstrap,), self.topic, self.group, folder, commit_interval_s=COMMIT_INTERVAL_S, **settings
        )
        self.feed = Feed(config, self.intake, self.leadership)

    async def take(self, count: int) -> list[Item]:
        """Control records; the inbox also gets the event that all of them were read."""
        items: list[Item] = []
        async with asyncio.timeout(JOINED_S):
            while len(items) < count:
                items += [item for item in await self.inbox.take(count - len(items), 0.2) if item.record is not None]
        return items

    async def settle(self, count: int) -> None:
        """Take and journal these."""
        for item in await self.take(count):
            assert item.done is not None
            item.done.set_result(None)

    async def committed(self, partition: int = 0) -> int:
        def ask() -> int:
            reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
            try:
                [found] = reader.committed([TopicPartition(self.topic, partition)], timeout=60)
                return int(found.offset)
            finally:
                reader.close()

        return await asyncio.to_thread(ask)

    async def committed_becomes(self, offset: int) -> None:
        async with asyncio.timeout(JOINED_S):
            while await self.committed() != offset:  # noqa: ASYNC110  (the broker gives no event)
                await asyncio.sleep(COMMIT_INTERVAL_S)


def _decode(record: ControlRecord) -> Event:
    return SignalRefused(record.offset, "", "", "")


@pytest.fixture
async def rig(bootstrap: str, unique: str, tmp_path: Path) -> AsyncIterator[Rig]:
    """A feed that joined its group, with RECORDS records on the topic: keys, tombstones, repeated and null headers."""
    made = Rig(bootstrap, unique, tmp_path, heartbeat_interval_s=HEARTBEAT_S, session_timeout_s=LONG_SESSION_S)
    await asyncio.to_thread(_fill, bootstrap, made.topic)
    await _open(made)
    await within(made.feed.start(), JOINED_S)
    yield made
    made.leadership.may_join.set()  # a worker that waits for it cannot be stopped
    await until(lambda: made.leadership.told[-1:] != ["expelled"])
    await within(made.feed.stop(JOINED_S), JOINED_S)


async def _open(made: Rig) -> None:
    made.intake.open_at(RECORDS)  # so that nothing is read directly: this is about what the group delivers
    await within(made.intake.catch_up(), JOINED_S)
    made.intake._next = 0


def _fill(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    make_topics(admin, [NewTopic(topic, 1, 1)])
    producer = writer(bootstrap)
    for i in range(RECORDS):
        producer.produce(
            topic,
            None if i % 5 == 0 else b"%d" % i,
            key=None if i % 2 else b"k%d" % i,
            timestamp=1_700_000_000_000 + i,
            headers=[("a", b"1"), ("a", None), ("b", b"")],
        )
    assert producer.flush(60) == 0


async def test_records_arrive_as_they_lie_on_the_topic(rig: Rig) -> None:
    records = [item.record for item in await rig.take(RECORDS)]
    assert records == [
        ControlRecord(
            0,
            i,
            1_700_000_000_000 + i,
            None if i % 2 else b"k%d" % i,
            None if i % 5 == 0 else b"%d" % i,
            (("a", b"1"), ("a", None), ("b", b"")),
        )
        for i in range(RECORDS)
    ]
    assert rig.leadership.told == ["assigned"]


async def test_a_record_read_directly_is_the_same_as_one_delivered(rig: Rig) -> None:
    delivered = [item.record for item in await rig.take(RECORDS)]
    log = KafkaControlLog({"bootstrap.servers": rig.bootstrap}, rig.topic)
    assert [record async for page in log.pages(0, None) for record in page] == delivered
    assert [record async for page in log.pages(3, 7) for record in page] == delivered[3:7]
    assert [page async for page in log.pages(RECORDS, None)] == []


async def test_nothing_is_committed_before_the_journal_holds_it_and_only_up_to_the_first_gap(rig: Rig) -> None:
    items = await rig.take(RECORDS)
    for item in items[1:]:
        assert item.done is not None
        item.done.set_result(None)
    await asyncio.sleep(10 * COMMIT_INTERVAL_S)
    assert await rig.committed() < 0, "the first record is not journaled, so none may count as done"
    assert items[0].done is not None
    items[0].done.set_result(None)
    await rig.committed_becomes(RECORDS)


async def test_leaving_commits_what_is_done_and_does_not_wait_for_the_rest(rig: Rig) -> None:
    for item in (await rig.take(RECORDS))[:10]:
        assert item.done is not None
        item.done.set_result(None)
    await until(lambda: rig.feed._acked_offset == 9)
    await within(rig.feed.stop(LONG_S), JOINED_S)
    assert await rig.committed() == 10


@pytest.fixture
async def standby(rig: Rig, bootstrap: str, unique: str, tmp_path: Path) -> AsyncIterator[Rig]:
    """A second feed of the same group, which was passed over once the first one had handled all records."""
    await rig.settle(RECORDS)
    await rig.committed_becomes(RECORDS)
    folder = tmp_path / "second"
    folder.mkdir()
    second = Rig(bootstrap, unique, folder, heartbeat_interval_s=HEARTBEAT_S)
    await _open(second)
    await within(second.feed.start(), JOINED_S)
    try:
        await until(lambda: "passed over" in second.leadership.told, JOINED_S)
        await until(lambda: rig.leadership.told == ["assigned", "revoked", "assigned"], JOINED_S)
        yield second
    finally:
        await within(second.feed.stop(JOINED_S), JOINED_S)


async def test_a_member_that_comes_second_is_passed_over_and_the_first_one_keeps_its_partition(standby: Rig) -> None:
    assert "assigned" not in standby.leadership.told


async def test_a_standby_that_had_nothing_to_read_for_a_day_takes_over(rig: Rig, standby: Rig) -> None:
    """Without a partition its client never asks for records."""
    coordinator_of(standby.feed._app)._subscription._last_fetch_ended -= 86_400.0
    await asyncio.sleep(5 * HEARTBEAT_S)
    assert len(await asyncio.to_thread(_members, rig)) == 2
    rig.leadership.may_join.set()
    await within(rig.feed.stop(JOINED_S), JOINED_S)
    await until(lambda: standby.leadership.told[-1] == "assigned", JOINED_S)


async def _on_thread(rig: Rig, work: Coroutine[Any, Any, Any]) -> Any:
    """The result of what runs where the worker's client lives."""
    consumer: Any = rig.feed._app.consumer
    running = asyncio.run_coroutine_threadsafe(work, consumer._thread.thread_loop)
    return await within(asyncio.wrap_future(running), JOINED_S)


async def test_a_group_whose_broker_cannot_tell_its_position_yet_is_not_taken_for_one_without(rig: Rig) -> None:
    await rig.settle(RECORDS)
    await rig.committed_becomes(RECORDS)
    coordinator, partition = coordinator_of(rig.feed._app), aiokafka.TopicPartition(rig.topic, 0)
    send, codes = coordinator._client.send, [14, 15, 16]  # loads, not available, not the coordinator

    async def not_yet(node: int, request: Any, **how: Any) -> Any:
        if isinstance(request, OffsetFetchRequest) and codes:
            return OffsetFetchResponse_v3(0, [], codes.pop())
        return await send(node, request, **how)

    coordinator._client.send = not_yet
    found = await _on_thread(rig, coordinator.fetch_committed_offsets([partition]))
    assert (found[partition].offset, codes) == (RECORDS, [])


async def test_a_commit_for_a_partition_that_went_meanwhile_is_none(rig: Rig) -> None:
    consumer: Any = rig.feed._app.consumer
    assert await _on_thread(rig, consumer._thread._commit({TP("went", 0): 5})) is False
    await rig.settle(RECORDS)
    await rig.committed_becomes(RECORDS)


async def test_a_client_that_has_given_up_the_group_is_noticed(rig: Rig) -> None:
    """Nothing asks it for its errors: without this look it would be silent for good."""
    watching = asyncio.create_task(rig.feed.watch())
    coordinator_of(rig.feed._app)._pending_exception = UnknownError("unexpected")
    with pytest.raises(RecoverydError, match=r"given up.*unexpected") as raised:
        await within(watching, JOINED_S)
    assert raised.value.code is Code.INVARIANT_BROKEN


async def test_brokers_that_are_away_when_the_group_is_to_be_joined_are_no_bug(
    unused_tcp_port: int, tmp_path: Path
) -> None:
    rig = Rig(f"127.0.0.1:{unused_tcp_port}", "nobody.", tmp_path)
    with pytest.raises(ClusterProblem, match="No broker answered"):
        await within(rig.feed.start(), JOINED_S)
    await within(rig.feed.stop(JOINED_S), JOINED_S)


async def test_a_worker_that_breaks_down_is_noticed(rig: Rig) -> None:
    watching = asyncio.create_task(rig.feed.watch())
    await asyncio.sleep(0)
    await rig.feed._app.crash(RuntimeError("the worker broke"))
    await rig.feed._app.stop()
    with pytest.raises(RecoverydError, match="the worker broke") as raised:
        await within(watching, JOINED_S)
    assert raised.value.code is Code.INVARIANT_BROKEN


async def test_a_record_that_cannot_be_taken_in_ends_the_watch_and_is_not_acknowledged(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.settle(RECORDS)
    await rig.committed_becomes(RECORDS)

    async def broken(_: ControlRecord) -> asyncio.Future[None]:
        raise ClusterProblem("the control topic may not be read", code=Code.NOT_AUTHORISED, retriable=False)

    monkeypatch.setattr(rig.intake, "accept", broken)
    watching = asyncio.create_task(rig.feed.watch())
    await asyncio.to_thread(_send_one, rig.bootstrap, rig.topic)
    with pytest.raises(ClusterProblem):
        await within(watching, JOINED_S)
    assert await rig.committed() == RECORDS


async def test_partitions_that_somebody_adds_end_the_watch_and_nothing_of_theirs_is_acknowledged(
    bootstrap: str, unique: str, tmp_path: Path
) -> None:
    rig = Rig(
        bootstrap, unique, tmp_path, heartbeat_interval_s=HEARTBEAT_S, tuning={"consumer_metadata_max_age_ms": 1_000}
    )
    await asyncio.to_thread(_fill, bootstrap, rig.topic)
    await _open(rig)
    await within(rig.feed.start(), JOINED_S)
    watching = asyncio.create_task(rig.feed.watch())
    try:
        await rig.settle(RECORDS)
        await rig.committed_becomes(RECORDS)
        await asyncio.to_thread(_add_partition, bootstrap, rig.topic)
        with pytest.raises(OwnTopicProblem, match=f"{rig.topic} has partitions=2 or more, it must be 1") as raised:
            await within(watching, JOINED_S)
        assert raised.value.code is Code.OWN_TOPIC_WRONG
        assert await rig.committed(partition=1) < 0
        assert await rig.inbox.take(10, 0.2) == [], "its offsets say nothing about partition 0"
    finally:
        watching.cancel()
        rig.leadership.may_join.set()
        await within(rig.feed.stop(JOINED_S), JOINED_S)


async def test_a_standby_that_gets_a_partition_that_was_added_ends_and_does_not_lead(
    bootstrap: str, unique: str, tmp_path: Path
) -> None:
    rig = Rig(bootstrap, unique, tmp_path, heartbeat_interval_s=HEARTBEAT_S)
    await asyncio.to_thread(_fill, bootstrap, rig.topic)
    await asyncio.to_thread(_add_partition, bootstrap, rig.topic)
    watching = asyncio.create_task(rig.feed.watch())
    await within(rig.feed.start(), JOINED_S)
    try:
        with pytest.raises(OwnTopicProblem):
            await within(watching, JOINED_S)
        assert rig.leadership.told == []
    finally:
        await within(rig.feed.stop(JOINED_S), JOINED_S)


class RealEnd(QuietClusters):
    """Says where the rig's topic ends."""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self._rig = rig

    async def control_end(self, position: int) -> int:
        properties, place = {"bootstrap.servers": self._rig.bootstrap}, (self._rig.topic, 0)
        found = await asyncio.to_thread(read_offsets, make_admin(properties), [place], LATEST, JOINED_S)
        return found[0]


class Watched:
    """The rig's intake and what watches its delivery. A look takes no time here."""

    def __init__(self, rig: Rig) -> None:
        self._rig, self._now_s = rig, 0.0
        self._watch = ControlTopicWatch(RealEnd(rig), rig.intake, rig.inbox.emit)
        self._running = asyncio.create_task(rig.intake.run())

    async def look(self, times: int) -> None:
        for _ in range(times):
            self._now_s += 10.0
            await self._watch.look("", self._now_s)
            await until(lambda: self._rig.intake.is_idle)

    def close(self) -> None:
        self._running.cancel()


async def test_records_that_a_feed_does_not_deliver_any_more_are_read_all_the_same_and_it_ends_the_daemon(
    rig: Rig,
) -> None:
    await rig.settle(RECORDS)
    watched = Watched(rig)
    try:
        consumer: Any = rig.feed._app.consumer
        thread = consumer._thread
        fetcher = thread._consumer._fetcher

        def fetch_nothing_more() -> None:
            for task in (fetcher._fetch_task, *fetcher._pending_tasks):  # what it asked for before must not come either
                task.cancel()

        thread.thread_loop.call_soon_threadsafe(fetch_nothing_more)
        await until(lambda: fetcher._fetch_task.done() and all(task.done() for task in fetcher._pending_tasks))
        await asyncio.to_thread(_send_one, rig.bootstrap, rig.topic)
        await watched.look(2)
        [item] = await rig.take(1)
        assert item.record is not None
        assert item.record.offset == RECORDS
        await asyncio.to_thread(_send_one, rig.bootstrap, rig.topic)
        with pytest.raises(RecoverydError) as raised:
            await watched.look(30)
        assert raised.value.code is Code.COMMITS_STALLED
        assert len(await rig.take(1)) == 1
    finally:
        watched.close()


async def test_the_marker_of_a_transaction_is_not_taken_for_a_record_that_nobody_delivers(rig: Rig) -> None:
    await rig.settle(RECORDS)
    watched = Watched(rig)
    try:
        await asyncio.to_thread(_send_in_transaction, rig.bootstrap, rig.topic)
        await rig.settle(1)
        assert rig.intake.position == RECORDS + 1
        await watched.look(20)
        assert (rig.intake.position, rig.intake.missed) == (RECORDS + 2, 0)
        await asyncio.to_thread(_send_one, rig.bootstrap, rig.topic)
        [item] = await rig.take(1)
        assert item.record is not None
        assert item.record.offset == RECORDS + 2
        await watched.look(20)
    finally:
        watched.close()


async def test_a_feed_that_the_group_took_for_dead_joins_again_only_when_it_may(rig: Rig) -> None:
    await rig.settle(RECORDS)
    await rig.committed_becomes(RECORDS)  # a group without members and offsets is forgotten
    await _expel(rig)
    await asyncio.sleep(5 * HEARTBEAT_S)
    assert await asyncio.to_thread(_members, rig) == []
    rig.leadership.may_join.set()
    await until(lambda: rig.leadership.told == ["assigned", "expelled", "revoked", "assigned"], JOINED_S)
    await asyncio.to_thread(_send_one, rig.bootstrap, rig.topic)
    assert [item.record.offset for item in await rig.take(1)] == [RECORDS]


async def test_a_feed_that_the_group_took_for_dead_does_not_join_once_more_when_it_stops(rig: Rig) -> None:
    await rig.settle(RECORDS)
    await rig.committed_becomes(RECORDS)
    await _expel(rig)
    await within(rig.feed.stop(LONG_S), JOINED_S)
    assert rig.leadership.told == ["assigned", "expelled"]
    assert await asyncio.to_thread(_members, rig) == []


async def _expel(rig: Rig) -> None:
    """Take the feed's worker out of its group, as the broker does with one that it does not hear."""
    [member] = await asyncio.to_thread(_members, rig)
    client = AIOKafkaClient(bootstrap_servers=rig.bootstrap)
    await client.bootstrap()
    try:
        coordinator = await client.coordinator_lookup(CoordinationType.GROUP, rig.group)
        await client.ready(coordinator, group=ConnectionGroup.COORDINATION)
        left = await client.send(coordinator, LeaveGroupRequest(rig.group, member), group=ConnectionGroup.COORDINATION)
        assert left.error_code == 0
    finally:
        await client.close()
    await until(lambda: rig.leadership.told == ["assigned", "expelled"], JOINED_S)


def _add_partition(bootstrap: str, topic: str) -> None:
    """With a record on it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(timeout=60)
    producer = writer(bootstrap)
    producer.produce(topic, b"where nobody reads", partition=1)
    assert producer.flush(60) == 0


def _commit(bootstrap: str, rig: Rig, offset: int) -> None:
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": rig.group})
    try:
        commit(member, [TopicPartition(rig.topic, 0, offset)])
    finally:
        member.close()


def _members(rig: Rig) -> list[str]:
    admin = AdminClient({"bootstrap.servers": rig.bootstrap})
    described = admin.describe_consumer_groups([rig.group])
    return [member.member_id for member in described[rig.group].result(timeout=60).members]


def _send_one(bootstrap: str, topic: str) -> None:
    producer = writer(bootstrap)
    producer.produce(topic, b"one more")
    assert producer.flush(60) == 0


def _send_in_transaction(bootstrap: str, topic: str) -> None:
    producer = writer(bootstrap, transactional_id=f"{topic}.sender")
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"with a marker")
    producer.commit_transaction(60)


async def test_records_come_although_the_position_was_told_only_after_the_request_time_out(tmp_path: Path) -> None:
    """A broker that answers late just after a rebalance."""
    with ProxiedBroker(tmp_path / "kafka") as broker:
        proxy = broker.through
        rig = Rig(
            proxy.bootstrap,
            "late.",
            tmp_path,
            session_timeout_s=SESSION_S,
            heartbeat_interval_s=SESSION_S / 3,
            request_timeout_s=REQUEST_S,
        )
        await asyncio.to_thread(_fill, broker.bootstrap, rig.topic)
        await _open(rig)
        await asyncio.to_thread(
            _commit, broker.bootstrap, rig, 1
        )  # a group without any skips what it fetched too early
        rig.leadership.may_join.set()
        question = proxy.hold(Api.OFFSET_FETCH, rig.group)
        starting = asyncio.create_task(rig.feed.start())
        try:
            await asyncio.to_thread(question.await_met)
            proxy.hold_replies()
            question.release()
            await asyncio.sleep(REQUEST_S + 1.0)  # the length of the fault itself
            proxy.let_go()
            await within(starting, JOINED_S)
            assert [item.record.offset for item in await rig.take(RECORDS)] == list(range(RECORDS))
        finally:
            await within(rig.feed.stop(JOINED_S), JOINED_S)


async def test_a_worker_lives_on_while_its_broker_is_slow_to_tell_where_the_topic_begins(tmp_path: Path) -> None:
    """As after a cut of the control topic: the client knows no position until then, and Faust looks for one often."""
    with ProxiedBroker(tmp_path / "kafka") as broker:
        rig = Rig(broker.through.bootstrap, "lost.", tmp_path, heartbeat_interval_s=HEARTBEAT_S)
        await asyncio.to_thread(_fill, broker.bootstrap, rig.topic)
        await _open(rig)
        rig.leadership.may_join.set()
        await within(rig.feed.start(), JOINED_S)
        watching = asyncio.create_task(rig.feed.watch())
        try:
            await rig.settle(RECORDS)
            question = broker.through.hold(Api.LIST_OFFSETS, rig.topic)
            await rig.feed._app.consumer.seek(rig.feed._partition, 10 * RECORDS)
            await asyncio.to_thread(question.await_met)
            await asyncio.sleep(20 * LOOK_INTERVAL_S)  # the length of the fault itself
            assert not watching.done()
            question.release()
            await asyncio.to_thread(_send_one, broker.bootstrap, rig.topic)
            assert [item.record.offset for item in await rig.take(1)] == [RECORDS]
        finally:
            watching.cancel()
            await within(rig.feed.stop(JOINED_S), JOINED_S)
