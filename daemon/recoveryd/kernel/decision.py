"""What `decide` returns: the new state, what the journal must hold, and what to do once it does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from recoveryd.kernel.events import ControlUnreadable
from recoveryd.kernel.state import CoreState, DaemonRecord
from recoveryd.kernel.states import State
from recoveryd_jobs.contract import Directive


class Noun(Protocol):
    """Something with a record of its own on the status topic, under its id."""

    @property
    def id(self) -> str: ...

    @property
    def state(self) -> State: ...

    @property
    def created_ms(self) -> int: ...

    @property
    def updated_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """The one answer to a control record: `kind` is accepted | rejected | duplicate | expired."""

    kind: str
    verb: str
    command_id: str
    subject: str
    code: str
    message: str
    hint: str
    control_offset: int


@dataclass(frozen=True, slots=True)
class Notice:
    """A fact for the events topic. `type` is the short name (`recovery_paused`); the wire makes the CloudEvents type
    `io.recoveryd.event.<type>.v1` of it.
    """

    type: str
    subject: str
    data: Mapping[str, object]
    causation_id: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """`changed` nouns and `daemon`, if not None, go to the status topic. Everything for the journal goes into one
    transaction, then `effects` run.

    A decision with nothing to journal costs no transaction; its effects (waking up, asking again) may run at once.
    """

    state: CoreState
    reason: str = ""
    changed: tuple[Noun, ...] = ()
    forgotten: tuple[str, ...] = ()  # ids whose records are deleted from the compacted topics
    daemon: DaemonRecord | None = None
    answers: tuple[Answer, ...] = ()
    notices: tuple[Notice, ...] = ()
    directives: tuple[Directive, ...] = ()
    dead_letters: tuple[ControlUnreadable, ...] = ()
    effects: tuple[object, ...] = ()

    @property
    def needs_journal(self) -> bool:
        return bool(
            self.changed
            or self.forgotten
            or self.daemon
            or self.answers
            or self.notices
            or self.directives
            or self.dead_letters
        )
