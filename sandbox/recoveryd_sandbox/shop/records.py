"""Text in and out of topics: what a program of the shop would write, and what a reader of its output sees."""

import time
from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.shop.orders import Pair

_TIMEOUT_S = 180.0
_POLL_S = 1.0
# What a busy broker is told to have; the client goes on trying by itself.
_PASSING = frozenset({
    KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT,  # noqa: SLF001
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE,
})  # fmt: skip


def write(bootstrap: str, topic: str, pairs: Iterator[Pair], begin_ms: int) -> None:
    """Each pair a second after the one before. Raises `SandboxError` unless the broker has all of them."""
    failures: list[str] = []

    def note(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error.str())

    producer = Producer({
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "partitioner": "murmur2_random",  # where the application's own topics have the key
        "on_delivery": note,
        "log_level": 0,
    })  # fmt: skip
    for number, (key, value) in enumerate(pairs):
        producer.produce(topic, value.encode(), key.encode(), timestamp=begin_ms + 1_000 * number)
    left = producer.flush(_TIMEOUT_S)
    if left or failures:
        raise SandboxError(f"Could not fill topic {topic}: {failures[0] if failures else f'{left} not acknowledged'}.")


def read(bootstrap: str, topic: str, partitions: int) -> Iterator[Pair]:
    """Everything up to the end of each partition. Raises `SandboxError`."""
    settings = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed", **settings})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        at_end: set[int | None] = set()
        give_up_at_s = time.monotonic() + _TIMEOUT_S
        while len(at_end) < partitions:
            message = consumer.poll(_POLL_S)
            if time.monotonic() > give_up_at_s:
                raise SandboxError(f"Could not read topic {topic} to its end.")
            error = None if message is None else message.error()
            if message is None or (error is not None and error.code() in _PASSING):
                continue
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  (its public name)
                    raise SandboxError(f"Could not read topic {topic}: {error.str()}.")
                at_end.add(message.partition())  # told again where more was written meanwhile
                continue
            key, value = message.key(), message.value()
            if isinstance(key, bytes) and isinstance(value, bytes):
                yield key.decode(), value.decode()
    finally:
        consumer.close()


def committed(bootstrap: str, group: str, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """The group's offsets there, -1001 for none. Raises `SandboxError`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        found = consumer.committed([TopicPartition(topic, number) for topic, number in places], timeout=_TIMEOUT_S)
    except KafkaException as error:
        raise SandboxError(f"Could not read the offsets of {group}: {error.args[0].str()}.") from error
    finally:
        consumer.close()
    return {(where.topic, where.partition): where.offset for where in found}
