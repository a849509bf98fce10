"""What can happen to the core whatever it is about. Each capability has events of its own beside these.

Past-tense facts, made by the agent, the collectors and the results of effects. They carry data only; an event about an unknown subject or an old attempt is
legal and changes nothing.
"""

from dataclasses import dataclass

from recoveryd.kernel.commands import Command, RefusedCommand

Event = object  # one of these, or of a capability's own


@dataclass(frozen=True, slots=True)
class Seen:
    """An earlier control record with the same idempotency key."""

    offset: int
    content_hash: str


@dataclass(frozen=True, slots=True)
class CommandReceived:
    """`broker_ms` is the record's LogAppendTime; `previous` the earlier record with the same key, if any."""

    offset: int
    broker_ms: int
    command: Command | RefusedCommand
    previous: Seen | None = None


@dataclass(frozen=True, slots=True)
class ControlUnreadable:
    """The control record is no CloudEvent: dead letter. Key, value and headers are the original bytes."""

    partition: int
    offset: int
    code: str
    message: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class SignalReceived:
    """An observation that another program put on the control topic; what it may be is the business of whoever handles it."""

    offset: int
    broker_ms: int
    signal: object


@dataclass(frozen=True, slots=True)
class SignalRefused:
    """A signal that is a CloudEvent but not valid; counted and reported as an event, never acted on."""

    offset: int
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """The status topic was folded and the journal is fenced for us: reconcile with the world."""

    epoch: int
    control_topic_id: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; wakes what waits for it."""
