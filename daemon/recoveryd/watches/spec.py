"""What a `watch` asks for: which group, until which condition, and what to do then. The values are validated already;
JSON names and hints are in `wire`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from recoveryd.kernel.commands import Meta
from recoveryd.kernel.times import format_time_ms, parse_time_ms
from recoveryd.kernel.written import TimeMs, Written, named


@dataclass(frozen=True, slots=True)
class UntilCaughtUp:
    """Every partition of every topic stays at zero lag (see `judge`)."""


@dataclass(frozen=True, slots=True)
class UntilOffsets:
    """The group committed at least these offsets, by topic and partition. A partition that was seen there once stays
    done.
    """

    offsets: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class UntilTime:
    """The time has come, whatever the group does."""

    time_ms: int


def _write_until(until: Any) -> Any:
    """As in the command, but with absolute times."""
    match until:
        case UntilOffsets(offsets):
            return {"offsets": {t: {str(p): offset for p, offset in found.items()} for t, found in offsets.items()}}
        case UntilTime(time_ms):
            return {"deadline": format_time_ms(time_ms)}
        case _:
            return "caught_up"


def _read_until(data: Any) -> Any:
    if data == "caught_up":
        return UntilCaughtUp()
    if "deadline" in data:
        return UntilTime(parse_time_ms(data["deadline"]))
    return UntilOffsets({t: {int(p): offset for p, offset in found.items()} for t, found in data["offsets"].items()})


_UNTIL_SCHEMA = {"anyOf": [{"const": "caught_up"}, {"type": "object"}]}
Until = Annotated[UntilCaughtUp | UntilOffsets | UntilTime, Written(_write_until, _read_until, _UNTIL_SCHEMA)]


@dataclass(frozen=True, slots=True)
class CallHook:
    """A webhook of the config is called."""

    webhook: str


@dataclass(frozen=True, slots=True)
class StopUnit:
    """The application of a unit is stopped, by whoever controls it."""

    unit: str


def _write_then(then: Any) -> Any:
    match then:
        case CallHook(webhook):
            return {"webhook": webhook}
        case StopUnit(unit):
            return {"stop": unit}
        case _:
            return "notify"


def _read_then(data: Any) -> Any:
    if data == "notify":
        return None
    return StopUnit(data["stop"]) if "stop" in data else CallHook(data["webhook"])


_WEBHOOK_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 128}
_THEN_SCHEMA = {
    "anyOf": [
        {"const": "notify"},
        {
            "type": "object",
            "properties": {"webhook": _WEBHOOK_SCHEMA},
            "required": ["webhook"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"stop": {"type": "string"}},
            "required": ["stop"],
            "additionalProperties": False,
        },
    ]
}
Then = Annotated[CallHook | StopUnit | None, Written(_write_then, _read_then, _THEN_SCHEMA)]


@dataclass(frozen=True, slots=True)
class WatchSpec:
    """`then` None = only notify. `deadline_ms` (absolute) ends it unfulfilled. `tolerance_records`: lag per
    partition that still counts as zero.
    """

    cluster: str
    group: str
    topics: tuple[str, ...]
    until: Until
    then: Then = None
    deadline_ms: TimeMs | None = field(default=None, metadata=named("deadline"))
    tolerance_records: int = 0


@dataclass(frozen=True, slots=True)
class StartWatch:
    meta: Meta
    spec: WatchSpec
    verb = "watch"
