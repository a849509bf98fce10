"""A head is due by what lies behind the last one: as many receipts as ever where each has one run of records, fewer
where they have many.
"""

from itertools import count

import pytest

from recoveryd_jobs.contract import Receipt, TargetRun
from recoveryd_jobs.lane.heads import RECEIPTS_MAX, Heads
from recoveryd_jobs.receipts import LaneLedger, fold
from tests.spark.test_mending import RANGES, spec_of

SPEC = spec_of("key_hash", 1)


class Delivered:
    AT = 7

    def offset(self) -> int:
        return self.AT


def receipt(targets: int, runs: int) -> Receipt:
    """Of a chunk that sent `runs` runs of records to each of so many target partitions."""
    found = tuple(TargetRun(p, runs, tuple((2 * at, 1) for at in range(runs))) for p in range(targets))
    return Receipt("s", "r", 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, found)


def begun(*behind: Receipt) -> tuple[Heads, LaneLedger]:
    """The heads of a lane that finds these receipts behind its last one, and its ledger."""
    heads = Heads(SPEC, 0, RANGES, 0)
    heads.begin(None, behind, 0)
    return heads, fold([], RANGES, 0, "source-id", "target-id")


def committed_before_a_head(each: Receipt, *behind: Receipt) -> int:
    """How many chunks with such a receipt are committed before the one that has a head."""
    heads, ledger = begun(*behind)
    for number in count():
        if heads.next(ledger, [each], 1) is not None:
            return number
        heads.committed([each])
    raise AssertionError


@pytest.mark.parametrize(("targets", "runs"), [(0, 0), (1, 1), (4, 1), (400, 1), (1, 100), (40, 10), (5_000, 1)])
def test_what_lies_between_two_heads_does_not_grow_with_the_target_partitions(targets: int, runs: int) -> None:
    each, weight = receipt(targets, runs), max(1, targets * runs)
    assert committed_before_a_head(each) == -(-RECEIPTS_MAX // weight) - 1
    assert committed_before_a_head(each, *[each] * 3) == max(0, -(-RECEIPTS_MAX // weight) - 4), "begun again"


def test_what_is_counted_begins_anew_with_a_head() -> None:
    each = receipt(RECEIPTS_MAX - 1, 1)
    heads, ledger = begun(each)
    assert heads.next(ledger, [each], 1) is not None
    heads.on_head(None, Delivered())  # type: ignore[arg-type]
    heads.committed([each])
    assert heads.offset == Delivered.AT
    assert heads.next(ledger, [each], 1) is None
