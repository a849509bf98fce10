"""From what was seen to a diagnosis: how the unit gets on, which of six places the fault is in, and from where to go
on.

Two units that start again and again look alike. One whose worker dies goes on at its offsets once it lives; one that
meets records of another schema comes no further from there, and starts again at the record that it cannot read, after
somebody has decided about it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recoveryd.units.diagnosis.causes import RULES, Cause, FaultClass
from recoveryd.units.diagnosis.movement import PartitionMove, moves_of
from recoveryd.units.diagnosis.runtime import Course, UnitPace, find_runtime, judge_course
from recoveryd.units.diagnosis.seen import Watched
from recoveryd.units.findings import Grade
from recoveryd.units.model import Behaviour, Unit

_GOOD: Final = frozenset({UnitPace.WELL, UnitPace.CATCHING_UP})
_ORDER: Final = {fault: at for at, fault in enumerate(FaultClass)}


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """`path` is one of those of a runbook; `positions` are (topic, partition, offset), where the point is one."""

    path: str
    why: str
    positions: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`causes` in the order of what explains what; `point` None = nothing to go on from."""

    course: Course
    causes: tuple[Cause, ...]
    moves: tuple[PartitionMove, ...]
    point: RecoveryPoint | None = None

    @property
    def faults(self) -> tuple[FaultClass, ...]:
        """Places with a cause that explains it; without one, those that may. Nothing for a unit that gets on well."""
        for severity in (Grade.FAIL, Grade.WARN):
            found = tuple(dict.fromkeys(c.fault for c in self.causes if c.severity is severity))
            if found or self.course.pace in _GOOD:
                return found
        return ()

    @property
    def is_well(self) -> bool:
        return self.course.pace in _GOOD and not self.faults


def diagnose(unit: Unit, watched: Watched) -> Diagnosis:
    moves = moves_of(unit, watched.first, watched.last, watched.read_out)
    causes = [cause for rule in RULES for cause in rule(unit, watched, moves)]
    course = judge_course(unit, watched, moves)
    causes += find_runtime(unit, watched, moves, course, causes)
    causes.sort(key=lambda cause: (cause.severity is not Grade.FAIL, _ORDER[cause.fault]))
    found = Diagnosis(course, tuple(causes), moves)
    point = _point(unit, watched, moves, found.faults[0]) if found.faults else None
    return Diagnosis(course, tuple(causes), moves, point)


def _point(unit: Unit, watched: Watched, moves: Sequence[PartitionMove], fault: FaultClass) -> RecoveryPoint:
    committed = tuple((m.topic, m.partition, m.after) for m in moves if m.after is not None)
    match fault:
        case FaultClass.KAFKA_INPUT:
            return _of_input(moves, committed)
        case FaultClass.SCHEMA:
            why = "the application has to read the new records, or somebody decides that they are left out; before that, starting again ends in the same place"
            places = tuple((r.topic, r.partition, r.offset) for r in watched.next_records)
            return RecoveryPoint("escalate", why, places)
        case FaultClass.STATE:
            why = "offsets alone are not enough, the state is behind them: restore a savepoint, or process the inputs again with empty state"
            return RecoveryPoint("restore_state", why)
        case FaultClass.SINK:
            twice = any(output.behaviour in {None, Behaviour.APPEND_ONLY} for output in unit.outputs.values())
            more = "; what was written behind the offsets may be written twice" if twice else ""
            return RecoveryPoint(
                "resume", f"from the committed offsets, once the outputs can be written{more}", committed
            )
        case FaultClass.RUNTIME:
            return RecoveryPoint("resume", "from the committed offsets, once it runs: nothing is lost", committed)
        case FaultClass.CAPACITY:
            return RecoveryPoint("resume", "it works, so nothing has to be put back: give it room, or wait", committed)


def _of_input(moves: Sequence[PartitionMove], committed: tuple[tuple[str, int, int], ...]) -> RecoveryPoint:
    outside = [m for m in moves if m.after is not None and not m.log_start <= m.after <= m.end_after]
    if outside:
        why = "its offsets point to records that the log does not hold: take them from a savepoint or a backup, or decide to go on without"
        return RecoveryPoint("escalate", why, tuple((m.topic, m.partition, m.log_start) for m in outside))
    return RecoveryPoint("resume", "from the committed offsets, once the inputs can be read", committed)
