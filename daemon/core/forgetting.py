"""Finished recoveries and watches are forgotten some time after their end, so that a daemon that ran for years costs what one of last week costs.

First what lies outside is taken away (receipts, folders of attempts), then the record itself: a daemon that dies between the two does the first part again.
What is forgotten has no status any more and its id is free; that a command is never handled twice does not depend on it (the control topic remembers that).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from daemon.core.draft import Draft
from daemon.core.effects import EndedRecovery, ForgetRecoveries
from daemon.core.events import RecoveriesForgotten
from daemon.core.model import Recovery
from daemon.core.watches.model import Watch

AT_ONCE = 500
_LOOKED_AT = 10 * AT_ONCE
_RETRY_MS = 300_000

_Ended = TypeVar("_Ended", Recovery, Watch)


def forget_old(draft: Draft) -> None:
    """Ask for what is due, one batch per cluster at a time. Of a watch nothing lies outside."""
    watches = [w.id for w in islice(_due(draft, draft.watches.ended), AT_ONCE)]
    if watches:
        draft.forget_watches(watches)
    asked = {c: at for c, at in draft.forgetting.asked_ms.items() if draft.now_ms - at < _RETRY_MS}
    due: dict[str, list[EndedRecovery]] = {}
    for recovery in _due(draft, draft.state.recoveries.ended):
        cluster = recovery.spec.target.cluster
        if cluster not in asked and len(due.setdefault(cluster, [])) < AT_ONCE:
            home = recovery.plan.receipts if recovery.plan is not None and recovery.attempt.number else None
            due[cluster].append(EndedRecovery(recovery.id, home))
    for cluster, recoveries in due.items():
        draft.effect(ForgetRecoveries(cluster, tuple(recoveries)))
        asked[cluster] = draft.now_ms
    if asked != draft.forgetting.asked_ms:
        draft.forgetting = replace(draft.forgetting, asked_ms=asked)


def _due(draft: Draft, ended: Mapping[str, _Ended]) -> Iterator[_Ended]:
    """The oldest first; they stand in the order in which they ended."""
    too_many = len(ended) - draft.params.keep_terminal_most
    for number, one in enumerate(islice(ended.values(), _LOOKED_AT)):
        if number >= too_many and draft.now_ms - one.updated_ms < draft.params.keep_terminal_ms:
            return
        yield one


def on_forgotten(draft: Draft, event: RecoveriesForgotten) -> None:
    """Nothing of them is left outside: the records go. One that came to life again under the same id stays."""
    asked = {c: at for c, at in draft.forgetting.asked_ms.items() if c != event.cluster}
    draft.forgetting = replace(draft.forgetting, asked_ms=asked)
    for recovery_id in event.recoveries:
        if recovery_id in draft.state.recoveries.ended:
            draft.forget_for_good(recovery_id)
