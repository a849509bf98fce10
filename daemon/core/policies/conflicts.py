"""Two recoveries into one target partition range are refused unless both say `append`."""

from collections.abc import Iterable

from daemon.core.model import ACTIVE, Recovery
from daemon.core.plan import written_partitions


def target_conflict(recovery: Recovery, others: Iterable[Recovery]) -> str | None:
    """The sentence that names the recovery in the way, or None."""
    mine = _written(recovery)
    for other in others:
        if other.id == recovery.id or other.state not in ACTIVE or other.plan is None:
            continue
        target, theirs = recovery.spec.target, other.spec.target
        if (target.cluster, target.topic) != (theirs.cluster, theirs.topic):
            continue
        if target.on_existing == "append" and theirs.on_existing == "append":
            continue
        shared = mine & _written(other)
        if shared:
            return f"recovery {other.id} writes to partition {min(shared)} of {target.topic}; both must say on_existing `append`"
    return None


def _written(recovery: Recovery) -> set[int]:
    plan = recovery.plan
    return set(written_partitions(recovery.spec, plan.partitions, plan.target.partitions)) if plan else set()
