"""Where a range starts and ends: `source.from` and `source.to` in all their forms."""

import re
from typing import Annotated, Any, Final

from pydantic import PlainValidator, ValidationInfo, WithJsonSchema

from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.spec import AtOffset, AtOffsets, AtTime, CaughtUp, Earliest, From, Latest, Never, To
from recoveryd.wire.fields import (
    MAX_OFFSET,
    MAX_PARTITION,
    MAX_PARTITIONS,
    TIME_SCHEMA,
    is_duration,
    is_int_to,
    now_ms_of,
    read_duration,
    read_time,
)
from recoveryd.wire.problems import one_of, shown, wrong
from recoveryd.wire.spelling import SpellingProblem, is_the_beginning, meant, nearest, read_position

_PARTITION_KEY: Final = re.compile(r"0|[1-9][0-9]{0,9}", flags=re.ASCII)
_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9+/_=-]{0,64}", flags=re.ASCII)
_BESIDE_OFFSETS: Final = ("others", "topic_id")
_SINCE: Final = "since"
_LINE_MOST: Final = 200_000  # of a thousand partitions and more
_FROM_WORDS: Final = {"earliest": Earliest()}
_TO_WORDS: Final = {"latest": Latest(), "caught_up": CaughtUp(), "never": Never()}
_PINNED_WORDS: Final = {"latest": Latest()}
OFFSET_SCHEMA: Final = {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET}
_BACK_SCHEMA: Final = {
    "type": "string",
    "pattern": "^-",
    "examples": ["-2h", "-PT2H"],
    "description": "duration back from now",
}
SPELLED_SCHEMA: Final = {
    "type": "string",
    "pattern": r"^(offset:[0-9]{1,19}|offsets:[0-9]{1,10}=[0-9]{1,19}(,[0-9]{1,10}=[0-9]{1,19})*)$",
    "examples": ["offset:10", "offsets:0=10,1=20"],
    "description": "offset(s) on one line",
}
_OFFSET_BOUNDS: Final[list[dict[str, Any]]] = [
    {"type": "object", "properties": {"offset": OFFSET_SCHEMA}, "required": ["offset"], "additionalProperties": False},
    {
        "type": "object",
        "properties": {
            "offsets": {
                "type": "object",
                "minProperties": 1,
                "patternProperties": {"^(0|[1-9][0-9]{0,9})$": OFFSET_SCHEMA},
                "additionalProperties": False,
            }
        },
        "required": ["offsets"],
        "additionalProperties": False,
    },
]


def _parse_from(value: Any, info: ValidationInfo) -> From:
    return _parse_start(value, info, _BESIDE_OFFSETS)


def _parse_copied_from(value: Any, info: ValidationInfo) -> From:
    return _parse_start(value, info, (*_BESIDE_OFFSETS, _SINCE))


def _parse_start(value: Any, info: ValidationInfo, beside: tuple[str, ...]) -> From:
    if isinstance(value, dict) and "offsets" in value and "offset" not in value and len(value) > 1:
        return _parse_continued(value, beside)
    if value in ("caught_up", "never"):
        raise wrong(
            f'cannot be "{value}"', "A range starts at earliest, an offset, a time or a duration back from now."
        )
    found = _parse_bound(value, info, _FROM_WORDS)
    assert isinstance(found, Earliest | AtOffset | AtOffsets | AtTime)
    return found


def _parse_continued(value: dict[str, Any], beside: tuple[str, ...]) -> AtOffsets:
    """Offsets with what is said about the topic, and about the times of records, beside them."""
    unknown = next((name for name in value if name not in {"offsets", *beside}), None)
    others, topic_id, since = value.get("others"), value.get("topic_id", ""), value.get(_SINCE)
    if unknown is not None:
        *first, last = (f'"{name}"' for name in beside)
        raise wrong(
            f"has the unknown field {shown(unknown)}",
            f'Beside "offsets" there may be {", ".join(first)} and {last}.',
            code=Code.UNKNOWN_FIELD,
        )
    if others is not None and others != "earliest":
        raise wrong(f"has others {shown(others)}", 'Write "others": "earliest", or leave it out.')
    if not isinstance(topic_id, str) or not _TOPIC_ID.fullmatch(topic_id):
        raise wrong(f"has the topic_id {shown(topic_id)}, which is not an id of a topic")
    if since is not None and not isinstance(since, str):
        raise wrong(f"has since {shown(since)}", "Write a time with zone, such as 2026-11-20T18:00:00Z.")
    offsets, since_ms = parse_offsets(value["offsets"]).offsets, None if since is None else read_time(since)
    return AtOffsets(offsets, others is not None, topic_id, since_ms)


def _parse_to(value: Any, info: ValidationInfo) -> To:
    found = _parse_bound(value, info, _TO_WORDS)
    assert not isinstance(found, Earliest)
    return found


def _parse_pinned(value: Any, info: ValidationInfo) -> To:
    if value in ("caught_up", "never"):
        raise wrong(f'cannot be "{value}"', "What is compared needs an end: latest, an offset or a time.")
    found = _parse_bound(value, info, _PINNED_WORDS)
    assert not isinstance(found, Earliest)
    return found


def _parse_bound(value: Any, info: ValidationInfo, words: dict[str, Any]) -> From | To:
    if isinstance(value, str):
        spelled = as_object(value)
        if spelled is None:
            return words[value] if value in words else AtTime(_parse_moment(value, info, words))
        value = spelled
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name == "offset":
            return AtOffset(_offset(inner, "offset"))
        if name == "offsets":
            return parse_offsets(inner)
        close = nearest(name, ("offset", "offsets")) or "offset"
        raise wrong(f"has the unknown field {shown(name)}", f'Write {{"{close}": ...}}.', code=Code.UNKNOWN_FIELD)
    if isinstance(value, int) and not isinstance(value, bool):
        raise wrong(f"is the bare number {shown(value)}", f'Did you mean {{"offset": {value}}}?')
    raise wrong(
        f"is {shown(value)}",
        f'Write {", ".join(words)}, {{"offset": n}}, {{"offsets": {{"0": n}}}}, a time with zone, or -2h.',
    )


def as_object(text: str) -> dict[str, object] | None:
    """What is spelled on one line as the object that it stands for; None for what is not spelled so."""
    try:
        return read_position(text[:_LINE_MOST]) if len(text) <= _LINE_MOST else None
    except SpellingProblem as problem:
        raise wrong(f"is {shown(text)}, which {problem}", "Write offset:10 or offsets:0=10,1=20.") from None


def moment_before(text: str, info: ValidationInfo) -> int:
    """The moment that `-2h` means: so long before the command."""
    time_ms = now_ms_of(info) - read_duration(text[1:], f"is {shown(text)}: it")
    if time_ms < 0:
        raise wrong(f"is {shown(text)}, which reaches before 1970", "Use earliest for all there is.")
    return time_ms


def _parse_moment(text: str, info: ValidationInfo, words: dict[str, Any]) -> int:
    if text.startswith("-"):
        return moment_before(text, info)
    if is_the_beginning(text, words):
        raise wrong(
            f"is {shown(text)}, the beginning, where no range can end", f"Write {', '.join(words)} or an offset."
        )
    close = meant(text, words)
    if not text[:1].isdigit() or (close or "").startswith("offset:"):
        message, _ = one_of(text, tuple(words))
        told = message + ", an offset, a time with zone, or a duration back from now"
        raise wrong(told, f"Did you mean {close}?" if close else "")
    if not is_duration(text):
        return read_time(text)
    raise wrong(f"is {shown(text)}, a duration without direction", f"Write -{text[:40]} for a duration back from now.")


def parse_offsets(value: Any) -> AtOffsets:
    if not isinstance(value, dict) or not value:
        raise wrong('has no offsets: an object such as {"0": 17} is needed')
    if len(value) > MAX_PARTITIONS:
        raise wrong(f"names {len(value)} partitions, at most {MAX_PARTITIONS} are taken", code=Code.TOO_LARGE)
    offsets = {}
    for name, offset in value.items():
        if not _PARTITION_KEY.fullmatch(name) or int(name) > MAX_PARTITION:
            raise wrong(f"has the key {shown(name)} in offsets, which is not a partition number")
        offsets[int(name)] = _offset(offset, f"offsets.{name}")
    return AtOffsets(dict(sorted(offsets.items())))


def _offset(value: Any, name: str) -> int:
    if not is_int_to(value, MAX_OFFSET):
        raise wrong(
            f"has {name} {shown(value)}, which is not an offset",
            "Offsets are whole numbers from 0 on; use earliest for the start.",
        )
    return int(value)


_CONTINUED_BOUND: Final = {
    **_OFFSET_BOUNDS[1],
    "properties": {
        **_OFFSET_BOUNDS[1]["properties"],
        "others": {"const": "earliest", "description": "where partitions start that are not named; else refused"},
        "topic_id": {"type": "string", "description": "refused when the topic has another id"},
    },
}
_SINCE_BOUND: Final = {
    **_CONTINUED_BOUND,
    "properties": {
        **_CONTINUED_BOUND["properties"],
        _SINCE: {**TIME_SCHEMA, "description": "older records are left out, as behind a start at this time"},
    },
}


def _start_schema(continued: dict[str, Any]) -> dict[str, Any]:
    return {
        "anyOf": [
            {"const": "earliest"},
            _OFFSET_BOUNDS[0],
            continued,
            SPELLED_SCHEMA,
            TIME_SCHEMA,
            _BACK_SCHEMA,
        ]
    }


Start = Annotated[Any, PlainValidator(_parse_from), WithJsonSchema(_start_schema(_CONTINUED_BOUND))]
# Of a copy, which may be the rest of one that began at a time.
CopiedStart = Annotated[Any, PlainValidator(_parse_copied_from), WithJsonSchema(_start_schema(_SINCE_BOUND))]
End = Annotated[
    Any,
    PlainValidator(_parse_to),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["latest", "caught_up", "never"]},
                *_OFFSET_BOUNDS,
                SPELLED_SCHEMA,
                TIME_SCHEMA,
                _BACK_SCHEMA,
            ]
        }
    ),
]
PinnedEnd = Annotated[
    Any,
    PlainValidator(_parse_pinned),
    WithJsonSchema({"anyOf": [{"const": "latest"}, *_OFFSET_BOUNDS, SPELLED_SCHEMA, TIME_SCHEMA, _BACK_SCHEMA]}),
]
