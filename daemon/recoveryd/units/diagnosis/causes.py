"""What is wrong with a unit, by the place where it is wrong: one function per place, each gives what it can show.

A cause is something seen in the cluster, never a guess from what the unit fails to do; what only shows in that is in
`runtime`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from recoveryd.units.diagnosis.forms import what_changed
from recoveryd.units.diagnosis.movement import PartitionMove, blocked_at
from recoveryd.units.diagnosis.quotas import quota_that_explains
from recoveryd.units.diagnosis.seen import Replicas, Watched
from recoveryd.units.findings import Grade
from recoveryd.units.internal_topics import changelog_of, is_changelog
from recoveryd.units.model import Unit

_NAMED_MOST: Final = 5


class FaultClass(StrEnum):
    """Where the fault is, those first that explain the others."""

    KAFKA_INPUT = "kafka_input"
    SCHEMA = "schema"
    STATE = "state"
    SINK = "sink"
    CAPACITY = "capacity"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True)
class Cause:
    """`severity` fail = it explains why the unit does not get on; warn = it may."""

    fault: FaultClass
    name: str
    severity: Grade
    message: str
    topics: tuple[str, ...] = ()


Rule = Callable[[Unit, Watched, Sequence[PartitionMove]], Iterator[Cause]]


def _kafka_input(unit: Unit, watched: Watched, moves: Sequence[PartitionMove]) -> Iterator[Cause]:
    fault = FaultClass.KAFKA_INPUT
    read = (*unit.inputs, *unit.intermediate)
    if lost := [name for name in read if name not in watched.topics]:
        yield Cause(fault, "input_missing", Grade.FAIL, f"{named(lost)} does not exist", tuple(lost))
    if gone := _partitions(read, watched.replicas, lambda r: r.leaderless):
        yield Cause(fault, "input_leaderless", Grade.FAIL, f"no broker leads {named(gone)}", _topics(gone))
    below = [m for m in moves if m.after is not None and m.after < m.log_start]
    if below:
        records = sum(m.log_start - (m.after or 0) for m in below)
        message = f"{records:,} records were deleted before they were read: {named(below)}"
        yield Cause(fault, "offset_below_log", Grade.FAIL, message, _topics(below))
    if beyond := [m for m in moves if m.after is not None and m.after > m.end_after]:
        message = f"the offset lies beyond the end of {named(beyond)}: the topic was made anew, or lost records"
        yield Cause(fault, "offset_beyond_log", Grade.FAIL, message, _topics(beyond))
    if blocked := [m for m in moves if m.is_stuck and m.blocked_at is not None and m.blocked_at <= (m.after or 0)]:
        message = f"an open transaction of a producer holds readers of committed records back on {named(blocked)}"
        yield Cause(fault, "input_blocked", Grade.FAIL, message, _topics(blocked))


def _schema(_unit: Unit, watched: Watched, moves: Sequence[PartitionMove]) -> Iterator[Cause]:
    """Records before which a partition stands, against those that went before. One that a quota
    slows stands anywhere.
    """
    fault = FaultClass.SCHEMA
    if quota_that_explains(watched, moves) is not None:
        return
    for record in watched.next_records:
        how = what_changed(record.earlier, record.form)
        where = f"{record.topic} {record.partition}"
        if how is not None:
            message = f"{where} stands before offset {record.offset}, where records change: {how}"
            yield Cause(fault, "form_changed", Grade.FAIL, message, (record.topic,))
        elif _goes_on_elsewhere(watched, moves, record.topic, record.partition):
            message = f"{where} stands before offset {record.offset}, and its reader goes on with other partitions"
            yield Cause(fault, "record_refused", Grade.FAIL, message, (record.topic,))


def _goes_on_elsewhere(watched: Watched, moves: Sequence[PartitionMove], topic: str, partition: int) -> bool:
    members = watched.last.group.members if watched.last.group else ()
    holding = [m.partitions for m in members if partition in m.partitions.get(topic, ())]
    return any(move.read and move.partition in held.get(move.topic, ()) for held in holding for move in moves)


def _state(unit: Unit, watched: Watched, moves: Sequence[PartitionMove]) -> Iterator[Cause]:
    fault = FaultClass.STATE
    kept = [name for name in watched.internal.certain if is_changelog(name)]
    stores = unit.topology.stores if unit.topology is not None else ()
    expected = {changelog_of(unit.group, store) for store in stores if not unit.is_table_of_input(store)}
    has_run = any(move.after for move in moves)
    if has_run and (lost := sorted(expected - watched.topics.keys())):
        message = f"{named(lost)} does not exist, although its inputs were processed: the state cannot be built from it"
        yield Cause(fault, "changelog_missing", Grade.FAIL, message, tuple(lost))
    if bare := [name for name in kept if _is_emptied(watched, name)]:
        message = f"every record of {named(bare)} was deleted: the state cannot be built from it"
        yield Cause(fault, "changelog_emptied", Grade.FAIL, message, tuple(bare))
    if gone := _partitions(kept, watched.replicas, lambda r: r.leaderless or r.not_writable):
        yield Cause(fault, "changelog_not_writable", Grade.FAIL, f"{named(gone)} takes no writes", _topics(gone))
    if deleted := [n for n in kept if n in watched.topics and not watched.topics[n].is_compacted]:
        message = f"{named(deleted)} is not compacted: keys that were not written for a while are lost"
        yield Cause(fault, "changelog_not_compacted", Grade.WARN, message, tuple(deleted))


def _is_emptied(watched: Watched, name: str) -> bool:
    ends = watched.last.ends.get(name, {}).values()
    return any(each.high_watermark for each in ends) and not any(each.records_most for each in ends)


def _sink(unit: Unit, watched: Watched, _moves: Sequence[PartitionMove]) -> Iterator[Cause]:
    fault = FaultClass.SINK
    if lost := [name for name in unit.outputs if name not in watched.topics]:
        yield Cause(fault, "output_missing", Grade.FAIL, f"{named(lost)} does not exist", tuple(lost))
    if gone := _partitions(unit.outputs, watched.replicas, lambda r: r.leaderless):
        yield Cause(fault, "output_leaderless", Grade.FAIL, f"no broker leads {named(gone)}", _topics(gone))
    if refused := _partitions(unit.outputs, watched.replicas, lambda r: r.not_writable):
        message = f"{named(refused)} has fewer replicas in sync than min.insync.replicas, so writes are refused"
        yield Cause(fault, "output_not_writable", Grade.FAIL, message, _topics(refused))
    blocked = [
        f"{name} {partition}"
        for name in unit.outputs
        for partition in watched.last.ends.get(name, {})
        if blocked_at(name, partition, watched.first, watched.last) is not None
    ]
    if blocked:
        message = f"a transaction is open on {named(blocked)}: readers of committed records get nothing behind it"
        yield Cause(fault, "output_blocked", Grade.WARN, message, _topics(blocked))


def _is_own(unit: Unit, watched: Watched, name: str) -> bool:
    return name in unit.own_topics or name in watched.internal.certain


def _capacity(unit: Unit, watched: Watched, _moves: Sequence[PartitionMove]) -> Iterator[Cause]:
    """Others that use what the unit needs; that the unit itself is slow is in `runtime`."""
    fault = FaultClass.CAPACITY
    for work in watched.work:
        does = "reads" if work.reads else "writes"
        message = f"recovery {work.recovery} ({work.state}) {does} {work.topic} at the same time"
        yield Cause(fault, "recovery_at_work", Grade.WARN, message, (work.topic,))
    for quota in watched.quotas or ():
        if quota.name in {"producer_byte_rate", "request_percentage"}:
            message = f"{quota.on} has the quota {quota.name}={quota.value:g}; whether it is reached cannot be seen"
            yield Cause(fault, "quota_set", Grade.WARN, message)
    mine = [name for name in watched.replicas if _is_own(unit, watched, name)]
    if behind := _partitions(mine, watched.replicas, lambda r: r.behind):
        message = f"brokers do not keep up: replicas of {named(behind)} are behind"
        yield Cause(fault, "replicas_behind", Grade.WARN, message, _topics(behind))


def _partitions(
    names: Iterable[str], replicas: Mapping[str, Replicas], which: Callable[[Replicas], tuple[int, ...]]
) -> list[str]:
    return [f"{name} {p}" for name in names if name in replicas for p in which(replicas[name])]


def _topics(places: Sequence[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(place).rpartition(" ")[0] for place in places))


def named(places: Sequence[object]) -> str:
    """A few of them, and how many more there are."""
    more = len(places) - _NAMED_MOST
    return ", ".join(map(str, places[:_NAMED_MOST])) + (f" and {more} more" if more > 0 else "")


RULES: Final[tuple[Rule, ...]] = (_kafka_input, _schema, _state, _sink, _capacity)
