"""Batches on the control topic that are small there and huge once they are unpacked."""

import pytest
from confluent_kafka import Producer

from recoveryd.adapters.kafka.control_log import KafkaControlLog
from recoveryd.adapters.kafka.control_reading import make_control_consumer, read_control
from tests.builders.copying import Cluster

pytestmark = pytest.mark.broker

RECORD = bytes(12_000_000)
LARGE = {"message.max.bytes": 300_000_000, "batch.size": 300_000_000, "queue.buffering.max.kbytes": 1_000_000}


def write(cluster: Cluster, topic: str, values: list[bytes]) -> None:
    """As one batch."""
    producer = Producer({**cluster.client, **LARGE, "compression.type": "zstd", "linger.ms": 5_000})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


async def test_a_reader_of_control_records_goes_on_behind_the_last_record_of_such_a_batch(
    bootstrap: str, unique: str
) -> None:
    cluster = Cluster(bootstrap, unique)
    topic = cluster.topic("control")
    for batch in (
        [b"a", b"b"],
        [RECORD] * 11,
        [RECORD] * 9,
        [b"c"],
    ):  # 2 to 12 and 13 to 21; the second is too large too
        write(cluster, topic, batch)
    log = KafkaControlLog(cluster.client, topic)
    found = [record async for page in log.pages(0, None) for record in page]
    assert [(r.offset, r.value, bool(r.damage)) for r in found] == [
        (0, b"a", False),
        (1, b"b", False),
        (2, None, True),
        (13, None, True),
        (22, b"c", False),
    ]
    assert "of message at 2 of " in found[2].damage
    consumer = make_control_consumer(cluster.client)
    try:
        for start, stop, offsets in ((1, 8, [1, 2]), (5, 13, []), (5, 14, [13]), (12, 23, [13, 22])):
            assert [r.offset for r in read_control(consumer, topic, start, stop, 60.0)] == offsets
    finally:
        consumer.close()
