"""The thin seam between the verbs and a running recoveryd: what can be asked of it, and the record that is sent.

The command line only writes control records and reads the status and events topics (or the HTTP API); `Backend` is
exactly that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from recoveryd.cli.status import Document


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """One record for the control topic, as bytes; `id` is the CloudEvents id inside, by which its answer is known."""

    topic: str
    key: str
    headers: tuple[tuple[str, bytes], ...]
    value: bytes
    id: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A record on the control topic: where it landed, and when by the broker's clock (None = it did not say)."""

    record: OutgoingRecord
    offset: int | None
    broker_ms: int | None = None


class Backend(Protocol):
    """Everything the verbs need of a running recoveryd. Raises `RecoverydError` when it cannot be reached."""

    def send(self, record: OutgoingRecord) -> Sent:
        """Write it to the control topic; returns once the broker has it."""
        ...

    def answers(self, sent: Sequence[Sent], timeout_s: float) -> Iterator[tuple[Sent, Document]]:
        """The events that answer what this backend sent, as they come; ends once all are there, or when the time is
        over.
        """
        ...

    def statuses(self) -> dict[str, Document]:
        """All recoveries by id, as of now."""
        ...

    def status(self, recovery: str) -> Document | None: ...

    def follow(self, recovery: str) -> Iterator[Document | None]:
        """The status as of now, then each change, without end; None about every half second in between, so that the
        caller can look at its clock.
        """
        ...

    def follow_all(self) -> Iterator[Document | None]:
        """Every status as of now, then each change of any, without end; None about every half second in between."""
        ...

    def events(self, recovery: str, since: str | None = None) -> list[Document]:
        """Events about one recovery, oldest first; `since` (RFC 3339) saves reading what is older."""
        ...

    def close(self) -> None: ...
