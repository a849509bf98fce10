"""Reads ranges of many partitions with one consumer, as a read_committed reader sees them, and says when each is through. For the proof only.

A range is through when the reader's position reached its stop, whether records were there or not. Partitions are read in groups, so that what waits in
the hands of whoever listens is bounded however many there are.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from spark_jobs import errors
from spark_jobs.clients import QUICK_FETCH_WAIT_MS, make_reader, meet
from spark_jobs.errors import JobError
from spark_jobs.proof_guest import Guest

GROUP = 256  # partitions read at a time
_QUEUE_BYTES = 6 * 1024 * 1024
_WAIT_S = 0.1
_END = KafkaError._PARTITION_EOF  # noqa: SLF001  (the library's own codes begin with an underscore)
_OUT_OF_RANGE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001

_error_of, _partition_of, _offset_of = Message.error, Message.partition, Message.offset


class Range(NamedTuple):
    """[start, stop) of a partition."""

    partition: int
    start: int
    stop: int


class Listener(Protocol):
    """What becomes of the records. All of one partition come in order of their offsets."""

    def begin(self, ranged: Range) -> None:
        """The records of this range come next, among those of others of its group."""

    def feed(self, partition: int, messages: list[Message]) -> None: ...

    def deleted(self, partition: int, log_start: int) -> None:
        """What lay before `log_start` and was not fed yet can not be read any more."""

    def finish(self, partition: int) -> None:
        """Nothing more comes of this partition."""


class Place(NamedTuple):
    """A topic to read: `log_start` asks for the present log start of a partition; `side` is source or target."""

    client: Mapping[str, str]
    topic: str
    side: str
    log_start: Callable[[int], int]


class RangeReader:
    """Reads the ranges of one task on one side."""

    def __init__(self, place: Place, guest: Guest, patience_s: float) -> None:
        self._place, self._guest, self._patience_s = place, guest, patience_s
        self._consumer: Consumer = make_reader(
            place.client, guest.client_id, _QUEUE_BYTES, fetch_wait_ms=QUICK_FETCH_WAIT_MS
        )
        self._open: dict[int, int] = {}  # partition: stop
        self._positions: dict[int, int] = {}

    def read(self, ranges: Iterable[Range], listener: Listener) -> None:
        """Raises JobError when a range can not be read to its stop; whatever the guest raises."""
        meet(self._consumer, self._place.topic)
        todo = sorted(ranges, key=lambda r: r.start - r.stop)  # the largest first: those of a group end together
        for at in range(0, len(todo), GROUP):
            self._read_group(todo[at : at + GROUP], listener)

    def close(self) -> None:
        self._consumer.close()

    def _read_group(self, ranges: Sequence[Range], listener: Listener) -> None:
        self._open = {r.partition: r.stop for r in ranges if r.stop > r.start}
        self._positions = {r.partition: r.start for r in ranges}
        for r in ranges:
            listener.begin(r)
            if r.partition not in self._open:
                listener.finish(r.partition)
        self._consumer.assign([TopicPartition(self._place.topic, p, self._positions[p]) for p in self._open])
        moved_s = time.monotonic()
        while self._open:
            asked_s = time.monotonic()
            count = self._guest.turn()
            moved_s += time.monotonic() - asked_s  # a pause is no silence
            messages = self._consumer.consume(count, 0) or self._consumer.consume(1, _WAIT_S)
            if self._take(messages, listener):
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s > self._patience_s:
                self._give_up()
        self._consumer.unassign()

    def _give_up(self) -> None:
        partition, stop = next(iter(self._open.items()))
        where = f"{self._place.topic} partition {partition} can not be read past {self._positions[partition]}"
        why = "a foreign transaction holds it, or the broker does not answer"
        raise JobError("stop_blocked", f"{where}, what is to be verified ends at {stop}: {why}.")

    def _take(self, messages: list[Message], listener: Listener) -> bool:
        """True when some position moved."""
        if not messages:
            return False
        before = sum(self._positions.values())
        if any(map(_error_of, messages)):
            for message in messages:
                if message.error() is None:
                    self._on_records(message.partition() or 0, [message], listener)
                else:
                    self._on_event(message, listener)
        else:
            for partition, some in groupby(messages, _partition_of):
                self._on_records(partition or 0, list(some), listener)
        moved = sum(self._positions.values()) - before
        self._guest.took(sum(1 for m in messages if m.error() is None), sum(map(len, messages)), max(0, moved))
        return moved > 0

    def _on_records(self, partition: int, messages: list[Message], listener: Listener) -> None:
        stop = self._open.get(partition)
        if stop is None:
            return
        last = messages[-1].offset()
        assert last is not None
        is_through = last >= stop - 1
        if last >= stop:
            messages = [m for m in messages if m.offset() < stop]  # type: ignore[operator]
        if messages:
            listener.feed(partition, messages)
        self._advance(partition, last + 1, listener, is_through=is_through)

    def _on_event(self, message: Message, listener: Listener) -> None:
        error, partition = message.error(), message.partition()
        assert error is not None
        if error.code() == _END and partition is not None:
            self._advance(partition, message.offset() or 0, listener)
        elif error.code() in _OUT_OF_RANGE and partition in self._open:
            self._skip_deleted(partition, listener)
        elif errors.final_code(error) == "not_authorised":
            raise JobError("not_authorised", f"The {self._place.side} refuses to be read: {error.str()}.")
        elif error.fatal():
            raise KafkaException(error)

    def _skip_deleted(self, partition: int, listener: Listener) -> None:
        start = self._place.log_start(partition)
        if start <= self._positions[partition]:
            where = f"{self._place.topic} partition {partition}"
            raise JobError("data_lost", f"{where} ends before {self._positions[partition]} now: it was cut back.")
        listener.deleted(partition, start)
        self._consumer.incremental_unassign([TopicPartition(self._place.topic, partition)])
        self._advance(partition, start, listener)
        if partition in self._open:
            self._consumer.incremental_assign([TopicPartition(self._place.topic, partition, start)])

    def _advance(self, partition: int, position: int, listener: Listener, *, is_through: bool = False) -> None:
        stop = self._open.get(partition)
        if stop is None:
            return
        self._positions[partition] = max(self._positions[partition], min(position, stop))
        if is_through or position >= stop:
            del self._open[partition]
            self._consumer.incremental_unassign([TopicPartition(self._place.topic, partition)])
            listener.finish(partition)
