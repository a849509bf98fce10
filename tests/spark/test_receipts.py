"""Folding receipts: those that add up give positions, others an error with its reason."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoveryd.adapters.kafka.receipts import RunningSum, add_up, newest_values
from recoveryd_jobs.contract import PartitionRange, Receipt, encode
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.receipts import LaneLedger, Standing, fold
from tests.builders.records import make_plan

RANGES = (PartitionRange(0, 100, 200), PartitionRange(3, 0, None))


def receipt(partition: int, start: int, stop: int, chunk: int = 0, attempt: int = 1, lane: int = 0) -> Receipt:
    return Receipt(
        scope="s", recovery="r", lane=lane, attempt=attempt, chunk=chunk, partition=partition, start=start, stop=stop,
        copied=stop - start - 3, filtered=1, skipped=1, lost=1, bytes=10, source_topic_id="in", target_topic_id="out",
    )  # fmt: skip


def ledger(*receipts: Receipt) -> LaneLedger:
    return fold(receipts, RANGES, 0, "in", "out")


def test_without_receipts_a_partition_stands_at_its_planned_start() -> None:
    assert ledger() == LaneLedger({0: Standing(100), 3: Standing(0)}, 0, 0)


def test_receipts_add_up_in_any_order_over_attempts() -> None:
    found = ledger(receipt(0, 150, 200, 2, 2), receipt(3, 0, 10, 1), receipt(0, 100, 150, 0))
    assert found == LaneLedger({0: Standing(200, 94, 2, 2, 2, 20), 3: Standing(10, 7, 1, 1, 1, 10)}, 3, 2)


def test_times_are_those_of_all_receipts_together() -> None:
    known = (
        replace(receipt(0, 100, 150), times=(7, 9)),
        replace(receipt(0, 150, 160), copied=0, filtered=8),
        replace(receipt(0, 160, 200), times=(3, 8)),
    )
    assert ledger(*known).standings[0].times == (3, 9)
    assert ledger(replace(receipt(0, 100, 150), copied=0, filtered=48)).standings[0].times is None


@pytest.mark.parametrize("unknown", [0, 1, 2])
def test_times_of_a_part_are_never_told_as_those_of_the_whole(unknown: int) -> None:
    bounds = ((100, 150), (150, 160), (160, 200))
    known = [replace(receipt(0, *found), times=(7, 9)) for found in bounds]
    known[unknown] = replace(known[unknown], times=None)  # as a release wrote that did not note them
    assert ledger(*known).standings[0].times is None
    told = [replace(found, source_topic_id="", target_topic_id="") for found in known]
    [row] = add_up({found.key.encode(): encode(found) for found in told}, make_plan((0, 100, 200)), {}).partitions
    assert (row.position, row.times) == (200, None)


def test_receipts_of_other_lanes_do_not_count() -> None:
    assert ledger(receipt(7, 0, 50, chunk=9, lane=1)) == LaneLedger({0: Standing(100), 3: Standing(0)}, 0, 1)


def test_an_own_commit_moves_the_ledger_on() -> None:
    assert ledger().with_receipts([receipt(0, 100, 150)]) == ledger(receipt(0, 100, 150))


@pytest.mark.parametrize(
    ("receipts", "code", "reason"),
    [
        ([receipt(0, 110, 150)], "ledger_broken", "begins at 110, the one before ended at 100"),
        ([receipt(0, 100, 150), receipt(0, 140, 200)], "ledger_broken", "begins at 140, the one before ended at 150"),
        ([receipt(0, 100, 250)], "ledger_broken", "ends at 250, outside of the planned range"),
        ([receipt(0, 100, 100)], "ledger_broken", "ends at 100, outside of the planned range"),
        ([replace(receipt(0, 100, 150), skipped=0)], "ledger_broken", "explains 49 of 50 offsets"),
        ([replace(receipt(0, 100, 150), source_topic_id="other")], "topic_recreated", "other topics than the plan"),
        ([replace(receipt(0, 100, 150), target_topic_id="other")], "topic_recreated", "other topics than the plan"),
    ],
)
def test_what_does_not_fit_is_an_error(receipts: list[Receipt], code: str, reason: str) -> None:
    with pytest.raises(JobError, match=reason) as raised:
        ledger(*receipts)
    assert raised.value.code == code


FOLLOWED = [receipt(0, 100, 150), receipt(3, 0, 10), receipt(0, 150, 180), receipt(0, 180, 200)]
ODD = [
    receipt(0, 110, 150),
    receipt(0, 100, 250),
    receipt(0, 120, 150),
    receipt(7, 0, 10),
    replace(receipt(0, 150, 180), bytes=11),
    replace(receipt(0, 200, 210), skipped=0),
    replace(receipt(0, 180, 200), target_topic_id="other"),
]
PLAN = make_plan((0, 100, 200), (3, 0, None), source=("in", "in"), target=("out", "out"))


@given(
    st.integers(0, len(FOLLOWED)),
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([*FOLLOWED, *ODD, None])), max_size=3),
    st.sampled_from([0, 120, 180]),
)
def test_the_daemon_adds_up_as_they_come_what_it_adds_up_together_or_leaves_it(
    count: int, more: list[tuple[int, Receipt | None]], known: int
) -> None:
    """None is a tombstone."""
    found: list[Receipt | None] = [*FOLLOWED[:count]]
    for at, each in more:
        found.insert(at, each)
    key = FOLLOWED[0].key.encode()
    pairs = [(key, None) if each is None else (each.key.encode(), encode(each)) for each in found]
    positions = {0: known} if known else {}
    running = RunningSum(PLAN)
    told = running.reaching(positions) if all(running.take(*pair) for pair in pairs) else None
    together = add_up(newest_values(pairs, b""), PLAN, positions)
    assert told in (None, together)
    if not more:
        assert (told is None) == bool(together.problems)


def test_what_was_written_again_counts_once_as_they_come() -> None:
    running = RunningSum(PLAN)
    assert all(running.take(r.key.encode(), encode(r)) for r in [*FOLLOWED, replace(FOLLOWED[0], attempt=2)])
    told = running.reaching({0: 200})
    assert told is not None
    assert [(p.position, p.copied) for p in told.partitions] == [(200, 91), (10, 7)]
