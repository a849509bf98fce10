"""What recoveries reach that nothing holds back: later plans expect this rate.

It is observed, not journaled: a new leader measures anew.
"""

from typing import Final

from recoveryd.kernel.states import State
from recoveryd.recovery.model import Recovery

WEIGHT: Final = 0.1


def with_rate_of(recovery: Recovery | None, before: float | None) -> float | None:
    """The moving average in bytes/s once a lane of this recovery was heard; None = nothing was measured yet."""
    if recovery is None or recovery.state is not State.RUNNING or _is_held_back(recovery):
        return before
    rate = recovery.progress.bytes_per_s
    if rate <= 0:
        return before
    return rate if before is None else before + WEIGHT * (rate - before)


def _is_held_back(recovery: Recovery) -> bool:
    return recovery.effective_bytes_per_s is not None or recovery.limits.max_records_per_s is not None
