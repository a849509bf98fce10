"""The verification of a recovery: how it begins, what is said of its result, and when it stands still.

It works like the copy does: under the same lease and the same limits, paused, resumed and stopped by the same commands (`recoveryd.recovery.steer`). But it
writes nothing, so nothing has to be drained or read from a ledger: the positions are those of before. An attempt that is lost takes what it read with it,
and the next one begins anew.
"""

from dataclasses import replace

from recoveryd.kernel.states import State
from recoveryd.recovery.attempts import ensure_application, release_application
from recoveryd.recovery.directing import renew_lease, want
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.drain import RESTING
from recoveryd.recovery.ending import settle
from recoveryd.recovery.model import Recovery, Wanted
from recoveryd_jobs.contract import Verification

_SILENT_MS = 5_000  # a task that said nothing for so long has ended


def begin_proof(draft: RecoveryDraft, recovery: Recovery, why: str) -> None:
    """The copy is over: verify it, unless the command asked for none."""
    if recovery.spec.verify == "none":
        skipped = Verification("skipped", recovery.progress.records, 0, "", (), "the command asked for none")
        settle(draft, recovery, State.COMPLETED, why, skipped)
        return
    idle = replace(recovery.progress, records_per_s=0.0, bytes_per_s=0.0, eta_seconds=None)
    moved = draft.move(
        recovery, State.VERIFYING, f"{why}; compares source and target", resume_state=State.VERIFYING, progress=idle
    )
    draft.observe(recovery.id, ledger=None, ledger_wanted_ms=0, ledger_since_ms=0, progress_ms=draft.now_ms)
    want(draft, moved, Wanted.VERIFY, why)


def has_begun(draft: RecoveryDraft, recovery: Recovery) -> bool:
    """Whether the application reads, or has read."""
    driver = draft.observed(recovery.id).driver
    return driver is not None and driver.phase in {"verifying", "verified"}


def proved_why(recovery: Recovery, found: Verification) -> str:
    """The sentence of a verification that has its result."""
    if recovery.spec.copies:
        reason = recovery.stop.reason.value if recovery.stop else "done"
        return f"{reason}: {recovery.progress.records:,} records copied and verified ({found.result})"
    return (
        f"{found.source_records:,} source records compared with {found.target_records:,} of the target ({found.result})"
    )


def is_at_rest(draft: RecoveryDraft, recovery: Recovery) -> bool:
    """Drive a verification to a stand: True once the driver and every task that reads obeyed the present imperative."""
    seen = draft.observed(recovery.id)
    if recovery.attempt.released or _has_obeyed(draft, recovery):
        return True
    if (
        seen.driver is not None and seen.driver.phase == "failed"
    ) or draft.now_ms - seen.drain_since_ms > draft.params.drain_timeout_ms:
        release_application(draft, recovery, "the verification did not stand still in time")
        return True
    ensure_application(draft, recovery, launch=False)
    renew_lease(draft, draft.recovery(recovery.id) or recovery)
    return False


def _has_obeyed(draft: RecoveryDraft, recovery: Recovery) -> bool:
    """A task that says nothing any more has ended, or the driver will tell that it failed."""
    seen = draft.observed(recovery.id)
    if seen.driver is None or seen.driver.directive_sequence < recovery.wanted_sequence:
        return False
    if seen.driver.phase != "verifying":
        return True
    present = [h.heartbeat for h in seen.readers.values() if draft.now_ms - h.received_ms <= _SILENT_MS]
    return bool(present) and all(
        beat.state == "done" or (beat.state in RESTING and beat.directive_sequence >= recovery.wanted_sequence)
        for beat in present
    )
