"""From the JSON Schema of a noun's dataclass to that of its record as people see it: fields are moved, and descriptions
added where the type does not say enough.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

Schema = dict[str, Any]
# A description, or any keywords of JSON Schema, by `Class` or `Class.field`, with the field's name in JSON.
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
    """Keep only these properties, in this order."""
    schema["properties"] = {name: schema["properties"][name] for name in names}


def finished(schema: Schema, told: Told, *, optional: Collection[str] = ()) -> Schema:
    """The schema with the descriptions and keywords of `told`. Every field is required except those in `optional`
    (classes, or fields of them), no other field is allowed, and unused definitions are removed.
    """
    definitions = schema.pop("$defs", {})
    parts = {**definitions, schema.pop("title"): schema}
    left = {*told, *optional}
    for name, part in parts.items():
        part.pop("title", None)
        if part is not schema:
            part.pop("description", None)  # the docstring of the class
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
    """The schema without pydantic's titles and defaults; integers get a minimum of 0."""
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
