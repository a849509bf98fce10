"""Plain JSON values back to the types of a field: what `recoveryd.recovery.wire.status` stores under a field's own name needs no words of its own here.

Trusts its input as far as shapes go: it was written by the same types. Fields that an older release did not write get their defaults.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

Reader = Callable[[Any], Any]


def readers(kind: type, *, without: frozenset[str] = frozenset()) -> dict[str, Reader]:
    """A reader for each field of a dataclass."""
    hints = typing.get_type_hints(kind)
    return {f.name: reader(hints[f.name]) for f in dataclasses.fields(kind) if f.name not in without}


def reader(hint: Any) -> Reader:  # noqa: PLR0911  (one per shape)
    """How a value of this type is read back: enums by value, tuples from lists, dataclasses from objects; what JSON knows as it is."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        inner = [reader(arg) for arg in args if arg is not types.NoneType]
        assert len(inner) == 1, f"{hint} can not be told apart in JSON"
        read = inner[0]
        return read if read is same else lambda value: None if value is None else read(value)
    if origin is tuple:
        return _tuple(args)
    if origin is frozenset:
        each = reader(args[0])
        return lambda value: frozenset(map(each, value))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(args)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint
    if dataclasses.is_dataclass(hint):
        return _dataclass(typing.cast("type", hint))
    return same


def same(value: Any) -> Any:
    return value


def _tuple(args: tuple[Any, ...]) -> Reader:
    if len(args) == 2 and args[1] is Ellipsis:
        each = reader(args[0])
        return tuple if each is same else lambda value: tuple(map(each, value))
    parts = [reader(arg) for arg in args]
    return lambda value: tuple(read(inner) for read, inner in zip(parts, value, strict=True))


def _mapping(args: tuple[Any, ...]) -> Reader:
    to_name = args[0] if args[0] is int else same  # names are text in JSON
    read = reader(args[1])
    return lambda value: {to_name(name): read(inner) for name, inner in value.items()}


def _dataclass(kind: type) -> Reader:
    known = readers(kind)
    return lambda value: kind(**{name: read(value[name]) for name, read in known.items() if name in value})
