"""What the daemon can do, in parts that do not know each other. bootstrap hands one tuple of them to the kernel.

To add one: a folder with its words (commands, events, effects, nouns), its rules and a function that makes its `Capability`; then one line where the tuple is
made. Nothing else of the core changes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from recoveryd.kernel.commands import Command
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.draft import Draft, View
from recoveryd.kernel.events import CommandReceived
from recoveryd.kernel.metrics import Measures
from recoveryd.kernel.state import CoreState

V = TypeVar("V", bound=View)
E = TypeVar("E")
C = TypeVar("C", bound=Command)


@dataclass(frozen=True, slots=True)
class Subject:
    """What an id stands for: `kind` and `state` as people know them."""

    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class Handler(Generic[V]):
    """Made by `on`, which sees to it that what handles an event takes an event of that type."""

    event: type
    handle: Callable[[V, Any], None]


def on(event: type[E], handle: Callable[[V, E], None]) -> Handler[V]:
    """`handle` writes into the view what such an event means."""
    return Handler(event, handle)


@dataclass(frozen=True, slots=True)
class Verb(Generic[V]):
    """Made by `begins` or `steers`."""

    command: type[Command]
    handle: Callable[[V, CommandReceived, Any], None]
    is_beginning: bool

    @property
    def name(self) -> str:
        """The verb as it stands in the type of a control record."""
        return str(self.command.verb)


def begins(command: type[C], handle: Callable[[V, CommandReceived, C], None]) -> Verb[V]:
    """The command makes a new subject. The kernel has made sure that no other capability has one of that id."""
    return Verb(command, handle, is_beginning=True)


def steers(command: type[C], handle: Callable[[V, CommandReceived, C], None]) -> Verb[V]:
    """The command is about a subject of this capability, which exists."""
    return Verb(command, handle, is_beginning=False)


@dataclass(frozen=True, slots=True)
class StatusForm:
    """How a noun of the capability stands on the status topic. `takes` says by a record's `kind` whether it is one of these; `read` raises for a broken one."""

    noun: type
    takes: Callable[[str], bool]
    write: Callable[[Any], Mapping[str, Any]]
    read: Callable[[dict[str, Any]], Noun]


def _nothing(_view: Any, _event: object) -> None:
    return


def _nobody(_view: Any, _id: str) -> None:
    return None


def _unchanged(state: CoreState, _nouns: Mapping[str, Noun], _sequences: Mapping[str, int]) -> CoreState:
    return state


def _none(_state: CoreState) -> Mapping[str, Noun]:
    return {}


def _never(_state: CoreState) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Capability(Generic[V]):
    """`make_view` shows a draft as the other functions want it. After all handlers of an event, each capability's `steer` compares what is wanted with what is seen.

    `subject` says what an id of this capability stands for. A command about it that is not among `verbs` is refused.

    `measures`: its metrics, and what they say of a state.

    `forms` and `signals`: how its commands and signals look on the wire, by name (`recoveryd.wire.forms`).

    A new leader calls `restore` with all nouns of the status topic and the last sequence that the lanes of each were told; `known` are those that have a
    status now, and while `is_active` the core wants a tick each second.
    """

    name: str
    view: type[V]
    make_view: Callable[[Draft], V]
    events: Sequence[type] = ()  # that only this capability has words for, whoever handles them
    verbs: Sequence[Verb[V]] = ()
    handlers: Sequence[Handler[V]] = ()
    steer: Callable[[V, object], None] = _nothing
    subject: Callable[[V, str], Subject | None] = _nobody
    forms: Mapping[str, Any] = field(default_factory=dict)
    signals: Mapping[str, Any] = field(default_factory=dict)
    status: StatusForm | None = None
    measures: Measures = Measures()
    restore: Callable[[CoreState, Mapping[str, Noun], Mapping[str, int]], CoreState] = _unchanged
    known: Callable[[CoreState], Mapping[str, Noun]] = _none
    is_active: Callable[[CoreState], bool] = _never
