"""The status topic: one record for each noun of a capability, and one for the daemon itself.

What a noun looks like is its capability's; here are the keys, the fold of a whole topic, and what a broken record means: an error that names it, since going
on with half of the truth would be worse than not starting.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoveryd.kernel.capability import Capability, StatusForm
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.state import DaemonRecord
from recoveryd.kernel.states import Stop
from recoveryd.kernel.times import format_time_ms, parse_time_ms
from recoveryd.wire.plain_json import to_json

FORMAT: Final = 1
DAEMON_KEY: Final = "_daemon"


class StatusUnreadable(ValueError):  # noqa: N818  (named for what happened)
    """A record of the status topic is not what this release writes; the message names its key and what is wrong."""


@dataclass(frozen=True, slots=True)
class StatusFold:
    """The newest of everything on the status topic."""

    nouns: dict[str, Noun]
    daemon: DaemonRecord


class StatusTopic:
    """Records of the nouns of these capabilities."""

    def __init__(self, capabilities: Sequence[Capability[Any]]) -> None:
        self._forms: Sequence[StatusForm] = [c.status for c in capabilities if c.status is not None]
        self._by_noun = {form.noun: form for form in self._forms}

    def document(self, noun: Noun) -> Mapping[str, Any]:
        """The status record as JSON values, as the contract and the HTTP API have it."""
        return self._by_noun[type(noun)].write(noun)

    def encode(self, noun: Noun) -> tuple[bytes, bytes]:
        """Key and value."""
        return noun.id.encode(), to_json(self.document(noun))

    def read(self, document: dict[str, Any]) -> Noun:
        """What `document` gave. Raises `StatusUnreadable`."""
        try:
            kind = document["kind"]
            return next(form for form in self._forms if form.takes(kind)).read(document)
        except StopIteration:
            raise StatusUnreadable(
                f"{document.get('recovery')!r}: nobody knows the kind {document['kind']!r}"
            ) from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StatusUnreadable(f"{document.get('recovery')!r}: {type(error).__name__}: {error}") from error

    def fold(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> StatusFold:
        """Keys and values in order to the newest of each key; a tombstone removes. Only the newest are decoded. Raises `StatusUnreadable`."""
        newest: dict[bytes, bytes] = {}
        for key, value in records:
            if key is None:
                continue
            newest.pop(key, None)
            if value is not None:
                newest[key] = value
        own = newest.pop(DAEMON_KEY.encode(), None)
        daemon = DaemonRecord() if own is None else daemon_from_document(_document(DAEMON_KEY.encode(), own))
        nouns = (self.read(_document(key, value)) for key, value in newest.items())
        return StatusFold({noun.id: noun for noun in nouns}, daemon)


def encode_daemon(record: DaemonRecord) -> tuple[bytes, bytes]:
    """Key and value of the `_daemon` record."""
    return DAEMON_KEY.encode(), to_json(daemon_to_document(record))


def daemon_to_document(record: DaemonRecord) -> dict[str, Any]:
    return {
        "daemon": True,
        "applied_control_offset": record.applied_control_offset,
        "epoch": record.epoch,
        "updated": format_time_ms(record.updated_ms),
        "internal": {"format": FORMAT, "control_topic_id": record.control_topic_id},
    }


def daemon_from_document(document: dict[str, Any]) -> DaemonRecord:
    """What `daemon_to_document` wrote. Raises `StatusUnreadable`."""
    try:
        check_format(document)
        return DaemonRecord(
            applied_control_offset=document["applied_control_offset"],
            epoch=document["epoch"],
            control_topic_id=document["internal"]["control_topic_id"],
            updated_ms=parse_time_ms(document["updated"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StatusUnreadable(f"{DAEMON_KEY}: {type(error).__name__}: {error}") from error


def check_format(document: Mapping[str, Any]) -> None:
    """Raises ValueError for a record of another format."""
    found = document["internal"]["format"]
    if found != FORMAT:
        raise ValueError(f"format {found!r} is not {FORMAT}")


def _document(key: bytes, value: bytes) -> dict[str, Any]:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise StatusUnreadable(f"{key!r}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise StatusUnreadable(f"{key!r}: not an object")
    return document


def stop_to_document(stop: Stop) -> dict[str, Any]:
    return {
        "reason": stop.reason.value,
        "mode": stop.mode,
        "at": format_time_ms(stop.at_ms),
        "evidence": dict(stop.evidence),
    }
