"""Where a consumer group shall stand: from what a command asks to one offset for each partition, or a refusal that
names the partition.

Nothing is moved silently. A position outside the log and a time that no record reaches are refused unless the command
says otherwise, and what was done instead is a finding. Kafka's own tool clamps the first and takes the end for the
second without a word.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from recoveryd.recovery.spec import AtOffset, AtTime, Earliest, Latest


class OnOutOfRange(StrEnum):
    FAIL = "fail"
    CLAMP = "clamp"


class OnNoRecord(StrEnum):
    FAIL = "fail"
    AT_END = "at_end"


@dataclass(frozen=True, slots=True)
class Current:
    """Where the group is: what has no commit stays so."""


@dataclass(frozen=True, slots=True)
class Shift:
    """So many offsets forward, or back when negative."""

    by: int


@dataclass(frozen=True, slots=True)
class AtTopicOffsets:
    """An offset for each partition of each topic; a partition that is not named stays where it is. `topic_ids`: of
    topics of which it is known to which of that name the offsets belong. `uncommitted`: by topic, partitions of which
    it was noted that nothing was committed there.
    """

    offsets: Mapping[str, Mapping[int, int]]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    uncommitted: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def is_bare(self, topic: str, partition: int) -> bool:
        return partition in self.uncommitted.get(topic, ())


@dataclass(frozen=True, slots=True)
class OfSnapshot:
    """Where the group was when another workflow noted it."""

    workflow: str


@dataclass(frozen=True, slots=True)
class OfSavepoint:
    """The offsets of a savepoint."""

    name: str


To = Earliest | Latest | Current | AtOffset | AtTopicOffsets | AtTime | Shift | OfSnapshot | OfSavepoint


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """One partition as it is now. `at_time`: the first record at or after the wanted time, None = no record is that
    new, or no time was wanted.

    Of the position that was asked for: `transaction_start`, where the aborted or open transaction began in which it
    lies, and `first_ms`, the smallest timestamp of the first records there; None = none, or not looked at.
    """

    topic: str
    partition: int
    log_start: int
    high_watermark: int
    committed: int | None = None
    at_time: int | None = None
    transaction_start: int | None = None
    is_transaction_open: bool = False
    first_ms: int | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    def __str__(self) -> str:
        return f"{self.topic} {self.partition}"


@dataclass(frozen=True, slots=True)
class NewPosition:
    """`offset` None = the partition is left alone. `note` says what was done instead of what was asked for, if
    anything.
    """

    topic: str
    partition: int
    offset: int | None
    at_end: bool = False
    note: str = ""


class PositionRefused(ValueError):  # noqa: N818  (named for what happened)
    """A position that cannot be taken; says partition and reason."""


def resolve(to: To, look: PartitionLook, out_of_range: OnOutOfRange, no_record: OnNoRecord) -> NewPosition:
    """Raises `PositionRefused`."""
    wanted = _wanted(to, look, no_record)
    if wanted.offset is None or look.log_start <= wanted.offset <= look.high_watermark:
        return wanted
    told = f"{look}: offset {wanted.offset:,} lies outside the log, which has [{look.log_start:,}, {look.high_watermark:,})"
    if out_of_range is OnOutOfRange.FAIL:
        raise PositionRefused(told)
    nearest = min(max(wanted.offset, look.log_start), look.high_watermark)
    return NewPosition(
        look.topic, look.partition, nearest, nearest == look.high_watermark, f"{told}; set to {nearest:,}"
    )


def name_of_moving(to: To) -> str:
    """The word for a position that moves by its nature: with what is written, with retention, or with the commits of
    the group. Empty of one that stays where it is.
    """
    match to:
        case Earliest():
            return "earliest"
        case Latest():
            return "latest"
        case Current():
            return "current"
        case Shift(by):
            return f"shift {by}"
        case _:
            return ""


def meaning(to: To, look: PartitionLook, position: NewPosition) -> tuple[str, int, str | int | None]:
    """What a person agrees to, as a plan's hash has it: the word for what moves, the number for what stays. Who
    approves the word gets what it means then. What was set to an end of the log, because it lies outside or no record
    is that new, moves with that end.
    """
    asked = look.at_time if isinstance(to, AtTime) else None
    if not isinstance(to, AtTime | OfSnapshot | OfSavepoint):
        asked = _offset(to, look)
    word = name_of_moving(to)
    if not word and position.offset != asked:
        word = name_of_moving(Latest() if position.at_end else Earliest())
    return position.topic, position.partition, word or position.offset


def moving_notes(to: To) -> tuple[str, ...]:
    """What a person has to know who agrees to numbers that move."""
    word = name_of_moving(to)
    told = f"{word} moves: the offsets are those of now, they are looked up again once the group is empty"
    return (f"{told}, and the plan's hash has the word in their place",) if word else ()


def _wanted(to: To, look: PartitionLook, no_record: OnNoRecord) -> NewPosition:
    if isinstance(to, AtTime):
        return _at_time(look, no_record)
    if isinstance(to, Shift) and look.committed is None:
        raise PositionRefused(f"{look}: nothing is committed, so there is nothing to shift from")
    if isinstance(to, OfSnapshot | OfSavepoint):
        raise PositionRefused(f"{look}: {to} was not looked up")
    is_left = isinstance(to, Current) and look.committed is None
    offset = _offset(to, look)
    note = f"{look}: nothing is committed, it is left alone" if is_left else ""
    return NewPosition(look.topic, look.partition, offset, offset == look.high_watermark, note)


def _offset(to: Earliest | Latest | Current | AtOffset | AtTopicOffsets | Shift, look: PartitionLook) -> int | None:
    found: int | None
    match to:
        case Earliest():
            found = look.log_start
        case Latest():
            found = look.high_watermark
        case Current():
            found = look.committed
        case AtOffset(offset):
            found = offset
        case AtTopicOffsets(by_topic):
            found = by_topic.get(look.topic, {}).get(look.partition)
        case Shift(by):
            found = (look.committed or 0) + by
        case _:
            assert_never(to)
    return found


def _at_time(look: PartitionLook, no_record: OnNoRecord) -> NewPosition:
    if look.at_time is not None:
        return NewPosition(look.topic, look.partition, look.at_time, look.at_time == look.high_watermark)
    if no_record is OnNoRecord.FAIL:
        raise PositionRefused(f"{look}: no record is that new")
    note = f"{look}: no record is that new, set to its end"
    return NewPosition(look.topic, look.partition, look.high_watermark, at_end=True, note=note)
