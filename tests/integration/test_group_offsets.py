"""Where groups stand, asked of the real broker."""

import asyncio

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from daemon.adapters.group_offsets import KafkaGroupOffsets
from daemon.core.catalogue import Code
from daemon.errors import ClusterProblem

pytestmark = pytest.mark.broker


@pytest.fixture
def topic(bootstrap: str, unique: str) -> str:
    """Two topics of three partitions; the group `<name>.group` has committed partitions 0 and 2 of the first and 1 of the second."""
    names = (f"{unique}live", f"{unique}other")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(n, 3, 1) for n in names]).values():
        future.result(timeout=20)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{names[0]}.group"})
    commits = [TopicPartition(names[0], 0, 7), TopicPartition(names[0], 2, 0), TopicPartition(names[1], 1, 9)]
    consumer.commit(offsets=commits, asynchronous=False)
    consumer.close()
    return names[0]


async def test_committed_offsets_are_told_and_partitions_without_are_absent(bootstrap: str, topic: str) -> None:
    groups = KafkaGroupOffsets({"main": {"bootstrap.servers": bootstrap}})
    assert await groups.committed("main", f"{topic}.group", topic) == {0: 7, 2: 0}
    assert await groups.committed("main", f"{topic}.nobody", topic) == {}


async def test_an_unknown_cluster_and_a_silent_one_are_told_apart(bootstrap: str) -> None:
    groups = KafkaGroupOffsets({"silent": {"bootstrap.servers": "127.0.0.1:1"}})
    with pytest.raises(ClusterProblem) as unknown:
        await groups.committed("nowhere", "g", "t")
    assert (unknown.value.code, unknown.value.retriable) == (Code.UNKNOWN_CLUSTER, False)
    with pytest.raises(ClusterProblem) as silent:
        await asyncio.wait_for(groups.committed("silent", "g", "t"), 20)
    assert (silent.value.code, silent.value.retriable) == (Code.CLUSTER_UNREACHABLE, True)
