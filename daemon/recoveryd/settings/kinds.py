"""The kinds of config values: how durations, sizes, addresses, secrets and Spark masters are read and checked."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from recoveryd.kernel.times import TimeProblem, format_duration_ms, parse_duration_ms
from recoveryd.settings.secrets import shown_secret
from recoveryd.wire.quantities import SizeProblem, format_bytes, parse_bytes

LOCAL_MASTER: Final = re.compile(r"local(?:\[(\*|[1-9]\d{0,3})(?:,\s*(\d{1,3}))?\])?", flags=re.ASCII)
_OTHER_MASTER: Final = re.compile(r"(?:spark|k8s)://\S+|yarn", flags=re.ASCII)
_LISTEN: Final = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s:\[\]]+):(\d{1,5})", flags=re.ASCII)
Stored = dict[Literal["file", "env"], str]
_MAX_MS: Final = 366 * 86_400_000


class Section(BaseModel):
    """A group of options: strict, and never shown with the values it refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)


def option(default: Any, text: str, **more: Any) -> Any:
    """An option with its default and its text in the reference; `more` are arguments of pydantic's `Field`."""
    return Field(default=default, description=text, **more)


def _read_duration(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be a duration such as 5s, or a number of seconds")  # noqa: TRY004  (pydantic takes ValueError)
    if isinstance(value, str) and not value.strip().replace(".", "", 1).isdigit():
        try:
            return parse_duration_ms(value.strip())
        except TimeProblem as problem:
            raise ValueError(f"{value!r} {problem}") from None
    seconds = float(value)
    if not 0 <= seconds <= _MAX_MS / 1000:
        raise ValueError(f"{value!r} seconds is not between 0 and a year")
    return round(seconds * 1000)


def _read_size(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("must be a size such as 32MiB, or a number of bytes")  # noqa: TRY004  (pydantic takes ValueError)
    if isinstance(value, int):
        return value
    try:
        return parse_bytes(value)
    except SizeProblem as problem:
        raise ValueError(f"{value!r} {problem}") from None


def at_most(limit: int, shown: str) -> AfterValidator:
    """An upper bound; `shown` is the bound as a user writes it, for the error."""

    def check(value: int) -> int:
        if value > limit:
            raise ValueError(f"must be at most {shown}")
        return value

    return AfterValidator(check)


def _check_listen(value: str) -> str:
    match = _LISTEN.fullmatch(value)
    if match is None or int(match[2]) > 65535:
        raise ValueError(f"{value!r} is not HOST:PORT")
    return value


def _check_master(value: str) -> str:
    if not LOCAL_MASTER.fullmatch(value) and not _OTHER_MASTER.fullmatch(value):
        raise ValueError(
            f"{value!r} is no Spark master such as local[2,4], spark://host:7077, k8s://https://host or yarn"
        )
    return value


def _check_secret(value: str | Stored) -> str | Stored:
    if isinstance(value, dict) and len(value) != 1:
        raise ValueError("must be a text, {file: PATH} or {env: NAME}")
    if isinstance(value, str) and "\0" in value:
        raise ValueError("must not hold a NUL")
    return value


def _shown(value: str | Stored) -> Any:
    return value if isinstance(value, dict) else shown_secret(value)


def _to_text(value: Any) -> Any:
    """Numbers and truth values as text, since YAML reads 4 and true as such, but Spark's properties are texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


_DURATION_SCHEMA: Final = WithJsonSchema(
    {
        "anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}],
        "description": "duration: 5s, 1h30m, PT5S, or seconds",
    }
)
_SIZE_SCHEMA: Final = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}], "description": "size: 32MiB, 30MB, or bytes"}
)

Duration = Annotated[
    int, BeforeValidator(_read_duration), Field(gt=0, le=_MAX_MS), PlainSerializer(format_duration_ms), _DURATION_SCHEMA
]
Size = Annotated[int, BeforeValidator(_read_size), Field(gt=0), PlainSerializer(format_bytes), _SIZE_SCHEMA]
Count = Annotated[int, Field(ge=1)]
Word = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$")]
TopicName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]


Listen = Annotated[str, AfterValidator(_check_listen)]
Master = Annotated[str, AfterValidator(_check_master)]
Secret = Annotated[str | Stored, AfterValidator(_check_secret), PlainSerializer(_shown)]
SparkText = Annotated[str, BeforeValidator(_to_text)]
