"""The status topic: one record for each noun of a capability, and one for the daemon itself.

The form of a noun is its capability's. Here are the keys and the fold of a whole topic. A broken record is an error
that names it, since going on with a part of the state would be worse than not starting.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoveryd.kernel.capability import Capability, StatusForm
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.state import DaemonRecord
from recoveryd.wire.nouns import NounForm, encode, parse, take

FORMAT: Final = 2
ENVELOPE: Final = ("recovery", "state", "why", "version", "created", "updated", "command")  # of every noun
DAEMON_KEY: Final = "_daemon"
DAEMON_PUBLIC: Final = ("applied_control_offset", "epoch", "updated")
_DAEMON: Final = NounForm(DaemonRecord)


class StatusUnreadable(ValueError):  # noqa: N818  (named for what happened)
    """A record of the status topic is not what this release writes; the message names its key and what is wrong."""


@dataclass(frozen=True, slots=True)
class StatusFold:
    """The newest record of each key on the status topic."""

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
        return noun.id.encode(), encode(self.document(noun))

    def read(self, document: dict[str, Any]) -> Noun:
        """The noun in a document of `document`. Raises `StatusUnreadable`."""
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
        """From keys and values in the topic's order to the newest of each key; a tombstone removes a key. Only the
        newest are decoded. Raises `StatusUnreadable`.
        """
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
    return DAEMON_KEY.encode(), encode(daemon_to_document(record))


def daemon_to_document(record: DaemonRecord) -> dict[str, Any]:
    data = _DAEMON.write(record)
    return {"daemon": True, **take(data, DAEMON_PUBLIC), "internal": {"format": FORMAT, **data}}


def daemon_from_document(document: dict[str, Any]) -> DaemonRecord:
    """The record in a document of `daemon_to_document`. Raises `StatusUnreadable`, but not for `kept` and `decided`:
    what is only a hint must not keep a daemon from starting, so in another form it is forgotten.
    """
    try:
        format_of(document)
        data = {**document["internal"], **{name: document[name] for name in DAEMON_PUBLIC}}
        try:
            return _DAEMON.read(data)
        except ValueError:
            return _DAEMON.read({**data, "kept": {}, "decided": {}})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StatusUnreadable(f"{DAEMON_KEY}: {type(error).__name__}: {error}") from error


def format_of(document: Mapping[str, Any]) -> int:
    """The record's format. Raises ValueError for one that this release does not read."""
    found = document["internal"]["format"]
    if found not in {1, FORMAT}:
        raise ValueError(f"format {found!r} is neither 1 nor {FORMAT}")
    return int(found)


def _document(key: bytes, value: bytes) -> dict[str, Any]:
    try:
        document = parse(value)
    except (ValueError, RecursionError) as error:
        raise StatusUnreadable(f"{key!r}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise StatusUnreadable(f"{key!r}: not an object")
    return document
