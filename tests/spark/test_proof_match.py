"""Both sides of a pair are compared as they arrive, in pieces of any size: equal segments leave nothing in memory, the
others are reported.
"""

from hypothesis import example, given
from hypothesis import strategies as st

from recoveryd_jobs.selection import Columns
from recoveryd_jobs.verify.match import SOURCE, TARGET, PairMatch

Stored = dict[int, list[bytes | None]]  # start of a segment: values

segments = st.dictionaries(st.integers(0, 3), st.lists(st.sampled_from([b"a", b"b", None]), min_size=1, max_size=6))
steps = st.lists(st.tuples(st.sampled_from([SOURCE, TARGET]), st.integers(1, 4)), max_size=40)
ALL_OF_TARGET = [(TARGET, 9)] * 10


def columns(values: list[bytes | None]) -> Columns:
    return Columns([0] * len(values), [b"k"] * len(values), values, [0] * len(values), None)


class Fed:
    """One side, which gets some records at a time."""

    def __init__(self, match: PairMatch, side: int, stored: Stored) -> None:
        self._match, self._side = match, side
        self._left = [(start, list(values)) for start, values in sorted(stored.items())]
        self.is_over = False

    def feed(self, count: int) -> None:
        if self.is_over:
            return
        if not self._left:
            self._match.finish(self._side)
            self.is_over = True
            return
        start, values = self._left[0]
        if values:
            self._match.feed(self._side, start, columns(values[:count]))
            del values[:count]
        else:
            self._match.close(self._side, start, b"%d" % start)
            del self._left[0]


def told(
    source: Stored, target: Stored, order: list[tuple[int, int]], *, compacted: bool = False
) -> tuple[set[tuple[int, bytes]], set[int], list[int]]:
    """(rows that were reported, segments that were denied, rows that still wait)"""
    rows: list[tuple[int, bytes]] = []
    denied: list[int] = []
    lead = [0, 0]
    match = PairMatch(lambda side, row: rows.append((side, row)), lead, denied.append, compacted=compacted)
    fed = [Fed(match, SOURCE, source), Fed(match, TARGET, target)]
    for side, count in order:
        fed[side].feed(count)
    while not all(f.is_over for f in fed):
        for f in fed:
            f.feed(2)
    assert len(rows) == len(set(rows))
    assert len(denied) == len(set(denied))
    return set(rows), set(denied), lead


def differing(source: Stored, target: Stored) -> set[tuple[int, bytes]]:
    return {
        (side, b"%d" % start)
        for side, mine in ((SOURCE, source), (TARGET, target))
        for start in mine
        if source.get(start) != target.get(start)
    }


def is_part(some: list[bytes | None], whole: list[bytes | None]) -> bool:
    rest = iter(whole)
    return all(any(value == other for other in rest) for value in some)


@given(segments, segments, steps)
@example({0: [b"a"], 1: [b"b"]}, {1: [b"b"]}, ALL_OF_TARGET)
@example({1: [b"b"]}, {0: [b"a"], 1: [b"b"]}, ALL_OF_TARGET)
@example({0: [b"a"], 1: [b"b"]}, {1: [b"b"]}, [])
@example({1: [b"b"]}, {0: [b"a"], 1: [b"b"]}, [])
def test_exactly_the_segments_that_differ_are_told_however_the_records_come(
    source: Stored, target: Stored, order: list[tuple[int, int]]
) -> None:
    denied = {start for start in source if source[start] != target.get(start)}
    rows, known, lead = told(source, target, order)
    assert (rows, lead) == (differing(source, target), [0, 0])
    assert denied <= known <= denied | (target.keys() - source.keys())


@given(segments, segments, steps)
@example({0: [b"a"]}, {0: [b"b"]}, [(SOURCE, 1), (TARGET, 9)])
def test_of_a_compacted_source_only_what_is_no_part_of_the_copy_is_denied(
    source: Stored, target: Stored, order: list[tuple[int, int]]
) -> None:
    denied = {start for start in source if not is_part(source[start], target.get(start, []))}
    assert told(source, target, order, compacted=True) == (differing(source, target), denied, [0, 0])


def test_compaction_explains_no_record_without_a_key() -> None:
    for keys, wanted in (([b"k", b"k"], []), ([None, b"k"], [0])):
        denied: list[int] = []
        match = PairMatch(lambda _side, _row: None, [0, 0], denied.append, compacted=True)
        for side, seen in ((SOURCE, columns([b"b"])), (TARGET, columns([b"a", b"b"])._replace(keys=keys))):
            match.feed(side, 0, seen)
            match.close(side, 0, b"")
            match.finish(side)
        assert denied == wanted


@given(segments, steps)
def test_a_copy_is_like_its_source(stored: Stored, order: list[tuple[int, int]]) -> None:
    assert told(stored, stored, order) == (set(), set(), [0, 0])


def test_each_column_counts() -> None:
    good = Columns([0], [b"k"], [b"v"], [5], [[("h", None)]])
    for other in (
        good._replace(keys=[None]),
        good._replace(values=[b""]),
        good._replace(times=[6]),
        good._replace(headers=[[("h", b"")]]),
        good._replace(headers=None),
    ):
        rows: list[int] = []
        match = PairMatch(lambda side, _, rows=rows: rows.append(side), [0, 0], lambda _start: None)
        for side, seen in ((SOURCE, good), (TARGET, other)):
            match.feed(side, 0, seen)
            match.close(side, 0, b"")
            match.finish(side)
        assert sorted(rows) == [SOURCE, TARGET]


def test_no_headers_are_no_headers_in_any_form() -> None:
    rows: list[int] = []
    match = PairMatch(lambda side, _: rows.append(side), [0, 0], lambda _start: None)
    for side, headers in ((SOURCE, None), (TARGET, [[], None])):
        match.feed(side, 0, columns([b"a", b"b"])._replace(headers=headers))
        match.close(side, 0, b"")
        match.finish(side)
    assert rows == []


def test_all_that_waits_for_the_other_side_counts() -> None:
    lead = [0, 0]
    match = PairMatch(lambda _side, _row: None, lead, lambda _start: None)
    headers = [[("h", bytes(100_000))]] * 3
    match.feed(SOURCE, 0, Columns([0, 1, 2], [b"k" * 500] * 3, [None] * 3, [1] * 3, headers, 3 * 100_001))
    assert 3 * 100_500 < lead[SOURCE] < 3 * 102_000
    match.feed(TARGET, 0, Columns([0, 1, 2], [b"k" * 500] * 3, [None] * 3, [1] * 3, headers, 3 * 100_001))
    assert lead == [0, 0]
