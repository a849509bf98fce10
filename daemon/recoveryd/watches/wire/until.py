"""What a watch waits for, and what it does then: `until` and `then` of its data, in all their forms."""

from typing import Annotated, Any, Final

from pydantic import PlainValidator, ValidationInfo, WithJsonSchema

from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.wire.bounds import OFFSET_SCHEMA, parse_offsets
from recoveryd.watches.spec import CallHook, StopUnit, Until, UntilCaughtUp, UntilOffsets, UntilTime
from recoveryd.wire.fields import DURATION_SCHEMA, TIME_SCHEMA, parse_deadline
from recoveryd.wire.problems import one_of, shown, wrong
from recoveryd.wire.spelling import nearest

MAX_TOPICS: Final = 20
MAX_OFFSETS: Final = 10_000
ONLY_TOPIC: Final = ""  # offsets given without a topic belong to the only one

_FORMS: Final = '"caught_up", {"offsets": {"0": n}}, {"offsets": {TOPIC: {"0": n}}} or {"deadline": "2h"}'
_PARTITION_OFFSETS: Final = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {"^(0|[1-9][0-9]{0,9})$": OFFSET_SCHEMA},
    "additionalProperties": False,
}
_TOPIC_OFFSETS: Final = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": MAX_TOPICS,
    "additionalProperties": _PARTITION_OFFSETS,
}


def _object(name: str, schema: object) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}


def _parse_until(value: Any, info: ValidationInfo) -> Until:
    if value == "caught_up":
        return UntilCaughtUp()
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name == "offsets":
            return UntilOffsets(_parse_offsets(inner))
        if name == "deadline":
            return UntilTime(parse_deadline(inner, info))
        close = nearest(name, ("offsets", "deadline")) or "offsets"
        raise wrong(f"has the unknown field {shown(name)}", f'Write {{"{close}": ...}}.', code=Code.UNKNOWN_FIELD)
    if isinstance(value, str):
        message, hint = one_of(value, ("caught_up",))
        raise wrong(message, hint or f"Write {_FORMS}.")
    raise wrong(f"is {shown(value)}", f"Write {_FORMS}.")


def _parse_offsets(value: Any) -> dict[str, dict[int, int]]:
    """Offsets by topic; under `ONLY_TOPIC` when they name no topic. The model of the command checks that the watch has
    these topics.
    """
    if not isinstance(value, dict) or not value:
        raise wrong('has no offsets: an object such as {"0": 17} is needed')
    if not any(isinstance(inner, dict) for inner in value.values()):
        found = {ONLY_TOPIC: dict(parse_offsets(value).offsets)}
    else:
        if len(value) > MAX_TOPICS:
            raise wrong(f"names {len(value)} topics, at most {MAX_TOPICS} are taken", code=Code.TOO_LARGE)
        if ONLY_TOPIC in value:
            raise wrong("has offsets of a topic without a name")
        found = {topic: dict(parse_offsets(inner).offsets) for topic, inner in value.items()}
    count = sum(len(offsets) for offsets in found.values())
    if count > MAX_OFFSETS:
        raise wrong(f"names {count} partitions, at most {MAX_OFFSETS} are taken", code=Code.TOO_LARGE)
    return found


def _parse_then(value: Any) -> CallHook | StopUnit | None:
    """None for `notify`."""
    if value == "notify":
        return None
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name not in {"webhook", "stop"}:
            hint = 'Write {"webhook": NAME} or {"stop": UNIT}.'
            raise wrong(f"has the unknown field {shown(name)}", hint, code=Code.UNKNOWN_FIELD)
        if isinstance(inner, str) and "://" in inner:
            raise wrong("names a URL", "Put the URL under `webhooks:` of the daemon's config, and name it here.")
        if not isinstance(inner, str) or not 1 <= len(inner) <= 128 or not inner.isprintable():
            raise wrong(f"has the {'unit' if name == 'stop' else name} {shown(inner)}, which is not a name")
        return StopUnit(inner) if name == "stop" else CallHook(inner)
    hint = 'Write "notify", {"webhook": NAME} or {"stop": UNIT}, names under `webhooks:` and `units:` of the config.'
    raise wrong(f"is {shown(value)}", hint)


UntilField = Annotated[
    Any,
    PlainValidator(_parse_until),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "caught_up"},
                _object("offsets", {"anyOf": [_PARTITION_OFFSETS, _TOPIC_OFFSETS]}),
                _object("deadline", {"anyOf": [TIME_SCHEMA, DURATION_SCHEMA]}),
            ]
        }
    ),
]
ThenField = Annotated[
    Any,
    PlainValidator(_parse_then),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "notify"},
                *(_object(n, {"type": "string", "minLength": 1, "maxLength": 128}) for n in ("webhook", "stop")),
            ]
        }
    ),
]
