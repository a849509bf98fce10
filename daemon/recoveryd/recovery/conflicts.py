"""Two recoveries into one target partition range are refused unless both say `append`. One that only reads is in nobody's way."""

from collections.abc import Iterable

from recoveryd.recovery.model import ACTIVE, PlannedPartition, Recovery
from recoveryd.recovery.spec import Spec


def target_conflict(recovery: Recovery, others: Iterable[Recovery]) -> str | None:
    """The sentence that names the recovery in the way, or None."""
    mine = _written(recovery)
    for other in others:
        if other.id == recovery.id or other.state not in ACTIVE or other.plan is None:
            continue
        target, theirs = recovery.spec.target, other.spec.target
        if (target.cluster, target.topic) != (theirs.cluster, theirs.topic):
            continue
        if recovery.spec.appends and other.spec.appends:
            continue
        shared = mine & _written(other)
        if shared:
            return f"recovery {other.id} writes to partition {min(shared)} of {target.topic}; both must say on_existing `append`"
    return None


def written_partitions(spec: Spec, partitions: tuple[PlannedPartition, ...], width: int) -> tuple[int, ...]:
    """The target partitions that this recovery may write to."""
    if spec.target.mapping == "same":
        return tuple(p.partition for p in partitions)
    return tuple(range(width))


def _written(recovery: Recovery) -> set[int]:
    plan, spec = recovery.plan, recovery.spec
    if plan is None or not spec.copies:
        return set()
    return set(written_partitions(spec, plan.partitions, plan.target.partitions))
