"""The part of JSON Schema 2020-12 that our schemas use, to validate records with them. Raises on a keyword that it does
not know.
"""

import json
import re
from pathlib import Path
from typing import Any

_ANNOTATIONS = {"$schema", "title", "description", "examples", "default", "format", "$defs"}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def is_valid(value: Any, schema: dict[str, Any]) -> bool:
    return _is_valid(value, schema, schema)


def load(name: str) -> dict[str, Any]:
    loaded = json.loads((Path("config/schemas") / name).read_text())
    assert isinstance(loaded, dict)
    return loaded


def _is_valid(value: Any, schema: Any, root: dict[str, Any]) -> bool:
    if isinstance(schema, bool):
        return schema
    return all(_holds(value, keyword, argument, schema, root) for keyword, argument in schema.items())


def _holds(  # noqa: PLR0911, PLR0912  (one branch per keyword)
    value: Any, keyword: str, argument: Any, schema: dict[str, Any], root: dict[str, Any]
) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match keyword:
        case _ if keyword in _ANNOTATIONS:
            return True
        case "$ref":
            target: Any = root
            for part in argument.removeprefix("#/").split("/"):
                target = target[part]
            return _is_valid(value, target, root)
        case "type":
            return any(_has_type(value, name) for name in ([argument] if isinstance(argument, str) else argument))
        case "const":
            return bool(value == argument and type(value) is type(argument))
        case "enum":
            return value in argument
        case "anyOf":
            return any(_is_valid(value, choice, root) for choice in argument)
        case "oneOf":
            return sum(_is_valid(value, choice, root) for choice in argument) == 1
        case "minimum":
            return not is_number or value >= argument
        case "maximum":
            return not is_number or value <= argument
        case "exclusiveMinimum":
            return not is_number or value > argument
        case "minLength":
            return not isinstance(value, str) or len(value) >= argument
        case "maxLength":
            return not isinstance(value, str) or len(value) <= argument
        case "pattern":
            return not isinstance(value, str) or re.search(argument, value) is not None
        case "minItems":
            return not isinstance(value, list) or len(value) >= argument
        case "maxItems":
            return not isinstance(value, list) or len(value) <= argument
        case "uniqueItems":
            return not isinstance(value, list) or len({json.dumps(item) for item in value}) == len(value)
        case "items":
            return not isinstance(value, list) or all(_is_valid(item, argument, root) for item in value)
        case _ if not isinstance(value, dict):
            return True
        case "properties":
            return all(_is_valid(value[name], inner, root) for name, inner in argument.items() if name in value)
        case "required":
            return all(name in value for name in argument)
        case "minProperties":
            return len(value) >= argument
        case "maxProperties":
            return len(value) <= argument
        case "propertyNames":
            return all(_is_valid(name, argument, root) for name in value)
        case "patternProperties":
            return all(
                _is_valid(v, inner, root) for p, inner in argument.items() for n, v in value.items() if re.search(p, n)
            )
        case "additionalProperties":
            known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
            others = [n for n in value if n not in known and not any(re.search(p, n) for p in patterns)]
            return all(_is_valid(value[name], argument, root) for name in others)
    raise AssertionError(f"a keyword this checker does not know: {keyword}")


def _has_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])
