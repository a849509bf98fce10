"""How the daemon's own clients read: a bounded range of a partition, or what comes next; and what is in a message.

Everything here blocks and runs in worker threads with a deadline. Records of data topics are read here only as samples:
copying is the lanes' work.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from recoveryd.adapters.kafka.client import NOT_AUTHORISED, READER_GROUP, Properties, make_consumer, problem
from recoveryd.errors import ClusterProblem
from recoveryd.ports import ControlRecord
from recoveryd_jobs.shared.damage import DAMAGED

_BATCH_RECORDS = 2_000
_POLL_S = 0.05
_METADATA_S = 10.0


class NotUnpacked(ClusterProblem):
    """A batch with a right check sum that the library does not unpack, because it would be too large. `offset` is the
    first one of the batch.
    """

    def __init__(self, message: str, hint: str, offset: int, why: str) -> None:
        super().__init__(message, hint)
        self.offset = offset
        self.why = why


def assign(consumer: Consumer, topic: str, starts: Mapping[int, int], timeout_s: float) -> None:
    """Read these partitions from these offsets on. Raises `ClusterProblem` when the cluster does not answer.

    Asking for the topic first looks idle, but an assignment made before the client is connected waits for a timer of a
    second; and an offset such as "beginning" that must be resolved for half of one.
    """
    assign_all(consumer, {(topic, partition): start for partition, start in starts.items()}, timeout_s)


def assign_all(consumer: Consumer, starts: Mapping[tuple[str, int], int], timeout_s: float) -> None:
    """The same of several topics."""
    for topic in dict.fromkeys(topic for topic, _ in starts):
        try:
            consumer.list_topics(topic, timeout=timeout_s)
        except KafkaException as error:
            raise problem(error, f"read {topic}", "Describe", topic) from error
    consumer.assign([TopicPartition(*place, start) for place, start in starts.items()])


def read_to(
    consumer: Consumer, topic: str, partition: int, start: int, stop: int, patience_s: float
) -> Iterator[Message]:
    """Messages of one partition with offsets in [start, stop).

    The end is recognised by the position the broker reports there, never by a count of messages: compaction, aborted
    records and transaction markers leave gaps. Raises `ClusterProblem` when nothing came for `patience_s` seconds
    before `stop`, for instance because a foreign transaction is open before it. A long log is read for as long as it
    takes.
    """
    give_up_s = time.monotonic() + patience_s
    assign(consumer, topic, {partition: start}, min(patience_s, _METADATA_S))
    while True:
        for message in next_messages(consumer, _POLL_S):
            error, offset = message.error(), message.offset() or 0
            if error is None:
                if offset >= stop:
                    return
                yield message
                give_up_s = time.monotonic() + patience_s  # what the caller took for it is not the cluster's
                if offset == stop - 1:
                    return
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                if offset >= stop:
                    return
            elif (final := unreadable(message, topic)) is not None:
                raise final
        if time.monotonic() > give_up_s:
            raise ClusterProblem(f"Could not read {topic} to offset {stop}: nothing came for {patience_s:.0f} s")


def read_range(
    properties: Properties, topic: str, partition: int, bounds: tuple[int, int], patience_s: float, **overrides: Any
) -> Iterator[Message]:
    """The same by a consumer of its own, which is gone afterwards; nobody is asked for an empty range."""
    if bounds[0] >= bounds[1]:
        return
    consumer = make_consumer(properties, **overrides)
    try:
        yield from read_to(consumer, topic, partition, *bounds, patience_s)
    finally:
        consumer.close()


def read_ranges(
    properties: Properties, topic: str, bounds: Mapping[int, tuple[int, int]], patience_s: float, **overrides: Any
) -> Iterator[Message]:
    """The same of many partitions at once; `bounds` by partition."""
    left = {partition: stop for partition, (start, stop) in bounds.items() if start < stop}
    if not left:
        return
    consumer = make_consumer(properties, **overrides)
    try:
        give_up_s = time.monotonic() + patience_s
        assign(consumer, topic, {p: bounds[p][0] for p in left}, min(patience_s, _METADATA_S))
        while left:
            for message in next_messages(consumer, _POLL_S):
                error, offset, partition = message.error(), message.offset() or 0, message.partition() or 0
                if error is None and offset < left.get(partition, 0):
                    yield message
                    give_up_s = time.monotonic() + patience_s
                if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    if offset + (error is None) >= left.get(partition, offset + 2):
                        del left[partition]
                elif (final := unreadable(message, topic)) is not None:
                    raise final
            if left and time.monotonic() > give_up_s:
                where = f"partition {min(left)} to offset {left[min(left)]}"
                raise ClusterProblem(f"Could not read {topic} {where}: nothing came for {patience_s:.0f} s")
    finally:
        consumer.close()


def next_messages(consumer: Consumer, wait_s: float) -> list[Message]:
    """What is there at once, or else the first one to come: waiting for a full batch would add its timeout to every
    small read.
    """
    messages = consumer.consume(_BATCH_RECORDS, 0)
    if not messages:
        first = consumer.poll(wait_s)
        return [] if first is None else [first]
    return messages


def unreadable(message: Message, topic: str) -> ClusterProblem | None:
    """The problem for an error, told by `message`, that ends a reading; None where the library goes on by itself and
    nothing is missing then.
    """
    error = message.error()
    if error is None:
        return None
    if error.code() in DAMAGED:
        where = f"{topic} partition {message.partition()} at offset {message.offset()}"
        hint = "Its log is damaged, if other clients say so too: let another replica lead."
        told = f"Could not read {where}: {error.str()}"
        if error.code() == KafkaError._BAD_COMPRESSION:  # noqa: SLF001
            return NotUnpacked(told, hint, message.offset() or 0, error.str())
        return ClusterProblem(told, hint)
    if error.fatal() or not is_passing(error):
        return problem(error, f"read {topic}", "Read", topic, READER_GROUP)
    return None


def is_passing(error: KafkaError) -> bool:
    """Lost connections are reported in the stream of messages, and librdkafka heals them by itself. After a damaged
    record it goes on too; see `unreadable`.
    """
    return bool(error.retriable() or error.code() < 0) and error.code() not in NOT_AUTHORISED


def pair_of(message: Message) -> tuple[bytes | None, bytes | None]:
    """Key and value, which the library's types would allow to be text."""
    key, value = message.key(), message.value()
    return (key.encode() if isinstance(key, str) else key), (value.encode() if isinstance(value, str) else value)


def control_record(message: Message) -> ControlRecord:
    """A record of the control topic or of another own topic, as it lies there."""
    broker_ms = message.timestamp()[1]
    return ControlRecord(
        message.partition() or 0, message.offset() or 0, broker_ms, *pair_of(message), headers_of(message)
    )


def headers_of(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    """The record's headers; none when one has a name that is not UTF-8, because the client library has no way to give
    it.

    Ask once per record, and only here: its answer is then a list with a hole, which ends the process when it is asked
    again, or by a plain call that Python has sped up. `map` makes the call that is checked.
    """
    try:
        [found] = map(_pairs_of, (message,))
    except SystemError:
        return ()
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in found or ())


_pairs_of: Any = Message.headers
