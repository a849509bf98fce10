"""The pure step: state and event in, decision out. No I/O, no clock, no randomness, and no input makes it raise.

    decide(state, event, now_ms) = envelope of a command, or handlers of the event, then `steer` of every capability

The capabilities come as one tuple. What they can do is looked up by type, and checked once, when the decider is built
(`wiring`). An event is of a class that the kernel or a capability defines; another one is a mistake of the program, and
raises KeyError.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from recoveryd.kernel.capability import Capability, Subject, Verb, steers_nothing
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Command, RefusedCommand
from recoveryd.kernel.decision import Decision, Noun
from recoveryd.kernel.draft import Draft
from recoveryd.kernel.envelope import refuse_by_envelope
from recoveryd.kernel.events import (
    BecameLeader,
    CommandReceived,
    ControlCutBack,
    ControlRead,
    ControlUnread,
    ControlUnreadable,
    SignalRefused,
)
from recoveryd.kernel.known import Joined
from recoveryd.kernel.refusals import id_in_use
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.state import CoreState, DaemonRecord
from recoveryd.kernel.wiring import HEARD_BY_ALL, HEARD_IF_WANTED, check_wiring

_Any = Capability[Any]


class Decider:
    """`decide` over these capabilities. Raises `ValueError` when they do not fit together (`check_wiring`)."""

    def __init__(self, capabilities: Sequence[_Any]) -> None:
        check_wiring(capabilities)
        self._capabilities = tuple(capabilities)
        self._views = {c.view: c.make_view for c in capabilities}
        self._begins: dict[type, tuple[_Any, Verb[Any]]] = {}
        self._steers: dict[tuple[str, type], Callable[..., None]] = {}
        events = (*HEARD_BY_ALL, *HEARD_IF_WANTED, *(e for c in capabilities for e in c.events))
        self._handlers: dict[type, list[tuple[_Any, Callable[..., None]]]] = {kind: [] for kind in events}
        for capability in capabilities:
            self._add(capability)
        others = (CommandReceived, ControlUnreadable, SignalRefused, ControlCutBack)  # which the kernel handles itself
        self._steering = {kind: self._steering_after(kind) for kind in (*self._handlers, *others)}

    def _steering_after(self, kind: type) -> Sequence[tuple[_Any, bool]]:
        """Who steers, in order, and whether an event of this class concerns them."""
        return [(c, issubclass(kind, c.steers_after)) for c in self._capabilities if c.steer is not steers_nothing]

    def _add(self, capability: _Any) -> None:
        for verb in capability.verbs:
            if verb.is_beginning:
                self._begins[verb.command] = (capability, verb)
            else:
                self._steers[capability.name, verb.command] = verb.handle
        for handler in capability.handlers:
            self._handlers[handler.event].append((capability, handler.handle))

    @property
    def commands(self) -> frozenset[Any]:
        """Classes of the commands that some capability takes."""
        return frozenset(self._begins) | {command for _, command in self._steers}

    def decide(self, state: CoreState, event: object, now_ms: int) -> Decision:
        """What follows from `event` at `now_ms`. Same input, same output."""
        draft = Draft(state, now_ms, self._views)
        match event:
            case CommandReceived():
                self._on_command(draft, event)
            case ControlUnreadable():
                _on_unreadable(draft, event)
            case SignalRefused():
                _on_signal_refused(draft, event)
            case ControlCutBack():
                _on_cut_back(draft, event)
            case _:
                if isinstance(event, BecameLeader):
                    _on_leader(draft, event)
                elif isinstance(event, ControlRead | ControlUnread):
                    draft.has_read = isinstance(event, ControlRead)
                for capability, handle in self._handlers[type(event)]:
                    handle(draft.view(capability.view), event)
        for capability, is_concerned in self._steering[type(event)]:
            if is_concerned or draft.answers or draft.ended:
                capability.steer(draft.view(capability.view), event)
        return draft.finish()

    def restore(self, daemon: DaemonRecord, nouns: Mapping[str, Noun], sequences: Mapping[str, int]) -> CoreState:
        """The state of a new leader, from the nouns of the status topic and, by recovery, the sequence of its last
        directive.
        """
        state = CoreState(daemon)
        for capability in self._capabilities:
            state = capability.restore(state, nouns, sequences)
        return state

    def known(self, state: CoreState) -> Mapping[str, Noun]:
        """Everything that has a status, by id."""
        return Joined(*(c.known(state) for c in self._capabilities))

    def is_active(self, state: CoreState) -> bool:
        """Whether the passing of time alone can change something."""
        return any(c.is_active(state) for c in self._capabilities)

    def remaining(self, state: CoreState, now_ms: int) -> Sequence[str]:
        """Ids of everything that has something left to do and waits for no person."""
        return [noun_id for c in self._capabilities for noun_id in c.remaining(state, now_ms)]

    def moving(self, state: CoreState, now_ms: int) -> Sequence[str]:
        """Ids of everything that is not at rest yet after `Leaving`."""
        return [noun_id for c in self._capabilities for noun_id in c.moving(state, now_ms)]

    def _on_command(self, draft: Draft, event: CommandReceived) -> None:
        """Answer one command or refusal, and do what it asks for."""
        draft.applied(event.offset)
        command = event.command
        if refuse_by_envelope(draft, event) or isinstance(command, RefusedCommand):
            return
        owner = self._owner(draft, command)
        begin = self._begins.get(type(command))
        if begin is not None and (unwanted := self._unwanted(draft, command)) is not None:
            draft.refuse(event, unwanted)
        elif begin is not None:
            capability, verb = begin
            if owner is None or owner[0] is capability:
                verb.handle(draft.view(capability.view), event, command)
            elif verb.is_new:
                subject = owner[1]
                draft.refuse(event, id_in_use(subject.kind, command.meta.subject, subject.state))
            else:
                _refuse_kind(draft, event, command, owner[1])
        elif owner is not None:
            capability = owner[0]
            steer = self._steers.get((capability.name, type(command)))
            if steer is None:
                _refuse_kind(draft, event, command, owner[1])
            else:
                steer(draft.view(capability.view), event, command)
        else:
            message = f"nothing has the id {command.meta.subject}"
            draft.answer(event, "rejected", message, Code.NO_SUCH_RECOVERY.value)

    def _unwanted(self, draft: Draft, command: Command) -> Refused | None:
        asked = (c.refuses(draft.view(c.view), command) for c in self._capabilities if c.refuses is not None)
        return next((refused for refused in asked if refused is not None), None)

    def _owner(self, draft: Draft, command: Command) -> tuple[_Any, Subject] | None:
        """The capability that has this subject. All capabilities share one space of ids, because each id is a key on
        the status topic.
        """
        for capability in self._capabilities:
            subject = capability.subject(draft.view(capability.view), command.meta.subject)
            if subject is not None:
                return capability, subject
        return None


def _refuse_kind(draft: Draft, event: CommandReceived, command: Command, subject: Subject) -> None:
    message = f"{command.meta.subject} is a {subject.kind}, which {command.verb} does not apply to"
    draft.answer(event, "rejected", message, Code.NOT_FOR_THIS_KIND.value)


def _on_leader(draft: Draft, event: BecameLeader) -> None:
    """Begin a new epoch. The applied offset of another control topic says nothing about this one, so it is reset."""
    draft.has_read = not event.reads_control
    record = draft.daemon
    applied = record.applied_control_offset if record.control_topic_id in {"", event.control_topic_id} else -1
    draft.set_daemon(
        replace(
            record,
            epoch=event.epoch,
            control_topic_id=event.control_topic_id,
            applied_control_offset=applied,
            updated_ms=draft.now_ms,
            decided={key: seen for key, seen in record.decided.items() if 0 <= applied < seen.offset},
        )
    )


def _on_cut_back(draft: Draft, event: ControlCutBack) -> None:
    why = (
        f"the control topic ends at {event.end}, although everything before {event.position} was read: its log lost "
        f"records. Commands from {event.end} on are read; send again, with a new id, what was sent since the loss and "
        "has no answer"
    )
    record = draft.daemon
    applied = min(record.applied_control_offset, event.end - 1)
    decided = {**record.decided, **event.decided}
    draft.set_daemon(replace(record, applied_control_offset=applied, updated_ms=draft.now_ms, decided=decided))
    draft.notice("control_cut_back", "", {"end": event.end, "position": event.position, "why": why})
    draft.reason = why


def _on_unreadable(draft: Draft, event: ControlUnreadable) -> None:
    draft.applied(event.offset)
    draft.dead_letter(event)
    told = {"partition": event.partition, "offset": event.offset, "code": event.code, "error": event.message}
    draft.notice("control_unreadable", "", told)
    draft.reason = f"control record {event.offset} is not readable: {event.message}"


def _on_signal_refused(draft: Draft, event: SignalRefused) -> None:
    draft.applied(event.offset)
    draft.notice(
        "signal_refused", "", {"offset": event.offset, "code": event.code, "message": event.message, "hint": event.hint}
    )
    draft.reason = event.message
