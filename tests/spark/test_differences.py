"""Two sequences compared one by one: for any change of the second, applying the found differences to the first gives
the second, and no more is found than was changed.
"""

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd_jobs.selection import Columns
from recoveryd_jobs.verify.closer_look import compared, sentence
from recoveryd_jobs.verify.differences import ComparedRecord, differences, is_subsequence


def records(contents: list[int]) -> list[ComparedRecord]:
    return [ComparedRecord(100 + at, b"%d" % content, has_key=True) for at, content in enumerate(contents)]


def found(source: list[int], target: list[int], window: int = 50) -> list[tuple[str, int | None, int | None, int]]:
    left, right = records(source), [r._replace(offset=r.offset + 900) for r in records(target)]
    return [(f.kind, f.source, f.target, f.count) for f in differences(left, right, window)]


BASE = list(range(20))


def test_equal_sequences_do_not_differ() -> None:
    assert found(BASE, BASE) == found([], []) == []


def test_each_kind_is_named_by_its_place() -> None:
    assert found(BASE, BASE[:5] + BASE[6:]) == [("missing", 105, None, 1)]
    assert found(BASE, [*BASE[:5], 99, 99, *BASE[5:]]) == [("extra", None, 1005, 2)]
    assert found(BASE, [*BASE[:5], 99, *BASE[6:]]) == [("altered", 105, 1005, 1)]
    assert found(BASE, [*BASE[:5], 6, 5, *BASE[7:]]) == [("reordered", 106, 1005, 1), ("reordered", 105, 1006, 1)]
    assert found(BASE, BASE + BASE[:3]) == [("extra", None, 1020, 3)]
    assert found(BASE, []) == [("missing", 100, None, 20)]


def test_two_gaps_are_two_differences() -> None:
    assert found(BASE, [*BASE[:3], *BASE[5:10], *BASE[11:]]) == [("missing", 103, None, 2), ("missing", 110, None, 1)]


def test_a_record_moved_far_away_is_reordered_and_the_rest_is_not() -> None:
    assert found(BASE, [*BASE[1:15], 0, *BASE[15:]]) == [("reordered", 100, 1014, 1)]


_contents = st.lists(st.integers(0, 6), max_size=30)


@settings(max_examples=300, deadline=None)
@given(_contents, _contents, st.integers(1, 8))
def test_what_is_found_explains_every_record_that_differs(source: list[int], target: list[int], window: int) -> None:
    items = found(source, target, window)
    assert (items == []) == (source == target)
    left, right = Counter(source), Counter(target)
    gone, new = Counter[int](), Counter[int]()
    for kind, at, to, count in items:
        if kind in {"missing", "altered"}:
            assert at is not None
            gone.update(source[at - 100 : at - 100 + count])
        if kind in {"extra", "altered"}:
            assert to is not None
            new.update(target[to - 1000 : to - 1000 + count])
        if kind == "reordered":
            assert at is not None
            assert to is not None
            assert source[at - 100] == target[to - 1000]
    assert left - gone + new == right
    assert not gone - left


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=10, max_size=60, unique=True), st.data())
def test_one_change_to_distinct_records_is_one_difference(source: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(source) - 1))
    assert found(source, source[:at] + source[at + 1 :]) == [("missing", 100 + at, None, 1)]
    assert found(source, [*source[:at], 2000, *source[at:]]) == [("extra", None, 1000 + at, 1)]
    assert found(source, [*source[:at], 2000, *source[at + 1 :]]) == [("altered", 100 + at, 1000 + at, 1)]


@settings(max_examples=200, deadline=None)
@given(_contents, st.data())
def test_a_part_in_order_is_told_from_any_other_sequence(whole: list[int], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
    part = [content for content, keep in zip(whole, kept, strict=True) if keep]
    assert is_subsequence(records(part), records(whole))[:2] == (True, len(whole) - len(part))
    assert not is_subsequence(records([*part, 7]), records(whole))[0]


LARGE = 200_000
_COUNT = 2_000


def large(changed: int) -> Iterator[ComparedRecord]:
    """Records of LARGE bytes, each made when it is asked for; the one of this number is another one."""
    for at in range(_COUNT):
        value = at.to_bytes(4, "big") + bytes([at == changed]) * LARGE
        yield from compared(Columns([at], [b"k"], [value], [0], None))


def test_a_difference_between_large_records_is_found_in_little_memory() -> None:
    tracemalloc.start()
    try:
        items = [(f.kind, f.source, f.target, f.count) for f in differences(large(-1), large(700))]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert items == [("altered", 700, 700, 1)]
    assert peak < 10 * LARGE


def peak_of_swapped(count: int) -> int:
    """Bytes held at most while so many records are compared, of which the target has each two in the other order."""

    def turned(by: int) -> Iterator[ComparedRecord]:
        return (ComparedRecord(at, b"%d" % (at ^ by), has_key=True) for at in range(count))

    tracemalloc.start()
    try:
        assert sum(f.kind == "reordered" for f in differences(turned(0), turned(1))) > 0.9 * count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_records_in_another_place() -> None:
    few, many = peak_of_swapped(4_000), peak_of_swapped(12_000)
    assert many <= 1.2 * few


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (([b""], [b"v"], [0], None), ([None], [b"v"], [0], None)),
        (([b"k"], [b""], [0], None), ([b"k"], [None], [0], None)),
        (([b"k"], [b"v"], [0], None), ([b"kv"], [b""], [0], None)),
        (([b"k"], [b"v"], [0], None), ([b"k"], [b"v"], [1], None)),
        (([b"k"], [b"v"], [0], [[("h", b"")]]), ([b"k"], [b"v"], [0], [[("h", None)]])),
        (([b"k"], [b"v"], [0], [[("a", b""), ("b", b"")]]), ([b"k"], [b"v"], [0], [[("b", b""), ("a", b"")]])),
    ],
)
def test_records_that_differ_in_anything_are_not_taken_for_each_other(
    one: tuple[Any, ...], other: tuple[Any, ...]
) -> None:
    assert [f.kind for f in differences(compared(Columns([0], *one)), compared(Columns([0], *other)))] == ["altered"]


def test_no_headers_and_an_empty_list_of_them_are_the_same() -> None:
    bare, empty = Columns([0], [b"k"], [b"v"], [0], None), Columns([0], [b"k"], [b"v"], [0], [[]])
    assert list(differences(compared(bare), compared(empty))) == []


def test_a_difference_of_one_record_is_told_in_the_singular() -> None:
    assert sentence("extra", 1) == "1 record of the target is not in the source."
    assert sentence("missing", 3) == "3 records of the source are not in the target."
