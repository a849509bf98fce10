"""What a record's value looks like from outside: enough to see that records changed, and nothing of what they say.

A schema registry's header, JSON with the types of its fields, text or bytes. Names of fields are told, values never.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_MAGIC: Final = 0
_HEADER: Final = 5  # the magic byte and the schema's id in four bytes
_NAMED_MOST: Final = 3
_KINDS: Final[Mapping[type, str]] = {
    bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Form:
    """`fields` of a JSON object, with the type of each; of null the type is not known and the field is left out."""

    kind: str
    fields: Mapping[str, str] = field(default_factory=dict)


def form_of(value: bytes | None) -> Form:
    if value is None:
        return Form("a tombstone")
    if not value:
        return Form("empty")
    if value[0] == _MAGIC and len(value) >= _HEADER:
        return Form(f"schema id {int.from_bytes(value[1:_HEADER], 'big')}")
    try:
        return _form_of_text(value.decode())
    except UnicodeDecodeError:
        return Form("bytes")


def _form_of_text(text: str) -> Form:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return Form("text")
    if isinstance(document, dict):
        return Form("JSON", {name: _KINDS[type(each)] for name, each in document.items() if each is not None})
    return Form("JSON")


def what_changed(earlier: Sequence[Form], after: Form) -> str | None:
    """How a record differs from all of the earlier ones; None when it is like one of them, or there are none.

    A field that is new breaks no reader, so it is no change. Tombstones say nothing of schemas.
    """
    known = [form for form in earlier if form.kind != "a tombstone"]
    if not known or after.kind == "a tombstone":
        return None
    kinds = list(dict.fromkeys(form.kind for form in known))
    if after.kind not in kinds:
        return f"{' and '.join(kinds)} before, {after.kind} now"
    alike = [form for form in known if form.kind == after.kind]
    return _fields_changed(alike, after)


def _fields_changed(earlier: Sequence[Form], after: Form) -> str | None:
    always = set(earlier[0].fields).intersection(*(form.fields for form in earlier))
    gone = sorted(name for name in always if name not in after.fields)
    told = [f"field {name} is gone" for name in gone]
    for name, kind in sorted(after.fields.items()):
        before = {form.fields[name] for form in earlier if name in form.fields}
        if before and kind not in before:
            told.append(f"field {name} was {' or '.join(sorted(before))} and is {kind}")
    return "; ".join(told[:_NAMED_MOST]) or None
