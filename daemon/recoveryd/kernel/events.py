"""The events that belong to no capability; each capability has events of its own besides these.

Past-tense facts from the feed, the collectors and the results of effects. They carry data only; an event about an
unknown subject or an old attempt is legal and changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """The control record is no CloudEvent: it becomes a dead letter. Key, value and headers are the original bytes."""

    partition: int
    offset: int
    code: str
    message: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class SignalReceived:
    """An observation that another program put on the control topic; what it means is up to its handler."""

    offset: int
    broker_ms: int
    signal: object


@dataclass(frozen=True, slots=True)
class SignalRefused:
    """A signal that is a CloudEvent but not valid: reported as an event, never acted on."""

    offset: int
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """The status topic was read and the journal fences every other daemon: compare with the outside. `why`: what made
    a leader begin anew, empty when the daemon was none before. `is_leaving`: it was told before that it will end.
    `reads_control`: `ControlRead` follows, once what lies on the control topic was handed in.
    """

    epoch: int
    control_topic_id: str
    why: str = ""
    is_leaving: bool = False
    reads_control: bool = False


@dataclass(frozen=True, slots=True)
class ControlUnread:
    """A leader stood still, or was without its partition, and goes on: commands that were sent meanwhile may lie on the
    control topic. `ControlRead` follows, once they were handed in.
    """


@dataclass(frozen=True, slots=True)
class ControlRead:
    """Every command was handed in before that lay on the control topic when this daemon began to lead, or went on: what
    was sent meanwhile is known from now on.
    """


@dataclass(frozen=True, slots=True)
class ControlCutBack:
    """The control topic ends at `end`, although everything before `position` was taken: its log lost records. What
    comes from `end` on is new, unless it is what was `decided` at that offset (by idempotency key, in hex), which the
    runtime sets.
    """

    end: int
    position: int
    decided: Mapping[str, Seen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leaving:
    """The daemon will end soon, on purpose: what runs comes to rest at exact positions, and nothing more begins. The
    next leader goes on with it.
    """


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; wakes what waits for it."""


@dataclass(frozen=True, slots=True)
class CommandNotSent:
    """A `SendCommand` failed. If `retriable`, nothing was written, or it is not known whether something was; otherwise
    nothing was and the same command never will be.
    """

    about: str
    command_id: str
    code: str
    message: str
    retriable: bool
