"""Records and clusters of extreme size and speed: nothing of it ends a lane or is done again for ever."""

import random
from collections.abc import Iterator

import pytest

from recoveryd_jobs.contract import PartitionRange, copy_client_id
from recoveryd_jobs.lane import loop
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from tests.builders.copying import Cluster, Recovery, Row, assert_exact
from tests.integration import kafka_configs

pytestmark = pytest.mark.broker

MB = 1_000_000


def test_records_without_any_byte_are_copied_however_many_there_are(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More slices than a mean that halves with each needs to become zero."""
    monkeypatch.setattr(loop, "_SLICE_RECORDS", 1)
    source, target = cluster.topic("in"), cluster.topic("out")
    data = [Row(0, i, None, b"" if i % 2 else None, i + 1) for i in range(1_500)]
    cluster.fill(source, data)
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, len(data))]])
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert_exact(recovery.ledger(), recovery.spec)
    assert [r.content for r in cluster.read(target)] == [r.content for r in data]


@pytest.fixture
def quota(cluster: Cluster) -> Iterator[int]:
    """How many bytes a second the broker takes of the copy of the recovery."""
    client = "--entity-type", "clients", "--entity-name", copy_client_id("test", f"{cluster.unique}rec")
    bootstrap = cluster.client["bootstrap.servers"]
    kafka_configs.add(bootstrap, f"producer_byte_rate={MB // 10}", *client)
    yield MB // 10
    kafka_configs.run(bootstrap, "--alter", "--delete-config", "producer_byte_rate", *client)


def test_a_target_too_slow_for_a_chunk_gets_smaller_ones(cluster: Cluster, quota: int) -> None:
    """What it takes in the time of a transaction is a fraction of what the source gives in a second, and stays so."""
    source, target = cluster.topic("in"), cluster.topic("out")
    chance = random.Random(4)
    data = [Row(0, i, b"k", chance.randbytes(10_000), i + 1) for i in range(240)]
    cluster.fill(source, data)
    timeout_ms = 10_000
    assert sum(len(row.value or b"") for row in data) > 2 * quota * timeout_ms / 1000
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, len(data))]], transaction_timeout_ms=timeout_ms,
        chunk=Recovery.chunk_limits(max_bytes=int(2.4 * MB)),
    )  # fmt: skip
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert_exact(recovery.ledger(), recovery.spec)
    assert [r.content for r in cluster.read(target)] == [r.content for r in data]
    assert recovery.heartbeats()[-1].failed_chunks <= 2  # and not again and again


def test_a_record_larger_than_many_chunks_is_copied(cluster: Cluster) -> None:
    large = {"max_message_bytes": str(40 * MB)}
    source, target = cluster.topic("in", **large), cluster.topic("out", **large)
    data = [Row(0, i, b"k", random.Random(i).randbytes(30 * MB if i == 1 else 100), i + 1) for i in range(3)]
    producer = cluster.producer(**{"message.max.bytes": 40 * MB})
    for row in data:
        producer.produce(source, row.value, row.key, 0, timestamp=row.time_ms)
    assert producer.flush(120) == 0
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, 3)]], chunk=Recovery.chunk_limits(max_bytes=MB)
    )
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert_exact(recovery.ledger(), recovery.spec)
    assert [r.content for r in cluster.read(target)] == [r.content for r in data]
