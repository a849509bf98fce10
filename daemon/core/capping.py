"""A replay that follows under a cap: when lanes have to return, so that what some do not use of it goes to others.

A lane that used its part up has returned, one that waits at the live head never does. With records left for the first and nothing to copy for the second, the
run would come neither to its cap nor to zero lag. So once all that still run wait at the head, they are told to return; the ledger is read, and the rest is
shared out again (`daemon.core.sharing`).
"""

from daemon.core.model import Recovery, State, Wanted
from daemon.core.observed import Observed, SampleHistory
from daemon.core.params import Params
from daemon.core.policies.caught_up import judge_partition


def idle_part(recovery: Recovery, seen: Observed, history: SampleHistory, now_ms: int, params: Params) -> str:
    """Why the lanes have to return for a new share of the cap, or ""."""
    plan, limits = recovery.plan, recovery.limits
    if plan is None or not plan.is_following or (limits.max_records is None and limits.max_bytes is None):
        return ""
    if recovery.state is not State.RUNNING or recovery.wanted is not Wanted.RUN or len(seen.lanes) < len(plan.lanes):
        return ""
    if not history.samples or history.samples[-1].topic_id != plan.source.topic_id:
        return ""
    returned = [lane for lane in range(len(plan.lanes)) if seen.lanes[lane].heartbeat.state == "done"]
    short = [lane for lane in returned if _lags(recovery, plan.lanes[lane], history)]
    waiting = [p for lane, members in enumerate(plan.lanes) if lane not in returned for p in members]
    if not short or not waiting:
        return ""
    if not all(judge_partition(p, seen, history, now_ms, params).holds for p in waiting):
        return ""
    return f"lane {short[0]} used up its part of the cap and has records left, the others wait at the head: the rest is shared out again"


def _lags(recovery: Recovery, members: tuple[int, ...], history: SampleHistory) -> bool:
    ends = history.samples[-1].high_watermark
    return any(
        ends.get(row.partition, 0) > row.position for row in recovery.progress.partitions if row.partition in members
    )
