"""Two brokers, of which one hears of new partitions late: what others write there meanwhile is in no proof's blind
spot.

The controller is behind a proxy that keeps back what the late broker fetches of the cluster's metadata. Its heartbeats
go on, so nobody takes it for dead, and it answers clients by what it knows.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from recoveryd.adapters.kafka import topic_admin
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe_whole
from recoveryd.errors import ClusterProblem
from recoveryd_jobs.contract import PartitionRange
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.shared.agreement import sight_of
from recoveryd_jobs.shared.leaders import MAKES_NO_TOPIC
from recoveryd_jobs.verify import plan
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.cluster_nodes import BrokerNode, ControllerNode, Shape
from recoveryd_sandbox.ports import free_ports
from recoveryd_sandbox.properties import new_cluster_id
from tests.builders.copying import Cluster, Recovery, put, rows
from tests.builders.proving import places, verify
from tests.e2e.processes import wait_for
from tests.e2e.proxy import Api, Proxy, Trap
from tests.patience import patient_s

pytestmark = [pytest.mark.broker, pytest.mark.faults, pytest.mark.cluster]

ON_TIME, LATE = 1, 2
HEAP = "256m"


@pytest.fixture(scope="module")
def to_controller() -> Iterator[Proxy]:
    outer, inner = free_ports(2)
    with Proxy(outer, inner) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def brokers(to_controller: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    """Both reach the controller only by the proxy, whose address is the one that the controller tells."""
    folder, shape, name = tmp_path_factory.mktemp("late"), Shape(2), new_cluster_id()
    told = {"advertised.listeners": f"CONTROLLER://{to_controller.bootstrap}"}
    controller = Broker(
        folder / "controller", to_controller.upstream, heap=HEAP, layout=ControllerNode(name, shape, None, told)
    )
    nodes = [
        Broker(folder / f"{n}", heap=HEAP, layout=BrokerNode(n, to_controller.bootstrap, name, shape, None, {}))
        for n in (ON_TIME, LATE)
    ]
    with controller, ExitStack() as started:
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(started.enter_context, nodes))
        yield nodes


@pytest.fixture
def cluster(brokers: list[Broker], unique: str) -> Cluster:
    return Cluster(",".join(broker.bootstrap for broker in brokers), unique)


@pytest.fixture
def kept_back(to_controller: Proxy) -> Iterator[Callable[[], Trap]]:
    """From the call on the late broker hears nothing new, until the trap is released."""
    traps: list[Trap] = []

    def begin() -> Trap:
        traps.append(to_controller.hold(Api.FETCH, f"raft-client-{LATE}"))
        traps[-1].await_met()  # so the answer to an earlier question is there
        return traps[-1]

    yield begin
    for trap in traps:
        trap.release()


def width_by(cluster: Cluster, broker: int, topic: str) -> int:
    """How many partitions this broker tells."""

    def ask() -> int:
        sight = sight_of(AdminClient({**cluster.client, **MAKES_NO_TOPIC, "log_level": 0}), topic)
        return len(sight.leaders) if sight is not None and sight.broker == broker else 0

    return wait_for(ask, 30.0, lambda: f"no answer of broker {broker}")


def add_partition(cluster: Cluster, topic: str, count: int) -> None:
    """One that the broker on time leads; it knows it when this returns."""
    wanted = NewPartitions(topic, count, replica_assignment=[[ON_TIME]])
    cluster.admin.create_partitions([wanted])[topic].result(120)
    wait_for(lambda: width_by(cluster, ON_TIME, topic) == count, 30.0, lambda: f"{topic} did not grow")


def write_to(cluster: Cluster, topic: str, partition: int, count: int) -> None:
    """By a client that happened to ask the broker on time."""

    def write() -> bool:
        refused, taken = list[KafkaError](), list[Message]()

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                taken.append(message)
            else:
                refused.append(error)

        producer = cluster.producer(on_delivery=note)
        try:
            for row in rows(count, partition):
                put(producer, topic, row)
        except KafkaException as raised:  # it asked the late broker, and heard of it between two records
            refused.append(raised.args[0])
        assert producer.flush(patient_s(30.0)) == 0
        assert len(taken) in {0, count}, refused
        return not refused

    wait_for(write, 30.0, lambda: f"nothing was written to partition {partition} of {topic}")


def test_a_proof_waits_for_the_broker_that_does_not_know_of_an_added_partition_yet(
    cluster: Cluster, kept_back: Callable[[], Trap], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = cluster.topic("in"), cluster.topic("out", 2)
    cluster.fill(source, rows(10))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 10)]], partitions=2)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert verify(recovery.spec).result == "match"

    late = kept_back()
    add_partition(cluster, target, 3)
    write_to(cluster, target, 2, 4)
    assert (width_by(cluster, LATE, target), width_by(cluster, ON_TIME, target)) == (2, 3)
    with monkeypatch.context() as impatient:
        impatient.setattr(plan, "PATIENCE_S", 1.0)
        with pytest.raises(JobError, match=r"broker \d tells . partitions, another one .") as raised:
            verify(recovery.spec)
    assert raised.value.code == "target_unavailable"

    late.release()
    assert places(verify(recovery.spec)) == [("extra", None, None, 2, 0, 4)]


def test_a_plan_waits_for_the_broker_that_does_not_know_of_an_added_partition_yet(
    cluster: Cluster, kept_back: Callable[[], Trap], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.topic("in", 2)
    wait_for(lambda: width_by(cluster, LATE, topic) == 2, 30.0, lambda: f"{topic} was not made")
    late = kept_back()
    add_partition(cluster, topic, 3)

    def described() -> int:
        shape = topic_admin.describe_whole(AdminClient(cluster.client), cluster.client, topic, 30.0)
        assert shape is not None
        return shape.partitions

    with monkeypatch.context() as impatient:
        impatient.setattr(topic_admin, "_AGREE_S", 1.0)
        with pytest.raises(ClusterProblem, match="The brokers do not agree about the partitions"):
            described()
    late.release()
    monkeypatch.setattr(topic_admin, "_AGREE_S", patient_s(30.0))
    assert described() == 3


def test_a_plan_waits_for_the_broker_that_does_not_know_of_a_new_topic_yet(
    cluster: Cluster, kept_back: Callable[[], Trap], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever broker is asked: that one of them knows of no such topic says nothing yet."""
    late, topic = kept_back(), f"{cluster.unique}new"
    cluster.admin.create_topics([NewTopic(topic, 1, replica_assignment=[[ON_TIME]])])[topic].result(120)
    wait_for(lambda: width_by(cluster, ON_TIME, topic) == 1, 30.0, lambda: f"{topic} was not made")

    def described() -> TopicShape | None:
        return describe_whole(AdminClient({**cluster.client, **MAKES_NO_TOPIC}), cluster.client, topic, 30.0)

    with monkeypatch.context() as impatient:
        impatient.setattr(topic_admin, "_AGREE_S", 1.0)
        for _ in range(8):
            with pytest.raises(ClusterProblem, match="The brokers do not agree about the partitions"):
                described()
    late.release()
    monkeypatch.setattr(topic_admin, "_AGREE_S", patient_s(30.0))
    shape = described()
    assert shape is not None
    assert shape.partitions == 1
