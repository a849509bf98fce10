"""Recoveries that ended are forgotten some time after their end.

First its receipts and the folders of its attempts are deleted, then the status record: a daemon that dies between the
two does the first part again. A forgotten recovery has no status any more and its id is free. That no command is
handled twice does not depend on it: the control topic holds the earlier commands.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from recoveryd.kernel.keeping import AT_ONCE, overdue
from recoveryd.recovery import quotas
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.effects import EndedRecovery, ForgetRecoveries
from recoveryd.recovery.events import ForgettingFailed, RecoveriesForgotten

_RETRY_MS: Final = 300_000


def forget_old(draft: RecoveryDraft) -> None:
    """Ask to delete what is due, one batch per cluster at a time: two at once could meet a recovery that uses the id of
    one that the first has freed.
    """
    params, known = draft.params, draft.forgetting
    waiting = {cluster for cluster, at_ms in known.not_before_ms.items() if draft.now_ms < at_ms}
    due: dict[str, list[EndedRecovery]] = {}
    for recovery in overdue(draft, draft.stored.ended, params):
        cluster = recovery.spec.target.cluster
        if cluster not in known.under_way | waiting and len(due.setdefault(cluster, [])) < AT_ONCE:
            home = recovery.plan.receipts if recovery.plan is not None and recovery.attempt.number else None
            due[cluster].append(EndedRecovery(recovery.id, home, recovery.control_offset))
    for cluster, recoveries in due.items():
        draft.effect(ForgetRecoveries(cluster, tuple(recoveries)))
    if due:
        draft.forgetting = replace(known, under_way=known.under_way | due.keys())


def on_forgotten(draft: RecoveryDraft, event: RecoveriesForgotten) -> None:
    """Receipts and folders are deleted, so remove the status records too; except that of an id which was used again
    meanwhile, whatever became of that recovery.
    """
    _answered(draft, event.cluster)
    for gone in event.recoveries:
        known = draft.stored.ended.get(gone.id)
        if known is not None and known.control_offset == gone.control_offset:
            draft.forget_for_good(gone.id)
            quotas.forget_quota(draft, gone.id)


def on_failed(draft: RecoveryDraft, event: ForgettingFailed) -> None:
    """Try again after a while. A cluster that cannot do it delays only its own."""
    _answered(draft, event.cluster, {event.cluster: draft.now_ms + _RETRY_MS})


def _answered(draft: RecoveryDraft, cluster: str, retry_ms: Mapping[str, int] = MappingProxyType({})) -> None:
    known = draft.forgetting
    others = {c: at_ms for c, at_ms in known.not_before_ms.items() if c != cluster}
    draft.forgetting = replace(known, under_way=known.under_way - {cluster}, not_before_ms={**others, **retry_ms})
