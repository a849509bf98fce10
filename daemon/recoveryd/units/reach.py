"""How far back the inputs of a unit reach, and when what it has not read yet begins to go: what is left to decide in.

Retention takes whole segments, and none before its newest record is too old, so each time here is the earliest one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from recoveryd.units.facts import UnitFacts, UnitTopic
from recoveryd.units.model import Unit


class Keeping(StrEnum):
    """What the configs of an input promise, against the objective of its unit."""

    KEPT = "kept"
    SHORT = "short"
    BY_SIZE = "by_size"  # retention.bytes may take records before their time
    COMPACTED = "compacted"  # only the last value of each key lies back
    NO_OBJECTIVE = "no_objective"
    MISSING = "missing"  # the topic does not exist


@dataclass(frozen=True, slots=True)
class SeenTimes:
    """Timestamps by partition: of the oldest record there is, and of the first that the unit has not read."""

    oldest_ms: Mapping[int, int]
    unread_ms: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class PartitionReach:
    """`log_start` is the first offset that is there, `goes_in_ms` how long until its record may go; the rest as in the
    input as a whole. None = no such record, not known, or never.
    """

    partition: int
    log_start: int
    reaches_back_ms: int | None = None
    goes_in_ms: int | None = None
    unread_age_ms: int | None = None
    lost_in_ms: int | None = None


@dataclass(frozen=True, slots=True)
class InputReach:
    """`kept_ms` None = for ever. `reaches_back_ms`: age of the oldest record. `unread_age_ms`: of the oldest one that
    is not read yet; `lost_in_ms`: how long until that may go; None = not known, or never.
    """

    topic: str
    keeping: Keeping
    kept_ms: int | None = None
    reaches_back_ms: int | None = None
    unread_age_ms: int | None = None
    lost_in_ms: int | None = None
    partitions: tuple[PartitionReach, ...] = ()

    @property
    def why(self) -> str:
        if self.lost_in_ms is None:
            return _WORDS[self.keeping]
        left = "may be gone already" if self.lost_in_ms <= 0 else f"may go in {_told(self.lost_in_ms)}"
        return f"{_WORDS[self.keeping]}; the first record that is not read yet {left}"


_WORDS = {
    Keeping.KEPT: "as long as the objective asks for",
    Keeping.SHORT: "shorter than the objective asks for",
    Keeping.BY_SIZE: "a bound of size may take records before their time",
    Keeping.COMPACTED: "compacted: only last values lie back",
    Keeping.NO_OBJECTIVE: "the unit has no retention_objective",
    Keeping.MISSING: "the topic does not exist",
}
_MINUTE_MS = 60_000


def look_back(unit: Unit, facts: UnitFacts, times: Mapping[str, SeenTimes]) -> tuple[InputReach, ...]:
    """One row per input, in the order of the config. A topic whose records could not be read is absent from `times`."""
    return tuple(_reach(unit, facts, name, times.get(name)) for name in unit.inputs)


def _reach(unit: Unit, facts: UnitFacts, name: str, seen: SeenTimes | None) -> InputReach:
    topic = facts.topics.get(name)
    if topic is None:
        return InputReach(name, Keeping.MISSING)
    seen = seen or SeenTimes({}, {})
    rows = tuple(_partition(facts.at_ms, topic, p, seen) for p in sorted(topic.ends))
    return InputReach(
        name,
        _keeping(unit, facts, name),
        topic.retention_ms,
        max((row.reaches_back_ms for row in rows if row.reaches_back_ms is not None), default=None),
        max((row.unread_age_ms for row in rows if row.unread_age_ms is not None), default=None),
        min((row.lost_in_ms for row in rows if row.lost_in_ms is not None), default=None),
        rows,
    )


def _partition(at_ms: int, topic: UnitTopic, partition: int, seen: SeenTimes) -> PartitionReach:
    kept, oldest, unread = topic.retention_ms, seen.oldest_ms.get(partition), seen.unread_ms.get(partition)
    return PartitionReach(
        partition,
        topic.ends[partition].log_start,
        _age(oldest, at_ms),
        _left(oldest, kept, at_ms),
        _age(unread, at_ms),
        _left(unread, kept, at_ms),
    )


def _age(time_ms: int | None, at_ms: int) -> int | None:
    return None if time_ms is None else max(at_ms - time_ms, 0)


def _left(time_ms: int | None, kept_ms: int | None, at_ms: int) -> int | None:
    return None if time_ms is None or kept_ms is None else time_ms + kept_ms - at_ms


def _keeping(unit: Unit, facts: UnitFacts, name: str) -> Keeping:
    topic, objective = facts.topics[name], unit.retention_objective_ms
    if topic.is_compacted:
        return Keeping.COMPACTED
    if objective is None:
        return Keeping.NO_OBJECTIVE
    if topic.retention_ms is not None and topic.retention_ms < objective:
        return Keeping.SHORT
    return Keeping.BY_SIZE if topic.is_kept_by_size else Keeping.KEPT


def _told(ms: int) -> str:
    days, minutes = divmod(ms // _MINUTE_MS, 1440)
    return f"{days} d {minutes // 60} h" if days else f"{minutes // 60} h {minutes % 60} min"
