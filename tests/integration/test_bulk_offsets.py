"""Bounds of many partitions at once, asked of the real broker in pieces."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from recoveryd.adapters.kafka.bulk_offsets import Bound, BulkOffsets, OffsetBounds
from recoveryd.adapters.kafka.topic_admin import TopicShape, await_topic
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.topics import make_topics

pytestmark = pytest.mark.broker

DEADLINE_S = 120.0
WIDTH = 300  # more than one piece


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def make_topic(admin: AdminClient, unique: str) -> Callable[[str, int], TopicShape]:
    def make(name: str, partitions: int) -> TopicShape:
        make_topics(admin, [NewTopic(unique + name, partitions, 1)])
        return await_topic(admin, unique + name, DEADLINE_S)

    return make


def write(bootstrap: str, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, value=str(number), partition=partition)
    assert producer.flush(DEADLINE_S) == 0


def answered(offsets: BulkOffsets, shapes: list[TopicShape]) -> OffsetBounds:
    """Offsets of new topics, of which a client may not know all leaders at its first question."""
    give_up_s = time.monotonic() + DEADLINE_S
    while (bounds := offsets.ask(shapes)).doubtful or bounds.failure:
        assert time.monotonic() < give_up_s, bounds.failure
        time.sleep(0.05)
    return bounds


def test_every_partition_of_more_than_one_piece_is_answered_for(
    bootstrap: str, make_topic: Callable[[str, int], TopicShape]
) -> None:
    wide, narrow = make_topic("wide", WIDTH), make_topic("narrow", 1)
    write(bootstrap, wide.topic, WIDTH - 1, 5)
    bounds = answered(BulkOffsets("main", {"bootstrap.servers": bootstrap}, DEADLINE_S), [wide, narrow])
    ends = {wide.topic: {**dict.fromkeys(range(WIDTH), 0), WIDTH - 1: 5}, narrow.topic: {0: 0}}
    starts = {wide.topic: dict.fromkeys(range(WIDTH), 0), narrow.topic: {0: 0}}
    assert bounds.found == {Bound.START: starts, Bound.END: ends, Bound.STABLE: ends}


def test_the_last_stable_offset_lies_below_an_open_transaction(
    bootstrap: str, unique: str, make_topic: Callable[[str, int], TopicShape]
) -> None:
    topic = make_topic("held", 1)
    write(bootstrap, topic.topic, 0, 3)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique, "transaction.timeout.ms": 600_000})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic.topic, value="open")
    assert producer.flush(DEADLINE_S) == 0
    bounds = answered(BulkOffsets("main", {"bootstrap.servers": bootstrap}, DEADLINE_S), [topic])
    producer.abort_transaction(DEADLINE_S)
    assert {bound: found[topic.topic][0] for bound, found in bounds.found.items()} == {
        Bound.START: 0, Bound.END: 4, Bound.STABLE: 3,
    }  # fmt: skip


def test_a_topic_that_is_gone_is_doubtful_and_never_answered_for(
    bootstrap: str, admin: AdminClient, make_topic: Callable[[str, int], TopicShape]
) -> None:
    kept, gone = make_topic("kept", 2), make_topic("gone", 2)
    offsets = BulkOffsets("main", {"bootstrap.servers": bootstrap}, DEADLINE_S)
    answered(offsets, [kept, gone])
    admin.delete_topics([gone.topic])[gone.topic].result(DEADLINE_S)
    give_up_s = time.monotonic() + DEADLINE_S
    while gone.topic not in (bounds := offsets.ask([kept, gone])).doubtful:
        assert time.monotonic() < give_up_s
    assert gone.topic not in bounds.found[Bound.END]
    assert offsets.ask([kept]).found[Bound.END] == {kept.topic: {0: 0, 1: 0}}


def test_partitions_without_a_leader_are_not_asked_for(
    bootstrap: str, make_topic: Callable[[str, int], TopicShape]
) -> None:
    whole = make_topic("led", 2)
    headless = TopicShape(whole.topic, whole.topic_id, {**whole.leaders, 1: -1}, 1)
    bounds = answered(BulkOffsets("main", {"bootstrap.servers": bootstrap}, DEADLINE_S), [headless])
    assert bounds.found[Bound.END] == {whole.topic: {0: 0}}


def test_a_broker_that_hangs_is_told_once_and_is_asked_again_later(
    broker: Broker | None, bootstrap: str, make_topic: Callable[[str, int], TopicShape]
) -> None:
    if broker is None:
        pytest.skip("the broker of this run is not ours to pause")
    topic = make_topic("hangs", WIDTH)
    offsets = BulkOffsets("main", {"bootstrap.servers": bootstrap}, 1.5)
    answered(offsets, [topic])
    broker.pause()
    try:
        bounds = offsets.ask([topic])
    finally:
        broker.cont()
    assert bounds.failure is not None
    assert bounds.failure.retriable
    assert bounds.found == {bound: {} for bound in Bound}
    assert answered(offsets, [topic]).found[Bound.END] == {topic.topic: dict.fromkeys(range(WIDTH), 0)}
