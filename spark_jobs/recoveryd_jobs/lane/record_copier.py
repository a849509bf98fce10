"""The hot path: sends runs of records to the target, column by column, and keeps what the receipt will say about them.

In the common case (same partition, no filter, no change of headers) no Python statement runs per record: loops in C
take columns from the messages and produce them. The target offset of each record is learnt in one of two ways. Sparse:
only the first and the last record of a run have a delivery callback; when their offsets are as far apart as their
numbers, all records between them are ours and their offsets are known. Dense: every record has a callback. When sparse
finds that another writer came between, the chunk is done again dense.
"""

import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, compress, repeat
from operator import length_hint
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message

from recoveryd_jobs import errors
from recoveryd_jobs.contract import JobSpec, Times
from recoveryd_jobs.digest import Headers, SequenceDigest
from recoveryd_jobs.errors import JobError, Redo
from recoveryd_jobs.selection import Columns, Selection, header_size, headers_before, headers_of
from recoveryd_jobs.sinks.transactional import TransactionalTarget

_key_of, _value_of, _time_of, _offset_of = Message.key, Message.value, Message.timestamp, Message.offset


class Delivered:
    """The records of one chunk that go from one source partition to one target partition, and where they landed."""

    __slots__ = ("count", "digest", "failed", "marks", "offsets", "partition", "sources")

    def __init__(self, partition: int, digest: SequenceDigest | None) -> None:
        self.partition = partition
        self.digest = digest
        self.count = 0
        self.marks: list[tuple[int, int]] = []  # sparse: (number of the record, its target offset)
        self.offsets: list[int] = []  # dense: every target offset, in order
        self.sources: list[int] = []  # dense: every source offset, in order
        self.failed: list[tuple[int, KafkaError]] = []  # (number of the record, why)

    def on_mark(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append((number, error))
        else:
            self.marks.append((number, message.offset()))  # type: ignore[arg-type]

    def on_each(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append((len(self.offsets) + len(self.failed), error))
        else:
            self.offsets.append(message.offset())  # type: ignore[arg-type]

    def runs(self) -> tuple[tuple[int, int], ...]:
        """[first offset, count] of the records. Raises Redo when sparse marks do not prove the offsets, or deliveries
        are missing.
        """
        if None in self.offsets or any(offset is None for _, offset in self.marks):
            # A batch that was sent again after a lost answer is in the log once, but the broker does not say where.
            raise Redo(f"target partition {self.partition} did not say where records lie", reopen=True)
        if self.offsets:
            return self._dense_runs()
        firsts = {offset - number for number, offset in self.marks}
        numbers = {number for number, _ in self.marks}
        if len(firsts) != 1 or not {0, self.count - 1} <= numbers:
            raise Redo(f"records of others lie between ours in target partition {self.partition}", dense=True)
        return ((firsts.pop(), self.count),)

    def _dense_runs(self) -> tuple[tuple[int, int], ...]:
        if len(self.offsets) != self.count:
            raise Redo(f"{len(self.offsets)} of {self.count} records were confirmed")
        runs: list[tuple[int, int]] = []
        first = last = self.offsets[0]
        for offset in self.offsets[1:]:
            if offset <= last:
                raise JobError("internal", f"Target partition {self.partition} confirmed {offset} after {last}.")
            if offset != last + 1:
                runs.append((first, last - first + 1))
                first = offset
            last = offset
        runs.append((first, last - first + 1))
        return tuple(runs)


class Room(NamedTuple):
    """What the caps of a lane still allow, None = no cap."""

    records: int | None = None
    bytes: int | None = None

    @property
    def is_used_up(self) -> bool:
        return (self.records is not None and self.records <= 0) or (self.bytes is not None and self.bytes <= 0)

    def less(self, records: int, size: int) -> "Room":
        return Room(
            None if self.records is None else self.records - records, None if self.bytes is None else self.bytes - size
        )


class CopiedRun(NamedTuple):
    """What became of a run: `taken` records from its start are done with, `records` of them were selected and sent, as
    `bytes` bytes.

    `cost`: the bytes to count against the rate, the larger of what was read and what was written.
    """

    taken: int
    records: int
    bytes: int
    cost: int
    times: Times | None = None


def _span(times: list[int]) -> Times | None:
    """Of records that have a time: those of the oldest format have none, which reads as -1."""
    first, last = min(times), max(times)
    if first < 0:
        known = [time for time in times if time >= 0]
        return (min(known), last) if known else None
    return first, last


class Copier:
    """Sends runs of records as the spec wants them. One per lane; `dense` may change between chunks."""

    def __init__(self, spec: JobSpec, target: TransactionalTarget, is_stamped: bool) -> None:
        self._spec = spec.target
        self._target = target
        self._digest_key = spec.recovery if spec.verify in {"source", "digest"} else None
        self._selection = Selection(spec.source, spec.target, is_stamped=is_stamped)
        self._is_stamped = is_stamped
        self.dense = self.is_always_dense

    @property
    def is_always_dense(self) -> bool:
        return self._selection.is_spread or not self._spec.exclusive

    def copy(self, partition: int, messages: list[Message], delivered: dict[int, Delivered], room: Room) -> CopiedRun:
        """Queue a run of one source partition, up to and including the record that uses up `room`. Raises JobError,
        Redo or Doubt.

        How much was copied is decided only here: selection, size and cut are computed on the records as they are sent.
        """
        run = messages
        times: list[int] = [t for _, t in map(_time_of, messages)]
        chosen = self._selection.within(times)
        if chosen is not None:
            messages, times = list(compress(messages, chosen)), list(compress(times, chosen))
            if not messages:
                return CopiedRun(len(run), 0, 0, _read_size(run))
        wanted = len(messages)
        column, refused = headers_before(messages[: room.records])
        messages = messages[: len(column)]
        keys: list[Any] = list(map(_key_of, messages))
        values: list[Any] = list(map(_value_of, messages))
        headers: list[Any] | None = self._selection.headers(column)
        size = size_of(messages, keys, headers)
        if refused is not None and not room.less(len(messages), size).is_used_up:
            raise refused  # else a cap leaves it out
        count = _allowed(room, size, messages, keys, headers)
        if count < wanted:
            messages, keys, values, times = messages[:count], keys[:count], values[:count], times[:count]
            headers = None if headers is None else headers[:count]
            run = run[: bisect_right(run, messages[-1].offset(), key=_offset_of)]  # type: ignore[type-var]
            size = size_of(messages, keys, headers)
        if not self._is_stamped and 0 in times:
            _refuse_time_zero(partition, messages[times.index(0)])
        if not self._selection.is_spread:
            self._send_same(partition, messages, keys, values, times, headers, delivered)
        else:
            self._send_hashed(partition, messages, keys, values, times, headers, delivered)
        cost = max(size, _read_size(run)) if self._spec.headers_drop or len(messages) < len(run) else size
        return CopiedRun(len(run), len(messages), size, cost, _span(times))

    def pass_over(self, messages: list[Message]) -> CopiedRun:
        """For a cap that is used up: what the time bounds leave out is no part of the copy, whatever the cap. Only
        records before the first that they do not leave out are taken.
        """
        chosen = self._selection.within([t for _, t in map(_time_of, messages)])
        taken = 0 if chosen is None else [*chosen, True].index(True)
        return CopiedRun(taken, 0, 0, _read_size(messages[:taken]))

    def _send_same(
        self, partition: int, messages: list[Message], keys: list[Any], values: list[Any], times: list[int],
        headers: list[Any] | None,
        delivered: dict[int, Delivered],
    ) -> None:  # fmt: skip
        part = delivered.get(partition) or self._new(partition, delivered)
        count = len(keys)
        callbacks: Sequence[Any] | None = None
        if not self.dense:
            callbacks = [None] * count
            callbacks[-1] = partial(part.on_mark, part.count + count - 1)
            if part.count == 0:
                callbacks[0] = partial(part.on_mark, 0)
        else:
            part.sources += map(_offset_of, messages)  # type: ignore[arg-type]
        part.count += count
        if part.digest is not None:
            self._digest(part.digest, keys, values, times, headers)
        self._send(values, keys, None, partition, callbacks, part.on_each, times, headers)

    def _send_hashed(
        self, partition: int, messages: list[Message], keys: list[Any], values: list[Any], times: list[int],
        headers: list[Any] | None, delivered: dict[int, Delivered],
    ) -> None:  # fmt: skip
        columns = Columns(list(map(_offset_of, messages)), keys, values, times, headers)
        to = self._selection.targets(partition, keys, columns.offsets)
        assert to is not None
        each: dict[int, Callable[..., None]] = {}
        for number, own in columns.split(to):
            part = delivered.get(number) or self._new(number, delivered)
            part.count += len(own.offsets)
            part.sources += own.offsets
            each[number] = part.on_each
            if part.digest is not None:
                self._digest(part.digest, own.keys, own.values, own.times, own.headers)
        self._send(values, keys, to, partition, [each[t] for t in to], None, times, headers)

    def _send(
        self, values: list[Any], keys: list[Any], to: list[int] | None, partition: int,
        callbacks: Sequence[Any] | None, callback: Callable[..., None] | None, times: list[int],
        headers: list[Any] | None,
    ) -> None:  # fmt: skip
        """Produce all rows; wait while the queue is full, then go on with the rest. `callbacks` None = `callback` for
        all.
        """
        produce, topic = self._target.producer.produce, repeat(self._spec.topic)
        at, count, began_s = 0, len(values), time.monotonic()
        while at < count:
            rows = iter(values[at:] if at else values)
            columns: list[Iterable[Any]] = [
                topic, rows, keys[at:] if at else keys, to[at:] if to is not None else repeat(partition),
                callbacks[at:] if callbacks is not None else repeat(callback), repeat(None),
                times[at:] if at else times,
            ]  # fmt: skip
            if headers is not None:
                columns.append(headers[at:] if at else headers)
            try:
                deque(map(produce, *columns), maxlen=0)
            except BufferError:
                at = count - length_hint(rows) - 1
                self._target.make_room(began_s)
            except KafkaException as raised:
                self._refused(raised.args[0])
            else:
                return

    def _refused(self, error: KafkaError) -> None:
        code = errors.final_code(error)
        if code is not None and not error.txn_requires_abort():
            raise JobError(code, f"A record for {self._spec.topic} was refused by the client: {error.str()}.")
        self._target.check_failed()  # it knows the reason better than the refused call
        errors.raise_failed(error)

    def _digest(
        self,
        digest: SequenceDigest,
        keys: list[Any],
        values: list[Any],
        times: list[int],
        headers: list[Headers] | None,
    ) -> None:
        digest.extend(keys, values, self._selection.times(times), headers)

    def _new(self, partition: int, delivered: dict[int, Delivered]) -> Delivered:
        digest = None if self._digest_key is None else SequenceDigest(self._digest_key, partition)
        part = delivered[partition] = Delivered(partition, digest)
        return part


def size_of(messages: list[Message], keys: list[Any], headers: list[Any] | None = None) -> int:
    """Bytes of keys, values and headers."""
    total = sum(map(len, messages))
    try:
        total += sum(map(len, keys))
    except TypeError:  # a null key
        total += sum(len(k) for k in keys if k is not None)
    if headers is not None:
        total += header_size(headers)
    return total


def _read_size(messages: list[Message]) -> int:
    """Bytes read, for the rate. Headers of records that are not wanted count only where the client can read them."""
    headers: list[Any] | None
    try:
        headers = headers_of(messages)
    except JobError:
        headers = None
    return size_of(messages, list(map(_key_of, messages)), headers)


def _allowed(room: Room, size: int, messages: list[Message], keys: list[Any], headers: list[Any] | None) -> int:
    """How many of these messages the bytes of `room` allow: up to and including the one that uses it up."""
    count = len(messages)
    if room.bytes is not None and size >= room.bytes:
        each = [size_of([m], [k], [h]) for m, k, h in zip(messages, keys, headers or repeat(None), strict=False)]
        count = min(count, bisect_left(list(accumulate(each)), room.bytes) + 1)
    return count


def _refuse_time_zero(partition: int, message: Message) -> None:
    """Refuse a record with time 0: the client library would write the present time instead."""
    raise JobError(
        "record_refused",
        f"Record {message.offset()} of source partition {partition} has time 0, which the Kafka client cannot write.",
    )
