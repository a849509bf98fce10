"""Schedules that ended are forgotten some time later. They have nothing outside the status topic."""

from recoveryd.kernel.keeping import overdue_ids
from recoveryd.schedules.draft import ScheduleDraft


def forget_old(draft: ScheduleDraft) -> None:
    """Forget what is due, at most one batch at a time."""
    if gone := overdue_ids(draft.schedules.ended, draft.params, draft.now_ms):
        draft.forget_schedules(gone)
