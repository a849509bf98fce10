"""Values of the core to JSON and back, each with the name of its class: for files that only this program reads.

Everything that the core is told is made of dataclasses, named tuples, enums and plain containers, and no two classes of
the house have one name. A field with its default is left out; one that this release does not know is passed over, so a
file of an earlier release can be read as long as its words mean the same.
"""

import base64
import dataclasses
import enum
import math
import sys
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any

_TAG = "$"
_VALUE = "of"
_PLAIN_KINDS = frozenset({int, str, bool, type(None)})  # themselves in JSON


def to_tagged(value: Any) -> Any:
    """JSON values. Raises TypeError for what the core is never told."""
    kind: Any = type(value)
    if kind in _PLAIN_KINDS:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        told: dict[str, Any] = {_TAG: kind.__name__}
        for name, default in _fields(kind):
            inner = getattr(value, name)
            if default is dataclasses.MISSING or type(default) is not type(inner) or default != inner:
                told[name] = to_tagged(inner)
        return told
    if isinstance(value, enum.Enum):
        return {_TAG: type(value).__name__, _VALUE: value.value}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {_TAG: type(value).__name__, **{name: to_tagged(inner) for name, inner in value._asdict().items()}}
    return _container(value) if isinstance(value, Mapping | AbstractSet | list | tuple) else _scalar(value)


def _container(value: Any) -> Any:
    if isinstance(value, Mapping):
        if all(type(key) is str and key != _TAG for key in value):
            return {key: to_tagged(inner) for key, inner in value.items()}
        return {_TAG: "map", _VALUE: [[to_tagged(key), to_tagged(inner)] for key, inner in value.items()]}
    if isinstance(value, AbstractSet):
        return {_TAG: "set", _VALUE: [to_tagged(inner) for inner in sorted(value, key=repr)]}
    inside = [to_tagged(inner) for inner in value]
    return inside if isinstance(value, tuple) else {_TAG: "list", _VALUE: inside}


def _scalar(value: Any) -> Any:
    if isinstance(value, bytes):
        return {_TAG: "bytes", _VALUE: base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {_TAG: "float", _VALUE: str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} has no tagged form")


def from_tagged(data: Any) -> Any:
    """What `to_tagged` gave. Raises ValueError, KeyError or TypeError for anything else."""
    if isinstance(data, list):
        return tuple(from_tagged(inner) for inner in data)
    if not isinstance(data, dict):
        return data
    tag = data.get(_TAG)
    if tag is None:
        return {key: from_tagged(inner) for key, inner in data.items()}
    plain = _PLAIN.get(tag)
    if plain is not None:
        return plain(data[_VALUE])
    made = _classes()[tag]
    if issubclass(made, enum.Enum):
        return made(data[_VALUE])
    known = getattr(made, "_fields", None) or {f.name for f in dataclasses.fields(made) if f.init}
    return made(**{name: from_tagged(inner) for name, inner in data.items() if name in known})


_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "bytes": base64.b64decode,
    "list": lambda inner: [from_tagged(x) for x in inner],
    "set": lambda inner: frozenset(from_tagged(x) for x in inner),
    "map": lambda inner: {from_tagged(key): from_tagged(x) for key, x in inner},
}


@cache
def _fields(made: Any) -> tuple[tuple[str, Any], ...]:
    """Names and defaults. Cached: a heartbeat of a thousand partitions has ten thousand fields."""
    return tuple((field.name, _default(field)) for field in dataclasses.fields(made) if field.init)


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@cache
def _classes() -> Mapping[str, Any]:
    """Every class of the house that is loaded, by name."""
    modules = [m for name, m in sys.modules.items() if name.startswith(("recoveryd.", "recoveryd_jobs."))]
    return {
        name: made
        for module in modules
        for name, made in vars(module).items()
        if isinstance(made, type)
        and made.__module__ == module.__name__
        and (dataclasses.is_dataclass(made) or issubclass(made, enum.Enum) or hasattr(made, "_asdict"))
    }
