"""A schedule that cannot go on ends as failed, with a code and a sentence."""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.noun import changed
from recoveryd.kernel.states import State, Stop
from recoveryd.schedules.draft import ScheduleDraft
from recoveryd.schedules.model import Schedule


def fail(draft: ScheduleDraft, schedule: Schedule, code: Code, why: str, stop: Stop | None = None) -> Schedule:
    """The schedule as it ends. A run that goes on is left alone, and followed to its end."""
    told = {"from": schedule.state.value, "to": State.FAILED.value, "why": why, "code": code.value}
    draft.notice("schedule_failed", schedule.id, told)
    draft.reason = why
    ended = replace(schedule, state=State.FAILED, error_code=code.value, stop=stop, next_run_ms=None, queued_ms=None)
    return draft.put_schedule(changed(ended, draft.now_ms, why=why))
