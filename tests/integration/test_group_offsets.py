"""Positions of groups on the real broker, by the adapter alone and as the collector reports them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.kafka.clusters import KafkaClusters
from recoveryd.adapters.kafka.fact_gathering import Expectations
from recoveryd.adapters.kafka.group_offsets import KafkaGroupOffsets
from recoveryd.adapters.kafka.living_clients import LivingProperties
from recoveryd.collectors.control_topic import ControlTopicWatch
from recoveryd.collectors.offsets import Monitored, OffsetCollector
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import Event
from recoveryd.kernel.state import CoreState
from recoveryd.live.events import ReaderSampled
from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.window import LagSample
from recoveryd.wire.topics import TopicNames
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.topics import make_topics
from tests.contract.journals import is_retriable
from tests.e2e.clients import commit
from tests.e2e.processes import wait_for
from tests.living_clients import Client, living_clients
from tests.patience import until_it_works
from tests.runtime.fakes import StillIntake

pytestmark = pytest.mark.broker

T = TypeVar("T")

DEADLINE_S = 120.0


class Live:
    """Topics `live` and `other` of three partitions, and groups on them, with unique names."""

    def __init__(self, bootstrap: str, unique: str) -> None:
        self.properties = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.properties)
        self.live, self.other, self.group = f"{unique}live", f"{unique}other", f"{unique}group"
        self.create(self.live, self.other)

    def create(self, *topics: str) -> None:
        make_topics(self.admin, [NewTopic(n, 3, 1) for n in topics])

    def commit(self, *offsets: tuple[str, int, int]) -> None:
        """Commit without joining the group."""
        consumer = Consumer(self.properties | {"group.id": self.group})
        commit(consumer, [TopicPartition(*where) for where in offsets])
        consumer.close()

    def write(self, topic: str, partition: int, count: int) -> None:
        producer = Producer(self.properties)
        for number in range(count):
            producer.produce(topic, value=str(number), partition=partition)
        assert producer.flush(DEADLINE_S) == 0

    def member(self) -> Consumer:
        consumer = Consumer(self.properties | {"group.id": self.group, "auto.offset.reset": "earliest"})
        consumer.subscribe([self.live])
        return consumer

    def groups(self) -> KafkaGroupOffsets:
        return KafkaGroupOffsets({"main": self.properties})


@pytest.fixture
def live(bootstrap: str, unique: str) -> Live:
    return Live(bootstrap, unique)


class Looking:
    """The collector over the real broker; `look` gives its event for the group on `live`, None when there was none."""

    def __init__(self, live: Live) -> None:
        clock, self._events = SystemClock(), list[Event]()
        clusters = KafkaClusters(
            {"main": live.properties}, TopicNames("none-"), Expectations({}, lambda: (None, "measured")), clock.now_ms
        )
        self.reader = Reader("main", live.live, live.group)
        monitored = [Monitored("main", live.live, live.group)]
        self._collector = OffsetCollector(
            clusters,
            live.groups(),
            self._events.append,
            CoreState,
            clock,
            control=ControlTopicWatch(clusters, StillIntake(), self._events.append),
            period_s=1.0,
            monitored=monitored,
        )

    async def look(self) -> ReaderSampled | None:
        self._events.clear()
        await self._collector.collect()
        found = [e for e in self._events if isinstance(e, ReaderSampled) and e.reader == self.reader]
        assert len(found) <= 1
        return found[0] if found else None

    async def look_at_all(self) -> ReaderSampled:
        """The first look in which every partition answers: a broker may hear of a new topic a moment later."""
        seen = await self.until(lambda event: event is not None and len(event.samples) == 3)
        assert seen is not None
        return seen

    async def until(self, condition: Callable[[ReaderSampled | None], bool]) -> ReaderSampled | None:
        give_up_s = time.monotonic() + DEADLINE_S
        while not condition(seen := await self.look()):
            assert time.monotonic() < give_up_s, f"never came, last seen: {seen}"
            await asyncio.sleep(0.1)
        return seen


async def told(ask: Callable[[], Awaitable[T]]) -> T:
    """What the broker says at last: a new group has no coordinator at first."""
    return await until_it_works(ask, is_retriable)


def await_clients(count: int, before: Collection[Client]) -> None:
    """A worker lets go of the client that it asked with a moment after it told the answer."""
    wait_for(lambda: len(living_clients(but=before)) == count, 10.0, lambda: f"{living_clients(but=before)}")


async def test_a_group_that_nobody_asks_about_any_more_needs_no_client(live: Live) -> None:
    groups, before = KafkaGroupOffsets({"main": live.properties}, unused_s=0.0), living_clients()
    for number in range(4):
        await told(partial(groups.committed, "main", f"{live.group}{number}", {live.live: 3}))
    await_clients(1, before)
    await groups.close()
    await_clients(0, before)


async def test_with_a_new_login_the_client_of_the_old_one_goes(live: Live) -> None:
    properties, before = LivingProperties(live.properties), living_clients()
    groups = KafkaGroupOffsets({"main": properties})
    for _ in range(3):
        await told(lambda: groups.committed("main", live.group, {live.live: 3}))
        properties.renew(live.properties)
    await_clients(1, before)
    await groups.close()


async def test_committed_offsets_are_told_by_topic_and_partitions_without_are_absent(live: Live) -> None:
    live.commit((live.live, 0, 7), (live.live, 2, 0), (live.other, 1, 9))
    groups = live.groups()
    for width in (None, 3, 50):
        found = await told(partial(groups.committed, "main", live.group, {live.live: width}))
        assert found == {live.live: {0: 7, 2: 0}}
    both = await told(lambda: groups.committed("main", live.group, {live.live: 3, live.other: 3}))
    assert both == {live.live: {0: 7, 2: 0}, live.other: {1: 9}}
    assert await told(lambda: groups.committed("main", f"{live.group}.nobody", {live.live: 3})) == {live.live: {}}


async def test_a_broker_that_is_not_the_coordinator_yet_is_a_problem_to_try_again_never_the_end_of_the_process(
    tmp_path: Path,
) -> None:
    """A new broker names coordinators before they are ready, which ends the process of librdkafka's admin client."""
    with Broker(tmp_path / "kafka") as fresh:
        groups = KafkaGroupOffsets({"main": {"bootstrap.servers": fresh.bootstrap}})
        waiting = {f"g{number}" for number in range(60)}
        give_up_s = time.monotonic() + DEADLINE_S
        while waiting:
            assert time.monotonic() < give_up_s, f"{len(waiting)} groups have no coordinator"
            names = sorted(waiting)
            answers = await asyncio.gather(
                *(groups.committed("main", name, {"t": 1}) for name in names), return_exceptions=True
            )
            for name, answer in zip(names, answers, strict=True):
                if isinstance(answer, ClusterProblem):
                    assert answer.retriable
                else:
                    assert answer == {"t": {}}
                    waiting.discard(name)
        await groups.close()


async def test_members_of_groups_are_told_and_groups_nobody_has_are_absent(live: Live) -> None:
    live.commit((live.live, 0, 7))
    groups = live.groups()
    assert (await told(lambda: groups.have_members("main"))).get(live.group) is False
    member = live.member()
    try:
        give_up_s = time.monotonic() + DEADLINE_S
        while (await told(lambda: groups.have_members("main"))).get(live.group) is not True:
            assert time.monotonic() < give_up_s
            member.poll(0.1)
    finally:
        member.close()
    assert f"{live.group}.nobody" not in await told(lambda: groups.have_members("main"))


async def test_each_member_is_named_with_the_topics_that_it_has_now(live: Live) -> None:
    groups = live.groups()
    assert await told(lambda: groups.members("main", live.group)) is None
    member = live.member()
    try:
        give_up_s = time.monotonic() + DEADLINE_S
        while not (found := await told(lambda: groups.members("main", live.group))) or not found[0].topics:
            assert time.monotonic() < give_up_s
            member.poll(0.1)
        assert [(m.id, m.topics) for m in found] == [(member.memberid(), frozenset({live.live}))]
    finally:
        member.close()


async def test_while_a_group_rebalances_nobody_knows_what_its_members_have(live: Live) -> None:
    groups, first = live.groups(), Consumer(live.properties | {"group.id": live.group})
    first.subscribe([live.live], on_revoke=lambda *_: None)  # it gives up nothing before it polls
    members = [first]
    try:
        give_up_s = time.monotonic() + DEADLINE_S
        while not (found := await told(lambda: groups.members("main", live.group))) or not found[0].topics:
            assert time.monotonic() < give_up_s
            first.poll(0.1)
        members.append(second := live.member())
        while (seen := await told(lambda: groups.members("main", live.group))) is not None:
            assert time.monotonic() < give_up_s
            assert all(member.topics for member in seen), "one that has partitions seems to have none"
            second.poll(0.1)
        while not (found := await told(lambda: groups.members("main", live.group))) or len(found) < 2:
            assert time.monotonic() < give_up_s
            first.poll(0.1)
            second.poll(0.1)
        assert [member.topics for member in found] == [frozenset({live.live})] * 2
    finally:
        for member in members:
            member.close()


async def test_an_unknown_cluster_and_a_silent_one_are_told_apart() -> None:
    groups = KafkaGroupOffsets({"silent": {"bootstrap.servers": "127.0.0.1:1"}})
    with pytest.raises(ClusterProblem) as unknown:
        await groups.committed("nowhere", "g", {"t": 1})
    assert (unknown.value.code, unknown.value.retriable) == (Code.UNKNOWN_CLUSTER, False)
    for question in (groups.committed("silent", "g", {"t": 1}), groups.have_members("silent")):
        with pytest.raises(ClusterProblem) as silent:
            await asyncio.wait_for(question, DEADLINE_S)
        assert (silent.value.code, silent.value.retriable) == (Code.CLUSTER_UNREACHABLE, True)


async def test_the_collector_tells_position_end_start_and_last_stable_offset_of_every_partition(live: Live) -> None:
    live.write(live.live, 0, 10)
    live.write(live.live, 1, 4)
    live.commit((live.live, 0, 7), (live.live, 2, 0))
    event = await Looking(live).look_at_all()
    assert event.planned == (0, 1, 2)
    samples = dict(event.samples)
    [topic_id] = {s.topic_id for s in samples.values()}
    [(asked_at_ms, ends_at_ms)] = {(s.position_at_ms, s.end_at_ms) for s in samples.values()}
    assert asked_at_ms <= ends_at_ms
    assert topic_id
    assert samples == {
        p: LagSample(position, asked_at_ms, end, ends_at_ms, 0, end, topic_id, False)
        for p, position, end in ((0, 7, 10), (1, None, 4), (2, 0, 0))
    }


async def test_a_group_that_never_committed_has_no_position_anywhere(live: Live) -> None:
    event = await Looking(live).look_at_all()
    assert [(p, s.position, s.end, s.is_active) for p, s in event.samples] == [(p, None, 0, None) for p in range(3)]


async def test_a_deleted_group_has_no_position_any_more(live: Live) -> None:
    live.commit((live.live, 0, 0))
    looking = Looking(live)
    before = await looking.look_at_all()
    assert before.samples[0][1].position == 0
    live.admin.delete_consumer_groups([live.group])[live.group].result(DEADLINE_S)
    after = await looking.look_at_all()
    assert [(s.position, s.is_active) for _, s in after.samples] == [(None, None)] * 3


async def test_a_topic_made_anew_has_another_id_in_the_samples(live: Live) -> None:
    live.write(live.live, 0, 5)
    live.commit((live.live, 0, 5))
    looking = Looking(live)
    before = await looking.look_at_all()
    old_id = before.samples[0][1].topic_id
    live.admin.delete_topics([live.live])[live.live].result(DEADLINE_S)
    assert await looking.until(lambda seen: seen is None) is None
    live.create(live.live)
    after = await looking.until(lambda seen: seen is not None and len(seen.samples) == 3)
    assert after is not None
    assert {s.topic_id for _, s in after.samples} != {old_id}
    assert after.samples[0][1].end == 0
