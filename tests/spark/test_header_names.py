"""What the Kafka client does to the name of a header, as docs/guarantees.md says. No broker: the client's own."""

import ctypes
from pathlib import Path

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition

from recoveryd_jobs.selection import headers_of
from tests.patience import patient_s

NAME = b"a\0b"
_TOPIC, _PARTITION, _VALUE, _MSGFLAGS, _HEADERS, _END = 1, 3, 4, 7, 10, 0
_COPY = 2


def write(address: str) -> None:
    """As a producer in Java does, whose names have a length."""
    libs = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    lib = ctypes.CDLL(str(next(libs.glob("librdkafka*"))))
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    lib.rd_kafka_conf_new.restype = lib.rd_kafka_new.restype = lib.rd_kafka_headers_new.restype = pointer
    conf, error = pointer(lib.rd_kafka_conf_new()), ctypes.create_string_buffer(512)
    lib.rd_kafka_conf_set(conf, b"bootstrap.servers", address.encode(), error, size(512))
    client = pointer(lib.rd_kafka_new(0, conf, error, size(512)))
    headers = pointer(lib.rd_kafka_headers_new(size(1)))
    lib.rd_kafka_header_add(headers, text(NAME), ctypes.c_ssize_t(len(NAME)), text(b"x"), ctypes.c_ssize_t(1))
    lib.rd_kafka_producev(
        client, _TOPIC, text(b"t"), _PARTITION, ctypes.c_int32(0), _VALUE, text(b"v"), size(1), _MSGFLAGS, _COPY,
        _HEADERS, headers, _END,
    )  # fmt: skip
    assert lib.rd_kafka_flush(client, int(patient_s(10.0) * 1000)) == 0
    lib.rd_kafka_destroy(client)


def test_the_client_ends_a_name_at_nul_so_that_nobody_can_see_the_rest() -> None:
    """When this fails, the client returns whole names: then they are copied and compared, and the page has to
    say so.
    """
    cluster = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(cluster.list_topics(timeout=patient_s(10.0)).brokers.values()))
    address = f"{broker.host}:{broker.port}"
    write(address)
    reader = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition("t", 0, 0)])
    try:
        assert headers_of(reader.consume(1, patient_s(20.0))) == [[("a", b"x")]]
    finally:
        reader.close()
