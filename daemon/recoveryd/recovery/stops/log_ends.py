"""Since when each partition's durable position is at the end of its log, for `limits.idle` and `limits.event_time`.

Kept only for recoveries that have such a limit. A partition that is not in the sample does not count as being at its
end.
"""

from collections.abc import Mapping

from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.forecast_run import event_times
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.observed import AtEnd, Observed
from recoveryd.recovery.params import Params
from recoveryd.recovery.stops.conditions import HeadState


def wants_heads(recovery: Recovery) -> bool:
    return recovery.limits.idle_ms is not None or recovery.limits.event_time_ms is not None


def at_end_since(
    recovery: Recovery, before: Mapping[int, AtEnd], history: SampleHistory, now_ms: int
) -> dict[int, AtEnd]:
    """The partitions at their end by the newest sample, and since when, without a move of the position: a partition
    that keeps up with what arrives is not idle.
    """
    if not history.samples:
        return {}
    newest = history.samples[-1]
    found = {}
    for row in recovery.progress.partitions:
        end = newest.high_watermark.get(row.partition)
        done = row.stop is not None and row.position >= row.stop
        if done or (end is not None and row.position >= end):
            known = before.get(row.partition)
            has_stood = known is not None and known.position == row.position
            found[row.partition] = known if known is not None and has_stood else AtEnd(row.position, now_ms)
    return found


def head_states(recovery: Recovery, seen: Observed, now_ms: int, params: Params) -> dict[int, HeadState]:
    """Event time and end of each planned partition. Once samples have stopped coming, no partition counts as being at
    its end.
    """
    times = event_times(seen)
    is_fresh = now_ms - seen.heads_ms <= 3 * params.sample_period_ms
    since = seen.at_end if is_fresh else {}
    return {
        row.partition: HeadState(
            times.get(row.partition), since[row.partition].since_ms if row.partition in since else None
        )
        for row in recovery.progress.partitions
    }
