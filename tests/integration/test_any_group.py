"""Groups of every protocol on a real broker: of which type they are, who is in them, and that streams groups are set
like others.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka.protocol.api import RequestStruct
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.control.controls import ManualApplications
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.kafka.topic_admin import await_topic
from recoveryd.recovery.spec import Earliest
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import GroupType
from recoveryd.workflows.model.actions import AwaitEmpty, SetOffsets, TakeSnapshot
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.facts import GroupFound, GroupWanted, WantedFacts
from recoveryd.workflows.model.workflow import OffsetUndo
from tests.builders.group_members import UNKNOWN_MEMBER, connect_worker, share_member, streams_member, tell
from tests.builders.history import create_topics
from tests.contract.journals import is_retriable
from tests.e2e.clients import commit
from tests.patience import patient_s, until_it_works

pytestmark = pytest.mark.broker


class Asker:
    def __init__(self, bootstrap: str, unique: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, f"{unique}in", f"{unique}group"
        clusters = {"main": {"bootstrap.servers": bootstrap}}
        self.admin = KafkaSteps(
            clusters, {"main": ClientAccess(bootstrap)}, dict, ManualApplications(), SystemClock().now_ms
        )

    async def gather(self) -> GroupFound:
        """As the daemon does, again while the cluster has no coordinator for a new group yet."""
        wanted = WantedFacts((GroupWanted("main", self.group, Earliest(), {self.topic: ()}),))
        answer = await until_it_works(lambda: self.admin.gather(GatherForWorkflow("w", wanted)), is_retriable)
        return answer.found.groups[0]

    async def take(self, action: AwaitEmpty | TakeSnapshot | SetOffsets, *rows: OffsetUndo) -> StepReported:
        return await self.admin.take(TakeStep("w", "s", 1, action, rows))

    async def is_empty(self) -> StepReported:
        return await self.take(AwaitEmpty("main", self.group))

    def commit(self, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        commit(consumer, [TopicPartition(self.topic, 0, offset)])
        consumer.close()


@pytest.fixture
async def asker(bootstrap: str, unique: str) -> AsyncIterator[Asker]:
    made = Asker(bootstrap, unique)
    create_topics(bootstrap, {made.topic: 1})
    await asyncio.to_thread(await_topic, AdminClient({"bootstrap.servers": bootstrap}), made.topic, 60.0)
    yield made
    await made.admin.close()


async def joined(asker: Asker, form: RequestStruct) -> tuple[GroupFound, StepReported]:
    """What is told of a group with this member: a machine that stood still for longer than the session has lost it, so
    it joins again then.
    """
    async with asyncio.timeout(patient_s(60.0)):
        while True:
            await tell(asker.bootstrap, asker.group, form)
            found, told = await asker.gather(), await asker.is_empty()
            if found.group is not None and told.outcome is Outcome.NOT_YET:
                return found, told


async def test_a_group_that_is_nowhere_is_none_and_has_no_members(asker: Asker) -> None:
    assert (await asker.gather()).group is None
    assert (await asker.is_empty()).outcome is Outcome.DONE


async def test_a_group_of_commits_alone_is_classic(asker: Asker) -> None:
    await asyncio.to_thread(asker.commit, 0)
    found = await asker.gather()
    assert found.group is not None
    assert (found.group.type, found.group.members, found.looks[0].committed) == (GroupType.CLASSIC, (), 0)


async def test_a_streams_group_is_told_with_its_members_and_set_once_they_left(asker: Asker) -> None:
    found, told = await joined(asker, streams_member(asker.group, asker.topic))
    assert (found.group.type, found.group.is_streams) == (GroupType.STREAMS, True)
    assert found.group.sources == {asker.topic}
    assert (told.outcome, told.members) == (Outcome.NOT_YET, ("member on 127.0.0.1",))
    # A machine that stood still for longer than the session has lost it already.
    await tell(asker.bootstrap, asker.group, streams_member(asker.group, asker.topic, epoch=-1), UNKNOWN_MEMBER)
    found = await asker.gather()
    assert found.group is not None
    assert (found.group.type, found.group.state, found.group.members) == (GroupType.STREAMS, "empty", ())
    assert (await asker.is_empty()).outcome is Outcome.DONE
    row = OffsetUndo(asker.topic, 0, None, 0, group=asker.group)
    assert (await asker.take(SetOffsets("main", asker.group), row)).outcome is Outcome.DONE
    assert (await asker.gather()).looks[0].committed == 0
    assert (await asker.take(SetOffsets("main", asker.group, is_back=True), row)).outcome is Outcome.DONE
    assert (await asker.gather()).looks[0].committed is None


async def test_a_share_group_and_the_group_of_connect_workers_are_told_apart(asker: Asker) -> None:
    await tell(asker.bootstrap, asker.group, share_member(asker.group, asker.topic))
    found = await asker.gather()
    assert found.group is not None
    assert (found.group.type, len(found.group.members)) == (GroupType.SHARE, 1)
    [member] = found.group.members
    assert (member.client_id, member.host, member.topics) == ("member", "127.0.0.1", {asker.topic})
    asker.group += "-connect"
    await tell(asker.bootstrap, asker.group, connect_worker(asker.group))
    found = await asker.gather()
    assert found.group is not None
    assert found.group.type is GroupType.CONNECT
