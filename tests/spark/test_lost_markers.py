"""A transaction in the target that was never ended: a restarted lane ends its own, and does not touch committed records
and those of others.
"""

from dataclasses import replace

import pytest

from recoveryd_jobs.contract import PartitionRange, Receipt, TargetRun
from recoveryd_jobs.lane.life import LaneOutcome
from recoveryd_jobs.lane.lost_markers import left_open
from recoveryd_jobs.topics import LogBounds
from tests.builders.copying import Cluster, LaneThread, Recovery, assert_exact, rows

COUNT = 500


def receipt(partition: int, first: int, count: int) -> Receipt:
    runs = (TargetRun(partition, count, ((first, count),)),)
    return Receipt("s", "r", 0, 1, 0, partition, 0, count, count, 0, 0, 0, 1, runs)


@pytest.mark.parametrize(
    ("what", "bounds", "receipts", "found"),
    [
        ("nothing is open", LogBounds(0, 10, 10), [receipt(0, 0, 9)], []),
        ("abandoned records behind the committed ones", LogBounds(0, 10, 14), [receipt(0, 0, 9)], [0]),
        ("abandoned records in a new topic", LogBounds(0, 0, 14), [], [0]),
        ("committed records that lost their commit marker", LogBounds(0, 10, 14), [receipt(0, 10, 4)], []),
        ("receipts of another partition do not count", LogBounds(0, 10, 14), [receipt(1, 10, 4)], [0]),
    ],
)
def test_only_what_no_receipt_calls_committed_is_ended(
    what: str, bounds: LogBounds, receipts: list[Receipt], found: list[int]
) -> None:
    assert left_open({0: bounds}, receipts) == found, what


@pytest.mark.broker
@pytest.mark.faults
def test_a_later_attempt_next_to_an_open_transaction_copies_exactly(cluster: Cluster, unique: str) -> None:
    source, target = cluster.topic("in", 1), cluster.topic("out", 1)
    cluster.fill(source, rows(COUNT, 0))
    other = cluster.producer("other")
    other.begin_transaction()
    other.produce(target, b"open", b"other", 0)
    assert other.flush(60) == 0
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT)]], partitions=1)
    assert LaneThread(replace(recovery.spec, attempt=2)).outcome(60.0) == LaneOutcome(0, "done")
    other.abort_transaction(60)
    assert_exact(recovery.ledger(), recovery.spec)
    copied = cluster.read(target, 1)
    assert [r.content for r in copied] == [r.content for r in rows(COUNT, 0)]
    assert copied[0].offset == 3, "before it: the open record, the lane's own aborted one, its marker"
