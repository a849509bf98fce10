"""The ledger: the sums of receipts, receipts that do not fit, and when no more can come."""

import pytest

from recoveryd.adapters.memory import MemoryRecord
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.events import LedgerPartition, LedgerRead
from recoveryd_jobs.contract import Receipt, encode, receipts_partition, transactional_id
from tests.builders.records import make_ledger_question, make_plan, make_receipt
from tests.contract.harness import Harness, LaneFenced

PLAN = make_plan((0, 5, 100), (1, 0, None), (2, 7, 7))


def records(harness: Harness, *receipts: Receipt) -> tuple[str, int, list[MemoryRecord]]:
    """The records that a lane writes for these receipts, and where."""
    mine = [r if r.scope != "scope" else make_receipt_in(harness, r) for r in receipts]
    partition = receipts_partition(mine[0].recovery, 8)
    return harness.names.receipts, partition, [MemoryRecord(r.key.encode(), encode(r), harness.now_ms()) for r in mine]


def make_receipt_in(harness: Harness, receipt: Receipt) -> Receipt:
    parts = {f: getattr(receipt, f) for f in receipt.__dataclass_fields__}
    return Receipt(**parts | {"scope": harness.scope})


def write(harness: Harness, *receipts: Receipt) -> None:
    topic, partition, made = records(harness, *receipts)
    harness.write(topic, made, partition)


async def test_without_receipts_every_planned_partition_stands_at_its_start(harness: Harness) -> None:
    assert await harness.ledger().read(make_ledger_question(PLAN)) == LedgerRead(
        recovery="r1",
        attempt=1,
        fenced=False,
        partitions=(
            LedgerPartition(0, 5, 5, 0, 0, 0, 0, 0),
            LedgerPartition(1, 0, 0, 0, 0, 0, 0, 0),
            LedgerPartition(2, 7, 7, 0, 0, 0, 0, 0),
        ),
        problems=(),
        sequence=7,
    )


async def test_receipts_of_several_lanes_and_attempts_add_up_by_partition(harness: Harness) -> None:
    write(
        harness,
        make_receipt(0, 5, 50, copied=40, filtered=3, skipped=1, lost=1),
        make_receipt(1, 0, 9),
        make_receipt(0, 50, 60, attempt=2),
    )
    ledger = await harness.ledger().read(make_ledger_question(PLAN))
    assert ledger.problems == ()
    assert ledger.partitions[:2] == (
        LedgerPartition(0, 5, 60, 50, 3, 1, 1, 550),
        LedgerPartition(1, 0, 9, 9, 0, 0, 0, 90),
    )


async def test_receipts_of_other_recoveries_and_scopes_do_not_count(harness: Harness) -> None:
    for name in ("r1x", "r", "r1.0"):
        write(harness, make_receipt(0, 5, 20, recovery=name))
    write(harness, make_receipt(0, 5, 30, scope="elsewhere"))
    write(harness, make_receipt(0, 5, 10))
    ledger = await harness.ledger().read(make_ledger_question(PLAN))
    assert (ledger.partitions[0].position, ledger.problems) == (10, ())


@pytest.mark.parametrize(
    ("receipt", "reason"),
    [
        (make_receipt(0, 12, 20), "begins at 12, but the one before ends at 10: a gap"),
        (make_receipt(0, 8, 20), "begins at 8, but the one before ends at 10: an overlap"),
        (make_receipt(0, 10, 101), "ends at 101, past the end of the range at 100"),
        (make_receipt(0, 10, 10), "ends at 10, not after its start"),
        (make_receipt(0, 10, 20, copied=9), "explains 9 of 10 offsets"),
        (make_receipt(0, 10, 20, copied=12, filtered=-2), "has a negative count"),
        (make_receipt(0, 10, 20, source_topic_id="new"), "topic id new, planned is source-id"),
        (make_receipt(0, 10, 20, target_topic_id="new"), "topic id new, planned is target-id"),
        (make_receipt(9, 10, 20), "is for a partition that is not planned"),
    ],
)
async def test_a_receipt_that_does_not_fit_is_told_and_not_counted(
    harness: Harness, receipt: Receipt, reason: str
) -> None:
    write(harness, make_receipt(0, 5, 10))
    write(harness, receipt)
    ledger = await harness.ledger().read(make_ledger_question(PLAN))
    [problem] = ledger.problems
    assert reason in problem
    assert ledger.partitions[0] == LedgerPartition(0, 5, 10, 5, 0, 0, 0, 50)


async def test_a_receipt_that_cannot_be_read_is_told(harness: Harness) -> None:
    topic, partition, [good] = records(harness, make_receipt(0, 5, 10))
    harness.write(topic, [MemoryRecord(good.key, b'{"version": 99}', harness.now_ms())], partition)
    [problem] = (await harness.ledger().read(make_ledger_question(PLAN))).problems
    assert "cannot be read" in problem


async def test_fencing_shuts_out_every_lane_of_the_recovery_and_only_those(harness: Harness) -> None:
    lanes = [harness.open_lane(transactional_id(harness.scope, "r1", lane)) for lane in range(3)]
    other = harness.open_lane(transactional_id(harness.scope, "r2", 0))
    lanes[0](*records(harness, make_receipt(0, 5, 50)))

    ledger = await harness.ledger().read(make_ledger_question(PLAN, fence=True))

    assert (ledger.fenced, ledger.partitions[0].position) == (True, 50)
    for number, lane in enumerate(lanes):
        with pytest.raises(LaneFenced):
            lane(*records(harness, make_receipt(number, 50, 60)))
    other(*records(harness, make_receipt(0, 5, 10, recovery="r2")))
    assert await harness.ledger().read(make_ledger_question(PLAN, fence=True)) == ledger


async def test_without_fencing_lanes_go_on(harness: Harness) -> None:
    lane = harness.open_lane(transactional_id(harness.scope, "r1", 0))
    await harness.ledger().read(make_ledger_question(PLAN))
    lane(*records(harness, make_receipt(0, 5, 50)))
    assert (await harness.ledger().read(make_ledger_question(PLAN))).partitions[0].position == 50


async def test_a_missing_receipts_topic_is_told_for_good(harness: Harness) -> None:
    harness.delete(harness.names.receipts)
    with pytest.raises(ClusterProblem) as caught:
        await harness.ledger().read(make_ledger_question(PLAN))
    assert (caught.value.code, caught.value.retriable) == (Code.OWN_TOPIC_MISSING, False)


async def test_an_open_foreign_transaction_before_the_end_is_never_read_past(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recoveryd.adapters.kafka.ledger._PATIENCE_S", 1.0)
    write(harness, make_receipt(0, 5, 10))
    with harness.open_transaction(harness.names.receipts, receipts_partition("r1", 8)):
        write(harness, make_receipt(0, 10, 20))
        with pytest.raises(ClusterProblem) as caught:
            await harness.ledger().read(make_ledger_question(PLAN))
    assert caught.value.retriable
