"""Builders of control records for the codec tests: a valid replay, and functions that change it."""

import copy
import json
from typing import Any

from recoveryd.kernel.commands import Command, RefusedCommand
from recoveryd.kernel.events import SignalRefused
from recoveryd.live.signals import HealthSignal, LagSignal
from recoveryd.wire.codec import DecodedSignal, Unreadable
from tests.builders.core import CODEC
from tools import examples

NOW_MS = 1_795_240_800_000  # 2026-11-21T06:00:00Z
GOOD_DATA: dict[str, Any] = examples.COMMANDS["replay"]["data"]

Outcome = Command | RefusedCommand | LagSignal | HealthSignal | SignalRefused | Unreadable


def bent(value: dict[str, Any], path: str, new: object = ...) -> dict[str, Any]:
    """A deep copy with the value at a dotted path replaced, or removed without a new one."""
    result = copy.deepcopy(value)
    *sections, last = path.split(".")
    inner = result
    for section in sections:
        inner = inner.setdefault(section, {})
    if new is ...:
        del inner[last]
    else:
        inner[last] = new
    return result


def replay_event(data: object = GOOD_DATA, **attributes: object) -> dict[str, Any]:
    """The example replay with other data or attributes; an attribute of None is left out."""
    event = examples.COMMANDS["replay"] | {"data": data} | attributes
    return {name: value for name, value in event.items() if value is not None}


def command_event(verb: str, data: object) -> dict[str, Any]:
    return replay_event(data, type=f"io.recoveryd.command.{verb}.v1")


def bare(outcome: object) -> Outcome:
    """A signal without the codec's wrapper; all other outcomes as they are."""
    return outcome.signal if isinstance(outcome, DecodedSignal) else outcome  # type: ignore[return-value]


def decode(event: object, key: bytes | None = None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Outcome:
    """The codec's outcome for a JSON value sent at NOW_MS with offset 7."""
    return bare(CODEC.decode(key, json.dumps(event).encode(), headers, NOW_MS, 7))


def decode_bytes(value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Outcome:
    return bare(CODEC.decode(None, value, headers, NOW_MS, 7))
