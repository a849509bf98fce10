"""How a point to which offsets are set is written in a spec that is kept: as commands have it, apart from times, which
are absolute.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from recoveryd.kernel.times import format_time_ms, parse_time_ms
from recoveryd.kernel.written import Written
from recoveryd.recovery.spec import AtOffset, AtTime, Earliest, Latest
from recoveryd.workflows.model.positions import AtTopicOffsets, Current, OfSavepoint, OfSnapshot, Shift, To

_WORDS: Mapping[str, To] = {"earliest": Earliest(), "latest": Latest(), "current": Current()}
_FIELD_OF = {AtOffset: "offset", Shift: "shift", OfSnapshot: "snapshot", OfSavepoint: "savepoint"}
_WORD_OF = {type(to): word for word, to in _WORDS.items()}


def write_to(to: Any) -> Any:
    """As commands have it, apart from times, which are absolute."""
    match to:
        case AtTopicOffsets(by_topic, topic_ids, uncommitted):
            offsets = {t: {str(p): at for p, at in found.items()} for t, found in by_topic.items()}
            bare = {"uncommitted": {t: list(found) for t, found in uncommitted.items()}} if uncommitted else {}
            return {"offsets": offsets, **({"topic_ids": dict(topic_ids)} if topic_ids else {}), **bare}
        case AtTime(time_ms):
            return format_time_ms(time_ms)
        case AtOffset(value) | Shift(value) | OfSnapshot(value) | OfSavepoint(value):
            return {_FIELD_OF[type(to)]: value}
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
    if "snapshot" in data:
        return OfSnapshot(data["snapshot"])
    if "savepoint" in data:
        return OfSavepoint(data["savepoint"])
    offsets = {t: {int(p): at for p, at in found.items()} for t, found in data["offsets"].items()}
    uncommitted = {t: tuple(found) for t, found in data.get("uncommitted", {}).items()}
    return AtTopicOffsets(offsets, data.get("topic_ids", {}), uncommitted)


_TO_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "object"}]}
ToField = Annotated[Any, Written(write_to, read_to, _TO_SCHEMA)]
