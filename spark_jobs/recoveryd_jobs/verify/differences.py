"""Two sequences of records, compared one by one: which are missing, extra, altered or in another place. Pure, and
bounded in memory: what is kept of a record is a hash of it, so that its size does not matter.

Where the two differ, a window of both is searched for the nearest place from which they agree again. So differences are
found in one pass over sequences of any length; parts that do not agree again inside the window are called altered,
record by record.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

WINDOW = 500
_OPEN_MAX = 2 * WINDOW
_SURE = 3  # so many records in a row must agree before the sequences count as agreeing again


class ComparedRecord(NamedTuple):
    """Only `content` is compared: a hash of key, value, time and headers."""

    offset: int
    content: bytes
    has_key: bool


@dataclass(slots=True)
class FoundDifference:
    """`source`, `target`: the offset there, None = it is not there. `count`: records in a row (missing and extra).
    `place`: its number in its sequence.
    """

    kind: str  # missing | extra | altered | reordered
    source: int | None
    target: int | None
    count: int = 1
    place: int = 0


class _Side:
    """One sequence, with the next records of it in `ahead`."""

    def __init__(self, records: Iterable[ComparedRecord]) -> None:
        self._records = iter(records)
        self.ahead: deque[ComparedRecord] = deque()
        self.taken = 0

    def fill(self, count: int) -> bool:
        """Read until `count` records are ahead, or the sequence ends; whether any is ahead."""
        if len(self.ahead) < count:
            self.ahead.extend(islice(self._records, count - len(self.ahead)))
        return bool(self.ahead)

    def take(self) -> tuple[int, ComparedRecord]:
        """The next record and its number."""
        self.taken += 1
        return self.taken, self.ahead.popleft()


def differences(
    source: Iterable[ComparedRecord], target: Iterable[ComparedRecord], window: int = WINDOW
) -> Iterator[FoundDifference]:
    """In the order of the sequences, except that a record found in another place is reported at the second of its two
    places.
    """
    return _joined(_moved(_steps(_Side(source), _Side(target), window)))


class Part(NamedTuple):
    """What a sequence has more than a part of it. `is_whole`: all of the part is in it, in this order.
    `keyless_before`: how many of the other records before the first one of the part have no key; `keyless_inside`: how
    many after it.
    """

    is_whole: bool
    more: int
    keyless_before: int
    keyless_inside: int


def is_subsequence(part: Iterable[ComparedRecord], whole: Iterable[ComparedRecord]) -> Part:
    rest = iter(part)
    wanted = next(rest, None)
    more, keyless, is_inside = 0, [0, 0], False
    for record in whole:
        if wanted is not None and record.content == wanted.content:
            wanted, is_inside = next(rest, None), True
        else:
            more += 1
            keyless[is_inside] += not record.has_key
    return Part(wanted is None, more, *keyless)


# (record only in the source, record only in the target); both = one was altered into the other.
_Step = tuple[tuple[int, ComparedRecord] | None, tuple[int, ComparedRecord] | None]


def _steps(source: _Side, target: _Side, window: int) -> Iterator[_Step]:
    while True:
        has_source, has_target = source.fill(1), target.fill(1)
        if not has_source or not has_target:
            break
        if source.ahead[0].content == target.ahead[0].content:
            source.take()
            target.take()
            continue
        source.fill(window)
        target.fill(window)
        left, right = _meeting(source.ahead, target.ahead)
        same = min(left, right)
        for _ in range(same):
            yield source.take(), target.take()
        for _ in range(left - same):
            yield source.take(), None
        for _ in range(right - same):
            yield None, target.take()
    while source.fill(1):
        yield source.take(), None
    while target.fill(1):
        yield None, target.take()


def _meeting(left: deque[ComparedRecord], right: deque[ComparedRecord]) -> tuple[int, int]:
    """How many records of each side come before the nearest place from which both agree; the whole window when there is
    none.
    """
    a, b = [r.content for r in left], [r.content for r in right]
    places: dict[bytes, list[int]] = {}
    for j, content in enumerate(b):
        places.setdefault(content, []).append(j)
    best: tuple[int, int] | None = None
    for i, content in enumerate(a):
        if best is not None and i >= sum(best):
            break
        for j in places.get(content, ()):
            if best is not None and max(i, j) >= max(best) and i + j >= sum(best):
                break
            if a[i : i + _SURE] == b[j : j + _SURE] or min(len(a) - i, len(b) - j) < _SURE:
                if best is None or (max(i, j), i + j) < (max(best), sum(best)):
                    best = i, j
                break
    return best if best is not None else (len(a), len(b))


_Pool = dict[bytes, deque[ComparedRecord]]


def _moved(steps: Iterable[_Step]) -> Iterator[FoundDifference]:
    """Turn missing and extra records of the same content into reordered ones. Remembers only the last records."""
    lost: _Pool = {}
    odd: _Pool = {}
    waiting: deque[_Step] = deque()
    gone: set[int] = set()  # ids of records in `waiting` that were found in another place
    for step in steps:
        source, target = step[0] and step[0][1], step[1] and step[1][1]
        waiting.append(step)
        if source is not None:
            match = _claim(odd, source)
            if match is None:
                lost.setdefault(source.content, deque()).append(source)
            else:
                gone |= {id(match), id(source)}
                yield FoundDifference("reordered", source.offset, match.offset)
        if target is not None:
            match = _claim(lost, target)
            if match is None:
                odd.setdefault(target.content, deque()).append(target)
            else:
                gone |= {id(match), id(target)}
                yield FoundDifference("reordered", match.offset, target.offset)
        while len(waiting) > _OPEN_MAX:
            yield from _told(waiting.popleft(), lost, odd, gone)
    while waiting:
        yield from _told(waiting.popleft(), lost, odd, gone)


def _claim(pool: _Pool, record: ComparedRecord) -> ComparedRecord | None:
    """Take the first one of the same content from the pool, and its queue when it was the last."""
    queue = pool.get(record.content)
    if queue is None:
        return None
    found = queue.popleft()
    if not queue:
        del pool[record.content]
    return found


def _told(step: _Step, lost: _Pool, odd: _Pool, gone: set[int]) -> Iterator[FoundDifference]:
    source, target = _left(step[0], lost, gone), _left(step[1], odd, gone)
    if source is not None and target is not None:
        yield FoundDifference("altered", source[1].offset, target[1].offset, place=source[0])
    elif source is not None:
        yield FoundDifference("missing", source[1].offset, None, place=source[0])
    elif target is not None:
        yield FoundDifference("extra", None, target[1].offset, place=target[0])


def _left(item: tuple[int, ComparedRecord] | None, pool: _Pool, gone: set[int]) -> tuple[int, ComparedRecord] | None:
    """The record, unless it was found in another place; it is forgotten then."""
    if item is None:
        return None
    record = item[1]
    if id(record) in gone:
        gone.discard(id(record))
        return None
    _claim(pool, record)
    return item


def _joined(found: Iterable[FoundDifference]) -> Iterator[FoundDifference]:
    """Join missing or extra records in a row into one difference."""
    last: FoundDifference | None = None
    for item in found:
        if (
            last is not None
            and item.kind in {"missing", "extra"}
            and (last.kind, last.place + last.count) == (item.kind, item.place)
        ):
            last.count += 1
            continue
        if last is not None:
            yield last
        last = item
    if last is not None:
        yield last
