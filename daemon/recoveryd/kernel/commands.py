"""What all commands have in common: an envelope and a verb. Validated, typed, without wire detail.

A capability has a class per verb; this module knows none of them.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, Protocol

ID_MOST: Final = 63  # characters of a subject
_KEY_BYTES: Final = 16


def idempotency_key(source: str, command_id: str) -> bytes:
    """What stands for both where many are remembered: of one size, however long they are."""
    text = f"{len(source)}:{source}{command_id}"
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=_KEY_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Meta:
    """Envelope of a command. `id` and `source` are its idempotency key, `subject` is the id of what it is about,
    `content_hash` covers type, subject and data.
    """

    id: str
    source: str
    subject: str
    reason: str
    content_hash: str
    time_ms: int | None = None
    expiry_ms: int | None = None

    @property
    def who(self) -> str:
        """Who sent it and why, for the sentences that say why something happened."""
        return f"{self.source}: {self.reason}"


class Command(Protocol):
    """A frozen dataclass with `meta`, the command's own fields, and the class attribute `verb`."""

    @property
    def meta(self) -> Meta: ...

    @property
    def verb(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RefusedCommand:
    """A control record that is a CloudEvents command and can be answered, but is not acceptable."""

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
