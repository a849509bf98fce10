"""What makes the JSON Schema of a noun, which its dataclass gives, the schema of a record as people see it: fields
moved, and words where a type does not say enough.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

Schema = dict[str, Any]
# By `Class.field`, the field under its name outside, or by `Class`: a description, or any words of JSON Schema.
Told = Mapping[str, str | Mapping[str, Any]]

NATURAL: Final[Mapping[str, Any]] = {"minimum": 0, "type": "integer"}
INTERNAL: Final[Mapping[str, Any]] = {
    "description": "for the daemon only; may change at any time",
    "additionalProperties": True,
    "type": "object",
}
_REF: Final = "#/$defs/"


def ref(name: str) -> Schema:
    return {"$ref": _REF + name}


def list_of(name: str, **more: Any) -> Schema:
    return {"items": ref(name), "type": "array", **more}


def make_object(properties: Mapping[str, Any], **more: Any) -> Schema:
    return {"properties": dict(properties), "type": "object", **more}


def only(schema: Schema, names: Collection[str]) -> None:
    """Leaves these properties, in this order."""
    schema["properties"] = {name: schema["properties"][name] for name in names}


def finished(schema: Schema, told: Told, *, optional: Collection[str] = ()) -> Schema:
    """The schema with what `told` has, every field required but those in `optional` (classes, or fields of them), no
    field that is not known, and no definition that nobody needs.
    """
    definitions = schema.pop("$defs", {})
    parts = {**definitions, schema.pop("title"): schema}
    left = {*told, *optional}
    for name, part in parts.items():
        part.pop("title", None)
        if part is not schema:
            part.pop("description", None)  # what the daemon's own code says of the class
        left.discard(name)
        if isinstance(words := told.get(name), str):
            part["description"] = words
        if "properties" not in part:
            continue
        part["additionalProperties"] = False
        part["properties"] = {
            field: _with_words(_plain(inner), told.get(f"{name}.{field}", {}))
            for field, inner in (part["properties"].items() if part is schema else _lists_last(part))
        }
        left -= {f"{name}.{field}" for field in part["properties"]}
        part.pop("required", None)
        if name not in optional:
            part["required"] = [field for field in part["properties"] if f"{name}.{field}" not in optional]
    if left:
        raise KeyError(f"told of what is not there: {sorted(left)}")
    needed = _needed(schema, definitions)
    return {"$defs": {name: definitions[name] for name in sorted(needed)}, **schema} if needed else schema


def _lists_last(part: Schema) -> list[tuple[str, Any]]:
    return sorted(part["properties"].items(), key=lambda item: "$ref" in str(item[1].get("items", "")))


def _plain(schema: Any) -> Any:
    """Without pydantic's titles and defaults; numbers of things are never negative."""
    if isinstance(schema, dict):
        inner = {name: _plain(value) for name, value in schema.items() if name not in {"title", "default"}}
        return {"minimum": 0, **inner} if inner.get("type") == "integer" else inner
    return [_plain(value) for value in schema] if isinstance(schema, list) else schema


def _with_words(schema: Schema, words: str | Mapping[str, Any]) -> Schema:
    more = {"description": words} if isinstance(words, str) else dict(words)
    choices = more.pop("enum", None)
    if choices is None:
        return {**schema, **more}
    chosen = {"enum": list(choices), "type": "string"}
    if "anyOf" in schema:
        return {**schema, "anyOf": [chosen, {"type": "null"}], **more}
    if "items" in schema:
        return {**schema, "items": chosen, **more}
    return {**chosen, **more}


def _needed(schema: Any, definitions: Mapping[str, Any]) -> set[str]:
    if isinstance(schema, list):
        return set().union(*(_needed(inner, definitions) for inner in schema))
    if not isinstance(schema, dict):
        return set()
    found = set().union(*(_needed(inner, definitions) for inner in schema.values()))
    name = str(schema.get("$ref", "")).removeprefix(_REF)
    return found | {name} | _needed(definitions[name], definitions) if name else found
