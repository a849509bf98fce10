"""How a field looks outside where its own type does not say it: a time as text, a choice as a word, another name.

A noun is declared once, as a dataclass; whoever stores or shows it derives the form from the types
(`recoveryd.wire.nouns`). What stands here is plain data that pydantic finds by the names of its hooks, so that the core
needs no pydantic.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from recoveryd.kernel.times import format_duration_ms, format_time_ms, parse_duration_ms, parse_time_ms


class Written:
    """Stands beside a type in an `Annotated`: `write` makes the JSON value, `read` is its inverse."""

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


def _write_duration(duration_ms: int) -> str:
    """What lies between two readings of a clock that was set meanwhile may be negative, which is no duration."""
    return format_duration_ms(max(0, duration_ms))


def _read_duration(text: str) -> int:
    """Also what was written when such a one was not shown as none yet."""
    return 0 if text.startswith("-") else parse_duration_ms(text)


DurationMs = Annotated[int, Written(_write_duration, _read_duration, {"type": "string"})]


def named(name: str) -> dict[str, str]:
    """Metadata of a dataclass's field whose name outside is another one."""
    return {"alias": name}
