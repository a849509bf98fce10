"""What a consumer of many partitions fetches ahead, on a real broker: about what may wait, and each partition has its
turn, be its batches ever so large.
"""

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from recoveryd_jobs import clients
from recoveryd_jobs.contract import PartitionRange, SourceSpec
from recoveryd_jobs.fetching import Fetching
from recoveryd_jobs.lane import hearing
from recoveryd_jobs.sources import range_reader
from recoveryd_jobs.sources.range_reader import Run, Source
from tests.builders.copying import Cluster, LaneThread, Recovery, Row, put
from tests.patience import patient_s

pytestmark = pytest.mark.broker

MB = 1024 * 1024
PARTITIONS = 40
SIZE = 10_000


def filled(cluster: Cluster, each: int) -> str:
    """Records that cannot be packed, so many in each partition."""
    chance, topic = random.Random(5), cluster.topic("in", PARTITIONS, max_message_bytes="8388608")
    data = [chance.randbytes(SIZE) for _ in range(100)]
    cluster.fill(topic, (Row(p, 0, b"k", data[n % 100], 1) for n in range(each) for p in range(PARTITIONS)))
    return topic


def source_of(cluster: Cluster, topic: str, queue_bytes: int) -> Source:
    source = Source(SourceSpec("main", topic, "", cluster.client), "reader", queue_bytes, PARTITIONS)
    source.connect()
    source.assign(dict.fromkeys(range(PARTITIONS), 0))
    return source


def test_an_answer_comes_on_top_of_what_may_wait_and_is_small_beside_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []

    def note(_fetching: Fetching, statistics: str) -> None:
        brokers: dict[str, Any] = json.loads(statistics)["brokers"]
        received.append(sum(int(each["rxbytes"]) for each in brokers.values()))

    monkeypatch.setattr(clients, "STATISTICS_MS", 100)
    monkeypatch.setattr(Fetching, "note", note)
    source = source_of(cluster, filled(cluster, 400), clients.QUEUE_FULL_SPEED_BYTES)
    give_up_s, taken = time.monotonic() + patient_s(60), 0
    while len(received) < 10 or received[-1] < 60 * MB or received[-1] > received[-10]:
        assert time.monotonic() < give_up_s, received[-10:]
        taken += sum(len(item.messages) for item in source.take(1, 0) if isinstance(item, Run))
        time.sleep(0.05)
    source.close()
    assert received[-1] - taken * SIZE < (64 + 18) * MB


def test_a_lane_of_many_partitions_and_a_low_rate_does_not_take_its_consumer_for_deaf(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "QUIET_S", 1.0)
    monkeypatch.setattr(hearing, "DEAF_S", 0.5)
    made: list[float] = []
    make: Callable[..., Any] = clients.make_reader

    def noted(*arguments: Any, **more: Any) -> Any:
        made.append(time.monotonic())
        return make(*arguments, **more)

    monkeypatch.setattr(range_reader, "make_reader", noted)
    source, target = filled(cluster, 100), cluster.topic("out", PARTITIONS)
    ranges = [[PartitionRange(p, 0, 100) for p in range(PARTITIONS)]]
    directive = Recovery.run_directive(cluster, max_bytes_per_s=1_000_000.0)
    recovery = Recovery(cluster, source, target, ranges=ranges, partitions=PARTITIONS, directive=directive)
    lane = LaneThread(recovery.spec)
    recovery.await_heartbeat(lambda h: sum(p.position for p in h.positions) >= 1_200)
    recovery.direct("stop")
    assert lane.outcome().ended == "stopped"
    assert len(made) == 1


def test_all_partitions_have_their_turn_and_a_batch_larger_than_an_answer_comes_too(cluster: Cluster) -> None:
    topic = filled(cluster, 20)
    producer = cluster.producer(**{"message.max.bytes": 8_000_000})
    put(producer, topic, Row(PARTITIONS // 2, 0, b"k", random.Random(6).randbytes(3_000_000), 1))
    assert producer.flush(60) == 0
    source = source_of(cluster, topic, MB)
    found = dict.fromkeys(range(PARTITIONS), 0)
    give_up_s = time.monotonic() + patient_s(60)
    while sum(found.values()) < PARTITIONS * 20 + 1:
        assert time.monotonic() < give_up_s, found
        for item in source.take(100, 0.1):
            if isinstance(item, Run):
                found[item.partition] += len(item.messages)
    source.close()
    assert found == {p: 20 + (p == PARTITIONS // 2) for p in range(PARTITIONS)}
