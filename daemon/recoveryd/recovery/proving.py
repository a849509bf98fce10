"""The verification of a recovery: how it begins, the sentence of its result, and when it is at rest.

It runs like the copy: under the same lease and limits, paused, resumed and stopped by the same commands
(`recoveryd.recovery.steer`). But it writes nothing, so there is nothing to drain and no ledger to read: positions stay.
When an attempt is lost, the next one begins to read anew.
"""

from dataclasses import replace

from recoveryd.kernel.states import State
from recoveryd.recovery.attempts import ensure_application, release_application
from recoveryd.recovery.case import Case
from recoveryd.recovery.directing import renew_lease, want
from recoveryd.recovery.ending import settle
from recoveryd.recovery.ledger import RESTING, is_drain_late, lost_while_draining
from recoveryd.recovery.model import Recovery, Wanted
from recoveryd_jobs.contract import Verification

_SILENT_MS = 5_000  # a task without a heartbeat for this long has ended


def begin_proof(case: Case, why: str) -> None:
    """The copy is over, so nothing is left of it, also where the head of its source goes on: begin the verification,
    unless the command asked for none.
    """
    progress = replace(case.recovery.progress, lag_records=0)
    case.draft.remember(replace(case.recovery, progress=progress))
    if case.recovery.spec.verify == "none":
        skipped = Verification("skipped", progress.records, 0, "", (), "the command asked for none")
        settle(case, State.COMPLETED, why, skipped)
        return
    idle = replace(progress, records_per_s=0.0, bytes_per_s=0.0, eta_seconds=None)
    proves = f"{why}; compares source and target"
    attempt = replace(case.recovery.attempt, stall=None)  # of the copy, which says nothing of the proof
    case.move(State.VERIFYING, proves, resume_state=State.VERIFYING, progress=idle, attempt=attempt)
    case.observe(ledger=None, ledger_wanted_ms=0, ledger_since_ms=0, progress_ms=case.now_ms)
    want(case, Wanted.VERIFY, why)


def has_begun(case: Case) -> bool:
    """Whether the application is verifying, or has verified."""
    driver = case.seen.driver
    return driver is not None and driver.phase in {"verifying", "verified"}


def proved_why(recovery: Recovery, found: Verification) -> str:
    """The sentence (`why`) of a verification that has its result."""
    if recovery.spec.copies:
        reason = recovery.stop.reason.value if recovery.stop else "done"
        return f"{reason}: {recovery.progress.records:,} records copied and verified ({found.result})"
    return (
        f"{found.source_records:,} source records compared with {found.target_records:,} of the target ({found.result})"
    )


def is_at_rest(case: Case) -> bool:
    """Take the next step to bring the verification to rest. True once the driver and every reading task obeyed the
    present imperative.
    """
    if lost_while_draining(case):
        return case.recovery.state is State.PAUSING
    if case.recovery.attempt.released or _has_obeyed(case):
        return True
    if is_drain_late(case):
        release_application(case, "the verification did not stand still in time")
        return True
    ensure_application(case, launch=False)
    renew_lease(case)
    return False


def _has_obeyed(case: Case) -> bool:
    """Whether driver and tasks obeyed. A task without heartbeats is left out: it has ended, or the driver will report
    that it failed.
    """
    seen, wanted_sequence = case.seen, case.recovery.wanted_sequence
    if seen.driver is None or seen.driver.directive_sequence < wanted_sequence:
        return False
    if seen.driver.phase != "verifying":
        return True
    present = [h.heartbeat for h in seen.readers.values() if case.now_ms - h.received_ms <= _SILENT_MS]
    return bool(present) and all(
        beat.state == "done" or (beat.state in RESTING and beat.directive_sequence >= wanted_sequence)
        for beat in present
    )
