"""Control records: bytes to commands and signals, and back.

`decode_control` is total: whatever the bytes, it returns one of five things and raises nothing. What it returns decides what happens to the record: a
command or a refusal is answered, a signal is used or counted as refused, everything else goes to the dead-letter topic. Nothing is ever half accepted.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from daemon.core.catalogue import Code
from daemon.core.commands import Command, HealthSignal, LagSignal, Meta, Refusal, Signal
from daemon.core.events import CommandReceived, ControlUnreadable, SignalReceived, SignalRefused
from daemon.wire.bounded_json import content_hash
from daemon.wire.cloudevents import (
    STRUCTURED_CONTENT_TYPE,
    Envelope,
    Headers,
    attribute_time_ms,
    check_attributes,
    open_envelope,
)
from daemon.wire.commands import VERB_SPECS
from daemon.wire.problems import Problem, explain, make_problem, nearest, shown
from daemon.wire.signals import KIND_SPECS
from daemon.wire.times import format_time_ms

COMMAND_TYPE: Final = "io.recoveryd.command.{}.v1"
SIGNAL_TYPE: Final = "io.recoveryd.signal.{}.v1"
COMMAND_TYPES: Final = {COMMAND_TYPE.format(verb): verb for verb in VERB_SPECS}
SIGNAL_TYPES: Final = {SIGNAL_TYPE.format(kind): kind for kind in KIND_SPECS}
SUBJECT_PATTERN: Final = r"[a-z0-9][a-z0-9._-]{0,62}"

M = TypeVar("M", bound=BaseModel)

_SUBJECT: Final = re.compile(SUBJECT_PATTERN, flags=re.ASCII)
_SIGNAL_PREFIX: Final = "io.recoveryd.signal."
_SHOWN_SUBJECT_CHARS: Final = 128


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Not a CloudEvent that could be answered: for the dead-letter topic."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class EncodedCommand:
    """A control record as a producer sends it; `event` is the value before it became bytes."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    event: Mapping[str, Any]


def decode_control(
    key: bytes | None, value: bytes | None, headers: Headers, broker_ms: int, offset: int
) -> Command | Refusal | Signal | SignalRefused | Unreadable:
    """What a control record says. `broker_ms` is its LogAppendTime, against which durations and clocks are judged. Never raises."""
    envelope = open_envelope(value, headers)
    if isinstance(envelope, Problem):
        return Unreadable(envelope.code.value, envelope.message, envelope.hint)
    if envelope.type.startswith(_SIGNAL_PREFIX):
        return _decode_signal(envelope, broker_ms, offset)
    return _decode_command(envelope, key, broker_ms)


def decode_event(
    partition: int, offset: int, broker_ms: int, key: bytes | None, value: bytes | None, headers: Headers
) -> CommandReceived | SignalReceived | SignalRefused | ControlUnreadable:
    """The core event of a control record (without `previous`, which the runtime knows). Never raises."""
    match decode_control(key, value, headers, broker_ms, offset):
        case Unreadable(code, message):
            return ControlUnreadable(partition, offset, code, message, key, value, tuple(headers))
        case SignalRefused() as refused:
            return refused
        case LagSignal() | HealthSignal() as signal:
            return SignalReceived(offset, broker_ms, signal)
        case command:
            return CommandReceived(offset, broker_ms, command)


def encode_command(
    verb: str,
    subject: str,
    data: Mapping[str, Any],
    *,
    id: str,  # noqa: A002  (the attribute's name)
    source: str,
    time_ms: int,
    expiry_ms: int | None = None,
) -> EncodedCommand | Refusal:
    """The record of a command, in a fixed order of fields; a refusal when the daemon would refuse it for its form."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": id,
        "source": source,
        "type": COMMAND_TYPE.format(verb),
        "subject": subject,
        "time": format_time_ms(time_ms),
    }
    if expiry_ms is not None:
        event["expirytime"] = format_time_ms(expiry_ms)
    event["data"] = dict(data)
    try:
        value = json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        problem = make_problem(Code.INVALID_VALUE, f"data can not be written as JSON: {error}.")
        return Refusal(verb, id, source, subject, "", problem.code.value, problem.message, problem.hint)
    key = subject.encode()
    headers = (("content-type", STRUCTURED_CONTENT_TYPE.encode()),)
    decoded = decode_control(key, value, headers, time_ms, -1)
    if isinstance(decoded, Unreadable):
        return Refusal(verb, id, source, subject, "", decoded.code, decoded.message, decoded.hint)
    return decoded if isinstance(decoded, Refusal) else EncodedCommand(key, value, headers, event)


def _decode_command(envelope: Envelope, key: bytes | None, broker_ms: int) -> Command | Refusal:
    verb = COMMAND_TYPES.get(envelope.type, "")
    subject = envelope.attributes.get("subject")
    digest = content_hash(envelope.type, subject, envelope.data)
    made = _make_command(envelope, verb, key, broker_ms, digest)
    if not isinstance(made, Problem):
        return made
    shown_subject = subject[:_SHOWN_SUBJECT_CHARS] if isinstance(subject, str) else ""
    return Refusal(verb, envelope.id, envelope.source, shown_subject, digest, made.code.value, made.message, made.hint)


def _make_command(envelope: Envelope, verb: str, key: bytes | None, broker_ms: int, digest: str) -> Command | Problem:
    problem = _check_type(envelope, verb) or check_attributes(envelope) or _check_subject(envelope, key)
    if problem is not None:
        return problem
    spec = VERB_SPECS[verb]
    misplaced = next((name for name in envelope.attributes if name in spec.model.model_fields), None)
    if misplaced is not None:
        message = f"{misplaced} is a field of {verb}, not an attribute of the record."
        return make_problem(Code.UNKNOWN_FIELD, message, f"Move it to data.{misplaced}.")
    data = _validate(spec.model, envelope.data, broker_ms, verb)
    if isinstance(data, Problem):
        return data
    meta = Meta(
        id=envelope.id,
        source=envelope.source,
        subject=envelope.attributes["subject"],
        reason=data.reason,
        content_hash=digest,
        time_ms=attribute_time_ms(envelope, "time"),
        expiry_ms=attribute_time_ms(envelope, "expirytime"),
    )
    return spec.make(meta, data)


def _decode_signal(envelope: Envelope, broker_ms: int, offset: int) -> Signal | SignalRefused:
    kind = SIGNAL_TYPES.get(envelope.type, "")
    made = _check_type(envelope, kind) or check_attributes(envelope)
    if made is None:
        expiry_ms = attribute_time_ms(envelope, "expirytime")
        if expiry_ms is not None and expiry_ms < broker_ms:
            made = make_problem(Code.EXPIRED, "The signal came after its expirytime.")
    if made is None:
        spec = KIND_SPECS[kind]
        data = _validate(spec.model, envelope.data, broker_ms, kind)
        if not isinstance(data, Problem):
            return spec.make(data)
        made = data
    return SignalRefused(offset, made.code.value, made.message, made.hint)


def _check_type(envelope: Envelope, known_as: str) -> Problem | None:
    if known_as:
        return None
    close = nearest(envelope.type, (*COMMAND_TYPES, *SIGNAL_TYPES))
    hint = f"The nearest known type is {close}." if close else f"Known types are {', '.join(COMMAND_TYPES)}."
    return make_problem(Code.UNKNOWN_TYPE, f"The type {shown(envelope.type)} is not known.", hint)


def _check_subject(envelope: Envelope, key: bytes | None) -> Problem | None:
    subject = envelope.attributes.get("subject")
    if subject is None:
        return make_problem(Code.INVALID_SUBJECT, "The attribute subject is missing; it is the recovery's id.")
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        return make_problem(Code.INVALID_SUBJECT, f"The subject {shown(subject)} is not a valid recovery id.")
    if key and key != subject.encode():
        message = f"The record's key {shown(key)} is not the subject {shown(subject)}."
        return make_problem(Code.INVALID_SUBJECT, message, "Send the subject as key, or no key.")
    return None


def _validate(model: type[M], data: Any, broker_ms: int, what: str) -> M | Problem:
    if data is None:
        return make_problem(Code.MISSING_FIELD, "data is missing.", f"Put the fields of {what} into data.")
    try:
        return model.model_validate(data, context={"now_ms": broker_ms})
    except ValidationError as error:
        return explain(error, model, "data", what)
