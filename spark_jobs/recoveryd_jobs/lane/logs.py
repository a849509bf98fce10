"""The real logs and the real pen of `recoveryd_jobs.lane.mending`: reads what lies in the target and in the ledger,
seen or not, and writes as the lane. Nothing is judged here.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from recoveryd_jobs import errors
from recoveryd_jobs.clients import QUICK_FETCH_WAIT_MS, make_reader, meet
from recoveryd_jobs.contract import (
    ContractError,
    JobSpec,
    Receipt,
    chunk_header,
    decode,
    encode,
    head_key,
    read_chunk_header,
)
from recoveryd_jobs.errors import Doubt, Redo
from recoveryd_jobs.lane.lost_markers import Runs, Unseen
from recoveryd_jobs.lane.mending import LoggedRecord, moved
from recoveryd_jobs.selection import headers_of
from recoveryd_jobs.sinks.transactional import TransactionalTarget
from recoveryd_jobs.topics import LogBounds, NoAnswer, Topic

_KEY: Final = b"recoveryd: ends a transaction that lost its marker"
_QUEUE_BYTES: Final = 4 * 1024 * 1024
_LOOK_BYTES: Final = 65_536  # one record is enough there
_BATCH: Final = 1000
_STEP_S: Final = 0.2
_PATIENCE_S: Final = 30.0


class ClusterLogs:
    """`topics`: the target, and the receipts topic where the plan pinned it. Not thread-safe; leave it to close it."""

    def __init__(self, spec: JobSpec, lane: int, client_id: str, *topics: Topic) -> None:
        self._spec, self._lane, self._client_id = spec, lane, client_id
        self._target, *others = topics
        self._ledger = others[0] if others else None
        self._readers: dict[str, Consumer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._readers.values():
            reader.close()

    def target(self, partitions: Iterable[int]) -> dict[int, LogBounds]:
        wanted = list(partitions)
        return _bounds(self._target, wanted) if wanted else {}

    def ledger(self) -> LogBounds:
        home = self._spec.receipts
        if self._ledger is None or home is None:
            return LogBounds(0, 0, 0)
        return _bounds(self._ledger, [home.partition])[home.partition]

    def receipts(self, first: int, stop: int) -> list[Unseen]:
        home = self._spec.receipts
        if home is None:
            return []
        bounds = {home.partition: (max(first, home.start), stop)}
        found: dict[bytes | None, list[Unseen]] = {}  # by key
        for message in self._read("read_uncommitted", home.topic, bounds):
            if message.value() is None:  # somebody deleted what has this key
                found.pop(message.key(), None)
            receipt = self._receipt(message)
            if receipt is not None:
                [headers] = headers_of([message])
                each = Unseen(message.offset() or 0, receipt, *read_chunk_header(headers or ()))
                found.setdefault(receipt.key.encode(), []).append(each)
        return sorted(chain.from_iterable(found.values()), key=lambda each: each.offset)

    def is_ours(self, offset: int) -> bool:
        home = self._spec.receipts
        if home is None:
            return False
        own = [_end_key(self._spec, self._lane), head_key(self._spec.scope, self._spec.recovery, self._lane).encode()]
        return any(
            message.key() in own or self._receipt(message) is not None
            for message in self._read("read_uncommitted", home.topic, {home.partition: (offset, offset + 1)})
        )

    def _receipt(self, message: Message) -> Receipt | None:
        """Of this lane; None also for one that cannot be read: whoever reads the ledger says so."""
        key, value = message.key(), message.value()
        prefix = f"{self._spec.scope}/{self._spec.recovery}/".encode()
        if not isinstance(key, bytes) or not isinstance(value, bytes) or not key.startswith(prefix):
            return None
        try:
            receipt = decode(Receipt, value)
        except ContractError:
            return None
        return receipt if receipt.lane == self._lane else None

    def seen(self, wanted: Mapping[int, Runs]) -> set[int]:
        bounds = self.target(wanted)
        left = {p: _within(runs, bounds[p].start, bounds[p].stable) for p, runs in wanted.items()}
        offsets = {p: _offsets(runs) for p, runs in wanted.items()}
        found: set[int] = set()
        for message in self._read("read_committed", self._spec.target.topic, left):
            partition = message.partition() or 0
            if message.offset() in offsets[partition]:
                found.add(partition)
                left.pop(partition, None)
        return found

    def records(self, partition: int, runs: Runs) -> list[LoggedRecord]:
        bounds, offsets = self.target([partition])[partition], _offsets(runs)
        left = {partition: _within(runs, bounds.start, bounds.high)}
        read = self._read("read_uncommitted", self._spec.target.topic, left)
        messages = [message for message in read if message.offset() in offsets]
        return [
            LoggedRecord(m.offset() or 0, m.key(), m.value(), m.timestamp()[1], headers)
            for m, headers in zip(messages, headers_of(messages), strict=True)
        ]

    def _read(self, isolation: str, topic: str, left: dict[int, tuple[int, int]]) -> Iterator[Message]:
        """What lies within bounds by partition. A partition taken out of `left` is read no further."""
        for partition in [p for p, (first, stop) in left.items() if first >= stop]:
            del left[partition]
        if not left:
            return
        reader = self._reader(isolation, topic)
        reader.assign([TopicPartition(topic, partition, first) for partition, (first, _) in left.items()])
        give_up_s = time.monotonic() + _PATIENCE_S
        while left:
            for message in reader.consume(_BATCH, 0) or reader.consume(1, _STEP_S):
                if (message.partition() or 0) not in left:
                    continue
                if message.error() is None:
                    give_up_s = time.monotonic() + _PATIENCE_S
                yield from _taken(message, left)
            if left and time.monotonic() > give_up_s:
                raise Doubt(f"{topic} partition {min(left)} gives no answer about what lies there")

    def _reader(self, isolation: str, topic: str) -> Consumer:
        name = f"{isolation} {topic}"
        if name not in self._readers:
            is_look = isolation == "read_committed"
            self._readers[name] = make_reader(
                self._spec.target.client,
                self._client_id,
                _QUEUE_BYTES,
                isolation=isolation,
                fetch_wait_ms=QUICK_FETCH_WAIT_MS,
                fetch_bytes=_LOOK_BYTES if is_look else _QUEUE_BYTES,
            )
            meet(self._readers[name], topic)
        return self._readers[name]


class LanePen:
    """`topics` are asked for their ids before something is committed, as for each chunk."""

    def __init__(self, spec: JobSpec, lane: int, target: TransactionalTarget, topics: Sequence[Topic]) -> None:
        self._spec, self._lane, self._target, self._topics = spec, lane, target, topics

    def end_open(self, partitions: Sequence[int], *, ledger: bool) -> dict[int, int]:
        found: dict[tuple[int, int], int] = {}
        self._target.begin()
        try:
            for partition in partitions:
                note = partial(_note, found, (partition, 0))
                self._target.send(self._spec.target.topic, b"", _KEY, partition, note)
            if ledger and self._spec.receipts is not None:
                home = self._spec.receipts
                self._target.send(home.topic, None, _end_key(self._spec, self._lane), home.partition)
            self._target.flush(self._deadline_s())
        except Redo as problem:
            raise Doubt(f"a lost marker cannot be written again: {problem}") from None
        if len(found) < len(partitions):
            raise Doubt("the target did not say where records lie")
        self._target.abort()
        return {partition: offset for (partition, _), offset in found.items()}

    def write_again(
        self, receipts: Sequence[Receipt], records: Mapping[int, Sequence[LoggedRecord]], ledger: int
    ) -> None:
        try:
            self._write_again(receipts, records, ledger)
        except (Redo, NoAnswer) as problem:
            raise Doubt(f"what a broker forgot to commit cannot be written again: {problem}") from None

    def _write_again(
        self, receipts: Sequence[Receipt], records: Mapping[int, Sequence[LoggedRecord]], ledger: int
    ) -> None:
        new: dict[tuple[int, int], int] = {}
        deadline_s = self._deadline_s()
        self._target.begin()
        for to, rows in records.items():
            for row in rows:
                self._put(to, row, partial(_note, new, (to, row.offset)))
        self._target.flush(deadline_s)
        if len(new) != sum(map(len, records.values())):
            raise Redo("some records were not confirmed, or not with their places")
        headers = [chunk_header(len(receipts))]
        for receipt in receipts:
            raw = encode(moved(receipt, new, self._spec.attempt))
            self._target.send(self._spec.receipts_topic, raw, receipt.key.encode(), ledger, headers=headers)
        self._target.flush(deadline_s)
        for topic in self._topics:  # when all is written there: one that is made again meanwhile would take it
            topic.check_id(deadline_s)
        self._target.commit(deadline_s)

    def _put(self, partition: int, row: LoggedRecord, note: "partial[None]") -> None:
        began_s = time.monotonic()
        while True:
            try:
                self._target.producer.produce(
                    self._spec.target.topic,
                    row.value,
                    row.key,
                    partition,
                    on_delivery=note,
                    timestamp=row.time_ms,
                    headers=list(row.headers) if row.headers else None,
                )
            except BufferError:
                self._target.make_room(began_s)
            else:
                return

    def _deadline_s(self) -> float:
        return time.monotonic() + self._spec.transaction_timeout_ms / 1000.0


def _within(runs: Runs, start: int, stop: int) -> tuple[int, int]:
    """A reader that is told to begin before the log does finds nothing at all."""
    return max(runs[0][0], start), min(sum(runs[-1]), stop)


def _offsets(runs: Runs) -> set[int]:
    return {at for first, count in runs for at in range(first, first + count)}


def _end_key(spec: JobSpec, lane: int) -> bytes:
    """In the ledger: no receipt's key, and gone should it ever be seen, because it has no value."""
    return f"{spec.scope}/{spec.recovery}#end/{lane}".encode()


def _taken(message: Message, left: dict[int, tuple[int, int]]) -> Iterator[Message]:
    """The message, if it lies within the bounds of its partition; takes the partition out of `left` at its end."""
    partition, error, offset = message.partition() or 0, message.error(), message.offset() or 0
    first, stop = left[partition]
    if error is None:
        if first <= offset < stop:
            yield message
        if offset >= stop - 1:
            left.pop(partition, None)
    elif (error.code() == errors.END and offset >= stop) or error.code() in errors.OUT_OF_RANGE:
        del left[partition]  # no record is at its end, or nothing is there any more
    elif (final := errors.unreadable(error, "target", message)) is not None:
        raise final


def _note(new: dict[tuple[int, int], int], old: tuple[int, int], error: KafkaError | None, message: Message) -> None:
    offset = message.offset()
    if error is None and offset is not None:
        new[old] = offset


def _bounds(topic: Topic, partitions: Iterable[int]) -> dict[int, LogBounds]:
    try:
        return topic.bounds(partitions)
    except NoAnswer as silence:
        raise Doubt(f"what is open: {silence}") from None
