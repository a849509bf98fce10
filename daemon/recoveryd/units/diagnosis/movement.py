"""What moved while a unit was watched: offsets against the ends of logs, partition by partition,
and who came and went.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from recoveryd.units.diagnosis.seen import UnitLook
from recoveryd.units.facts import Group, GroupType, Member
from recoveryd.units.model import Unit

_RESTARTS_LEAST: Final = 2
_SETTLED: Final = frozenset({"stable", "empty", "dead"})


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """`before` and `after` are committed offsets, None = none. `blocked_at`: an open transaction was there all the
    time. `is_read_out`: what lies behind the offset is no record, as behind a transaction its marker.
    """

    topic: str
    partition: int
    before: int | None
    after: int | None
    log_start: int
    end_before: int
    end_after: int
    blocked_at: int | None = None
    is_read_out: bool = False

    @property
    def lag(self) -> int:
        """What is in the log beyond the offset, or all of it."""
        return 0 if self.is_read_out else max(self.end_after - max(self.log_start, self.after or 0), 0)

    @property
    def read(self) -> int:
        return max((self.after or 0) - self.before, 0) if self.before is not None else 0

    @property
    def arrived(self) -> int:
        return self.end_after - self.end_before

    @property
    def is_stuck(self) -> bool:
        """There was something to read all the time, and nothing was."""
        stood = self.before is not None and self.before == self.after and self.before < self.end_before
        return stood and not self.is_read_out

    def __str__(self) -> str:
        return f"{self.topic} {self.partition}"


def moves_of(
    unit: Unit, first: UnitLook, last: UnitLook, read_out: AbstractSet[tuple[str, int]] = frozenset()
) -> tuple[PartitionMove, ...]:
    """Of each partition that the unit has an offset on, and of each of its inputs on which it is to have one.
    `read_out`: by topic and partition.
    """
    committed = last.group.committed if last.group else {}
    names = sorted({*unit.positioned_inputs, *committed} & last.ends.keys() & first.ends.keys())
    return tuple(move for name in names for move in _of_topic(name, first, last, read_out))


def _of_topic(
    name: str, first: UnitLook, last: UnitLook, read_out: AbstractSet[tuple[str, int]]
) -> Iterator[PartitionMove]:
    before = first.group.committed.get(name, {}) if first.group else {}
    after = last.group.committed.get(name, {}) if last.group else {}
    for partition, ends in sorted(last.ends[name].items()):
        was = first.ends[name].get(partition)
        if was is None:
            continue
        at = (before.get(partition), after.get(partition))
        yield PartitionMove(
            topic=name,
            partition=partition,
            before=at[0].offset if at[0] else None,
            after=at[1].offset if at[1] else None,
            log_start=ends.log_start,
            end_before=was.high_watermark,
            end_after=ends.high_watermark,
            blocked_at=blocked_at(name, partition, first, last),
            is_read_out=(name, partition) in read_out,
        )


def blocked_at(topic: str, partition: int, first: UnitLook, last: UnitLook) -> int | None:
    """Where a transaction was open all the time, with records behind it that readers of committed ones do not get."""
    was, now = (look.stable.get(topic, {}).get(partition) for look in (first, last))
    ends = first.ends.get(topic, {}).get(partition)
    return now if now is not None and now == was and ends is not None and now < ends.high_watermark else None


@dataclass(frozen=True, slots=True)
class Comings:
    """`joined`: in how many looks somebody was new; `unsettled`: in how many the group was not at rest."""

    joined: int
    unsettled: int
    looks: int

    @property
    def is_loop(self) -> bool:
        return self.joined >= _RESTARTS_LEAST or (self.looks >= _RESTARTS_LEAST and self.unsettled == self.looks)


def comings_of(groups: Sequence[Group | None]) -> Comings:
    seen = {m.id for m in _members(groups[0])} if groups else set()
    joined = 0
    for _before, after in pairwise(groups):
        new = {m.id for m in _members(after)} - seen
        joined += bool(new)
        seen |= new
    unsettled = sum(is_told(group) and group.state not in _SETTLED for group in groups if group is not None)
    return Comings(joined, unsettled, len(groups))


def _members(group: Group | None) -> tuple[Member, ...]:
    return group.members if group is not None else ()


def is_told(group: Group) -> bool:
    """Whether it could be described: of one that could not, nobody knows who is in it."""
    return group.type is not GroupType.UNKNOWN


def is_without_members(groups: Sequence[Group | None]) -> bool:
    """In every look; a group that cannot be described may have some."""
    return all(group is None or (group.is_empty and is_told(group)) for group in groups)


def is_clear(first: UnitLook, groups: Sequence[Group | None]) -> bool:
    """Whether a longer look would show no more: everything moved that had something to read, or nobody is there, or
    members come and go.
    """
    before = first.group.committed if first.group else {}
    now = groups[-1].committed if groups[-1] else {}
    unmoved = [
        (topic, p)
        for topic, found in before.items()
        for p, at in found.items()
        if (ends := first.ends.get(topic, {}).get(p)) is not None
        and at.offset < ends.high_watermark
        and now.get(topic, {}).get(p, at).offset == at.offset
    ]
    return not unmoved or is_without_members(groups) or comings_of(groups).joined >= _RESTARTS_LEAST
