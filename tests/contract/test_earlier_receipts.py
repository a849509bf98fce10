"""What earlier releases left on the receipts and events topics is read by all that read these: the daemon's ledger, the
lanes', the proof's, and whoever looks for the answer to a command.
"""

import json
from collections import Counter
from typing import Any

import pytest

from recoveryd.adapters.kafka.receipts import add_up, key_prefix, newest_values
from recoveryd.adapters.kafka.status_reader import Expected, is_answer
from recoveryd.recovery.model import Recovery
from recoveryd_jobs.contract import DIGEST_FORM, PartitionRange, Receipt, decode
from recoveryd_jobs.receipts import fold
from recoveryd_jobs.verify.ledger import ProofLedger
from tests.builders.core import STATUS
from tests.builders.golden import FILES, records
from tests.wire.json_schema import is_valid, load

FORMS = {"release-0.1.0": 1, "format-1": DIGEST_FORM}  # of the digests in their receipts


def _copies(file: str) -> list[tuple[str, str, dict[bytes, bytes], Recovery]]:
    """(file, scope, receipts by key, newest status) of every recovery that has receipts."""
    nouns = STATUS.fold((r.key, r.value) for r in records(file, "status")).nouns
    pairs = [(r.key, r.value) for r in records(file, "receipts")]
    found = []
    for scope, name in sorted({tuple((key or b"").decode().split("/")[:2]) for key, _ in pairs}):
        recovery = nouns[name]
        assert isinstance(recovery, Recovery)
        found.append((file, scope, newest_values(pairs, key_prefix(scope, name)), recovery))
    return found


COPIES = [pytest.param(*copy, id=f"{copy[0]}-{copy[3].id}") for file in FILES for copy in _copies(file)]


@pytest.mark.parametrize(("file", "scope", "values", "recovery"), COPIES)
def test_receipts_add_up_to_what_the_status_says_whoever_reads_them(
    file: str, scope: str, values: dict[bytes, bytes], recovery: Recovery
) -> None:
    plan = recovery.plan
    assert plan is not None
    known = {p.partition: p.position for p in recovery.progress.partitions}
    found = add_up(values, plan, known)
    assert found.problems == ()
    if recovery.is_terminal or recovery.state.value == "paused":
        assert {p.partition: p.position for p in found.partitions} == known

    receipts = [decode(Receipt, value) for value in values.values()]
    assert {(r.scope, r.recovery) for r in receipts} == {(scope, recovery.id)}
    assert [r.key.encode() for r in receipts] == list(values)
    for lane, partitions in enumerate(plan.lanes):
        ranges = [PartitionRange(p.partition, p.start, p.stop) for p in plan.partitions if p.partition in partitions]
        mine = [r for r in receipts if r.partition in partitions]
        standings = fold(mine, ranges, lane, plan.source.topic_id, plan.target.topic_id).standings
        for row in found.partitions:
            if row.partition in partitions:
                stands = standings[row.partition]
                assert (stands.position, stands.copied, stands.bytes) == (row.position, row.copied, row.bytes)

    ledger = ProofLedger()
    for receipt, value in zip(receipts, values.values(), strict=True):
        ledger.put(receipt.partition, receipt.start, value)
    ledger.settle()
    for row in found.partitions:
        claims = list(ledger.claims(row.partition))
        assert sum(claim.copied for claim in claims) == row.copied
        assert (ledger.position(row.partition) or row.start) == row.position
    for receipt in receipts:
        assert ledger.sent(receipt.partition, receipt.start) == (receipt.copied, receipt.copied)
        for run in receipt.targets:
            claimed = ledger.digest(receipt.partition, run.partition, receipt.start)
            assert claimed is not None
            # One of an older form is not compared: the records are.
            assert claimed.digest == (bytes.fromhex(run.digest) if FORMS[file] == DIGEST_FORM else b"")


def _events(file: str) -> list[dict[str, Any]]:
    return [json.loads(r.value) for r in records(file, "events") if r.value is not None]


@pytest.mark.parametrize("file", FILES)
def test_each_command_of_an_earlier_release_has_one_answer_among_its_events(file: str) -> None:
    commands = [json.loads(r.value) for r in records(file, "control") if r.value is not None]
    sent = [Expected(command["id"], command["subject"], None) for command in commands]
    answers = Counter(command for event in _events(file) for command in sent if is_answer(event, command))
    assert answers == dict.fromkeys(sent, 1)


@pytest.mark.parametrize("file", FILES)
def test_its_events_fit_what_is_documented_now(file: str) -> None:
    """Apart from those of a leader, which say why today."""
    for event in _events(file):
        if event["type"] == "io.recoveryd.event.leader_changed.v1":
            continue
        form = "event.answer.v1.json" if ".command_" in event["type"] else "event.v1.json"
        assert is_valid(event, load(form)), event
