"""Holds that ended are forgotten some time later. They have nothing outside the status topic."""

from itertools import islice

from recoveryd.holds.draft import HoldDraft
from recoveryd.kernel.keeping import AT_ONCE, overdue


def forget_old(draft: HoldDraft) -> None:
    """Forget what is due, at most one batch at a time."""
    params = draft.params
    due = overdue(draft.holds.ended, params.keep_terminal_ms, params.keep_terminal_most, draft.now_ms)
    gone = [hold.id for hold in islice(due, AT_ONCE)]
    if gone:
        draft.forget_holds(gone)
