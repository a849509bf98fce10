"""How commands say where a group shall stand, and which topics they mean."""

import re
from typing import Any, Final

from pydantic import ValidationInfo

from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.spec import AtOffset, AtTime, Earliest, Latest
from recoveryd.recovery.wire.bounds import OFFSET_SCHEMA, as_object, moment_before, parse_offsets
from recoveryd.wire.fields import (
    MAX_OFFSET,
    MAX_PARTITION,
    TIME_SCHEMA,
    is_duration,
    is_int_to,
    read_time,
)
from recoveryd.wire.problems import shown, wrong
from recoveryd.wire.spelling import meant, nearest
from recoveryd.workflows.model.positions import AtTopicOffsets, Current, OfSavepoint, OfSnapshot, Shift, To

TOPICS_MOST: Final = 1_000
_WORDS: Final[dict[str, To]] = {"earliest": Earliest(), "latest": Latest(), "current": Current()}
_SHIFT: Final = re.compile(r"[+-]?[0-9]{1,19}", flags=re.ASCII)
_FORMS: Final = ("offset", "offsets", "shift", "snapshot", "savepoint")
TO_SCHEMA: Final = {
    "anyOf": [
        {"enum": [*_WORDS]},
        {
            "type": "object",
            "properties": {"offset": OFFSET_SCHEMA},
            "required": ["offset"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"offsets": {"type": "object"}},
            "required": ["offsets"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"shift": {"type": "integer"}},
            "required": ["shift"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"snapshot": {"type": "string"}},
            "required": ["snapshot"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"savepoint": {"type": "string"}},
            "required": ["savepoint"],
            "additionalProperties": False,
        },
        {
            "type": "string",
            "pattern": r"^(offset:[0-9]{1,19}|shift:[+-]?[0-9]{1,19}|snapshot:.{1,128}|savepoint:.{1,128})$",
            "examples": ["offset:10", "shift:-100"],
            "description": "the same on one line",
        },
        TIME_SCHEMA,
        {"type": "string", "pattern": "^-", "examples": ["-2h"], "description": "duration back from now"},
    ]
}


def parse_to(value: Any, info: ValidationInfo) -> To:
    if isinstance(value, str):
        spelled = _as_object(value)
        if spelled is None:
            return _WORDS[value] if value in _WORDS else AtTime(_parse_moment(value, info))
        value = spelled
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name == "offset":
            return AtOffset(_whole(inner, name, 0))
        if name == "shift":
            return Shift(_whole(inner, name, -MAX_OFFSET))
        if name == "offsets":
            return _parse_by_topic(inner)
        if name == "snapshot":
            return OfSnapshot(_id(inner, name))
        if name == "savepoint":
            return OfSavepoint(_id(inner, name))
        close = nearest(name, _FORMS) or "offset"
        raise wrong(f"has the unknown field {shown(name)}", f'Write {{"{close}": ...}}.', code=Code.UNKNOWN_FIELD)
    hint = f'Write {", ".join(_WORDS)}, {{"offset": n}}, {{"offsets": {{"topic": {{"0": n}}}}}}, {{"shift": n}}, {{"snapshot": "run"}}, {{"savepoint": "name"}}, a time with zone, or -2h.'
    raise wrong(f"is {shown(value)}", hint)


def _as_object(text: str) -> dict[str, Any] | None:
    """`offset:10`, `shift:-100`, `snapshot:RUN`, `savepoint:NAME`; None for what is not spelled so."""
    name, _, rest = text.partition(":")
    if name in {"snapshot", "savepoint"} and rest:
        return {name: rest}
    if name == "shift":
        if not _SHIFT.fullmatch(rest):
            raise wrong(f"is {shown(text)}, which has no whole number behind shift:", "Write shift:-100.")
        return {"shift": int(rest)}
    if name == "offsets":
        raise wrong(f"is {shown(text)}, which names no topic", 'Write {"offsets": {"topic": {"0": 10}}}.')
    return as_object(text)


def _parse_moment(text: str, info: ValidationInfo) -> int:
    if text.startswith("-"):
        return moment_before(text, info)
    close = meant(text, _WORDS)
    if not text[:1].isdigit() or (close or "").startswith("offset:"):
        hint = f"Did you mean {close}?" if close else f"It is one of {', '.join(_WORDS)}, a time with zone, or -2h."
        raise wrong(f"is {shown(text)}", hint)
    if is_duration(text):
        raise wrong(
            f"is {shown(text)}, a duration without direction", f"Write -{text[:40]} for a duration back from now."
        )
    return read_time(text)


def _parse_by_topic(value: Any) -> AtTopicOffsets:
    if not isinstance(value, dict) or not value or len(value) > TOPICS_MOST:
        raise wrong('has no offsets: an object such as {"topic": {"0": 17}} is needed')
    return AtTopicOffsets({topic_name(topic): dict(parse_offsets(found).offsets) for topic, found in value.items()})


def _id(value: Any, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 128:
        raise wrong(f"has {name} {shown(value)}, which is no id")
    return value


def _whole(value: Any, name: str, least: int) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not least <= value <= MAX_OFFSET:
        raise wrong(f"has {name} {shown(value)}, which is no whole number that an offset can be")
    return int(value)


def parse_topics(value: Any) -> dict[str, tuple[int, ...]]:
    """A list of names, or partitions by name."""
    if isinstance(value, list) and value and len(set(map(str, value))) == len(value):
        return {topic_name(name): () for name in value}
    if not isinstance(value, dict) or not value or len(value) > TOPICS_MOST:
        raise wrong('is no list of different topics, and no object such as {"topic": [0, 1]}')
    found = {}
    for name, partitions in value.items():
        is_list = isinstance(partitions, list) and partitions and len(set(map(str, partitions))) == len(partitions)
        if not is_list or not all(is_int_to(p, MAX_PARTITION) for p in partitions):
            raise wrong(f"has {shown(partitions)} for {shown(name)}, which is no list of different partitions")
        found[topic_name(name)] = tuple(sorted(partitions))
    return found


def topic_name(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= 249:
        raise wrong(f"names {shown(name)}, which is no topic")
    return name
