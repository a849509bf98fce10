"""How a unit gets on, and what that alone shows: nobody runs it, it starts again and again, one member does nothing,
it is held back, or it is too slow.

What another cause explains is not blamed on the processes: they need no restart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from recoveryd.units.diagnosis.causes import Cause, FaultClass, named
from recoveryd.units.diagnosis.movement import (
    Comings,
    PartitionMove,
    comings_of,
    is_told,
    is_without_members,
)
from recoveryd.units.diagnosis.quotas import quota_that_explains
from recoveryd.units.diagnosis.seen import Watched
from recoveryd.units.findings import Grade
from recoveryd.units.model import Unit


class UnitPace(StrEnum):
    """How the unit gets on. `throttled` is not `stalled`: it does what it may."""

    WELL = "well"
    CATCHING_UP = "catching_up"
    FALLING_BEHIND = "falling_behind"
    THROTTLED = "throttled"
    STALLED = "stalled"
    RESTARTING = "restarting"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Course:
    """`why` in one sentence."""

    pace: UnitPace
    why: str


def judge_course(unit: Unit, watched: Watched, moves: Sequence[PartitionMove]) -> Course:
    """The first that applies, in this order."""
    group = watched.last.group
    lag = sum(move.lag for move in moves)
    if is_without_members(watched.groups):
        told = f"the cluster has no group {unit.consumer_group}" if group is None else f"{group.id} has no members"
        return Course(UnitPace.STOPPED, f"{told}, {lag:,} records wait")
    if group is not None and not is_told(group):
        return Course(UnitPace.UNKNOWN, f"the group {group.id} is of a type that could not be described")
    stuck = [move for move in moves if move.is_stuck]
    comings = comings_of(watched.groups)
    if comings.is_loop and (stuck or not any(move.read for move in moves)):
        return Course(UnitPace.RESTARTING, _loop(watched, comings))
    return _of_moves(watched, moves, stuck)


def _of_moves(watched: Watched, moves: Sequence[PartitionMove], stuck: Sequence[PartitionMove]) -> Course:
    read, arrived = (sum(getattr(m, name) for m in moves) for name in ("read", "arrived"))
    lag, lag_before = sum(m.lag for m in moves), sum(m.lag + m.read - m.arrived for m in moves)
    if not stuck and lag <= arrived:
        return Course(UnitPace.WELL, f"it keeps up: {read:,} records read, {arrived:,} arrived, {lag:,} wait")
    quota = quota_that_explains(watched, moves)
    if quota is not None:
        return Course(UnitPace.THROTTLED, f"{quota[1]}; {lag:,} records wait")
    if stuck:
        return Course(
            UnitPace.STALLED, f"nothing was read of {named(stuck)} in {watched.seconds:.0f} s, {lag:,} records wait"
        )
    pace = UnitPace.FALLING_BEHIND if lag > lag_before else UnitPace.CATCHING_UP
    return Course(pace, f"{read:,} records read, {arrived:,} arrived, {lag:,} wait")


def find_runtime(
    unit: Unit, watched: Watched, moves: Sequence[PartitionMove], course: Course, causes: Sequence[Cause]
) -> Iterator[Cause]:
    """What the course itself shows, where no other cause explains it."""
    _ = unit
    is_explained = any(cause.severity is Grade.FAIL for cause in causes)
    runtime, capacity = FaultClass.RUNTIME, FaultClass.CAPACITY
    match course.pace:
        case UnitPace.STOPPED:
            waits = any(move.lag for move in moves)
            yield Cause(runtime, "no_members", Grade.FAIL if waits else Grade.WARN, course.why)
        case UnitPace.RESTARTING if not is_explained:
            yield Cause(runtime, "restart_loop", Grade.FAIL, f"{course.why}, and records are as those before")
        case UnitPace.STALLED if not is_explained:
            yield _stalled(watched, moves, course)
        case UnitPace.THROTTLED:
            yield Cause(capacity, "throttled", Grade.FAIL, course.why)
        case UnitPace.FALLING_BEHIND:
            yield Cause(capacity, "too_slow", Grade.FAIL, f"{course.why}; {_room(watched, moves)}")
        case _:
            return


def _stalled(watched: Watched, moves: Sequence[PartitionMove], course: Course) -> Cause:
    members = watched.last.group.members if watched.last.group else ()
    idle = [
        member
        for member in members
        if any(m.is_stuck and m.partition in member.partitions.get(m.topic, ()) for m in moves)
        and not any(m.read and m.partition in member.partitions.get(m.topic, ()) for m in moves)
    ]
    if idle and len(idle) < len(members):
        message = f"{named(idle)} reads nothing, while other members go on"
        return Cause(FaultClass.RUNTIME, "dead_worker", Grade.FAIL, message)
    held = {(topic, p) for member in members for topic, found in member.partitions.items() for p in found}
    unread = [m for m in moves if m.is_stuck and (m.topic, m.partition) not in held]
    if unread and held:
        message = f"no member reads {named(unread)}"
        return Cause(FaultClass.RUNTIME, "partition_unread", Grade.FAIL, message)
    message = f"{course.why}; members are in the group, and nothing else was found"
    return Cause(FaultClass.RUNTIME, "hung", Grade.FAIL, message)


def _loop(watched: Watched, comings: Comings) -> str:
    if comings.joined:
        return f"new members came {comings.joined} times in {watched.seconds:.0f} s, and nothing was read"
    return f"the group was not at rest in any of {comings.looks} looks, and nothing was read"


def _room(watched: Watched, moves: Sequence[PartitionMove]) -> str:
    members = watched.last.group.members if watched.last.group else ()
    if len(members) < len(moves):
        return f"{len(members)} members read {len(moves)} partitions, more can help"
    return f"{len(members)} members read {len(moves)} partitions, so more members would read nothing"
