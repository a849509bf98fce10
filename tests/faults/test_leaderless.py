"""A partition whose only broker is gone: what can be asked of the others is, and who leads nothing is named."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from recoveryd.adapters.kafka.group_facts import list_groups
from recoveryd.adapters.kafka.unit_watch import Patience, UnitWatch
from recoveryd.errors import ClusterProblem
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.diagnosis.diagnose import diagnose
from recoveryd.units.model import Unit, UnitKind
from recoveryd_sandbox.cluster import Cluster
from recoveryd_sandbox.cluster_nodes import Shape
from recoveryd_sandbox.topics import make_topics
from tests.e2e.clients import commit
from tests.e2e.processes import wait_for
from tests.patience import patient_s

pytestmark = [pytest.mark.broker, pytest.mark.faults, pytest.mark.cluster]

READS, HELD, GONE = "words", "held", 1  # a partition


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, Shape(2), heap="256m") as started:
        yield started


def test_a_partition_that_nobody_leads_is_a_cause_and_no_silence_of_the_cluster(cluster: Cluster) -> None:
    """Two partitions on a broker each, of which one dies. Each has ten records, of which two were read."""
    properties = {"bootstrap.servers": cluster.bootstrap}
    admin, deadline_s = AdminClient(properties), patient_s(60)
    topics = [
        NewTopic(READS, num_partitions=2, replica_assignment=[[1], [2]]),
        NewTopic(HELD, num_partitions=1, replica_assignment=[[2]]),
    ]
    make_topics(admin, topics, deadline_s)
    producer = Producer(properties)
    for number in range(20):
        producer.produce(READS, b"word", partition=number % 2)
    assert producer.flush(deadline_s) == 0
    consumer = Consumer(properties | {"group.id": "counts"})
    commit(consumer, [TopicPartition(READS, partition, 2) for partition in range(2)])
    consumer.close()

    assert list_groups(admin) == ({"counts"}, ())
    cluster.brokers[1].kill()
    assert "ould not list the consumer groups: " in _what_is_not_listed(admin)  # a broker that the client knows is gone
    wait_for(lambda: admin.list_topics(READS, timeout=10).topics[READS].partitions[GONE].leader < 0, deadline_s)
    unit = Unit("counts", UnitKind.GROUP, "main", "counts", (READS, HELD))
    watch = UnitWatch(properties, ClientAccess(cluster.bootstrap), unit)
    found = diagnose(unit, watch.watch([unit], Patience(1.0, patient_s(20)), lambda: int(time.time() * 1000)))

    causes = {cause.name: cause.message for cause in found.causes}
    assert causes["input_leaderless"] == "no broker leads words 1, held 0"
    assert [(move.topic, move.partition, move.lag) for move in found.moves] == [(READS, 0, 8)]


def _what_is_not_listed(admin: AdminClient) -> str:
    """Which of both it is depends on where the only group has its coordinator."""
    try:
        return list_groups(admin)[1][0]
    except ClusterProblem as problem:
        return problem.message
