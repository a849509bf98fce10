"""CloudEvents 1.0 over Kafka: finding the envelope of a record, in structured mode (one JSON object, headers optional)
and binary mode (`ce_*` headers).

`open_envelope` finds only what the record is and who sent it, which decides between an answer and the dead-letter
topic. `check_attributes` checks its attributes; the codec checks its data with the models.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.times import TimeProblem, ZoneMissing, parse_time_ms
from recoveryd.wire.bounded_json import JsonProblem, parse
from recoveryd.wire.problems import Problem, make_problem, plain, shown
from recoveryd.wire.spelling import nearest

Headers = Sequence[tuple[str, bytes | None]]

STRUCTURED_CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
MAX_ATTRIBUTE_CHARS: Final = 1024
MAX_ATTRIBUTES: Final = 64
MAX_HEADERS: Final = 100

ATTRIBUTES: Final = (
    "specversion",
    "id",
    "source",
    "type",
    "subject",
    "time",
    "expirytime",
    "datacontenttype",
    "dataschema",
    "data",
    "causationid",
    "traceparent",
    "tracestate",
)
# Names that are similar to known attributes: skipped like an extension, they would turn a guarded command into an
# unguarded one.
_LOOKALIKES: Final = {
    "expires": "expirytime",
    "expiry": "expirytime",
    "expiration": "expirytime",
    "timestamp": "time",
    "key": "subject",
}
_BINARY_PREFIX: Final = "ce_"
_ATTRIBUTE_NAME: Final = re.compile(r"[a-z0-9]{1,100}", flags=re.ASCII)
_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_JSON_TYPE: Final = re.compile(r"[a-z0-9.-]+/(?:[a-z0-9.-]+\+)?json", flags=re.ASCII)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A CloudEvent whose id, source and type can be read. `attributes` are the other attributes as they came;
    `data_problem` says why `data` could not be read.
    """

    id: str
    source: str
    type: str
    attributes: Mapping[str, Any]
    data: Any
    data_problem: Problem | None = None


def open_envelope(value: bytes | None, headers: Headers) -> Envelope | Problem:
    """The envelope of a control record, or why there is none."""
    if len(headers) > MAX_HEADERS:
        return make_problem(Code.TOO_LARGE, f"The record has {len(headers)} headers, at most {MAX_HEADERS} are taken.")
    names = {name.lower() for name, _ in headers}
    content_type = _content_type(headers)
    if content_type.startswith("application/cloudevents") or not any(name.startswith(_BINARY_PREFIX) for name in names):
        return _open_structured(value, content_type)
    return _open_binary(value, headers, content_type)


def _open_structured(value: bytes | None, content_type: str) -> Envelope | Problem:
    if content_type.startswith("application/cloudevents") and content_type != "application/cloudevents+json":
        return make_problem(
            Code.NOT_A_CLOUDEVENT,
            f"The content type {shown(content_type)} is not taken.",
            "Send application/cloudevents+json, one event a record.",
        )
    if value is None:
        return make_problem(Code.NOT_A_CLOUDEVENT, "The record has no value.")
    try:
        event = parse(value)
    except JsonProblem as problem:
        return make_problem(problem.code, f"The record cannot be read: {problem}.")
    if not isinstance(event, dict):
        kind = {list: "a list", str: "a text", type(None): "null"}.get(type(event), "a number or a truth value")
        return make_problem(Code.NOT_A_CLOUDEVENT, f"The record is {kind}, not one JSON object.")
    if len(event) > MAX_ATTRIBUTES:
        return make_problem(
            Code.TOO_LARGE, f"The record has {len(event)} attributes, at most {MAX_ATTRIBUTES} are taken."
        )
    attributes = {name: attribute for name, attribute in event.items() if attribute is not None}
    return _named(attributes, attributes.pop("data", None))


def _open_binary(value: bytes | None, headers: Headers, content_type: str) -> Envelope | Problem:
    attributes: dict[str, Any] = {}
    for header, raw in headers:
        name = header.lower()
        if not name.startswith(_BINARY_PREFIX) or raw is None:
            continue
        name = name[len(_BINARY_PREFIX) :]
        if name in attributes:
            return make_problem(Code.NOT_A_CLOUDEVENT, f"The header {shown(header)} is given twice.")
        try:
            attributes[name] = raw.decode("utf-8")
        except UnicodeDecodeError:
            return make_problem(Code.NOT_A_CLOUDEVENT, f"The header {shown(header)} is not UTF-8.")
    if content_type:
        attributes["datacontenttype"] = content_type
    if value is None:
        return _named(attributes, None)
    try:
        return _named(attributes, parse(value))
    except JsonProblem as problem:
        code = problem.code if problem.code is Code.TOO_LARGE else Code.INVALID_VALUE
        return _named(attributes, None, make_problem(code, f"data cannot be read: {problem}."))


def _named(attributes: dict[str, Any], data: Any, data_problem: Problem | None = None) -> Envelope | Problem:
    for name in ("id", "source", "type"):
        attribute = attributes.get(name)
        if attribute is None:
            hint = "" if (close := nearest(name, attributes)) is None else f"Is {shown(close)} meant to be {name}?"
            return make_problem(Code.MISSING_ATTRIBUTE, f"The attribute {name} is missing.", hint)
        if (
            not isinstance(attribute, str)
            or not 0 < len(attribute) <= MAX_ATTRIBUTE_CHARS
            or _CONTROL_CHARACTERS.search(attribute)
        ):
            return make_problem(
                Code.MISSING_ATTRIBUTE,
                (
                    f"The attribute {name} is {shown(attribute)}, which is no text of 1 to {MAX_ATTRIBUTE_CHARS} "
                    "printable characters."
                ),
            )
    others = {name: attribute for name, attribute in attributes.items() if name not in {"id", "source", "type"}}
    return Envelope(attributes["id"], attributes["source"], attributes["type"], others, data, data_problem)


def check_attributes(envelope: Envelope) -> Problem | None:
    """The first thing wrong with the attributes other than id, source, type and subject; None when all are good."""
    attributes = envelope.attributes
    version = attributes.get("specversion")
    if version != "1.0":
        found = "missing" if version is None else shown(version)
        return make_problem(Code.MISSING_ATTRIBUTE, f'The attribute specversion is {found}, but must be "1.0".')
    for name, value in attributes.items():
        problem = _check_name(name) or _check_value(name, value)
        if problem is not None:
            return problem
    return envelope.data_problem


def _check_name(name: str) -> Problem | None:
    if name in ATTRIBUTES:
        return None
    if name == "data_base64":
        return make_problem(
            Code.UNKNOWN_FIELD, "The attribute data_base64 is not taken.", "Put the JSON object itself into data."
        )
    close = _LOOKALIKES.get(name) or next(
        (known for known in ATTRIBUTES if len(known) > 3 and _is_close(name, known)), None
    )
    if close is None and _ATTRIBUTE_NAME.fullmatch(name):
        return None  # an extension by another party, which CloudEvents allows
    close = close or nearest(name, ATTRIBUTES)
    hint = f"The nearest valid attribute is {close}." if close else "Fields of the command go into data."
    return make_problem(Code.UNKNOWN_FIELD, f"{plain(name)} is not an attribute of a control record.", hint)


def _check_value(name: str, value: Any) -> Problem | None:
    if name == "subject":
        return None
    if name not in ATTRIBUTES and isinstance(value, dict | list | float):
        return make_problem(
            Code.UNKNOWN_FIELD,
            f"{plain(name)} is not an attribute of a control record.",
            "Fields of the command go into data.",
        )
    if name in ATTRIBUTES and not isinstance(value, str):
        return make_problem(Code.INVALID_VALUE, f"The attribute {name} is {shown(value)}, not a text.")
    if name == "datacontenttype" and not _JSON_TYPE.fullmatch(_media_type(value)):
        return make_problem(
            Code.INVALID_VALUE,
            f"The attribute datacontenttype is {shown(value)}; data must be JSON.",
            "Leave it out or write application/json.",
        )
    if name in {"time", "expirytime"}:
        try:
            parse_time_ms(value)
        except TimeProblem as problem:
            code = Code.ZONE_MISSING if isinstance(problem, ZoneMissing) else Code.INVALID_VALUE
            return make_problem(code, f"The attribute {name} is {shown(value)}: it {problem}.")
    return None


def attribute_time_ms(envelope: Envelope, name: str) -> int | None:
    """`time` or `expirytime` of an envelope with checked attributes."""
    value = envelope.attributes.get(name)
    return None if value is None else parse_time_ms(value)


def _content_type(headers: Headers) -> str:
    for name, value in headers:
        if name.lower() == "content-type" and value is not None:
            return _media_type(value.decode("utf-8", "replace"))
    return ""


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def _is_close(name: str, known: str) -> bool:
    """At most two edits apart, whatever the case and underscores."""
    folded = name[:100].replace("_", "").replace("-", "").lower()
    return abs(len(folded) - len(known)) <= 2 and _edits(folded, known) <= (2 if len(known) >= 7 else 1)


def _edits(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]
