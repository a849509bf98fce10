"""The written form of a field where its type alone does not determine it: a time as text, a choice as a word, another
name.

A noun is declared once, as a dataclass; its written form is derived from the types (`recoveryd.wire.nouns`). The
classes here have methods that pydantic finds by their names, so that the core need not import pydantic.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from recoveryd.kernel.times import format_duration_ms, format_time_ms, parse_duration_ms, parse_time_ms


class Written:
    """Goes into `Annotated` with a type: `write` makes the JSON value, `read` is its inverse, `schema` describes it."""

    def __init__(self, write: Callable[[Any], Any], read: Callable[[Any], Any], schema: Mapping[str, Any]) -> None:
        self._write, self._read, self._schema = write, read, schema

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> dict[str, Any]:
        return {
            "type": "function-plain",
            "function": {"type": "no-info", "function": self._read},
            "serialization": {"type": "function-plain", "function": self._write},
        }

    def __get_pydantic_json_schema__(self, _core_schema: Any, _handler: Any) -> dict[str, Any]:
        return dict(self._schema)


TIME_SCHEMA = {"type": "string", "format": "date-time"}
TimeMs = Annotated[int, Written(format_time_ms, parse_time_ms, TIME_SCHEMA)]
DurationMs = Annotated[int, Written(format_duration_ms, parse_duration_ms, {"type": "string"})]


def named(name: str) -> dict[str, str]:
    """Metadata of a dataclass's field with another name in its written form."""
    return {"alias": name}
