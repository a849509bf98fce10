"""When the lanes of a following replay have to return: so that others get what some do not use of a cap
(`max_records`, `max_bytes`), or so that one that returned too early begins anew.

A lane that has used up its part of the cap has returned; one that waits at the live head never does. With records left
for the first and nothing to copy for the second, the recovery would reach neither its cap nor zero lag. So once all
lanes that still run wait at the head, they are told to return; the ledger is read, and the rest of the cap is shared
out again (`recoveryd.recovery.lane_shares`).

Lanes keep only the newest directive. So where a pause comes while they are told to return, some have returned for good
when the recovery goes on, and others never heard of it. Nobody copies the partitions of the first, though they may use
more of the cap: the others have to return, too, wherever they are.
"""

from recoveryd.kernel.states import State
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.lane_shares import returned_at, returned_early
from recoveryd.recovery.model import Recovery, Wanted
from recoveryd.recovery.observed import Observed
from recoveryd.recovery.params import Params
from recoveryd.recovery.stops.caught_up import judge_partitions


def reason_to_return(recovery: Recovery, seen: Observed, history: SampleHistory, now_ms: int, params: Params) -> str:
    """Why the lanes have to return, for a new share of the cap or for another attempt, or ""."""
    if recovery.state is not State.RUNNING or recovery.wanted is not Wanted.RUN:
        return ""
    early = returned_early(recovery, seen)
    if early is not None:
        return f"lane {early} has returned although it may go on: the others return too, and all begin anew"
    return _idle_part(recovery, seen, history, now_ms, params)


def _idle_part(recovery: Recovery, seen: Observed, history: SampleHistory, now_ms: int, params: Params) -> str:
    plan, returned = recovery.plan, returned_at(recovery, seen)
    if plan is None:
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
