"""Reads ranges of many partitions with one consumer, as a read_committed reader sees them, and says when each range is
done. For the proof only.

A range is done when the reader's position reached its stop, whether records were there or not. Partitions are read in
groups, so that the listener has to hold a bounded amount of data however many partitions there are.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, Message, TopicPartition

from recoveryd_jobs import errors
from recoveryd_jobs.clients import QUICK_FETCH_WAIT_MS, make_reader, meet
from recoveryd_jobs.errors import JobError, naming_side
from recoveryd_jobs.fetching import Fetching
from recoveryd_jobs.selection import size_without_headers
from recoveryd_jobs.sound_logs import is_harmless
from recoveryd_jobs.verify.guest import Guest
from recoveryd_jobs.verify.silence import Silence

GROUP = 256  # partitions read at a time
GROUP_BYTES = 32 * 1024 * 1024
_QUEUE_BYTES = 6 * 1024 * 1024
_FETCH_BYTES = 2 * 1024 * 1024  # compressed; the uncompressed records count in the queue
WAIT_S = 0.1

_error_of, _partition_of, _offset_of = Message.error, Message.partition, Message.offset


class Range(NamedTuple):
    """[start, stop) of a partition."""

    partition: int
    start: int
    stop: int


class Listener(Protocol):
    """Takes the records. Those of one partition come in order of their offsets."""

    def begin(self, ranged: Range) -> None:
        """The records of this range come next, mixed with those of other ranges of its group."""

    def feed(self, partition: int, messages: list[Message]) -> int:
        """Returns the bytes of their headers, as far as it read them: only one may ask a record for its headers."""

    def deleted(self, partition: int, position: int, log_start: int) -> None:
        """What lay in [position, log_start) cannot be read any more; everything before was fed."""

    def finish(self, partition: int) -> None:
        """No more records of this partition come."""


class AskedTopic(Protocol):
    """Questions about the topic while it is read. All raise JobError when the cluster does not answer, or the topic is
    gone.
    """

    def log_start(self, partition: int) -> int: ...

    def check(self) -> None: ...

    def silence(self, partition: int, position: int, stop: int) -> JobError: ...


class Place(NamedTuple):
    """A topic to read; `side` is source or target."""

    client: Mapping[str, str]
    topic: str
    side: str
    asked: AskedTopic


def groups(ranges: Iterable[Range], weight: Callable[[Range], int]) -> Iterator[list[Range]]:
    """What is read together: the largest first, so that those of a group end together."""
    group: list[Range] = []
    total = 0
    for ranged in sorted(ranges, key=lambda r: r.start - r.stop):
        more = weight(ranged)
        if group and (len(group) == GROUP or total + more > GROUP_BYTES):
            yield group
            group, total = [], 0
        group.append(ranged)
        total += more
    if group:
        yield group


class RangeReader:
    """Reads the ranges of one task on one side, a group at a time."""

    def __init__(self, place: Place, guest: Guest, listener: Listener, patience_s: float) -> None:
        self._place, self._guest, self._listener = place, guest, listener
        self._silence = Silence(patience_s)
        self._fetching = Fetching()
        with naming_side(place.side):
            self._consumer = self._met()
        self._open: dict[int, int] = {}  # partition: stop
        self.held: frozenset[int] = frozenset()  # open, but not read for the time being
        self._positions: dict[int, int] = {}
        self._bytes = 0  # keys, values and headers of what is taken now

    def _met(self) -> Consumer:
        consumer = make_reader(
            self._place.client,
            self._guest.client_id,
            _QUEUE_BYTES,
            fetch_wait_ms=QUICK_FETCH_WAIT_MS,
            fetch_bytes=_FETCH_BYTES,
            fetching=self._fetching,
        )
        meet(consumer, self._place.topic)
        return consumer

    @property
    def is_open(self) -> bool:
        """Whether some range of the group is not done yet."""
        return bool(self._open)

    @property
    def can_step(self) -> bool:
        """Whether some open range is not held."""
        return len(self._open) > len(self.held)

    def read(self, ranges: Iterable[Range], weight: Callable[[Range], int] = lambda _range: 0) -> None:
        """Read all of these. `weight`: bytes that the listener may hold of a range while it is read; a group stays
        below GROUP_BYTES, or is one range. Raises JobError when one cannot be read to its stop, and whatever the guest
        raises.
        """
        for group in groups(ranges, weight):
            self.begin(group)
            while self.is_open:
                count = self._guest.turn()
                if not self.step(count):
                    self.step(1, WAIT_S)

    def begin(self, ranges: Sequence[Range]) -> None:
        """Start on these ranges, for `step`; the earlier ones are done."""
        self._open = {r.partition: r.stop for r in ranges if r.stop > r.start}
        self.held = frozenset()
        self._positions = {r.partition: r.start for r in ranges}
        self._fetching.restart(self._positions)
        for r in ranges:
            self._listener.begin(r)
            if r.partition not in self._open:
                self._listener.finish(r.partition)
        with naming_side(self._place.side):
            self._assign()
        self._silence.broken()

    def _assign(self) -> None:
        read = [p for p in self._open if p not in self.held]
        self._consumer.assign([TopicPartition(self._place.topic, p, self._positions[p]) for p in read])

    def step(self, count: int, wait_s: float = 0.0) -> bool:
        """Take what is there, up to `count` records, or wait for the first one. False when nothing came. Raises
        JobError.
        """
        with naming_side(self._place.side):
            return self._step(count, wait_s)

    def _step(self, count: int, wait_s: float) -> bool:
        asked_s = time.monotonic()
        messages = self._consumer.consume(count, wait_s)
        if messages and self._take(messages):
            self._silence.broken()
            return True
        if self._fetching.moved():
            self._silence.broken()
            self._guest.took_aside(0)
        self._silence.lasts(time.monotonic() - asked_s)
        if self._silence.is_too_long:
            self._give_up()
        if self._silence.wants_probe():
            self._place.asked.check()
        if self._silence.wants_new_client():
            self._consumer.close()
            self._consumer = self._met()
            self._assign()
        return bool(messages)

    def hold(self, partitions: Iterable[int]) -> None:
        """Read no more of exactly these partitions; those held before and not named are read again."""
        wanted = self._open.keys() & partitions
        with naming_side(self._place.side):
            if stopped := wanted - self.held:
                self._consumer.incremental_unassign([TopicPartition(self._place.topic, p) for p in stopped])
            if released := self.held - wanted:
                again = [TopicPartition(self._place.topic, p, self._positions[p]) for p in released]
                self._consumer.incremental_assign(again)
        self.held = frozenset(wanted)

    def close(self) -> None:
        self._consumer.close()

    def _give_up(self) -> None:
        """One that is blocked or lost something says more than one of which the broker only does not give enough."""
        first: JobError | None = None
        for partition, stop in self._open.items():
            if partition in self.held:
                continue
            error = self._place.asked.silence(partition, self._positions[partition], stop)
            if not error.code.endswith("_unavailable"):
                raise error
            first = first or error
        assert first is not None, "it waits for a partition that it reads"
        raise first

    def _take(self, messages: list[Message]) -> bool:
        """True when a position moved."""
        before, self._bytes = sum(self._positions.values()), 0
        records = len(messages)
        if any(map(_error_of, messages)):
            good: list[Message] = []
            for message in messages:
                if message.error() is None:
                    good.append(message)
                    continue
                self._on_runs(good)
                self._on_event(message)
                records, good = records - 1, []
            self._on_runs(good)
        else:
            self._on_runs(messages)
        moved = sum(self._positions.values()) - before
        self._guest.took(records, self._bytes, max(0, moved))
        return moved > 0

    def _on_runs(self, messages: list[Message]) -> None:
        if not messages:
            return
        self._bytes += size_without_headers(messages)
        partitions = list(map(_partition_of, messages))
        if partitions.count(partitions[0]) == len(
            partitions
        ):  # the usual case, because a large partition is read alone
            self._on_records(partitions[0] or 0, messages)
            return
        at = 0
        for partition, group in groupby(partitions):
            stop = at + sum(1 for _ in group)
            self._on_records(partition or 0, messages[at:stop])
            at = stop

    def _on_records(self, partition: int, messages: list[Message]) -> None:
        stop = self._open.get(partition)
        if stop is None or partition in self.held:
            return
        last = messages[-1].offset()
        assert last is not None
        is_through = last >= stop - 1
        if last >= stop:
            messages = [m for m in messages if m.offset() < stop]  # type: ignore[operator]
        if messages:
            self._bytes += self._listener.feed(partition, messages)
        self._advance(partition, last + 1, is_through=is_through)

    def _on_event(self, message: Message) -> None:
        error, partition = message.error(), message.partition()
        assert error is not None
        if partition in self.held:
            return
        if error.code() == errors.END and partition is not None:
            self._advance(partition, message.offset() or 0)
        elif errors.is_damaged(message) and partition is not None and self._ends_before(message, partition):
            self._advance(partition, self._open.get(partition, 0))
        elif error.code() in errors.OUT_OF_RANGE and partition in self._open:
            self._skip_deleted(partition)
        elif (final := errors.unreadable(error, self._place.side, message)) is not None:
            raise final

    def _ends_before(self, damaged: Message, partition: int) -> bool:
        """Whether it is sure that nothing is left to read before the damage."""
        stop, place = self._open.get(partition), self._place
        if stop is None:
            return True
        left = TopicPartition(place.topic, partition, self._positions[partition])
        return is_harmless(damaged, place.client, self._guest.client_id, left, stop)

    def _skip_deleted(self, partition: int) -> None:
        self._place.asked.check()  # a new topic of the same name may be shorter
        start = self._place.asked.log_start(partition)
        if start <= self._positions[partition]:
            where = f"{self._place.topic} partition {partition}"
            raise JobError("data_lost", f"{where} ends before {self._positions[partition]} now: it was cut back.")
        self._listener.deleted(partition, self._positions[partition], start)
        self._advance(partition, start)
        if partition in self._open:
            self._consumer.incremental_unassign([TopicPartition(self._place.topic, partition)])
            self._consumer.incremental_assign([TopicPartition(self._place.topic, partition, start)])

    def _advance(self, partition: int, position: int, *, is_through: bool = False) -> None:
        stop = self._open.get(partition)
        if stop is None:
            return
        self._positions[partition] = max(self._positions[partition], min(position, stop))
        if is_through or position >= stop:
            del self._open[partition]
            self._consumer.incremental_unassign([TopicPartition(self._place.topic, partition)])
            self._listener.finish(partition)
