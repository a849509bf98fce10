"""What the daemon writes to the events topic and the dead-letter topic: answers and notices as CloudEvents, unreadable
records as they came, as far as they fit.

Every event is one structured CloudEvent, key = recovery id, so that a consumer needs nothing but JSON. Event ids are
UUIDv7: ordered by time, new for each record. The journal's transaction keeps an event from being written twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import uuid_utils

from recoveryd.kernel.decision import Answer, Notice
from recoveryd.kernel.events import ControlUnreadable
from recoveryd.kernel.times import format_time_ms
from recoveryd.wire.cloudevents import STRUCTURED_CONTENT_TYPE
from recoveryd.wire.plain_json import to_json
from recoveryd.wire.topics import MAX_CONTROL_RECORD_BYTES

EVENT_TYPE: Final = "io.recoveryd.event.{}.v1"

_HEADERS: Final = (("content-type", STRUCTURED_CONTENT_TYPE.encode()),)
# Together with the cut value well below `MAX_DEAD_LETTER_BYTES`: a record may be compressed, so on the control topic
# nothing but its compressed size is bounded.
_MAX_KEPT_KEY_BYTES: Final = 64 * 1024
_MAX_KEPT_HEADERS: Final = 100
_MAX_KEPT_HEADER_BYTES: Final = 8192  # of name and value
_OURS: Final = "recoveryd-"
_RENAMED: Final = "recoveryd-original-header-"


@dataclass(frozen=True, slots=True)
class WireRecord:
    """A record to produce, without its topic."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def event_source(scope: str) -> str:
    """The CloudEvents source of a daemon's events."""
    return f"//recoveryd/{scope}"


def encode_answer(answer: Answer, scope: str, now_ms: int) -> WireRecord:
    """The one answer to a control record."""
    data = {
        "code": answer.code,
        "message": answer.message,
        "hint": answer.hint,
        "verb": answer.verb,
        "control_offset": answer.control_offset,
    }
    return _event(f"command_{answer.kind}", scope, answer.subject, data, now_ms, answer.command_id)


def encode_notice(notice: Notice, scope: str, now_ms: int) -> WireRecord:
    """A fact, such as a transition, or a decision with its inputs."""
    return _event(notice.type, scope, notice.subject, notice.data, now_ms, notice.causation_id)


def encode_dead_letter(record: ControlUnreadable, now_ms: int) -> WireRecord:
    """The control record, and in more headers what was wrong and where it was.

    What its headers call by a name of ours is called so no longer: the journal would take it for its own word. The rest
    is as it came, unless it is larger than any control record should be: a long value or key is cut, and a header
    says how long it was; a large header is left out, and so is what comes after the first hundred. A dead letter that
    its topic refuses would keep every daemon from leading.
    """
    kept = [
        (name, value)
        for name, value in map(_renamed, record.headers[:_MAX_KEPT_HEADERS])
        if len(name.encode()) + len(value or b"") <= _MAX_KEPT_HEADER_BYTES
    ]
    key, whole_key = _cut(record.key, _MAX_KEPT_KEY_BYTES)
    value, whole_value = _cut(record.value, MAX_CONTROL_RECORD_BYTES)
    about = [
        ("recoveryd-error-code", record.code),
        ("recoveryd-error-message", record.message),
        ("recoveryd-original-partition", str(record.partition)),
        ("recoveryd-original-offset", str(record.offset)),
        ("recoveryd-time", format_time_ms(now_ms)),
    ]
    about += [("recoveryd-original-bytes", str(whole_value))] if whole_value else []
    about += [("recoveryd-original-key-bytes", str(whole_key))] if whole_key else []
    return WireRecord(key, value, (*kept, *((name, text.encode()) for name, text in about)))


def _renamed(header: tuple[str, bytes | None]) -> tuple[str, bytes | None]:
    name, value = header
    return (_RENAMED + name.removeprefix(_OURS), value) if name.startswith(_OURS) else header


def _cut(part: bytes | None, most: int) -> tuple[bytes | None, int]:
    """At most so many bytes of it, and how many it had if it had more, else 0."""
    return (part, 0) if part is None or len(part) <= most else (part[:most], len(part))


def _event(
    short_type: str, scope: str, subject: str, data: Mapping[str, Any], now_ms: int, causation_id: str
) -> WireRecord:
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": str(uuid_utils.uuid7()),
        "source": event_source(scope),
        "type": EVENT_TYPE.format(short_type),
    }
    if subject:
        event["subject"] = subject
    event["time"] = format_time_ms(now_ms)
    event["datacontenttype"] = "application/json"
    if causation_id:
        event["causationid"] = causation_id
    event["data"] = data
    return WireRecord(subject.encode() or None, to_json(event), _HEADERS)
