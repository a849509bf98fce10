"""The log ends behind which a recovery is that follows them, as far as they were seen lately.

A lag, and all that is made of one, is shown only while every end is known: an old end, or none, looks like a lag of
zero.
"""

from collections.abc import Mapping

from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.recoveries import is_over


def fresh_ends(history: SampleHistory | None, now_ms: int, fresh_ms: int) -> Mapping[int, int]:
    """The log end of each partition in the newest sample; none where that is older than `fresh_ms`."""
    newest = history.newest if history is not None else None
    return {} if newest is None or now_ms - newest.sampled_at_ms > fresh_ms else newest.high_watermark


def is_end_known(recovery: Recovery, ends: Mapping[int, int]) -> bool:
    """Whether it is known how far each partition is to be copied. `ends`: those that are fresh. Where it does not
    follow, or does not do so any more, nothing has to be looked at.
    """
    if recovery.plan is None or not recovery.plan.is_following or recovery.is_proving or is_over(recovery):
        return True
    return all(row.partition in ends for row in recovery.progress.partitions)
