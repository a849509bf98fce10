"""Two recoveries into one target topic are refused unless both say `append`: without it, the proof expects the target
to hold nothing but the copy, in all partitions.

A recovery that only reads conflicts with none.
"""

from collections.abc import Iterable

from recoveryd.recovery.model import ACTIVE, Recovery


def target_conflict(recovery: Recovery, others: Iterable[Recovery]) -> str | None:
    """The sentence that names the recovery in the way, or None."""
    if not _writes(recovery):
        return None
    target = recovery.spec.target
    for other in others:
        if other.id == recovery.id or other.state not in ACTIVE or not _writes(other):
            continue
        theirs = other.spec.target
        if (target.cluster, target.topic) != (theirs.cluster, theirs.topic):
            continue
        if not (recovery.spec.appends and other.spec.appends):
            return f"recovery {other.id} writes to {target.topic}; both must say on_existing `append`"
    return None


def _writes(recovery: Recovery) -> bool:
    return recovery.spec.copies and recovery.plan is not None and bool(recovery.plan.partitions)
