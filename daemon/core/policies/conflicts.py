"""Two recoveries into one target partition range are refused unless both say `append`. One that only reads is in nobody's way."""

from collections.abc import Iterable

from daemon.core.commands import ReplaySpec
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
        if _appends(recovery) and _appends(other):
            continue
        shared = mine & _written(other)
        if shared:
            return f"recovery {other.id} writes to partition {min(shared)} of {target.topic}; both must say on_existing `append`"
    return None


def _appends(recovery: Recovery) -> bool:
    return isinstance(recovery.spec, ReplaySpec) and recovery.spec.target.on_existing == "append"


def _written(recovery: Recovery) -> set[int]:
    plan, spec = recovery.plan, recovery.spec
    if plan is None or not isinstance(spec, ReplaySpec):
        return set()
    return set(written_partitions(spec, plan.partitions, plan.target.partitions))
