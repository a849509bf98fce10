"""Recoveries that ended are forgotten some time after their end.

First its receipts and the folders of its attempts are deleted, then the status record: a daemon that dies between the
two does the first part again. A forgotten recovery has no status any more and its id is free. That no command is
handled twice does not depend on it: the control topic holds the earlier commands.
"""

from dataclasses import replace
from typing import Final

from recoveryd.kernel.keeping import AT_ONCE, overdue
from recoveryd.recovery import quotas
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.effects import EndedRecovery, ForgetRecoveries
from recoveryd.recovery.events import RecoveriesForgotten

_RETRY_MS: Final = 300_000


def forget_old(draft: RecoveryDraft) -> None:
    """Ask to delete what is due, one batch per cluster at a time."""
    params, known = draft.params, draft.forgetting.asked_ms
    asked = {c: at for c, at in known.items() if draft.now_ms - at < _RETRY_MS}
    due: dict[str, list[EndedRecovery]] = {}
    for recovery in overdue(draft.stored.ended, params.keep_terminal_ms, params.keep_terminal_most, draft.now_ms):
        cluster = recovery.spec.target.cluster
        if cluster not in asked and len(due.setdefault(cluster, [])) < AT_ONCE:
            home = recovery.plan.receipts if recovery.plan is not None and recovery.attempt.number else None
            due[cluster].append(EndedRecovery(recovery.id, home))
    for cluster, recoveries in due.items():
        draft.effect(ForgetRecoveries(cluster, tuple(recoveries)))
        asked[cluster] = draft.now_ms
    if asked != known:
        draft.forgetting = replace(draft.forgetting, asked_ms=asked)


def on_forgotten(draft: RecoveryDraft, event: RecoveriesForgotten) -> None:
    """Receipts and folders are deleted, so remove the status records too; except that of an id which was used again
    meanwhile.
    """
    asked = {c: at for c, at in draft.forgetting.asked_ms.items() if c != event.cluster}
    draft.forgetting = replace(draft.forgetting, asked_ms=asked)
    for recovery_id in event.recoveries:
        if recovery_id in draft.stored.ended:
            draft.forget_for_good(recovery_id)
            quotas.forget_quota(draft, recovery_id)
