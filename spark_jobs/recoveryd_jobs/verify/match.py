"""Compares both sides of a pair of partitions while they are read: column against column, segment by segment. Pure.

Comparing lists costs a tenth of a hash. What one side has read and the other has not yet waits here; `lead` counts its
bytes, so that the reading side can wait for the other one. Segments that are alike leave nothing behind; of the others,
the rows of both sides are told. What proves a copy wrong is told at once: it may be deleted before anybody looks again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from recoveryd_jobs.digest import Headers
from recoveryd_jobs.selection import Columns

SOURCE, TARGET = 0, 1
_ITEM_BYTES = 1000  # what an item costs besides its records
_RECORD_BYTES = 200  # what a record costs besides its key, value and headers, as Python objects
_HEADER_BYTES = 200  # what a header costs besides its name and value


class _Waiting:
    """Records of the segment that begins at `start`; or, with `columns` None, the end of that segment, and `row` sums
    up what the side saw of it.
    """

    __slots__ = ("at", "columns", "count", "row", "size", "start")

    def __init__(self, start: int, columns: Columns | None, row: bytes) -> None:
        self.start, self.columns, self.row = start, columns, row
        self.at, self.count = 0, 0 if columns is None else len(columns.offsets)
        self.size = _ITEM_BYTES + (0 if columns is None else _held(columns))


class PairMatch:
    """A source partition and the one target partition that it is copied to. Each side's segments come in order;
    segments that do not come in the same order on both sides count as different.

    `tell` gets (side, row) for each segment that differs, `deny` the start of each segment of which something was seen
    that no later loss in the source explains. `compacted`: records may have disappeared from the middle of the source
    since they were copied. `lead` is shared by all pairs of a task.
    """

    def __init__(
        self,
        tell: Callable[[int, bytes], None],
        lead: list[int],
        deny: Callable[[int], None],
        *,
        compacted: bool = False,
    ) -> None:
        self._tell, self._lead, self._deny, self._compacted = tell, lead, deny, compacted
        self._waiting: deque[_Waiting] = deque()
        self._ahead = SOURCE
        self._over = [False, False]
        self._unlike: set[int] = set()  # starts of segments known to differ that are not closed on both sides yet
        self._denied = -1  # the last segment that was told so

    def is_ahead(self, side: int) -> bool:
        """Whether records of this side wait for the other one."""
        return bool(self._waiting) and self._ahead == side

    def feed(self, side: int, start: int, columns: Columns) -> None:
        """Take the next records that this side has of a segment."""
        self._take(side, _Waiting(start, columns, b""))

    def close(self, side: int, start: int, row: bytes) -> None:
        """Side `side` has no more records of the segment."""
        self._take(side, _Waiting(start, None, row))

    def finish(self, side: int) -> None:
        """Side `side` has no more segments."""
        self._over[side] = True
        if self._over[1 - side] or self._ahead != side:
            while self._waiting:
                self._alone(self._ahead, self._next())

    def _take(self, side: int, item: _Waiting) -> None:
        while self._waiting and self._ahead != side:
            other = self._waiting[0]
            if other.start < item.start:
                self._alone(1 - side, self._next())
            elif item.start < other.start:
                self._alone(side, item)
                return
            elif self._is_used_up(side, item, other):
                return
        if self._over[1 - side]:
            self._alone(side, item)
            return
        self._ahead = side
        self._waiting.append(item)
        self._lead[side] += item.size

    def _is_used_up(self, side: int, item: _Waiting, other: _Waiting) -> bool:
        """Compare the two as far as both go; whether nothing is left of `item`."""
        if item.columns is None and other.columns is None:
            self._next()
            if item.start in self._unlike:
                self._alone(side, item)
                self._tell(1 - side, other.row)
            return True
        if item.columns is None:
            self._left_over(1 - side, self._next())
            return False
        if other.columns is None:
            self._left_over(side, item)
            return True
        if side == SOURCE:
            self._compare(item, item.columns, other, other.columns)
        else:
            self._compare(other, other.columns, item, item.columns)
        if other.at == other.count:
            self._next()
        return item.at == item.count

    def _compare(self, source: _Waiting, here: Columns, target: _Waiting, there: Columns) -> None:
        """As far as both go."""
        count = min(source.count - source.at, target.count - target.at)
        is_known = source.start in self._unlike and not self._compacted
        if is_known or _alike(here, source.at, there, target.at, count):
            source.at += count
            target.at += count
            return
        self._unlike.add(source.start)
        if not self._compacted:
            self._denies(source.start)
            source.at += count
            target.at += count
            return
        while source.at < source.count and target.at < target.count:
            if _alike(here, source.at, there, target.at, 1):
                source.at += 1
            elif there.keys[target.at] is None:
                self._denies(source.start)
            target.at += 1

    def _left_over(self, side: int, item: _Waiting) -> None:
        """The other side has no more records of the segment, and this one has."""
        self._unlike.add(item.start)
        keys = [] if item.columns is None else item.columns.keys[item.at :]
        if side == SOURCE or not self._compacted or None in keys:
            self._denies(item.start)

    def _denies(self, start: int) -> None:
        if start != self._denied:
            self._denied = start
            self._deny(start)

    def _alone(self, side: int, item: _Waiting) -> None:
        """The other side has nothing to compare with `item`: at the end of a segment, tell this side's row."""
        if item.columns is None:
            self._unlike.discard(item.start)
            self._tell(side, item.row)
        elif side == SOURCE:
            self._denies(item.start)

    def _next(self) -> _Waiting:
        item = self._waiting.popleft()
        self._lead[self._ahead] -= item.size
        return item


class Matches:
    """The pairs that a task compares as it reads; `tell` gets (pair, side, row), `deny` (pair, start of a segment).
    `lead`: bytes of each side that wait for the other.
    """

    def __init__(
        self,
        tell: Callable[[tuple[int, int], int, bytes], None],
        deny: Callable[[tuple[int, int], int], None],
        *,
        compacted: bool,
    ) -> None:
        self._tell, self._deny, self._compacted = tell, deny, compacted
        self._pairs: dict[int, PairMatch] = {}
        self.lead = [0, 0]

    def begin(self, partitions: Iterable[int]) -> None:
        """These partitions come next, on both sides; the earlier ones are done."""
        self._pairs = {p: self._pair((p, p)) for p in partitions}

    def _pair(self, pair: tuple[int, int]) -> PairMatch:
        return PairMatch(partial(self._tell, pair), self.lead, partial(self._deny, pair), compacted=self._compacted)

    def of(self, source: int, target: int) -> PairMatch | None:
        """None for a pair that is not compared while it is read."""
        return self._pairs.get(source) if source == target else None

    def ahead(self, side: int) -> frozenset[int]:
        """Partitions of which records of this side wait for the other one."""
        return frozenset(p for p, match in self._pairs.items() if match.is_ahead(side))


def _alike(a: Columns, i: int, b: Columns, j: int, count: int) -> bool:
    m, n = i + count, j + count
    return (
        a.keys[i:m] == b.keys[j:n]
        and a.values[i:m] == b.values[j:n]
        and a.times[i:m] == b.times[j:n]
        and _headers(a.headers, i, m) == _headers(b.headers, j, n)
    )


def _headers(column: list[Headers] | None, start: int, stop: int) -> list[Any] | None:
    """None when no record has any; a record with an empty list has none."""
    if column is None:
        return None
    some = column[start:stop]
    return [row or None for row in some] if any(some) else None


def _held(columns: Columns) -> int:
    """About as many bytes as they take up in memory."""
    headers = 0 if columns.headers is None else sum(map(len, filter(None, columns.headers)))
    records = len(columns.offsets) * _RECORD_BYTES + _bytes(columns.keys) + _bytes(columns.values)
    return records + headers * _HEADER_BYTES + columns.header_bytes


def _bytes(values: list[Any]) -> int:
    try:
        return sum(map(len, values))
    except TypeError:  # a null
        return sum(len(value) for value in values if value is not None)
