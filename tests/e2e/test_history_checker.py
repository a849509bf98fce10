"""Tests of the checker itself: a correct copy has no violation, and each kind of damage gives violations of exactly the
invariant that it breaks.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.builders.history import Chunk, Damage, Draft, HandMade, Said, create_topics, produce, transactional
from tests.e2e.history import INVARIANTS, check_copy
from tests.e2e.log_reader import Record, await_markers, read_log
from tests.e2e.murmur2 import murmur2, partition_of
from tests.e2e.observer import TargetObserver

pytestmark = pytest.mark.broker

BASE_MS = 1_700_000_000_000
RANGES = {0: (2, 20), 1: (0, 10)}
NASTY = (("h", b"1"), ("h", None), ("g", b""), ("h", b"1"))


def draft(partition: int, number: int) -> Draft:
    """Unique content; each fifth record a tombstone, each seventh with a null key, each third with an empty value or
    many headers.
    """
    key = None if number % 7 == 6 else f"k{partition}-{number}".encode()
    value: bytes | None = f'{{"n":{number},"p":{partition}}}'.encode()
    if number % 5 == 4 and key is not None:
        value = None
    elif number % 6 == 5 and key is not None:
        value = b""
    return Draft(
        partition, key, value, NASTY if number % 3 == 0 else (), BASE_MS + 1000 * partition + (number * 37) % 50
    )


@dataclass(frozen=True)
class Source:
    bootstrap: str
    topic: str
    receipts: str
    visible: dict[int, list[Record]]


@pytest.fixture(scope="module")
def source(bootstrap: str) -> Source:
    """Partition 0: 0-11, marker 12, aborted 13-15 and marker 16, 17-24, marker 25. Partition 1: 0-11, marker."""
    name = f"hc{uuid.uuid4().hex[:8]}"
    create_topics(bootstrap, {name: 2, f"{name}-receipts": 2})
    producer = transactional(bootstrap, name)
    for numbers, partitions, ends_well in (
        (range(12), (0, 1), True),
        (range(100, 103), (0,), False),
        (range(12, 20), (0,), True),
    ):
        producer.begin_transaction()
        for partition in partitions:
            for number in numbers:
                produce(producer, name, draft(partition, number))
        producer.flush(60)
        producer.commit_transaction(60) if ends_well else producer.abort_transaction(60)
    visible = read_log(bootstrap, name)
    assert [r.offset for r in visible[0]] == [*range(12), *range(17, 25)]
    return Source(bootstrap, name, f"{name}-receipts", visible)


Judge = Callable[..., set[str]]


@pytest.fixture
def judge(source: Source, unique: str) -> Judge:
    """Makes a copy with some damage and returns the names of the invariants that the checker finds broken."""

    def run(damage: Damage | None = None, made: dict[str, Any] | None = None, **asked: Any) -> set[str]:
        hand = HandMade(
            source.bootstrap, source.topic, f"{unique}target", source.receipts, f"{unique}r", **(made or {})
        )
        hand.create()
        hand.copy(source.visible, RANGES, damage or Damage())
        found = check_copy(source.bootstrap, source.topic, hand.target, source.receipts, hand.recovery, RANGES, **asked)
        print(*found, sep="\n")
        return {violation.invariant for violation in found}

    return run


def completeness(**changes: int) -> dict[str, Any]:
    """A correct status record of the copy, except for `changes` of partition 0."""
    first = {
        "partition": 0,
        "from": 2,
        "to": 20,
        "offsets": 18,
        "copied": 13,
        "filtered": 0,
        "skipped": 5,
        "lost": 0,
        "unexplained": 0,
    }
    second = {
        "partition": 1,
        "from": 0,
        "to": 10,
        "offsets": 10,
        "copied": 10,
        "filtered": 0,
        "skipped": 0,
        "lost": 0,
        "unexplained": 0,
    }
    return {"completeness": [{**first, **changes}, second]}


def test_a_perfect_copy_breaks_nothing(judge: Judge) -> None:
    assert judge(status=completeness()) == set()


def test_a_perfect_copy_by_key_hash_breaks_nothing(judge: Judge) -> None:
    assert judge(made={"mapping": "key_hash", "target_partitions": 3}, mapping="key_hash") == set()


def test_a_perfect_copy_with_header_changes_breaks_nothing(judge: Judge) -> None:
    def image(d: Draft) -> Draft:
        return replace(d, headers=(*(h for h in d.headers if h[0] != "g"), ("by", b"me")))

    assert judge(made={"image": image}, headers_add=(("by", "me"),), headers_drop=("g",)) == set()


def test_a_perfect_copy_of_a_time_window_breaks_nothing(judge: Judge) -> None:
    made = {"selects": lambda r: BASE_MS + 10 <= r.time_ms < BASE_MS + 1020}
    assert judge(made=made, from_time_ms=BASE_MS + 10, to_time_ms=BASE_MS + 1020) == set()


def in_chunk(number: int, edit: Callable[[Chunk], Chunk]) -> Damage:
    return Damage(records=lambda n, drafts: edit(drafts) if n == number else drafts)


def first(edit: Callable[[Draft], Draft]) -> Damage:
    """Changes the first record of chunk 1, source 0/2: value `{"n":2...}`, no headers."""
    return in_chunk(1, lambda drafts: [edit(drafts[0]), *drafts[1:]])


def at(number: int, **fields: Any) -> Damage:
    """Changes the record of partition 0 with this number (offset) in chunk 1 (offsets 2 to 6)."""
    return in_chunk(1, lambda drafts: [replace(d, **fields) if i == number - 2 else d for i, d in enumerate(drafts)])


def said(number: int, **changes: Any) -> Damage:
    return Damage(receipts=lambda n, receipts: [{**r, **changes} for r in receipts] if n == number else receipts)


def doubled(number: int, receipts: list[Said]) -> list[Said]:
    return [*receipts, {**receipts[0], "chunk": number + 1}] if number == 6 else receipts


DAMAGES: dict[str, tuple[str, Damage]] = {
    "the first record of a chunk dropped": ("I1", in_chunk(1, lambda d: d[1:])),
    "the last record of a chunk dropped": ("I1", in_chunk(1, lambda d: d[:-1])),
    "all records of a chunk dropped but one": ("I1", in_chunk(6, lambda d: d[2:3])),
    "a record doubled": ("I2", in_chunk(1, lambda d: [*d, d[4]])),
    "a whole chunk doubled": ("I2", in_chunk(5, lambda d: [*d, *d])),
    "an aborted record copied": ("I3", in_chunk(4, lambda d: [*d, draft(0, 101)])),
    "a record from before the range copied": ("I3", in_chunk(1, lambda d: [*d, draft(0, 1)])),
    "a record of another recovery": ("I3", in_chunk(1, lambda d: [*d, Draft(0, b"stranger", b"x")])),
    "one byte of a value changed": ("I4", at(2, value=b'{"n":3,"p":0}')),
    "a null value made empty": ("I4", at(4, value=b"")),
    "an empty value made null": ("I4", at(5, value=None)),
    "a null key made empty": ("I4", at(6, key=b"")),
    "a key changed": ("I4", at(3, key=b"k0-33")),
    "a header bit flipped": ("I5", at(3, headers=(("h", b"0"), *NASTY[1:]))),
    "a null header value made empty": ("I5", at(3, headers=(NASTY[0], ("h", b""), *NASTY[2:]))),
    "an empty header value made null": ("I5", at(3, headers=(*NASTY[:2], ("g", None), NASTY[3]))),
    "a repeated header dropped": ("I5", at(3, headers=NASTY[:3])),
    "two headers swapped": ("I5", at(3, headers=(NASTY[0], NASTY[2], NASTY[1], NASTY[3]))),
    "headers added": ("I5", at(2, headers=(("x", b"y"),))),
    "a time shifted by one millisecond": ("I6", at(2, time_ms=draft(0, 2).time_ms + 1)),
    "a time lost": ("I6", at(2, time_ms=-1)),
    "two records swapped": ("I7", in_chunk(1, lambda d: [d[1], d[0], *d[2:]])),
    "a chunk reversed": ("I7", in_chunk(5, lambda d: d[::-1])),
    "a record in the wrong partition": ("I8", first(lambda d: replace(d, partition=1))),
    "a chunk whose receipt claims aborted records": ("I9", Damage(aborted_first=2)),
    "a gap between two receipts": ("I10", Damage(receipts=lambda n, r: [] if n == 3 else r)),
    "a receipt of a range nobody asked for": (
        "I10",
        Damage(
            receipts=lambda n, r: [*r, {**r[0], "partition": 7, "start": 0, "stop": 0, "skipped": 0}] if n == 3 else r
        ),
    ),
    "a receipt written twice": ("I10", Damage(receipts=doubled)),
    "a receipt by an attempt that was fenced": ("I10", said(1, attempt=2)),
    "a record at the stop copied": ("I11", in_chunk(4, lambda d: [*d, draft(0, 15)])),
    "a record past the stop copied": ("I11", in_chunk(6, lambda d: [*d, draft(1, 11)])),
    "skipped offsets called filtered": ("I12", said(3, skipped=0, filtered=5)),
    "offsets called lost": ("I12", said(3, skipped=4, lost=1)),
    "counts that do not add up": ("I12", said(3, skipped=4)),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_yields_exactly_its_invariant(judge: Judge, name: str) -> None:
    invariant, damage = DAMAGES[name]
    assert judge(damage) == {invariant}


def test_a_late_record_by_time_is_past_the_bound(judge: Judge) -> None:
    made = {"selects": lambda r: r.time_ms < BASE_MS + 1020}
    late = next(n for n in range(5) if draft(1, n).time_ms >= BASE_MS + 1020)
    assert judge(in_chunk(5, lambda d: [*d, draft(1, late)]), made=made, to_time_ms=BASE_MS + 1020) == {"I11"}


def test_a_key_in_the_wrong_hash_partition_breaks_the_map(judge: Judge) -> None:
    move = in_chunk(5, lambda d: [*d[:-1], replace(d[-1], partition=(d[-1].partition + 1) % 3)])
    assert judge(move, made={"mapping": "key_hash", "target_partitions": 3}, mapping="key_hash") == {"I8"}


def read_to_the_end(hand: HandMade, observer: TargetObserver) -> None:
    """Of what was committed: a commit is answered before its markers are in the log."""
    await_markers(hand.bootstrap, hand.target)
    observer.observed_to_the_end()


def test_a_reader_inside_a_chunk_is_seen(source: Source, unique: str) -> None:
    hand = HandMade(source.bootstrap, source.topic, f"{unique}target", source.receipts, f"{unique}r")
    hand.create()
    with TargetObserver(source.bootstrap, hand.target) as observer:
        hand.copy(source.visible, RANGES, Damage(between=lambda _: read_to_the_end(hand, observer)))
        read_to_the_end(hand, observer)
        observed = observer.observed()
    found = check_copy(
        source.bootstrap, source.topic, hand.target, source.receipts, hand.recovery, RANGES, observed=observed
    )
    assert {v.invariant for v in found} == {"I9"}


def test_a_reader_of_whole_chunks_sees_nothing_wrong(source: Source, unique: str) -> None:
    hand = HandMade(source.bootstrap, source.topic, f"{unique}target", source.receipts, f"{unique}r")
    hand.create()
    with TargetObserver(source.bootstrap, hand.target) as observer:
        hand.copy(source.visible, RANGES)
        read_to_the_end(hand, observer)
        observed = observer.observed()
    assert sum(len(offsets) for offsets in observed.offsets.values()) == 23
    found = check_copy(
        source.bootstrap, source.topic, hand.target, source.receipts, hand.recovery, RANGES, observed=observed
    )
    assert found == []


@pytest.mark.parametrize(
    "changes",
    [
        {"copied": 12, "skipped": 6},
        {"skipped": 4, "unexplained": 1},
        {"to": 19, "offsets": 17, "skipped": 4},
        {"partition": 3},
    ],
    ids=["one copied called skipped", "one unexplained", "shorter than the range", "a partition missing"],
)
def test_a_status_record_that_does_not_add_up_is_seen(judge: Judge, changes: dict[str, int]) -> None:
    assert judge(status=completeness(**changes)) == {"I12"}


def test_another_recovery_in_the_same_target_is_told_apart(source: Source, unique: str) -> None:
    one = HandMade(source.bootstrap, source.topic, f"{unique}target", source.receipts, f"{unique}one")
    other = HandMade(source.bootstrap, source.topic, one.target, source.receipts, f"{unique}other")
    one.create()
    one.copy(source.visible, RANGES)
    other.copy(source.visible, RANGES)
    args = (source.bootstrap, source.topic, one.target, source.receipts)
    assert check_copy(*args, one.recovery, RANGES, shared_with=[other.recovery]) == []
    assert check_copy(*args, other.recovery, RANGES, shared_with=[one.recovery]) == []
    assert {v.invariant for v in check_copy(*args, one.recovery, RANGES)} == {"I2"}


def test_every_invariant_has_a_damage_of_its_own() -> None:
    assert {invariant for invariant, _ in DAMAGES.values()} == set(INVARIANTS)


def test_murmur2_is_kafkas_own() -> None:
    """The vectors of Kafka's own test of it (signed there)."""
    vectors = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    assert {k: murmur2(k) for k in vectors} == {k: v & 0xFFFFFFFF for k, v in vectors.items()}
    assert partition_of(b"foobar", 7) == (-790332482 & 0x7FFFFFFF) % 7
