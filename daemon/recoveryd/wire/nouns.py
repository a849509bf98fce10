"""Nouns to JSON values and back, derived from their dataclasses, so that a new field is stored without a change here.

The `wire` of a capability says which fields people see, and where; all others are under `internal` with their own
names. Fields that this release does not know are ignored; fields that another release did not write get their defaults.
"""

import copy
import json
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from recoveryd.wire.plain_json import plain
from recoveryd.wire.plain_json import to_json as to_any_json

Document = dict[str, Any]
N = TypeVar("N")


class NounForm(Generic[N]):
    """Values of one dataclass as JSON objects, field by field, with the names used in JSON."""

    def __init__(self, noun: type[N]) -> None:
        self._noun = noun

    @cached_property
    def _adapter(self) -> TypeAdapter[N]:
        # It takes some milliseconds, so not at import: most commands of the command line need none.
        return TypeAdapter(self._noun)

    def write(self, value: N) -> Document:
        data: Document = self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False, fallback=plain)
        return data

    def read(self, data: Document) -> N:
        """The value in a document of `write`. Raises ValueError naming the field, or the error of a text's parser."""
        try:
            return self._adapter.validate_python(data)
        except ValidationError as error:
            return self._read_with_zeros(data, error)

    def schema(self) -> Document:
        return self._adapter.json_schema(mode="serialization", by_alias=True)

    def _read_with_zeros(self, data: Document, error: ValidationError) -> N:
        """Read null as 0 in place of a number. JSON has no NaN, so it is written as null; a record with one must not
        keep the daemon from starting, and 0 can be compared and rounded, which the rules do with every number.
        """
        wrong = error.errors(include_url=False, include_context=False)
        for problem in wrong:
            if problem["type"] != "float_type" or problem["input"] is not None:
                place = ".".join(map(str, problem["loc"]))
                raise ValueError(f"{place}: {problem['msg']}") from None
        data = copy.deepcopy(data)
        for problem in wrong:
            *path, last = problem["loc"]
            inner: Any = data
            for name in path:
                inner = inner[name]
            inner[last] = 0.0
        return self._adapter.validate_python(data)


def parse(value: bytes) -> Any:
    """The JSON value in `value`. Raises ValueError."""
    try:
        return from_json(value)
    except ValueError:  # releases up to 0.1.0 wrote halves of surrogate pairs
        return from_json(_whole(json.loads(value)))


def encode(document: Mapping[str, Any]) -> bytes:
    """Compact JSON, which never fails because of what evidence holds: NaN becomes null, half of a surrogate pair a
    question mark.
    """
    try:
        return to_json(document, inf_nan_mode="null", fallback=plain)
    except (PydanticSerializationError, ValueError):
        return _whole(json.loads(to_any_json(document)))


def take(data: Document, names: Collection[str]) -> Document:
    """These fields, taken out of `data`, in this order."""
    return {name: data.pop(name) for name in names}


def _whole(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
