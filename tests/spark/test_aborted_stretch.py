"""A long stretch of aborted records, which a reader passes without seeing any: as long as its client fetches further,
it is neither deaf nor stalled. The client here gets little with each fetch, and each fetch takes a while.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Message

from recoveryd_jobs import clients
from recoveryd_jobs.contract import PartitionRange, copy_client_id
from recoveryd_jobs.fetching import Fetching
from recoveryd_jobs.lane import hearing
from recoveryd_jobs.lane.life import LaneOutcome
from recoveryd_jobs.sources import range_reader
from recoveryd_jobs.verify import silence
from recoveryd_jobs.verify.match import SOURCE
from recoveryd_jobs.verify.plan import Asked
from recoveryd_jobs.verify.reader import Place, Range, RangeReader
from tests.builders.copying import Cluster, LaneThread, Recovery, Row, assert_exact, put, rows
from tests.builders.proving import FreeGuest
from tests.e2e.proxy import Api, ProxiedBroker

ABORTED = 100_000
SMALL = {"message.max.bytes": "100000", "fetch.max.bytes": "100000"}


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    with ProxiedBroker(tmp_path_factory.mktemp("proxied")) as started:
        yield started


@pytest.fixture
def far(own_broker: ProxiedBroker, unique: str) -> Cluster:
    return Cluster(own_broker.bootstrap, unique)


@pytest.fixture
def slow(own_broker: ProxiedBroker, unique: str) -> dict[str, str]:
    """Properties for clients of a copy."""
    own_broker.through.delay(Api.FETCH, copy_client_id("test", f"{unique}rec"), 0.2)
    return {"bootstrap.servers": own_broker.through.bootstrap, **SMALL}


def stretch(cluster: Cluster) -> tuple[str, int]:
    """The topic, and its end."""
    topic = cluster.topic("in")
    cluster.fill(topic, rows(3))
    producer = cluster.producer("tx", **{"batch.num.messages": 500, "linger.ms": 20})
    producer.begin_transaction()
    for number in range(ABORTED):
        put(producer, topic, Row(0, 0, b"k", b"x" * 60, number + 1))
    assert producer.flush(60) == 0
    producer.abort_transaction(60)
    cluster.settled_end(topic)
    cluster.fill(topic, rows(3))
    return topic, cluster.end(topic)


@pytest.fixture
def often_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "STATISTICS_MS", 500)


@pytest.mark.broker
@pytest.mark.usefixtures("often_told")
def test_a_lane_passes_a_stretch_that_takes_longer_than_a_deaf_consumer_is_given(
    far: Cluster, monkeypatch: pytest.MonkeyPatch, slow: dict[str, str]
) -> None:
    monkeypatch.setattr(hearing, "QUIET_S", 3.0)
    monkeypatch.setattr(hearing, "DEAF_S", 1.0)
    monkeypatch.setattr(hearing, "_QUIETER_MOST", 0)
    made: list[int] = []

    def make(*arguments: Any, **more: Any) -> Any:
        made.append(1)
        return clients.make_reader(*arguments, **more)

    monkeypatch.setattr(range_reader, "make_reader", make)
    source, stop = stretch(far)
    recovery = Recovery(far, source, far.topic("out"), ranges=[[PartitionRange(0, 0, stop)]])
    spec = replace(recovery.spec, source=replace(recovery.spec.source, client=slow))
    lane = LaneThread(spec)
    passing = recovery.await_heartbeat(lambda beat: beat.fetching)
    assert passing.why.startswith("reads over what no reader sees")
    assert lane.outcome() == LaneOutcome(0, "done")
    assert len(made) == 1
    assert_exact(recovery.ledger(), spec)
    assert [r.content for r in far.read(recovery.target)] == 2 * [r.content for r in rows(3)]


class Seen:
    def __init__(self) -> None:
        self.offsets: list[int] = []

    def begin(self, ranged: Range) -> None: ...

    def feed(self, partition: int, messages: list[Message]) -> int:
        self.offsets += [m.offset() or 0 for m in messages]
        return 0

    def deleted(self, partition: int, position: int, log_start: int) -> None:
        raise AssertionError((partition, position, log_start))

    def finish(self, partition: int) -> None: ...


@pytest.mark.broker
@pytest.mark.usefixtures("often_told")
def test_the_proof_passes_a_stretch_that_takes_longer_than_its_patience(
    far: Cluster, monkeypatch: pytest.MonkeyPatch, slow: dict[str, str]
) -> None:
    monkeypatch.setattr(silence, "PROBE_S", 3.0)
    topic, stop = stretch(far)
    spec = Recovery(far, topic, far.topic("out"), ranges=[[PartitionRange(0, 0, stop)]]).spec
    place = Place(slow, topic, "source", Asked(spec, SOURCE))
    seen, guest = Seen(), FreeGuest(100)
    guest.client_id = copy_client_id(spec.scope, spec.recovery)
    reading = RangeReader(place, guest, seen, 5.0)  # type: ignore[arg-type]
    reading.read([Range(0, 0, stop)])
    reading.close()
    assert seen.offsets == [0, 1, 2, stop - 3, stop - 2, stop - 1]


def told(**next_offsets: int) -> str:
    rows = {number.removeprefix("p"): {"next_offset": at} for number, at in next_offsets.items()}
    return json.dumps({"topics": {"in": {"partitions": {"-1": {"next_offset": -1001}, **rows}}}})


def test_a_sign_of_life_is_a_fetch_that_came_further_than_ever() -> None:
    fetching = Fetching()
    fetching.begin({0: 10, 1: 10})
    assert fetching.moved() == set()
    fetching.note(told(p0=0, p1=10))
    assert fetching.moved() == set(), "it has not begun"
    fetching.note(told(p0=15, p1=10))
    assert fetching.moved() == {0}
    assert fetching.moved() == set(), "nothing more was said"
    fetching.begin({0: 10, 1: 10})  # by a new consumer
    fetching.note(told(p0=15, p1=10))
    assert fetching.moved() == set(), "it was here before"
    fetching.restart({0: 10})
    fetching.note(told(p0=12))
    assert fetching.moved() == {0}
