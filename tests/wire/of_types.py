"""Random values of any dataclass, made field by field from its types, so that a new field needs no change here.

Field names matter only for times (`..._ms`), which stay within what JSON texts can express, and floats are never NaN.
Everything else is any value of its type.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from recoveryd.capabilities import KINDS
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.spec import Spec
from recoveryd.workflows.model.positions import To
from recoveryd.workflows.model.positions_written import ToField

_TIMES_MS = st.integers(0, 3 * 10**12)  # times and durations that can be written: less than 100 years
texts = st.text(st.characters(codec="utf-8"), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
_PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(0, 2**53),
    float: st.floats(0, 1e12),
    str: texts,
    object: json_values,
    Any: json_values,
    types.NoneType: st.none(),
}
_PLAINER: Mapping[Any, Any] = {ToField: To}  # what is only told by how it is written


def filled(kind: type) -> st.SearchStrategy[Any]:
    """Any value of the dataclass `kind`, every field given."""
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = [f.name for f in dataclasses.fields(kind)]
    return st.builds(kind, **{name: _of(hints[name], name) for name in fields})


def filled_recoveries() -> st.SearchStrategy[Recovery]:
    """Any recoveries; the `kind` of each is that of its specification."""
    return filled(Recovery).map(lambda recovery: dataclasses.replace(recovery, kind=recovery.spec.kind))


def _of(hint: Any, name: str) -> st.SearchStrategy[Any]:  # noqa: PLR0911  (one per shape)
    hint = _PLAINER.get(hint, hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _of(args[0], name)
    if origin in {typing.Union, types.UnionType}:
        return st.one_of([_of(arg, name) for arg in args])
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return _tuple(args, name)
    if origin is frozenset:
        return st.frozensets(_of(args[0], name), max_size=3)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(_of(args[0], name), _of(args[1], name), max_size=3)
    if hint is int and name.endswith("_ms"):
        return _TIMES_MS
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(hint)
    if hint is Spec:
        return st.one_of([filled(kind.spec) for kind in KINDS])
    if dataclasses.is_dataclass(hint):
        return filled(hint)
    return _PLAIN[hint]


def _tuple(args: tuple[Any, ...], name: str) -> st.SearchStrategy[Any]:
    if len(args) != 2 or args[1] is not Ellipsis:
        return st.tuples(*(_of(arg, name) for arg in args))
    return st.lists(_of(args[0], name), max_size=3).map(tuple)
