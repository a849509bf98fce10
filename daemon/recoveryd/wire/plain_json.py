"""Values to compact JSON, for all records that the daemon writes: plain and finite, without an exception for what
evidence holds.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any


def to_json(value: object) -> bytes:
    """Compact JSON. Dataclasses, mappings and sets inside become their plain forms; NaN and infinities become null."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=plain).encode()
    except ValueError:  # a NaN somewhere in evidence or event data: write a copy without it rather than lose the record
        return json.dumps(_without_nan(value), separators=(",", ":"), default=plain).encode()


def finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def plain(value: object) -> Any:
    """The JSON form of a value of a type that JSON does not have."""
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
