"""Schedules that ended are forgotten some time later. They have nothing outside the status topic."""

from itertools import islice

from recoveryd.kernel.keeping import AT_ONCE, overdue
from recoveryd.schedules.draft import ScheduleDraft


def forget_old(draft: ScheduleDraft) -> None:
    """Forget what is due, at most one batch at a time."""
    params = draft.params
    due = overdue(draft.schedules.ended, params.keep_terminal_ms, params.keep_terminal_most, draft.now_ms)
    gone = [schedule.id for schedule in islice(due, AT_ONCE)]
    if gone:
        draft.forget_schedules(gone)
