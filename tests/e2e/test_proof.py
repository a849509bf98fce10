"""Copies that are damaged by hand, and proved by the real daemon and real Spark: `failed` with RCV-3007, exit code 9,
and the place of the damage.

A replay is paused, the target and its ledger are changed by hand, and it goes on. For copies that were not made by
recoveryd there is the command `verify`.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.builders.history import create_topics
from tests.e2e.asking import await_progress
from tests.e2e.data import fill_plain
from tests.e2e.follower import Document
from tests.e2e.log_reader import whole_log
from tests.e2e.stack import Stack
from tests.e2e.tampering import Plain, Tampering, delete_records, fill

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.usefixtures("daemon")]

_EACH = 20_000  # records of a source partition: more than are copied while a busy machine pauses a replay some times
_PARTITIONS = 2
_numbers = itertools.count(1)
_DIFFERENCES = 9
_DOUBLED = 50


def recoveryctl(stack: Stack, *arguments: str) -> tuple[int, str]:
    """(exit code, output)."""
    done = stack.recoveryctl(*arguments)
    return done.exit_code, done.stdout + done.stderr


@pytest.fixture(scope="module")
def plain(stack: Stack) -> Iterator[str]:
    """As for the other tests, with `_EACH` records in each partition, and a lane for each, since one of two would copy
    all of one partition first.
    """
    topic = f"{stack.mark}-long"
    fill_plain(stack.bootstrap, topic, _PARTITIONS, _EACH)
    with stack.unchanged(topic):
        yield topic


def tampered_replay(
    stack: Stack, source: str, damage: Callable[[Tampering], object], moves: tuple[int, ...] = (), **more: Any
) -> Document:
    """A replay that was paused in the middle, while `damage` was done; its last status. `moves`: source partitions of
    which it moves what their newest receipts claim to the target's end. Behind a smaller receipt the order would be
    another.
    """
    recovery = f"damaged{next(_numbers)}"
    target = f"{stack.prefix}{recovery}".replace(".", "-")
    stack.control.replay(recovery, source, target, target_create=True, limits={"max_records_per_s": 400}, **more)
    await_progress(stack, recovery, 400)
    stack.follower.wait(lambda: has_copied_of(stack, recovery, (0, 1)), 60.0, "receipts of the partitions to damage")
    tampering = Tampering(stack, recovery, target)
    pause(stack, recovery)
    tampering.await_settled()
    while small := [p for p in moves if not tampering.ends_in_large_receipt(p)]:
        go_on(stack, recovery, small[0])
        tampering.await_settled()
    damage(tampering)
    stack.control.command("throttle", recovery, {"limits": {"max_records_per_s": None}})
    stack.control.command("resume", recovery)
    return stack.follower.wait_state(recovery, ["completed", "failed"], 120)


def pause(stack: Stack, recovery: str) -> None:
    stack.control.command("pause", recovery)
    stack.follower.wait_state(recovery, "paused", 30)


def go_on(stack: Stack, recovery: str, partition: int) -> None:
    """For some hundred records of this partition."""
    before = copied_of(stack, recovery).get(partition, 0)
    stack.control.command("resume", recovery)
    stack.follower.wait(
        lambda: copied_of(stack, recovery).get(partition, 0) >= before + 200, 60.0, f"more of partition {partition}"
    )
    pause(stack, recovery)


def has_copied_of(stack: Stack, recovery: str, partitions: tuple[int, ...], least: int = 200) -> bool:
    """Whether so many records of each of these source partitions are in receipts."""
    copied = copied_of(stack, recovery)
    return all(copied.get(p, 0) >= least for p in partitions)


def copied_of(stack: Stack, recovery: str) -> dict[int, int]:
    """By source partition, the position of its newest receipt."""
    status = stack.follower.status(recovery)
    return {} if status is None else {p["partition"]: p["position"] for p in status["progress"]["partitions"]}


def double_what_is_there(tampering: Tampering) -> int:
    """Append the first records of target partition 1 to it again. Returns the offset of the first one appended."""
    again = tampering.stored(1)[:_DOUBLED]
    assert len(again) == _DOUBLED
    return tampering.write(again) - _DOUBLED + 1


def call_the_last_record_skipped(tampering: Tampering) -> None:
    """The oldest receipt names one record less than its chunk wrote, so that no receipt claims the last one in the
    target.
    """
    tampering.claim(0, [r.offset for r in tampering.claimed(0)][:-1], skipped=1)


def claim_an_altered_record(tampering: Tampering) -> None:
    """Append a record with another header to the target, and let the receipt claim it as the last one of its chunk."""
    number = tampering.newest(0)
    claimed = tampering.claimed(number)
    at = tampering.write([claimed[-1]._replace(headers=(("h", b"1"),))])
    tampering.claim(number, [*(r.offset for r in claimed[:-1]), at])


def claim_two_of_a_key_turned_round(tampering: Tampering) -> None:
    """Append the last two records of a key again, the later one first, and let the receipt claim these."""
    number = tampering.newest(1)
    claimed = tampering.claimed(number)
    last = claimed[-1]
    before = next(r for r in reversed(claimed[:-1]) if r.key == last.key)
    at = tampering.write([last, before])
    tampering.claim(number, [*(r.offset for r in claimed if r not in {last, before}), at - 1, at])


_ALTERED = 6


def claim_altered_records(tampering: Tampering) -> None:
    """Append the last records of a chunk again, one with another header, one with another time, and one null value made
    empty, and let the receipt claim these.
    """
    number = tampering.newest(0)
    claimed = tampering.claimed(number)
    last = claimed[-_ALTERED:]
    null = next(n for n, record in enumerate(last) if record.value is None)
    header, time = [n for n in range(_ALTERED) if n != null][:2]
    again = list(last)
    again[null] = last[null]._replace(value=b"")
    again[header] = last[header]._replace(headers=(("h", b"1"),))
    again[time] = last[time]._replace(time_ms=last[time].time_ms + 1)
    at = tampering.write(again)
    tampering.claim(number, [*(r.offset for r in claimed[:-_ALTERED]), *range(at - _ALTERED + 1, at + 1)])


def hide_alter_and_turn(tampering: Tampering) -> None:
    """All three kinds of damage, in three chunks, so that none hides another."""
    call_the_last_record_skipped(tampering)
    claim_altered_records(tampering)
    claim_two_of_a_key_turned_round(tampering)


def assert_doubled_are_named(ended: Document, at: int) -> None:
    extra = [d for d in ended["verification"]["differences"] if (d["kind"], d["target_partition"]) == ("extra", 1)]
    assert sum(d["count"] for d in extra if at <= d["target_offset"] < at + _DOUBLED) == _DOUBLED


def test_missing_altered_and_doubled_records_fail_a_copy_with_their_places_and_exit_code_9(
    stack: Stack, plain: str
) -> None:
    """A chunk of partition 0 is damaged; partition 1 has a hole that its receipt calls skipped, and doubled records."""
    doubled: list[int] = []

    def damage(tampering: Tampering) -> None:
        tampering.call_the_next_skipped(1, 7)
        claim_an_altered_record(tampering)
        doubled.append(double_what_is_there(tampering))

    ended = tampered_replay(stack, plain, damage, moves=(0, 1))
    found = ended["verification"]
    assert (ended["state"], ended["error_code"], found["result"], found["scope"]) == (
        "failed",
        "RCV-3007",
        "mismatch",
        "source",
    ), ended["why"]
    counted: Counter[tuple[str, int | None]] = Counter()
    for difference in found["differences"]:
        counted[difference["kind"], difference["target_partition"]] += difference["count"]
    assert counted.pop(("ledger", None)), "a receipt that calls records skipped that can be read"
    left_over = 1  # what receipts do not claim any more belongs to nobody
    assert counted == {("missing", 1): 7, ("altered", 0): 1, ("extra", 0): left_over, ("extra", 1): _DOUBLED}
    assert_doubled_are_named(ended, doubled[0])
    code, said = recoveryctl(stack, "wait", ended["recovery"])
    assert code == _DIFFERENCES, said


@pytest.fixture(scope="module")
def keyed(stack: Stack) -> str:
    """Two partitions of `_EACH` records of five keys each; of each key, every other value is null."""
    topic = f"{stack.mark}-keyed"
    create_topics(stack.bootstrap, {topic: 2})
    fill(stack.bootstrap, topic, (
        Plain(p, b"%d-%d" % (p, n % 5), b"%d-%d" % (p, n) if n % 2 else None, 1_357_000_000_000 + n)
        for n in range(_EACH) for p in range(2)
    ))  # fmt: skip
    return topic


def test_missing_altered_and_turned_records_of_a_repartitioned_copy_and_a_doubled_chunk_are_each_named(
    stack: Stack, keyed: str
) -> None:
    doubled: list[int] = []

    def damage(tampering: Tampering) -> None:
        chunk = tampering.written_by(0)
        hide_alter_and_turn(tampering)
        tampering.write(chunk)
        doubled.append(len(chunk))

    ended = tampered_replay(stack, keyed, damage, moves=(0, 1), target_mapping="key_hash")
    found = ended["verification"]
    assert (ended["state"], ended["error_code"], found["scope"]) == ("failed", "RCV-3007", "source")
    named = Counter(d["kind"] for d in found["differences"] if d["source_offset"] is not None)
    assert named.keys() == {"missing", "altered", "reordered", "ledger"}
    assert (named["missing"], named["altered"], named["ledger"]) == (1, 3, 1)
    assert named["reordered"] <= 2, "of two records that changed places, one or both are told"
    left_over = 1 + _ALTERED + 2  # what the receipts do not claim any more belongs to nobody
    assert found["extra_records"] == doubled[0] + left_over
    code, said = recoveryctl(stack, "wait", ended["recovery"])
    assert code == _DIFFERENCES, said


def numbered(stack: Stack) -> str:
    """A new topic of two partitions of `_EACH` records."""
    topic = f"{stack.mark}-numbered{next(_numbers)}"
    create_topics(stack.bootstrap, {topic: 2})
    fill(stack.bootstrap, topic, (
        Plain(p, b"%d" % n, b"%d-%d" % (p, n), 1_357_000_000_000 + n) for n in range(_EACH) for p in range(2)
    ))  # fmt: skip
    return topic


def delete_half_of_the_first_chunk(tampering: Tampering, source: str) -> tuple[int, int]:
    """The range of source offsets that is left of what the oldest receipt of partition 0 covers."""
    start, stop = tampering.covered(0)
    delete_records(tampering.bootstrap, source, 0, (start + stop) // 2)
    return (start + stop) // 2, stop


@pytest.mark.wide(
    "tests/spark/test_proof_rows.py::test_what_the_source_of_a_copy_by_key_does_not_hold_any_more_is_proved_by_receipts"
)
def test_a_copy_whose_source_lost_a_part_of_a_chunk_is_proved_by_the_rest_and_receipts(stack: Stack) -> None:
    """By key; `tests/spark/test_proof_boundary.py` has both ways, and each kind of damage."""
    source, left = numbered(stack), []
    ended = tampered_replay(
        stack, source, lambda t: left.append(delete_half_of_the_first_chunk(t, source)), target_mapping="key_hash"
    )
    found = ended["verification"]
    assert (ended["state"], found["result"], found["scope"]) == ("completed", "match", "mixed")
    assert (found["source_records"], found["records_by_receipts"]) == (2 * _EACH, left[0][0])


@pytest.mark.wide(
    "tests/spark/test_proof_boundary.py::test_readable_records_that_a_receipt_calls_skipped_are_found_wherever_the_log_starts"
)
def test_readable_records_that_a_receipt_calls_skipped_are_named_where_the_source_lost_a_part_of_a_chunk(
    stack: Stack,
) -> None:
    """The receipt says that there was nothing to copy, so what it wrote is somebody else's, and others may
    write there.
    """
    source, left = numbered(stack), []

    def deny(tampering: Tampering) -> None:
        left.append(delete_half_of_the_first_chunk(tampering, source))
        tampering.rewrite_receipt(
            lambda receipt: receipt | {"copied": 0, "skipped": receipt["stop"] - receipt["start"], "targets": []}, 0
        )

    ended = tampered_replay(stack, source, deny, target_on_existing="append")
    found = ended["verification"]
    assert (ended["state"], ended["error_code"], found["result"]) == ("failed", "RCV-3007", "mismatch")
    assert {d["kind"] for d in found["differences"]} == {"missing", "ledger"}
    missing = [d for d in found["differences"] if d["kind"] == "missing"]
    assert {d["source_partition"] for d in missing} == {0}
    assert min(d["source_offset"] for d in missing) == left[0][0]
    code, said = recoveryctl(stack, "wait", ended["recovery"])
    assert code == _DIFFERENCES, said


def append_another(stack: Stack, target: str, records: int) -> str:
    """A whole recovery of something else into `target`, with receipts of its own."""
    source, recovery = f"{stack.mark}-foreign{next(_numbers)}", f"foreign{next(_numbers)}"
    create_topics(stack.bootstrap, {source: 1})
    fill(stack.bootstrap, source, (Plain(0, b"f", b"foreign %d" % n, 1_357_000_000_000 + n) for n in range(records)))
    stack.control.replay(recovery, source, target, target_on_existing="append")
    assert stack.completed(recovery)["verification"]["result"] == "match"
    return recovery


@pytest.mark.wide(
    "tests/spark/test_proof_attacks.py::test_two_recoveries_of_one_target_each_prove_their_own_and_count_the_other"
)
def test_a_chunk_of_another_recovery_in_a_target_that_both_append_to_is_counted_and_no_difference(
    stack: Stack, plain: str
) -> None:
    ended = tampered_replay(stack, plain, lambda t: append_another(stack, t.target, 300), target_on_existing="append")
    found = ended["verification"]
    copied = _PARTITIONS * _EACH
    assert (ended["state"], found["result"], found["source_records"]) == ("completed", "match", copied)
    assert (found["extra_records"], found["target_records"]) == (300, copied + 300)
    assert "others wrote to the target meanwhile: 300 in partition 0" in found["why"]


@pytest.mark.wide(
    "tests/spark/test_proof_attacks.py::test_a_receipt_that_claims_the_chunk_of_another_recovery_is_found"
)
def test_a_chunk_of_another_recovery_that_a_receipt_claims_is_altered(stack: Stack, plain: str) -> None:
    def steal(tampering: Tampering) -> None:
        other = Tampering(stack, append_another(stack, tampering.target, 300), tampering.target)
        number = tampering.newest(0)
        mine, theirs = tampering.claimed(number), other.claimed(0)
        tampering.claim(number, [*(r.offset for r in mine[:-3]), *(r.offset for r in theirs[:3])])

    ended = tampered_replay(stack, plain, steal, moves=(0,), target_on_existing="append")
    found = ended["verification"]
    assert (ended["state"], ended["error_code"]) == ("failed", "RCV-3007")
    assert [d["kind"] for d in found["differences"] if d["kind"] != "ledger"] == ["altered"] * 3
    assert found["extra_records"] == 300, "three of ours in the place of three of theirs"
    code, said = recoveryctl(stack, "wait", ended["recovery"])
    assert code == _DIFFERENCES, said


_NULL = 30  # this one's value is null
GOOD = [
    Plain(0, f"k{i}".encode(), f"v{i}".encode() if i != _NULL else None, 1_357_000_000_000 + i, (("h", b"1"),))
    for i in range(40)
]

HAND_MADE: dict[str, tuple[Sequence[Plain], list[tuple[str, int | None, int | None]]]] = {
    "nothing": (GOOD, []),
    "missing": (GOOD[:10] + GOOD[11:], [("missing", 10, None)]),
    "double": (GOOD[:10] + GOOD[9:], [("extra", None, 10)]),
    "swapped": ([*GOOD[:10], GOOD[11], GOOD[10], *GOOD[12:]], [("reordered", 10, 11), ("reordered", 11, 10)]),
    "altered header": ([*GOOD[:3], GOOD[3]._replace(headers=(("h", b"0"),)), *GOOD[4:]], [("altered", 3, 3)]),
    "shifted time": ([*GOOD[:5], GOOD[5]._replace(time_ms=5), *GOOD[6:]], [("altered", 5, 5)]),
    "null to empty": (
        [*GOOD[:_NULL], GOOD[_NULL]._replace(value=b""), *GOOD[_NULL + 1 :]],
        [("altered", _NULL, _NULL)],
    ),
    "value to null": ([*GOOD[:20], GOOD[20]._replace(value=None), *GOOD[21:]], [("altered", 20, 20)]),
    "emptied": ([*GOOD[:20], GOOD[20]._replace(value=b""), *GOOD[21:]], [("altered", 20, 20)]),
    "value changed": ([*GOOD[:17], GOOD[17]._replace(value=b"another"), *GOOD[18:]], [("altered", 17, 17)]),
    "everything twice": (GOOD + GOOD, [("extra", None, 40)]),
}


@pytest.mark.scenario("S-CASTLE-5")
def test_each_kind_of_damage_of_a_copy_made_by_hand_is_named_by_command(stack: Stack) -> None:
    """Each partition is damaged in another way, the first in none, so that one verification has to name all of them."""
    number = next(_numbers)
    source, target = (f"{stack.mark}-hand{number}-{side}" for side in ("a", "b"))
    create_topics(stack.bootstrap, dict.fromkeys((source, target), len(HAND_MADE)))
    copies = {p: [r._replace(partition=p) for r in stored] for p, (stored, _) in enumerate(HAND_MADE.values())}
    fill(stack.bootstrap, source, (r._replace(partition=p) for p in copies for r in GOOD))
    fill(stack.bootstrap, target, (r for stored in copies.values() for r in stored))
    arguments = [
        "--source",
        source,
        "--target",
        target,
        "--reason",
        "a test",
        "--wait",
        "--yes",
        "-o",
        "json",
        "--id",
        f"hand{number}",
    ]
    code, said = recoveryctl(stack, "verify", *arguments)
    status = stack.follower.wait_state(f"hand{number}", ["completed", "failed"], 60)
    found = status["verification"]
    assert (status["state"], code) == ("completed", _DIFFERENCES), said
    assert (status["error_code"], found["result"]) == ("RCV-3007", "mismatch")
    named = {
        damage: [
            (d["kind"], d["source_offset"], d["target_offset"])
            for d in found["differences"]
            if d["target_partition"] == p
        ]
        for p, damage in enumerate(HAND_MADE)
    }
    assert named == {damage: wanted for damage, (_, wanted) in HAND_MADE.items()}
    assert sum(map(len, named.values())) == len(found["differences"])
    assert all(d["source_partition"] in {None, d["target_partition"]} for d in found["differences"])
    lengths = {p: (0, len(stored)) for p, stored in copies.items()}
    assert (found["scope"], whole_log(stack.bootstrap, target)) == ("source", lengths)
