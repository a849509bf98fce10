"""Control records: bytes to commands and signals, and back.

`Codec.decode` is total: whatever the bytes, it returns one of five results and raises nothing. The result decides what
happens to the record: a command or a refusal is answered, a signal is used or counted as refused, everything else goes
to the dead-letter topic. No record is accepted in part.

An exception that nobody foresaw is a defect of recoveryd, and a problem of this record alone: the record is refused
with RCV-5002 and the log has the traceback. The topic is read again at each start, so one record that raised would keep
every later daemon from leading.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from recoveryd.kernel.capability import Capability
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import ID_MOST, Command, Meta, RefusedCommand
from recoveryd.kernel.events import CommandReceived, ControlUnreadable, SignalReceived, SignalRefused
from recoveryd.kernel.times import format_time_ms
from recoveryd.wire.bounded_json import content_hash
from recoveryd.wire.cloudevents import (
    STRUCTURED_CONTENT_TYPE,
    Envelope,
    Headers,
    attribute_time_ms,
    check_attributes,
    open_envelope,
)
from recoveryd.wire.forms import SignalForm, VerbForm
from recoveryd.wire.problems import Problem, explain, make_problem, shown
from recoveryd.wire.spelling import nearest

COMMAND_TYPE: Final = "io.recoveryd.command.{}.v1"
SIGNAL_TYPE: Final = "io.recoveryd.signal.{}.v1"
SUBJECT_PATTERN: Final = rf"[a-z0-9][a-z0-9._-]{{0,{ID_MOST - 1}}}"

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R")
# Not structlog: without a configuration, as in the command line, it would write to stdout.
log = logging.getLogger(__name__)

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
class DecodedSignal:
    """`signal` is a value of the capability that the signal is for."""

    signal: object


@dataclass(frozen=True, slots=True)
class EncodedCommand:
    """A control record as a producer sends it; `event` is the same as JSON values."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    event: Mapping[str, Any]


class Codec:
    """Records of the commands and signals that these capabilities take."""

    def __init__(self, capabilities: Iterable[Capability[Any]]) -> None:
        capabilities = tuple(capabilities)
        self.verbs: Mapping[str, VerbForm] = {v: form for c in capabilities for v, form in c.forms.items()}
        self.signals: Mapping[str, SignalForm] = {k: form for c in capabilities for k, form in c.signals.items()}
        self.command_types = {COMMAND_TYPE.format(verb): verb for verb in self.verbs}
        self.signal_types = {SIGNAL_TYPE.format(kind): kind for kind in self.signals}

    def decode(
        self, key: bytes | None, value: bytes | None, headers: Headers, broker_ms: int, offset: int
    ) -> Command | RefusedCommand | DecodedSignal | SignalRefused | Unreadable:
        """The content of a control record. `broker_ms`: its LogAppendTime, the reference for durations and clocks.
        Never raises.
        """
        envelope = _made(lambda: open_envelope(value, headers), offset)
        if isinstance(envelope, Problem):
            return Unreadable(envelope.code.value, envelope.message, envelope.hint)
        if envelope.type.startswith(_SIGNAL_PREFIX):
            return self._decode_signal(envelope, broker_ms, offset)
        return self._decode_command(envelope, key, broker_ms, offset)

    def decode_event(
        self, partition: int, offset: int, broker_ms: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> CommandReceived | SignalReceived | SignalRefused | ControlUnreadable:
        """The core's event for a control record (without `previous`, which the runtime sets). Never raises."""
        match self.decode(key, value, headers, broker_ms, offset):
            case Unreadable(code, message):
                return ControlUnreadable(partition, offset, code, message, key, value, tuple(headers))
            case SignalRefused() as refused:
                return refused
            case DecodedSignal(signal):
                return SignalReceived(offset, broker_ms, signal)
            case command:
                return CommandReceived(offset, broker_ms, command)

    def encode(
        self,
        verb: str,
        subject: str,
        data: Mapping[str, Any],
        *,
        id: str,  # noqa: A002  (the attribute's name)
        source: str,
        time_ms: int,
        expiry_ms: int | None = None,
    ) -> EncodedCommand | RefusedCommand:
        """The record of a command, with fields in a fixed order; a refusal when the daemon would refuse its form."""
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
            problem = make_problem(Code.INVALID_VALUE, f"data cannot be written as JSON: {error}.")
            return RefusedCommand(verb, id, source, subject, "", problem.code.value, problem.message, problem.hint)
        key = subject.encode()
        headers = (("content-type", STRUCTURED_CONTENT_TYPE.encode()),)
        decoded = self.decode(key, value, headers, time_ms, -1)
        if isinstance(decoded, Unreadable):
            return RefusedCommand(verb, id, source, subject, "", decoded.code, decoded.message, decoded.hint)
        return decoded if isinstance(decoded, RefusedCommand) else EncodedCommand(key, value, headers, event)

    def _decode_command(
        self, envelope: Envelope, key: bytes | None, broker_ms: int, offset: int
    ) -> Command | RefusedCommand:
        verb = self.command_types.get(envelope.type, "")
        subject = envelope.attributes.get("subject")
        digest = content_hash(envelope.type, subject, envelope.data)
        made = _made(lambda: self._make_command(envelope, verb, key, broker_ms, digest), offset)
        if not isinstance(made, Problem):
            return made
        shown_subject = subject[:_SHOWN_SUBJECT_CHARS] if isinstance(subject, str) else ""
        return RefusedCommand(
            verb, envelope.id, envelope.source, shown_subject, digest, made.code.value, made.message, made.hint
        )

    def _make_command(
        self, envelope: Envelope, verb: str, key: bytes | None, broker_ms: int, digest: str
    ) -> Command | Problem:
        problem = self._check_type(envelope, verb) or check_attributes(envelope) or _check_subject(envelope, key)
        if problem is not None:
            return problem
        form = self.verbs[verb]
        misplaced = next((name for name in envelope.attributes if name in form.model.model_fields), None)
        if misplaced is not None:
            message = f"{misplaced} is a field of {verb}, not an attribute of the record."
            return make_problem(Code.UNKNOWN_FIELD, message, f"Move it to data.{misplaced}.")
        data = _validate(form.model, envelope.data, broker_ms, verb)
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
        return form.make(meta, data)

    def _decode_signal(self, envelope: Envelope, broker_ms: int, offset: int) -> DecodedSignal | SignalRefused:
        made = _made(lambda: self._make_signal(envelope, broker_ms), offset)
        return SignalRefused(offset, made.code.value, made.message, made.hint) if isinstance(made, Problem) else made

    def _make_signal(self, envelope: Envelope, broker_ms: int) -> DecodedSignal | Problem:
        kind = self.signal_types.get(envelope.type, "")
        problem = self._check_type(envelope, kind) or check_attributes(envelope)
        if problem is not None:
            return problem
        expiry_ms = attribute_time_ms(envelope, "expirytime")
        if expiry_ms is not None and expiry_ms < broker_ms:
            return make_problem(Code.EXPIRED, "The signal came after its expirytime.")
        form = self.signals[kind]
        data = _validate(form.model, envelope.data, broker_ms, kind)
        return data if isinstance(data, Problem) else DecodedSignal(form.make(data))

    def _check_type(self, envelope: Envelope, known_as: str) -> Problem | None:
        if known_as:
            return None
        close = nearest(envelope.type, (*self.command_types, *self.signal_types))
        hint = f"The nearest known type is {close}." if close else f"Known types are {', '.join(self.command_types)}."
        return make_problem(Code.UNKNOWN_TYPE, f"The type {shown(envelope.type)} is not known.", hint)


def _made(make: Callable[[], R], offset: int) -> R | Problem:
    """What `make` returns; for an exception that nobody foresaw, the problem that the sender is told."""
    try:
        return make()
    except Exception as bug:
        log.exception("the codec broke on the control record at offset %d", offset)
        message = f"recoveryd broke on this record ({type(bug).__name__}); it was not carried out."
        return make_problem(Code.INVARIANT_BROKEN, message, "Report it with the record and the daemon's log.")


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
