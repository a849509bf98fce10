"""What all commands have in common: an envelope, a verb and one answer. Validated, typed, free of wire detail.

A capability has a class per verb; nothing here knows them.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Meta:
    """Envelope of a command: `id` with `source` is its idempotency key, `subject` the id of what it is about, `content_hash` covers type, subject and data."""

    id: str
    source: str
    subject: str
    reason: str
    content_hash: str
    time_ms: int | None = None
    expiry_ms: int | None = None

    @property
    def who(self) -> str:
        """Whose word it was, for the sentences that say why something happened."""
        return f"{self.source}: {self.reason}"


class Command(Protocol):
    """A frozen dataclass with `meta`, what the command asks for, and the class attribute `verb`."""

    @property
    def meta(self) -> Meta: ...

    @property
    def verb(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RefusedCommand:
    """A control record that is a CloudEvents command, readable enough to be answered, but not acceptable."""

    verb: str  # "" when the type is unknown
    id: str
    source: str
    subject: str
    content_hash: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class StopCommand:
    """The one verb that every kind of subject understands."""

    meta: Meta
    verb = "stop"
