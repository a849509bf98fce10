"""What the commands of workflows ask for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from recoveryd.kernel.commands import Meta
from recoveryd.kernel.times import format_time_ms, parse_time_ms
from recoveryd.kernel.written import Written
from recoveryd.recovery.spec import AtOffset, AtTime, Earliest, Latest
from recoveryd.workflows.positions import AtTopicOffsets, Current, OnNoRecord, OnOutOfRange, Shift, To

_WORDS: Mapping[str, To] = {"earliest": Earliest(), "latest": Latest(), "current": Current()}
_WORD_OF = {type(to): word for word, to in _WORDS.items()}


def write_to(to: Any) -> Any:
    """As commands have it, apart from times, which are absolute."""
    match to:
        case AtOffset(offset):
            return {"offset": offset}
        case AtTopicOffsets(by_topic):
            return {"offsets": {t: {str(p): at for p, at in found.items()} for t, found in by_topic.items()}}
        case AtTime(time_ms):
            return format_time_ms(time_ms)
        case Shift(by):
            return {"shift": by}
        case word:
            return _WORD_OF[type(word)]


def read_to(data: Any) -> Any:
    """What `write_to` gave."""
    if isinstance(data, str):
        return _WORDS.get(data) or AtTime(parse_time_ms(data))
    if "offset" in data:
        return AtOffset(data["offset"])
    if "shift" in data:
        return Shift(data["shift"])
    return AtTopicOffsets({t: {int(p): at for p, at in found.items()} for t, found in data["offsets"].items()})


_TO_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "object"}]}
ToField = Annotated[Any, Written(write_to, read_to, _TO_SCHEMA)]


@dataclass(frozen=True, slots=True)
class ResetSpec:
    """Of `unit`, or of `group` on `cluster`. `topics`: by name the partitions that are meant, empty = all of it; None =
    every input of the unit, or every topic on which the group has a commit.
    """

    cluster: str
    group: str
    to: ToField
    unit: str | None = None
    topics: Mapping[str, tuple[int, ...]] | None = None
    on_out_of_range: OnOutOfRange = OnOutOfRange.FAIL
    on_no_record: OnNoRecord = OnNoRecord.FAIL
    dry_run: bool = False
    plan_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """`unit` names one of the config, else `cluster` and `group` say whom."""

    meta: Meta
    spec: ResetSpec
    verb = "reset"


@dataclass(frozen=True, slots=True)
class Rollback:
    """Put back what a workflow changed."""

    meta: Meta
    verb = "rollback"
