"""Demo data and live traffic on a real broker."""

import json
import time
from collections import Counter

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from recoveryd_sandbox.errors import SeedRefused
from recoveryd_sandbox.flights import Flight, flights
from recoveryd_sandbox.live import produce
from recoveryd_sandbox.seed import seed
from recoveryd_sandbox.topics import Topics

pytestmark = pytest.mark.broker

DEADLINE_S = 120.0
JAVA_PARTITIONS = {b"N14228": 0, b"N24211": 1, b"N619AA": 1}


def read_all(bootstrap: str, topic: str, partitions: int) -> list[list[Message]]:
    """All records of each partition, read up to its end."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.list_topics(
        topic, timeout=DEADLINE_S
    )  # partitions assigned before the client is connected wait for a timer of a second
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    found: list[list[Message]] = [[] for _ in range(partitions)]
    open_partitions = set(range(partitions))
    give_up_at_s = time.monotonic() + DEADLINE_S
    while open_partitions:
        assert time.monotonic() < give_up_at_s, f"partitions {open_partitions} have no end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        number, error = message.partition(), message.error()
        assert number is not None
        if error is None:
            found[number].append(message)
        else:
            assert error.code() == KafkaError._PARTITION_EOF
            open_partitions.discard(number)
    consumer.close()
    return found


def as_flights(messages: list[Message]) -> list[Flight]:
    return [Flight(message.key(), message.timestamp()[1], message.value() or b"") for message in messages]


def test_a_seeded_topic_holds_each_flight_once_and_the_same_order_every_time(bootstrap: str, unique: str) -> None:
    reports = [seed(bootstrap, f"{unique}{name}", limit=20_000) for name in ("a", "b")]

    first, second = ([as_flights(messages) for messages in read_all(bootstrap, report.topic, 4)] for report in reports)
    assert first == second
    wanted = list(flights(20_000))
    assert Counter(flight for partition in first for flight in partition) == Counter(wanted)
    size = sum(len(flight.key or b"") + len(flight.value) for flight in wanted)
    assert [(report.records, report.bytes, report.written) for report in reports] == [(20_000, size, True)] * 2


def test_keys_keep_their_order_in_javas_partition_and_null_keys_go_round(bootstrap: str, unique: str) -> None:
    report = seed(bootstrap, f"{unique}flights", limit=20_000)

    partitions = [as_flights(messages) for messages in read_all(bootstrap, report.topic, 4)]

    wanted = list(flights(20_000))
    without_key = [flight for flight in wanted if flight.key is None]
    for number, found in enumerate(partitions):
        keys = {flight.key for flight in found if flight.key is not None}
        with_key = [flight for flight in found if flight.key is not None]
        assert with_key == [flight for flight in wanted if flight.key in keys]
        assert [flight for flight in found if flight.key is None] == without_key[number::4]
    where = {flight.key: number for number, found in enumerate(partitions) for flight in found}
    # The result of Kafka's own Utils.murmur2, made positive, modulo 4.
    assert {key: where[key] for key in JAVA_PARTITIONS} == JAVA_PARTITIONS


def test_old_records_outlive_the_default_retention(bootstrap: str, unique: str) -> None:
    seed(bootstrap, f"{unique}flights", limit=10)

    resource = ConfigResource(ConfigResource.Type.TOPIC, f"{unique}flights")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = admin.describe_configs([resource])[resource].result(60)

    assert (config["retention.ms"].value, config["compression.type"].value) == ("-1", "lz4")


def test_seeding_again_writes_nothing(bootstrap: str, unique: str) -> None:
    seed(bootstrap, f"{unique}flights", limit=1_000)

    again = seed(bootstrap, f"{unique}flights", limit=1_000)

    assert (again.written, again.records, again.bytes) == (False, 1_000, 0)
    assert sum(Topics(bootstrap).end_offsets(f"{unique}flights")) == 1_000


def test_seeding_over_other_data_is_refused_unless_asked_for(bootstrap: str, unique: str) -> None:
    seed(bootstrap, f"{unique}flights", limit=1_000)

    with pytest.raises(SeedRefused, match=r"has had 1000 records, which is not this seed of 500"):
        seed(bootstrap, f"{unique}flights", limit=500)
    with pytest.raises(SeedRefused, match="exists with 4 partitions, not 2"):
        seed(bootstrap, f"{unique}flights", partitions=2, limit=1_000)
    assert sum(Topics(bootstrap).end_offsets(f"{unique}flights")) == 1_000

    assert seed(bootstrap, f"{unique}flights", limit=500, repeat=2, append=True).written
    assert sum(Topics(bootstrap).end_offsets(f"{unique}flights")) == 2_000


def test_live_traffic_never_exceeds_its_pace_and_counts_what_kafka_took(bootstrap: str, unique: str) -> None:
    began_s = time.monotonic()
    stats = produce(bootstrap, f"{unique}live", 200, 3)

    messages = [message for partition in read_all(bootstrap, f"{unique}live", 4) for message in partition]
    assert (stats.acked_records, stats.failed_records) == (len(messages), 0)
    assert 0 < stats.acked_records <= 200 * (time.monotonic() - began_s) + 20
    assert stats.latency_p50_ms is not None
    assert stats.latency_p99_ms is not None
    assert 0 < stats.latency_p50_ms <= stats.latency_p99_ms
    ages_ms = [time.time() * 1000 - message.timestamp()[1] for message in messages]
    assert max(ages_ms) < DEADLINE_S * 1000
    assert json.loads(messages[0].value() or b"{}")["sent_at"].endswith("Z")
