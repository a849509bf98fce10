"""Asking for the ledger and using the answer. An answer counts only if the question came after the present imperative.

Used by `pausing`, `stopping` and a run that has drained by itself: no chunk may be open, then the ledger is read once,
so that positions and counts are exact. With no application left, the lanes are fenced first, which ends what they may
have left open.
"""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State, StopReason
from recoveryd.recovery.attempts import durable_positions, ensure_application, lose_attempt, release_application
from recoveryd.recovery.case import Case
from recoveryd.recovery.directing import renew_lease
from recoveryd.recovery.effects import ReadLedger
from recoveryd.recovery.ending import FINAL_ERRORS, completeness, fail
from recoveryd.recovery.events import LedgerPartition, LedgerRead
from recoveryd.recovery.losses import with_losses
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.progress import with_ledger

RESTING = frozenset(
    {"paused", "done", "leaseless"}
)  # states of a lane, or of a task of the verification, that was told to pause


def read_when_drained(case: Case, lane_states: frozenset[str]) -> bool:
    """Take the next step of the drain. True once the exact ledger has been put into the recovery."""
    if use_ledger(case) is not None:
        return True
    if lost_while_draining(case):
        return False
    if case.recovery.attempt.released:
        ask_ledger(case, fence=case.recovery.attempt.number > 0)
    elif _drain_is_over(case, lane_states):
        ask_ledger(case, fence=False)
    elif is_drain_late(case):
        release_application(case, "it did not drain in time")
    else:
        ensure_application(case, launch=False)
    renew_lease(case)
    return False


def lost_while_draining(case: Case) -> bool:
    """React to a driver that fails while it is to come to rest: that costs the attempt, and an error against which no
    other one helps ends what was to pause or to complete. True if it failed.
    """
    driver, recovery = case.seen.driver, case.recovery
    if driver is None or driver.phase != "failed" or recovery.attempt.released:
        return False
    if recovery.state is State.STOPPING and recovery.stop_state is State.FAILED:
        release_application(case, "it has failed")  # most likely of what ends the recovery, which was told
        return True
    lose_attempt(case, driver.error_message or "the application failed", driver.error_code)
    if driver.error_code in FINAL_ERRORS:
        fail(case, driver.error_code, driver.error_message)
    return True


def is_drain_late(case: Case) -> bool:
    """Whether lanes or tasks were asked to come to rest too long ago."""
    return case.now_ms - case.seen.drain_since_ms > case.params.drain_timeout_ms


def _drain_is_over(case: Case, lane_states: frozenset[str]) -> bool:
    """All lanes obeyed the present imperative and hold no open chunk."""
    seen, recovery = case.seen, case.recovery
    if seen.driver is not None and seen.driver.phase in {"drained", "verified"}:
        return True
    if recovery.plan is None or len(seen.lanes) < len(recovery.plan.lanes):
        return False
    beats = [h.heartbeat for h in seen.lanes.values()]
    obeyed = all(b.directive_sequence >= recovery.wanted_sequence or b.state == "done" for b in beats)
    return obeyed and all(b.state in lane_states and not b.chunk_open for b in beats)


def ask_ledger(case: Case, *, fence: bool) -> None:
    """Ask once; ask again when no answer came for long."""
    seen, recovery = case.seen, case.recovery
    asked_ms = seen.ledger_wanted_ms
    if recovery.plan is None or (asked_ms and case.now_ms - asked_ms < case.params.ledger_retry_ms):
        return
    case.observe(ledger_wanted_ms=case.now_ms, ledger_since_ms=seen.ledger_since_ms or case.now_ms)
    case.effect(
        ReadLedger(
            case.id,
            recovery.attempt.number,
            recovery.plan,
            fence,
            recovery.wanted_sequence,
            durable_positions(recovery),
            recovery.ledger_from,
        )
    )


def _at_least_heard(recovery: Recovery, ledger: tuple[LedgerPartition, ...]) -> tuple[LedgerPartition, ...]:
    """The rows of a broken ledger, or what was known before where that is more: records stay in the target even if
    their receipts are gone.
    """
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


def unreadable_ledger(case: Case) -> str:
    """Why the ledger is given up: at once after an error that is not retriable, otherwise when no answer came for long;
    "" while waiting may help.
    """
    error, since = case.seen.ledger_error, case.seen.ledger_since_ms
    said = f": {error.message}" if error is not None else ""
    if error is not None and not error.retriable:
        return f"the receipts cannot be read{said}"
    if since and case.now_ms - since > case.params.ledger_deadline_ms:
        return f"the receipts could not be read for {(case.now_ms - since) / 1000:.0f} s{said}"
    return ""


def give_up_on_ledger(case: Case) -> bool:
    """End the recovery if its receipts cannot be read. True if so."""
    why = unreadable_ledger(case)
    if why:
        fail(case, "target_unavailable", why)
    return bool(why)


def use_ledger(case: Case) -> LedgerRead | None:
    """Take the answer and put exact positions and completeness into the recovery. Returns it once; None while there is
    none, or when the ledger is broken.
    """
    ledger, recovery = case.seen.ledger, case.recovery
    if ledger is None or ledger.sequence != recovery.wanted_sequence or ledger.attempt != recovery.attempt.number:
        return None
    case.observe(ledger=None, ledger_wanted_ms=0, ledger_since_ms=0, ledger_error=None)
    found = _at_least_heard(recovery, ledger.partitions) if ledger.problems else ledger.partitions
    partitions = with_losses(case, found)
    exact = with_ledger(recovery, partitions)
    rows = completeness(exact, partitions)
    case.draft.journal(replace(exact, completeness=rows, is_position_exact=not ledger.problems))
    if ledger.problems and recovery.state is not State.STOPPING:
        fail(case, "ledger_broken", ledger.problems[0])
        return None
    if ledger.problems and exact.stop_state is not State.FAILED:
        stop = replace(exact.stop, reason=StopReason.TARGET_UNAVAILABLE) if exact.stop else None
        case.journal(stop=stop, stop_state=State.FAILED, error_code=Code.LEDGER_BROKEN.value, why=ledger.problems[0])
    return ledger
