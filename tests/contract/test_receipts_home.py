"""The pinned place of a recovery's receipts: how it is planned, and what the ledger says when the topic has changed."""

from dataclasses import replace

import pytest

from recoveryd.adapters.memory import MemoryRecord
from recoveryd.recovery.effects import EndedRecovery, ForgetRecoveries
from recoveryd.recovery.events import LedgerRead
from recoveryd.recovery.model import Plan
from recoveryd.recovery.plan_facts import ReceiptsFacts
from recoveryd_jobs.contract import Receipt, ReceiptsHome, encode, receipts_partition
from tests.builders.records import make_facts_question, make_ledger_question, make_plan, make_receipt
from tests.contract.harness import Harness

PLACE, START = 5, 3  # not the partition by the recovery's id, and after records of others


def pinned(harness: Harness, topic: str, topic_id: str) -> Plan:
    others = [MemoryRecord(b"other/r9/0/0", b"{}", harness.now_ms())] * START
    harness.write(topic, others, PLACE)
    return replace(make_plan((0, 5, 100)), receipts=ReceiptsHome(topic, topic_id, PLACE, 8, START))


def write(harness: Harness, topic: str, *receipts: Receipt) -> None:
    mine = [replace(r, scope=harness.scope) for r in receipts]
    harness.write(topic, [MemoryRecord(r.key.encode(), encode(r), harness.now_ms()) for r in mine], PLACE)


def told(ledger: LedgerRead) -> tuple[int, tuple[str, ...]]:
    return ledger.partitions[0].position, ledger.problems


async def test_a_plan_gets_the_partition_of_its_name_and_where_that_ends_now(harness: Harness, unique: str) -> None:
    source, place = unique + "source", receipts_partition("r1", 8)
    harness.create(source)
    harness.write(harness.names.receipts, [MemoryRecord(b"k", b"v", harness.now_ms())] * 4, place)
    facts = (await harness.clusters().gather_facts(make_facts_question(source, unique + "none"))).receipts
    assert facts is not None
    assert replace(facts, topic_id="") == ReceiptsFacts(harness.names.receipts, "", 8, "compact", place, 4)


async def test_a_receipts_topic_that_does_not_exist_is_told_as_none(harness: Harness, unique: str) -> None:
    harness.create(unique + "source")
    harness.delete(harness.names.receipts)
    facts = await harness.clusters().gather_facts(make_facts_question(unique + "source", unique + "none"))
    assert facts.receipts is None


async def test_receipts_are_read_where_the_plan_pinned_them_whatever_the_name_says(
    harness: Harness, unique: str
) -> None:
    topic = unique + "receipts"
    plan = pinned(harness, topic, harness.create(topic, 13))
    write(harness, topic, make_receipt(0, 5, 50), make_receipt(0, 50, 60))
    question = make_ledger_question(plan, positions={0: 60})
    assert told(await harness.ledger().read(question)) == (60, ())


async def test_receipts_that_end_before_what_is_known_as_copied_are_told(harness: Harness, unique: str) -> None:
    topic = unique + "receipts"
    plan = pinned(harness, topic, harness.create(topic, 8))
    write(harness, topic, make_receipt(0, 5, 50))
    question = make_ledger_question(plan, positions={0: 51})
    assert told(await harness.ledger().read(question)) == (
        50,
        ("Receipts of partition 0 end at 50, but it was copied to 51: some are gone.",),
    )


@pytest.mark.parametrize("partitions", [8, PLACE], ids=["as wide", "narrower"])
async def test_another_topic_of_the_same_name_is_told(harness: Harness, unique: str, partitions: int) -> None:
    """Also one that lacks the partition of the receipts."""
    topic = unique + "receipts"
    plan = pinned(harness, topic, harness.create(topic, 8))
    harness.delete(topic)
    new_id = harness.create(topic, partitions)
    assert plan.receipts is not None
    assert told(await harness.ledger().read(make_ledger_question(plan))) == (
        5,
        (f"{topic} was deleted and made again: its id is {new_id}, planned was {plan.receipts.topic_id}.",),
    )


async def test_deleted_receipts_are_told_also_when_nothing_was_journaled(harness: Harness, unique: str) -> None:
    topic = unique + "receipts"
    plan = pinned(harness, topic, harness.create(topic, 8, cleanup_policy="delete"))
    write(harness, topic, make_receipt(0, 5, 50), make_receipt(0, 50, 60))
    harness.truncate(topic, START + 2, PLACE)
    assert told(await harness.ledger().read(make_ledger_question(plan))) == (
        5,
        (f"Receipts were deleted from {topic} partition 5: it begins at 5, the receipts of this recovery at 3.",),
    )


async def test_forgotten_recoveries_leave_tombstones_and_others_keep_their_receipts(
    harness: Harness, unique: str
) -> None:
    topic = unique + "receipts"
    plan = pinned(harness, topic, harness.create(topic, 8, cleanup_policy="compact"))
    write(harness, topic, make_receipt(0, 5, 50), make_receipt(0, 50, 60))
    write(harness, topic, make_receipt(0, 5, 40, recovery="r2"), make_receipt(0, 5, 30, recovery="r10"))
    ended = tuple(EndedRecovery(name, plan.receipts) for name in ("r1", "r2"))
    for _again in range(2):
        await harness.ledger().forget(ForgetRecoveries("main", ended))
    assert told(await harness.ledger().read(make_ledger_question(plan))) == (5, ())
    assert told(await harness.ledger().read(make_ledger_question(plan, "r2"))) == (5, ())
    assert told(await harness.ledger().read(make_ledger_question(plan, "r10"))) == (30, ())
    assert sum(record.value is None for record in harness.read(topic, PLACE)) == 3, "one for each, and once"


async def test_what_can_never_be_taken_away_does_not_keep_a_recovery(harness: Harness, unique: str) -> None:
    gone = ReceiptsHome(unique + "gone", "an-id", 0, 8)
    ended = (EndedRecovery("r1", gone), EndedRecovery("r2", None))
    await harness.ledger().forget(ForgetRecoveries("main", ended))
    await harness.ledger().forget(ForgetRecoveries("a cluster of last year", ended))
