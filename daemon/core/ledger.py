"""Asking for the ledger and using the answer. An answer counts only if it was asked for after the present imperative."""

from dataclasses import replace

from daemon.core.catalogue import Code
from daemon.core.draft import Draft
from daemon.core.effects import ReadLedger
from daemon.core.ending import completeness, fail
from daemon.core.events import LedgerRead
from daemon.core.model import Recovery, State, StopReason
from daemon.core.progress import with_ledger


def ask_ledger(draft: Draft, recovery: Recovery, *, fence: bool) -> None:
    """Ask once; ask again when no answer came for long."""
    seen = draft.observed(recovery.id)
    if recovery.plan is None or (
        seen.ledger_wanted_ms and draft.now_ms - seen.ledger_wanted_ms < draft.params.ledger_retry_ms
    ):
        return
    draft.observe(recovery.id, ledger_wanted_ms=draft.now_ms, ledger_since_ms=seen.ledger_since_ms or draft.now_ms)
    draft.effect(ReadLedger(recovery.id, recovery.attempt.number, recovery.plan, fence, recovery.wanted_sequence))


def use_ledger(draft: Draft, recovery: Recovery) -> LedgerRead | None:
    """The answer, once, with exact positions and completeness put into the recovery; None while there is none or when it is broken."""
    seen = draft.observed(recovery.id)
    ledger = seen.ledger
    if ledger is None or ledger.sequence != recovery.wanted_sequence or ledger.attempt != recovery.attempt.number:
        return None
    draft.observe(recovery.id, ledger=None, ledger_wanted_ms=0, ledger_since_ms=0)
    exact = with_ledger(recovery, ledger.partitions)
    exact = draft.put(replace(exact, completeness=completeness(exact, ledger.partitions)))
    if ledger.problems and recovery.state is not State.STOPPING:
        fail(draft, exact, "ledger_broken", ledger.problems[0])
        return None
    if ledger.problems and exact.stop_state is not State.FAILED:
        stop = replace(exact.stop, reason=StopReason.ERROR_RATE) if exact.stop else None
        draft.put(
            replace(
                exact, stop=stop, stop_state=State.FAILED, error_code=Code.LEDGER_BROKEN.value, why=ledger.problems[0]
            )
        )
    return ledger
