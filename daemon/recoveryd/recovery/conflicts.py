"""What a recovery may not write beside others.

Two recoveries into one target topic are refused unless both say `append`: without it, the proof expects the target to
hold nothing but the copy, in all partitions. One that follows is refused where others that follow bring what it writes
back to its source: none of them would ever end, and each would copy its own copies.

A recovery that only reads conflicts with none.
"""

from collections.abc import Iterable, Sequence

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.recovery.model import ACTIVE, Recovery

_Place = tuple[str, str]  # cluster and topic


def target_conflict(recovery: Recovery, others: Iterable[Recovery]) -> Refused | None:
    """The refusal that names the recovery in the way, or None."""
    if not _writes(recovery):
        return None
    beside = [r for r in others if r.id != recovery.id and r.state in ACTIVE and _writes(r)]
    for other in beside:
        if _target(other) == _target(recovery) and not (recovery.spec.appends and other.spec.appends):
            message = f"recovery {other.id} writes to {other.spec.target.topic}; both must say on_existing `append`"
            return Refused(Code.TARGET_IN_USE, message)
    back = _way_back(recovery, [r for r in beside if _follows(r)]) if _follows(recovery) else ()
    if not back:
        return None
    source, target = recovery.spec.source.topic, recovery.spec.target.topic
    named = f"recovery {back[0]} follows" if len(back) == 1 else f"recoveries {', '.join(back)} follow"
    return Refused(Code.SAME_TOPIC, f"{named} {target} back into {source}: each would copy its own copies for ever")


def _way_back(recovery: Recovery, following: Sequence[Recovery]) -> tuple[str, ...]:
    """Those of `following`, in order, that bring what is written to its target back to its source; () = none do."""
    ways: dict[_Place, tuple[str, ...]] = {_target(recovery): ()}
    reached = [_target(recovery)]
    while reached:
        place = reached.pop()
        for other in following:
            if _source(other) == place and _target(other) not in ways:
                ways[_target(other)] = (*ways[place], other.id)
                reached.append(_target(other))
    return ways.get(_source(recovery), ())


def _writes(recovery: Recovery) -> bool:
    return recovery.spec.copies and recovery.plan is not None and bool(recovery.plan.partitions)


def _follows(recovery: Recovery) -> bool:
    return recovery.brings_records and recovery.plan is not None and recovery.plan.is_following


def _source(recovery: Recovery) -> _Place:
    return recovery.spec.source.cluster, recovery.spec.source.topic


def _target(recovery: Recovery) -> _Place:
    return recovery.spec.target.cluster, recovery.spec.target.topic
