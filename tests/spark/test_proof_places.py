"""Receipts name partitions of the target. What they claim of one that the proof does not read would be believed. And
there may be millions of them: a task obeys and reports while it takes them apart.
"""

from collections.abc import Callable

import pytest

from recoveryd_jobs.contract import Receipt, TargetRun, encode
from recoveryd_jobs.verify.guest import Stopped
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.plan import ProofPlan
from recoveryd_jobs.verify.reader import Range
from recoveryd_jobs.verify.shown import Shown
from recoveryd_jobs.verify.tasks import audit_only, audit_places


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


COUNT = 20_000


def long_ledger(count: int = COUNT) -> ProofLedger:
    """Receipts of one offset each."""
    ledger = ProofLedger()
    for at in range(count):
        said = Receipt("s", "r", 0, 1, 0, 0, at, at + 1, 1, 0, 0, 0, 0, (TargetRun(0, 1, ((at, 1),)),))
        ledger.put(0, at, encode(said))
    return ledger


def ends_at(call: int, calls: list[None]) -> Callable[[], None]:
    """What a task is asked between its steps; at this `call` it is told to stop."""

    def step() -> None:
        calls.append(None)
        if len(calls) == call:
            raise Stopped

    return step


def test_it_obeys_and_reports_while_it_takes_receipts_apart() -> None:
    ledger, calls = long_ledger(), list[None]()
    with pytest.raises(Stopped), ledger.in_steps(step := ends_at(3, calls)):
        ledger.settle(step)
    assert len(calls) == 3
    ledger.close()


def test_it_obeys_while_queries_go_on() -> None:
    ledger, calls = long_ledger(), list[None]()
    ledger.settle()
    with pytest.raises(Stopped), ledger.in_steps(ends_at(1, calls)):
        ledger.index()
    ledger.close()


def test_it_obeys_and_reports_while_it_looks_at_receipts_alone() -> None:
    ledger, shown, calls = long_ledger(), Shown(), list[None]()
    ledger.settle()
    ledger.index()
    whole = Range(0, 0, COUNT)
    plan = ProofPlan((whole,), (whole,), {}, is_stamped=False, is_compacted=False, is_open=frozenset())
    with pytest.raises(Stopped):
        audit_only(plan, [whole], ledger, shown, ends_at(5, calls))
    audit_only(plan, [whole], ledger, again := Shown(), lambda: None)
    assert (again.promised, again.differences) == (COUNT, [])
    ledger.close()


def work_on(count: int) -> int:
    """How often a hundred thousand instructions of SQLite were over while each of so many receipts of one partition was
    looked at, and asked for by all that the proof asks of one.
    """
    ledger, shown, over = long_ledger(count), Shown(), list[None]()
    ledger.settle()
    ledger.index()
    whole = Range(0, 0, count)
    plan = ProofPlan((whole,), (whole,), {}, is_stamped=False, is_compacted=False, is_open=frozenset())
    with ledger.in_steps(lambda: over.append(None)):
        audit_only(plan, [whole], ledger, shown, lambda: None)
        for at in range(count):
            assert ledger.claim(0, at) is not None
            assert ledger.digest(0, 0, at) is not None
            assert [run.first for run in ledger.runs_of(0, 0, at)] == [at]
            assert ledger.held(0, 0, at) == 1
        assert len(list(ledger.runs(0))) == count
    ledger.close()
    return len(over)


def test_the_work_on_a_receipt_does_not_grow_with_their_number() -> None:
    few, many = work_on(1_000), work_on(8_000)
    assert many <= 16 * (few + 1)
