"""Dataclasses to JSON and back. A record carries its version and is read strictly, except that unknown fields are
ignored, so that a newer writer can add some.
"""

import dataclasses
import functools
import json
import types
import typing

VERSION = 1
_MOST = 2**63 - 1  # what Kafka's own integers hold; a longer one would break whoever divides by it


class ContractError(ValueError):
    """A record or file that is not what this release writes; the message names the type and field."""


def encode(value: object) -> bytes:
    """Compact JSON of a contract dataclass."""
    return json.dumps(dataclasses.asdict(value), separators=(",", ":")).encode()  # type: ignore[call-overload]


T = typing.TypeVar("T")
_hints = functools.cache(typing.get_type_hints)  # resolving the hints takes longer than the rest of reading a heartbeat


def decode(cls: type[T], raw: bytes | str) -> T:
    """Read what `encode` wrote. Raises ContractError for anything else, naming type and field."""
    return build(cls, load(raw, cls.__name__))


def load(raw: bytes | str, where: str) -> object:
    """Parse JSON. Raises ContractError, beginning with `where`."""
    try:
        return typing.cast("object", json.loads(raw, parse_constant=_no_number))
    except (ValueError, RecursionError) as error:
        raise ContractError(f"{where}: not JSON: {error}") from None


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number")


def build(cls: type[T], value: object) -> T:
    """A record from its parsed JSON. Raises ContractError as `decode` does."""
    result = _build(cls, value, cls.__name__)
    if getattr(result, "version", VERSION) != VERSION:
        raise ContractError(f"{cls.__name__}: version {getattr(result, 'version', None)} is not {VERSION}")
    return typing.cast("T", result)


def _build(kind: typing.Any, value: typing.Any, where: str) -> typing.Any:  # noqa: C901, PLR0911  (per JSON shape)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        return _build(next(a for a in args if a is not type(None)), value, where)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(typing.cast("type", kind), value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise ContractError(f"{where}: a list is needed")
        if len(args) == 2 and args[1] is Ellipsis:
            build = _build_dataclass if dataclasses.is_dataclass(args[0]) else _build
            return tuple([build(args[0], v, where) for v in value])
        if len(value) != len(args):
            raise ContractError(f"{where}: {len(args)} items are needed")
        return tuple(_build(a, v, where) for a, v in zip(args, value, strict=True))
    if origin is dict:
        if not isinstance(value, dict):
            raise ContractError(f"{where}: an object is needed")
        return {_build_key(args[0], k, where): _build(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if type(value) is int and kind in (int, float):
        return kind(_bounded(value, where))
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ContractError(f"{where}: {kind.__name__} is needed, got {type(value).__name__}")
    return value


def _bounded(value: int, where: str) -> int:
    if not -_MOST <= value <= _MOST:
        raise ContractError(f"{where}: a number of {len(str(abs(value)))} digits is too large")
    return value


def _build_key(kind: type, key: str, where: str) -> typing.Any:
    """JSON knows only text as keys, so a number is read from it."""
    if kind is not int:
        return key
    try:
        number = int(key)
    except ValueError:
        raise ContractError(f"{where}: the key {key!r} is no number") from None
    return _bounded(number, where)


def _build_dataclass(kind: type, value: typing.Any, where: str) -> typing.Any:
    if not isinstance(value, dict):
        raise ContractError(f"{where}: an object is needed")
    found: dict[str, typing.Any] = {}
    for name, plain, hint, is_needed in _fields(kind):
        if name in value:
            one = value[name]
            is_plain = type(one) in plain and (type(one) is not int or -_MOST <= one <= _MOST)
            found[name] = one if is_plain else _build(hint, one, f"{where}.{name}")
        elif is_needed:
            raise ContractError(f"{where}: field {name} is missing")
    return kind(**found)


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, frozenset[type], typing.Any, bool], ...]:
    """Name, types that are taken as they are, type hint, and whether the field is required. Cached: a heartbeat of a
    thousand partitions has ten thousand fields.
    """
    hints = _hints(kind)
    return tuple(
        (
            item.name,
            _plain_types(hints[item.name]),
            hints[item.name],
            item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING,
        )
        for item in dataclasses.fields(kind)
    )


def _plain_types(hint: typing.Any) -> frozenset[type]:
    """The exact types that need no conversion. Exact, because `True` is an `int` for isinstance."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return frozenset(kinds) if all(k in (int, str, bool, float, type(None)) for k in kinds) else frozenset()
