"""Which records of the source are wanted, what they look like in the target, and which partition they go to. Pure.

Lanes and proof share this one definition, so that both mean the same by a recovery's time bounds, partition mapping and
header rules. Records come as columns, because a loop in C over a column costs a tenth of one Python statement per
record.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

from confluent_kafka import Message

from recoveryd_jobs.contract import SourceSpec, TargetSpec
from recoveryd_jobs.digest import Headers
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.murmur2 import KeyPartitioner

_key_of, _value_of, _time_of, _headers_of, _offset_of = (
    Message.key, Message.value, Message.timestamp, Message.headers, Message.offset,
)  # fmt: skip
_LOW, _HIGH = -(2**63), 2**63
NO_TIME = -1
_FEW = 3  # target partitions


class Columns(NamedTuple):
    """Records as columns of equal length; `headers` None = no record has any. `header_bytes`: of all headers that were
    read for them, dropped ones too.
    """

    offsets: list[Any]
    keys: list[Any]
    values: list[Any]
    times: list[int]
    headers: list[Headers] | None
    header_bytes: int = 0

    def only(self, chosen: Sequence[bool]) -> "Columns":
        headers = None if self.headers is None else list(compress(self.headers, chosen))
        keys, values = list(compress(self.keys, chosen)), list(compress(self.values, chosen))
        return Columns(list(compress(self.offsets, chosen)), keys, values, list(compress(self.times, chosen)), headers)

    def after(self, count: int) -> "Columns":
        """Without the first `count` records."""
        return self._between(count, None)

    def split(self, to: Sequence[int]) -> Iterator[tuple[int, "Columns"]]:
        """By target partition, of which `to` names one for each record: in their order, and the records of each in
        theirs. Sorted once where targets are many; a look at all of them for each target is quicker for a few.
        """
        targets = sorted(set(to))
        if len(targets) == 1:
            yield targets[0], self
            return
        if len(targets) <= _FEW:
            yield from ((target, self.only([t == target for t in to])) for target in targets)
            return
        pick = itemgetter(*sorted(range(len(to)), key=to.__getitem__))
        headers = None if self.headers is None else list(pick(self.headers))
        keys, values = list(pick(self.keys)), list(pick(self.values))
        by_target = Columns(list(pick(self.offsets)), keys, values, list(pick(self.times)), headers)
        at, places = 0, pick(to)
        for target in targets:
            stop = bisect_right(places, target, at)
            yield target, by_target._between(at, stop)
            at = stop

    def _between(self, first: int, stop: int | None) -> "Columns":
        part = slice(first, stop)
        headers = None if self.headers is None else self.headers[part]
        return Columns(self.offsets[part], self.keys[part], self.values[part], self.times[part], headers)


class Selection:
    """Time bounds, mapping and header rules of a copy. `is_stamped`: the target replaces times, so they cannot be
    compared and count as 0.
    """

    def __init__(self, source: SourceSpec, target: TargetSpec, *, is_stamped: bool) -> None:
        low, high = source.from_time_ms, source.to_time_ms
        is_bounded = low is not None or high is not None
        self.window = (_LOW if low is None else low, _HIGH if high is None else high) if is_bounded else None
        self.partitioner = KeyPartitioner(target.partitions) if target.mapping == "key_hash" else None
        self._drop = frozenset(target.headers_drop)
        self._add: list[tuple[str, bytes | None]] = [(name, text.encode()) for name, text in target.headers_add]
        self._is_stamped = is_stamped

    @property
    def is_spread(self) -> bool:
        """Whether records of one source partition go to several target partitions."""
        return self.partitioner is not None

    def within(self, times_ms: Sequence[int]) -> list[bool] | None:
        """Which of these times are inside the bounds; None = all."""
        if self.window is None:
            return None
        low, high = self.window
        chosen = [low <= t < high for t in times_ms]
        return None if all(chosen) else chosen

    def untimed(self, messages: list[Message]) -> int:
        """How many have no time of their own, and so are left out of a time window that has a beginning."""
        if self.window is None or self.window[0] <= NO_TIME:
            return 0
        return [t for _, t in map(_time_of, messages)].count(NO_TIME)

    def inside(self, messages: list[Message]) -> list[Message]:
        """The messages whose time is inside the bounds."""
        chosen = None if self.window is None else self.within([t for _, t in map(_time_of, messages)])
        return messages if chosen is None else list(compress(messages, chosen))

    def headers(self, column: list[Headers]) -> list[Headers] | None:
        """The headers that the target gets; None = no record has any."""
        if self._add or self._drop:
            column = [[h for h in row or () if h[0] not in self._drop] + self._add or None for row in column]
        return column if any(column) else None

    def times(self, times_ms: list[int]) -> list[int]:
        """The times as they can be compared."""
        return [0] * len(times_ms) if self._is_stamped else times_ms

    def targets(self, partition: int, keys: Sequence[bytes | None], offsets: Sequence[int]) -> list[int] | None:
        """Target partition of each record of a source partition; None = all go to the partition of the same number."""
        if self.partitioner is None:
            return None
        of_key, of_null = self.partitioner.of_key, self.partitioner.of_null
        return [of_key(k) if k is not None else of_null(partition, at) for k, at in zip(keys, offsets, strict=True)]

    def expected(self, messages: list[Message]) -> Columns:
        """Records read from the source, as they must be in the target."""
        seen = self.seen(self.inside(messages))
        if (self._add or self._drop) and seen.offsets:
            seen = seen._replace(headers=self.headers(seen.headers or [None] * len(seen.offsets)))
        return seen

    def seen(self, messages: list[Message]) -> Columns:
        """Records read from the target, as they are compared."""
        headers = headers_of(messages)
        is_headed = any(headers)
        times = [0] * len(messages) if self._is_stamped else [t for _, t in map(_time_of, messages)]
        return Columns(
            list(map(_offset_of, messages)),
            list(map(_key_of, messages)),
            list(map(_value_of, messages)),
            times,
            headers if is_headed else None,
            header_size(headers) if is_headed else 0,
        )


def size_without_headers(messages: Sequence[Message]) -> int:
    """Bytes of keys and values."""
    keys: list[Any] = list(map(_key_of, messages))
    try:
        return sum(map(len, messages)) + sum(map(len, keys))
    except TypeError:  # a null key
        return sum(map(len, messages)) + sum(len(key) for key in keys if key is not None)


def header_size(column: Sequence[Headers]) -> int:
    """Bytes of names and values. Nearly all names are ASCII, and then have as many bytes as characters."""
    return sum(
        (len(name) if name.isascii() else len(name.encode("utf-8", "surrogateescape"))) + len(value or b"")
        for row in column if row for name, value in row
    )  # fmt: skip


def headers_of(messages: Sequence[Message]) -> list[Any]:
    """The column of headers. Raises `JobError` for a record with a header name that is not UTF-8: the client library
    cannot return it.
    """
    column, refused = headers_before(messages)
    if refused is not None:
        raise refused
    return column


def headers_before(messages: Sequence[Message]) -> tuple[list[Any], JobError | None]:
    """The column of headers up to a record with a header name that is not UTF-8, and why it ends there.

    Ask such a record for its headers only once, and through `map`: a second time, or in a call that Python has
    specialised, the library crashes the process.
    """
    column: list[Any] = []
    try:
        column.extend(map(_headers_of, messages))
    except SystemError as error:
        if not isinstance(error.__cause__, UnicodeDecodeError):
            raise
        odd = messages[len(column)]
        return column, JobError(
            "record_refused",
            f"Record {odd.offset()} of partition {odd.partition()} of {odd.topic()} has a header with a name that is "
            "not UTF-8, which the Kafka client cannot read.",
        )
    return column, None
