"""Receipts name partitions of the target. What they claim of one that the proof does not read would be believed."""

from recoveryd_jobs.contract import Receipt, TargetRun, encode
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.plan import ProofPlan
from recoveryd_jobs.verify.reader import Range
from recoveryd_jobs.verify.shown import Shown
from recoveryd_jobs.verify.tasks import audit_places


def audited(*targets: int) -> list[tuple[str, int | None, int | None, int | None, int]]:
    """The differences when a receipt claims five records in each of these partitions, and 0 and 1 are read."""
    ledger, shown = ProofLedger(), Shown()
    runs = tuple(TargetRun(t, 5, ((0, 5),)) for t in targets)
    said = Receipt("s", "r", 0, 1, 0, 0, 0, 50, 5 * len(runs), 0, 50 - 5 * len(runs), 0, 0, runs)
    ledger.put(0, 0, encode(said))
    ledger.settle()
    read = (Range(0, 0, 9), Range(1, 0, 9))
    plan = ProofPlan((Range(0, 0, 50),), read, {}, is_stamped=False, is_compacted=False, is_open=frozenset())
    audit_places(plan, {0}, ledger, shown)
    return [(d.kind, d.source_partition, d.source_offset, d.target_partition, d.count) for d in shown.differences]


def test_a_claim_of_a_partition_that_is_not_read_is_a_difference() -> None:
    assert audited(0, 1) == []
    assert audited(0, 2, 7) == [("ledger", 0, 0, 2, 5), ("ledger", 0, 0, 7, 5)]
