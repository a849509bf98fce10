"""The kinds of values in commands and signals: how each is written in JSON, checked, and described in the JSON Schema.

Validators return core values. Times relative to now are made absolute with `now_ms` of the validation context, which is
the broker's time of the record, so that a command means the same whenever it is read.
"""

import math
import re
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.times import TimeProblem, ZoneMissing, parse_duration_ms, parse_time_ms
from recoveryd.wire.problems import shown, wrong
from recoveryd.wire.quantities import SizeProblem, parse_bytes

MAX_OFFSET: Final = 2**63 - 1
MAX_PARTITION: Final = 2**31 - 1
MAX_PARTITIONS: Final = 100_000
MAX_FIELDS: Final = 64
MAX_SAMPLE_AHEAD_MS: Final = 300_000

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}", flags=re.ASCII)
TOPIC_HINT: Final = "Use 1 to 249 characters of a-z, A-Z, 0-9, dot, underscore and hyphen."
_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Strict(BaseModel):
    """Base of all JSON objects here: exact types, no unknown fields."""

    # What checks a kind of record is made when the first one comes: of dozens of kinds, most processes meet a few.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _is_bounded(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > MAX_FIELDS:
            raise wrong(f"has {len(value)} fields, more than any record of recoveryd", code=Code.TOO_LARGE)
        return value


def at_most(count: int) -> BeforeValidator:
    """A bound that is checked before the items are, so that a refusal costs no more than a good record."""

    def check(value: Any) -> Any:
        if isinstance(value, list | dict) and len(value) > count:
            raise wrong(f"has {len(value)} entries, at most {count} are taken", code=Code.TOO_LARGE)
        return value

    return BeforeValidator(check)


def check_text(text: str) -> str:
    """Refuses control characters other than tab and line feed: such texts end up in terminals."""
    if _CONTROL_CHARACTERS.search(text):
        raise wrong("holds control characters")
    return text


def _check_header_name(name: str) -> str:
    if "\0" in name:
        raise wrong(
            f"is {shown(name)}, and the Kafka client ends a header's name at a NUL character",
            "Use a name without NUL.",
        )
    return name


def _check_topic_name(topic: str) -> str:
    if not is_topic_name(topic):
        raise wrong(f"is {shown(topic)}, which is not a topic name", TOPIC_HINT)
    return topic


def _check_topic(topic: str) -> str:
    if _check_topic_name(topic).startswith("_"):
        raise wrong(f"is {shown(topic)}, an internal topic", code=Code.INTERNAL_TOPIC)
    return topic


def _check_partitions(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise wrong("must be a list with at least one partition", "Leave the field out to take all partitions.")
    if len(value) > MAX_PARTITIONS:
        raise wrong(f"names {len(value)} partitions, at most {MAX_PARTITIONS} are taken", code=Code.TOO_LARGE)
    for partition in value:
        if not is_int_to(partition, MAX_PARTITION):
            raise wrong(f"holds {shown(partition)}, which is not a partition number")
    if len(set(value)) != len(value):
        raise wrong("names a partition twice")
    return tuple(sorted(value))


def is_topic_name(text: str) -> bool:
    return _TOPIC.fullmatch(text) is not None and text not in {".", ".."}


def is_int_to(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def is_duration(text: str) -> bool:
    try:
        parse_duration_ms(text)
    except TimeProblem:
        return False
    return True


def read_duration(text: str, start: str = "") -> int:
    try:
        return parse_duration_ms(text)
    except TimeProblem as problem:
        raise wrong(f"{start or f'is {shown(text)}: it'} {problem}") from None


def read_time(text: str) -> int:
    try:
        return parse_time_ms(text)
    except ZoneMissing as problem:
        raise wrong(f"is {shown(text)}: it {problem}", code=Code.ZONE_MISSING) from None
    except TimeProblem as problem:
        raise wrong(f"is {shown(text)}: it {problem}") from None


def parse_time_field(value: Any) -> int:
    """A time with zone, to ms."""
    if not isinstance(value, str):
        raise wrong(f"is {shown(value)}, not an RFC 3339 time as text")
    return read_time(value)


def _parse_sampled_at(value: Any, info: ValidationInfo) -> int:
    time_ms = parse_time_field(value)
    if time_ms > now_ms_of(info) + MAX_SAMPLE_AHEAD_MS:
        raise wrong(f"is {shown(value)}, more than 5 minutes in the future", "Check the clock of the sender.")
    return time_ms


def _parse_runtime(value: Any) -> int:
    if not isinstance(value, str):
        raise wrong(f"is {shown(value)}, not a duration as text", "Write 90s, 1h30m or PT90S.")
    runtime_ms = read_duration(value)
    if runtime_ms <= 0:
        raise wrong("must be longer than zero")
    return runtime_ms


def parse_deadline(value: Any, info: ValidationInfo) -> int:
    if not isinstance(value, str):
        raise wrong(
            f"is {shown(value)}, not a time as text", "Write a time with zone, or a duration from now such as 2h."
        )
    now_ms = now_ms_of(info)
    deadline_ms = now_ms + read_duration(value) if is_duration(value) else read_time(value)
    if deadline_ms <= now_ms:
        raise wrong(f"is {shown(value)}, which has passed already")
    return deadline_ms


def _parse_rate(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"is {shown(value)}, not a number per second")
    if not 0 < value <= MAX_OFFSET or not math.isfinite(value):
        raise wrong(f"is {shown(value)}, but must be more than 0", "Use pause to hold a recovery; null lifts a limit.")
    return float(value)


def _parse_byte_rate(value: Any) -> float:
    return _parse_rate(_read_size(value.removesuffix("/s")) if isinstance(value, str) else value)


def _parse_byte_count(value: Any) -> int:
    size = _read_size(value) if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= MAX_OFFSET:
        raise wrong(f"is {shown(value)}, not a number of bytes above 0", "Write it like 10MB, 32MiB or 65536.")
    return size


def _read_size(text: str) -> int:
    """A size as flags and the config have it."""
    try:
        return parse_bytes(text[:64])
    except SizeProblem as problem:
        raise wrong(f"{problem}: {shown(text)}", "Write it like 10MB, 32MiB or 65536.") from None


def now_ms_of(info: ValidationInfo) -> int:
    return int(info.context["now_ms"]) if info.context else 0


TIME_SCHEMA: Final = {"type": "string", "format": "date-time", "description": "RFC 3339 with zone"}
DURATION_SCHEMA: Final = {"type": "string", "examples": ["90s", "1h30m", "PT90S"], "description": "duration"}

Text = Annotated[str, AfterValidator(check_text)]
Reason = Annotated[
    str,
    Field(min_length=1, max_length=500, description="why, for people: 1 to 500 characters"),
    AfterValidator(check_text),
]
Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$")]
GroupName = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(check_text)]
Topic = Annotated[
    str, AfterValidator(_check_topic), Field(json_schema_extra={"pattern": "^[a-zA-Z0-9.-][a-zA-Z0-9._-]{0,248}$"})
]
AnyTopic = Annotated[  # for commands that only read
    str, AfterValidator(_check_topic_name), Field(json_schema_extra={"pattern": "^[a-zA-Z0-9._-]{1,249}$"})
]
Partitions = Annotated[
    tuple[int, ...],
    PlainValidator(_check_partitions),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": MAX_PARTITION},
            "minItems": 1,
            "maxItems": MAX_PARTITIONS,
            "uniqueItems": True,
        }
    ),
]
Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET)]
Partition = Annotated[int, Field(ge=0, le=MAX_PARTITION)]
Count = Annotated[int, Field(gt=0, le=MAX_OFFSET)]
Rate = Annotated[float, PlainValidator(_parse_rate), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})]
_SIZE_SCHEMA: Final = {
    "type": "string",
    "examples": ["10MB", "32MiB"],
    "description": "size: B, KB, MB, GB, TB of thousands, KiB, MiB, GiB, TiB of 1024",
}
ByteRate = Annotated[
    float,
    PlainValidator(_parse_byte_rate),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, _SIZE_SCHEMA]}),
]
ByteCount = Annotated[
    int,
    PlainValidator(_parse_byte_count),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_OFFSET}, _SIZE_SCHEMA]}),
]
Weight = Annotated[float, Field(ge=0.001, le=1000)]
Tier = Annotated[int, Field(ge=0, le=9)]
EventTime = Annotated[int, PlainValidator(parse_time_field), WithJsonSchema(TIME_SCHEMA)]
Runtime = Annotated[int, PlainValidator(_parse_runtime), WithJsonSchema(DURATION_SCHEMA)]
Deadline = Annotated[int, PlainValidator(parse_deadline), WithJsonSchema({"anyOf": [TIME_SCHEMA, DURATION_SCHEMA]})]
SampledAt = Annotated[int, PlainValidator(_parse_sampled_at), WithJsonSchema(TIME_SCHEMA)]
HeaderName = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_check_header_name)]
HeaderText = Annotated[str, Field(max_length=8192)]
