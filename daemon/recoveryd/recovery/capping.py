"""A following replay with a cap (`max_records`, `max_bytes`): when its lanes have to return, so that others get what
some do not use of it.

A lane that has used up its part of the cap has returned; one that waits at the live head never does. With records left
for the first and nothing to copy for the second, the recovery would reach neither its cap nor zero lag. So once all
lanes that still run wait at the head, they are told to return; the ledger is read, and the rest of the cap is shared
out again (`recoveryd.recovery.lane_shares`).
"""

from recoveryd.kernel.states import State
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.lane_shares import returned_at
from recoveryd.recovery.model import Recovery, Wanted
from recoveryd.recovery.observed import Observed
from recoveryd.recovery.params import Params
from recoveryd.recovery.stops.caught_up import judge_partitions


def idle_part(recovery: Recovery, seen: Observed, history: SampleHistory, now_ms: int, params: Params) -> str:
    """Why the lanes have to return for a new share of the cap, or ""."""
    plan, returned = recovery.plan, returned_at(recovery, seen)
    if plan is None or recovery.state is not State.RUNNING or recovery.wanted is not Wanted.RUN:
        return ""
    if not history.samples or history.samples[-1].topic_id != plan.source.topic_id:
        return ""
    ends = history.samples[-1].high_watermark
    short = [p for p, position in returned.items() if ends.get(p, 0) > position]
    waiting = [p.partition for p in plan.partitions if p.partition not in returned]
    if not short or not waiting:
        return ""
    if not all(clause.holds for clause in judge_partitions(waiting, seen, history, now_ms, params, returned)):
        return ""
    return (
        f"the part of the cap for partition {min(short)} is used up and records are left, the others wait at the head: "
        "the rest is shared out again"
    )
