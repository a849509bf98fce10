"""What the daemon can do, in parts that do not know each other. `bootstrap` hands one tuple of them to the kernel.

To add one: a folder with its types (commands, events, effects, nouns), its rules and a function that makes its
`Capability`; then one line where the tuple is made. Nothing else of the core changes; around it, numbers from the
config, runners of its effects and the kinds of events that people read are added to their lists. `wiring` checks, when
the tuple is handed over, that its commands, forms and events fit together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from recoveryd.kernel.commands import Command
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.draft import Draft, View
from recoveryd.kernel.events import CommandReceived
from recoveryd.kernel.metrics import Measures
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.state import CoreState

V = TypeVar("V", bound=View)
E = TypeVar("E")
C = TypeVar("C", bound=Command)


@dataclass(frozen=True, slots=True)
class Subject:
    """What an id stands for: `kind` and `state` as messages name them."""

    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class Handler(Generic[V]):
    """Made by `on`, which checks the types: `handle` takes an event of the class `event`."""

    event: type
    handle: Callable[[V, Any], None]


def on(event: type[E], handle: Callable[[V, E], None]) -> Handler[V]:
    """`handle` writes into the view what an event of this class changes."""
    return Handler(event, handle)


@dataclass(frozen=True, slots=True)
class Verb(Generic[V]):
    """Made by `begins`, `steers` or `names`."""

    command: type[Command]
    handle: Callable[[V, CommandReceived, Any], None]
    is_beginning: bool
    is_new: bool = True

    @property
    def name(self) -> str:
        """The verb as it is in the type of a control record."""
        return str(self.command.verb)


def begins(command: type[C], handle: Callable[[V, CommandReceived, C], None]) -> Verb[V]:
    """The command makes a new subject. The kernel has checked that no other capability has a subject with this id."""
    return Verb(command, handle, is_beginning=True)


def steers(command: type[C], handle: Callable[[V, CommandReceived, C], None]) -> Verb[V]:
    """The command is about an existing subject of this capability."""
    return Verb(command, handle, is_beginning=False)


def names(command: type[C], handle: Callable[[V, CommandReceived, C], None]) -> Verb[V]:
    """The command says in its data what it is about. Its subject is one of this capability, or an
    id that nothing has.
    """
    return Verb(command, handle, is_beginning=True, is_new=False)


@dataclass(frozen=True, slots=True)
class StatusForm:
    """How a noun of the capability is written on the status topic. `takes` tells by a record's `kind` whether it is
    one; `read` raises for a broken one.
    """

    noun: type
    takes: Callable[[str], bool]
    write: Callable[[Any], Mapping[str, Any]]
    read: Callable[[dict[str, Any]], Noun]


def steers_nothing(_view: Any, _event: object) -> None:
    """The `steer` of a capability that has none."""


def _nobody(_view: Any, _id: str) -> None:
    return None


def _unchanged(state: CoreState, _nouns: Mapping[str, Noun], _sequences: Mapping[str, int]) -> CoreState:
    return state


def _none(_state: CoreState) -> Mapping[str, Noun]:
    return {}


def _no_end(_view: Any, _command: Command) -> str:
    return ""


def _never(_state: CoreState) -> bool:
    return False


def _no_work(_state: CoreState, _now_ms: int) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Capability(Generic[V]):
    """`make_view` gives the other functions their view of a draft. After all handlers of an event, each capability's
    `steer` compares what is wanted with what is seen: after events of the classes `steers_after`, and after every step
    that answered a command or in which something ended. After any other event it would find nothing to do.

    `subject` says what an id of this capability stands for. A command about it that is not among `verbs` is refused.

    `refuses` is asked before any command begins something, of whatever capability: one that this capability sent itself
    may not be wanted any more when it is read.

    `ends`: the longest end that ids of what a command begins have behind its own subject.

    `measures`: its metrics, and how to compute them from a state.

    `forms` and `signals`: the wire forms of its commands and signals, by name (`recoveryd.wire.forms`).

    A new leader calls `restore` with all nouns of the status topic and, by recovery, the sequence of its last
    directive. `known` are the nouns that have a status now. While `is_active`, the core wants a tick each second.

    `remaining` are the ids with something left to do that waits for no person; `moving` those that are not at rest yet
    after `Leaving`.
    """

    name: str
    view: type[V]
    make_view: Callable[[Draft], V]
    events: Sequence[type] = ()  # the events that this capability defines, whoever handles them
    verbs: Sequence[Verb[V]] = ()
    handlers: Sequence[Handler[V]] = ()
    steer: Callable[[V, object], None] = steers_nothing
    steers_after: tuple[type, ...] = (object,)
    subject: Callable[[V, str], Subject | None] = _nobody
    refuses: Callable[[V, Command], Refused | None] | None = None
    ends: Callable[[V, Any], str] = _no_end
    forms: Mapping[str, Any] = field(default_factory=dict)
    signals: Mapping[str, Any] = field(default_factory=dict)
    status: StatusForm | None = None
    measures: Measures = Measures()
    restore: Callable[[CoreState, Mapping[str, Noun], Mapping[str, int]], CoreState] = _unchanged
    known: Callable[[CoreState], Mapping[str, Noun]] = _none
    is_active: Callable[[CoreState], bool] = _never
    remaining: Callable[[CoreState, int], Sequence[str]] = _no_work
    moving: Callable[[CoreState, int], Sequence[str]] = _no_work
