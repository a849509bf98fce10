"""The digest detects every change that the guarantees name, and does not depend on how records arrive."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoveryd_jobs.digest import BLOCK, SequenceDigest

Record = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]] | None]

RECORDS: list[Record] = [
    (b"k1", b"v1", 1000, None),
    (None, b"v2", 1001, [("h", b"\x00"), ("h", None), ("i", b"")]),
    (b"", None, 1002, None),
    (b"k4", b"", -1, [("h", b"x")]),
]


def digest(records: list[Record], recovery: str = "r", partition: int = 0, step: int = 1) -> str:
    made = SequenceDigest(recovery, partition)
    for at in range(0, len(records), step):
        made.extend(*(list(column) for column in zip(*records[at : at + step], strict=True)))
    return made.hex()


def changed(number: int, field: int, value: Any) -> list[Record]:
    records = [list(r) for r in RECORDS]
    records[number][field] = value
    return [tuple(r) for r in records]  # type: ignore[misc]


DAMAGE: dict[str, Callable[[], list[Record]]] = {
    "one dropped": lambda: RECORDS[:2] + RECORDS[3:],
    "the last dropped": lambda: RECORDS[:3],
    "one doubled": lambda: RECORDS[:2] + RECORDS[1:],
    "two swapped": lambda: [RECORDS[1], RECORDS[0], *RECORDS[2:]],
    "a header bit flipped": lambda: changed(1, 3, [("h", b"\x01"), ("h", None), ("i", b"")]),
    "headers in another order": lambda: changed(1, 3, [("h", None), ("h", b"\x00"), ("i", b"")]),
    "a null header made empty": lambda: changed(1, 3, [("h", b"\x00"), ("h", b""), ("i", b"")]),
    "a header moved to the next record": lambda: [*changed(3, 3, None)[:2], (b"", None, 1002, [("h", b"x")]), (b"k4", b"", -1, None)],
    "a time shifted by 1 ms": lambda: changed(0, 2, 1001),
    "a null value made empty": lambda: changed(2, 1, b""),
    "an empty value made null": lambda: changed(3, 1, None),
    "a null key made empty": lambda: changed(1, 0, b""),
    "a byte moved from key to value": lambda: changed(0, 0, b"k") and [(b"k", b"1v1", 1000, None), *RECORDS[1:]],
    "a byte moved to the next value": lambda: [(b"k1", b"v", 1000, None), (None, b"1v2", *RECORDS[1][2:]), *RECORDS[2:]],
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_any_damage_changes_the_digest(damage: str) -> None:
    assert digest(RECORDS) != digest(DAMAGE[damage]())


def test_recovery_and_partition_are_part_of_it() -> None:
    made = {digest(RECORDS), digest(RECORDS, recovery="s"), digest(RECORDS, partition=1)}
    assert len(made) == 3


def test_an_empty_sequence_has_a_digest_of_its_own() -> None:
    assert digest([]) != digest([(None, None, 0, None)])


@pytest.mark.parametrize("step", [1, 7, 1000, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_it_does_not_matter_in_which_portions_records_come(step: int) -> None:
    records = [(f"k{i}".encode(), None if i % 5 == 0 else b"v" * (i % 50), i, None) for i in range(2 * BLOCK + 123)]
    assert digest(records, step=len(records)) == digest(records, step=step)  # type: ignore[arg-type]


_bytes = st.none() | st.binary(max_size=4)
_headers = st.none() | st.lists(st.tuples(st.text(max_size=2), _bytes), min_size=1, max_size=2)
_record = st.tuples(_bytes, _bytes, st.integers(-(2**63), 2**63 - 1), _headers)


@given(st.lists(_record, max_size=5), st.lists(_record, max_size=5))
def test_equal_digests_mean_equal_records(one: list[Record], other: list[Record]) -> None:
    assert (digest(one) == digest(other)) == (one == other)


def test_a_digest_that_is_settled_at_its_end_is_the_same() -> None:
    made = SequenceDigest("r", 0)
    made.extend(*(list(column) for column in zip(*RECORDS, strict=True)))
    made.settle()
    assert made.hex() == digest(RECORDS)
