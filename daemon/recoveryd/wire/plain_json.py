"""Values to compact JSON, as all records that the daemon writes have it: plain, finite, never an exception for what evidence holds."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any


def to_json(value: object) -> bytes:
    """Compact JSON. Dataclasses, mappings and sets inside become their plain forms; NaN and infinities become null."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=plain).encode()
    except ValueError:  # a NaN somewhere in evidence or event data: worth a copy, not worth losing the record
        return json.dumps(_without_nan(value), separators=(",", ":"), default=plain).encode()


def finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def plain(value: object) -> Any:
    """What JSON has for a value that it does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Mapping):
        return {str(name): _without_nan(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(inner) for inner in value]
    return value
