"""Draining: wait until no chunk is open, then read the ledger once, so that positions and counts are exact.

Used by `pausing` and `stopping`. With no application left, the lanes are fenced first, which ends what they may have left open.
"""

from recoveryd.recovery.attempts import ensure_application, release_application
from recoveryd.recovery.directing import renew_lease
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.ledger import ask_ledger, use_ledger
from recoveryd.recovery.model import Recovery

RESTING = frozenset(
    {"paused", "done", "leaseless"}
)  # of a lane, or of a task of the verification, that was told to pause


def _drain_is_over(draft: RecoveryDraft, recovery: Recovery, lane_states: frozenset[str]) -> bool:
    """All lanes obeyed the present imperative and hold no open chunk."""
    seen, plan = draft.observed(recovery.id), recovery.plan
    if seen.driver is not None and seen.driver.phase in {"drained", "verified"}:
        return True
    if plan is None or len(seen.lanes) < len(plan.lanes):
        return False
    beats = [h.heartbeat for h in seen.lanes.values()]
    obeyed = all(b.directive_sequence >= recovery.wanted_sequence or b.state == "done" for b in beats)
    return obeyed and all(b.state in lane_states and not b.chunk_open for b in beats)


def read_when_drained(draft: RecoveryDraft, recovery: Recovery, lane_states: frozenset[str]) -> bool:
    """Drive the drain: True once an exact ledger for it has been put into the recovery."""
    if use_ledger(draft, recovery) is not None:
        return True
    seen = draft.observed(recovery.id)
    if recovery.attempt.released:
        ask_ledger(draft, recovery, fence=recovery.attempt.number > 0)
    elif _drain_is_over(draft, recovery, lane_states):
        ask_ledger(draft, recovery, fence=False)
    elif (
        seen.driver is not None and seen.driver.phase == "failed"
    ) or draft.now_ms - seen.drain_since_ms > draft.params.drain_timeout_ms:
        release_application(draft, recovery, "it did not drain in time")
    else:
        ensure_application(draft, recovery, launch=False)
    renew_lease(draft, draft.recovery(recovery.id) or recovery)
    return False
