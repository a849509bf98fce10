"""Asking for the ledger and using the answer. An answer counts only if it was asked for after the present imperative."""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State, StopReason
from recoveryd.recovery.attempts import durable_positions
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.effects import ReadLedger
from recoveryd.recovery.ending import completeness, fail
from recoveryd.recovery.events import LedgerPartition, LedgerRead
from recoveryd.recovery.losses import with_losses
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.progress import with_ledger


def ask_ledger(draft: RecoveryDraft, recovery: Recovery, *, fence: bool) -> None:
    """Ask once; ask again when no answer came for long."""
    seen = draft.observed(recovery.id)
    if recovery.plan is None or (
        seen.ledger_wanted_ms and draft.now_ms - seen.ledger_wanted_ms < draft.params.ledger_retry_ms
    ):
        return
    draft.observe(recovery.id, ledger_wanted_ms=draft.now_ms, ledger_since_ms=seen.ledger_since_ms or draft.now_ms)
    draft.effect(
        ReadLedger(
            recovery.id,
            recovery.attempt.number,
            recovery.plan,
            fence,
            recovery.wanted_sequence,
            durable_positions(recovery),
            recovery.ledger_from,
        )
    )


def _at_least_heard(recovery: Recovery, ledger: tuple[LedgerPartition, ...]) -> tuple[LedgerPartition, ...]:
    """Of a broken ledger, or what was known before where that is more: receipts that are gone take nothing back from the target."""
    heard = {p.partition: p for p in recovery.progress.partitions}
    rows = []
    for row in ledger:
        known = heard.get(row.partition)
        if known is not None and known.position > row.position:
            counts = known.copied, known.filtered, known.skipped, known.lost, known.bytes
            rows.append(LedgerPartition(row.partition, row.start, known.position, *counts))
        else:
            rows.append(row)
    return tuple(rows)


def unreadable_ledger(draft: RecoveryDraft, recovery: Recovery) -> str:
    """Why the ledger is given up: an error that no waiting mends, at once, or no answer for long; "" while it is worth waiting."""
    seen = draft.observed(recovery.id)
    error, since = seen.ledger_error, seen.ledger_since_ms
    said = f": {error.message}" if error is not None else ""
    if error is not None and not error.retriable:
        return f"the receipts can not be read{said}"
    if since and draft.now_ms - since > draft.params.ledger_deadline_ms:
        return f"the receipts could not be read for {(draft.now_ms - since) / 1000:.0f} s{said}"
    return ""


def use_ledger(draft: RecoveryDraft, recovery: Recovery) -> LedgerRead | None:
    """The answer, once, with exact positions and completeness put into the recovery; None while there is none or when it is broken."""
    seen = draft.observed(recovery.id)
    ledger = seen.ledger
    if ledger is None or ledger.sequence != recovery.wanted_sequence or ledger.attempt != recovery.attempt.number:
        return None
    draft.observe(recovery.id, ledger=None, ledger_wanted_ms=0, ledger_since_ms=0, ledger_error=None)
    found = _at_least_heard(recovery, ledger.partitions) if ledger.problems else ledger.partitions
    partitions = with_losses(draft, recovery, found)
    exact = with_ledger(recovery, partitions)
    exact = draft.put(replace(exact, completeness=completeness(exact, partitions)))
    if ledger.problems and recovery.state is not State.STOPPING:
        fail(draft, exact, "ledger_broken", ledger.problems[0])
        return None
    if ledger.problems and exact.stop_state is not State.FAILED:
        stop = replace(exact.stop, reason=StopReason.TARGET_UNAVAILABLE) if exact.stop else None
        draft.put(
            replace(
                exact, stop=stop, stop_state=State.FAILED, error_code=Code.LEDGER_BROKEN.value, why=ledger.problems[0]
            )
        )
    return ledger
