"""A decision in the making. Mutable and local to one call of `decide`; the result is the immutable `Decision`.

Handlers write what changed; nothing here reads a clock or does I/O. `Draft` is what all capabilities share. Each
capability sees it through a view of its own, which knows its slice of the state and its parameters.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import RefusedCommand
from recoveryd.kernel.decision import Answer, Decision, Notice, Noun
from recoveryd.kernel.events import CommandReceived, ControlUnreadable
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.state import CoreState, DaemonRecord
from recoveryd_jobs.contract import Directive

V = TypeVar("V", bound="View")
MakeView = Callable[["Draft"], Any]

ALL_READ: Final = (
    "all commands on the control topic are read"  # of what waits for `has_read`: until, or once, that is so
)
_REFUSALS: Final = frozenset({"rejected", "expired"})
_NEXT_STEPS: Final[Mapping[str, str]] = {code.value: code.next_step for code in Code}


class Draft:
    """Collects what one event changes. `before` is the state before the event, `now_ms` the only clock. `ended`: ids of
    what reached its last state in this step. `has_read`: as in the state, which this event may have changed.
    """

    def __init__(self, before: CoreState, now_ms: int, views: Mapping[type, MakeView]) -> None:
        self.before = before
        self.now_ms = now_ms
        self.reason = ""
        self.has_read = before.has_read
        self._makers = views
        self._views: dict[type, View] = {}
        self._daemon: DaemonRecord | None = None
        self._changed: dict[str, Noun] = {}
        self._forgotten: list[str] = []
        self._answers: list[Answer] = []
        self._notices: list[Notice] = []
        self._directives: list[Directive] = []
        self._dead_letters: list[ControlUnreadable] = []
        self._effects: list[object] = []
        self.ended: list[str] = []

    def view(self, kind: type[V]) -> V:
        """The view of this class; there is one per draft."""
        found = self._views.get(kind)
        if found is None:
            found = self._views[kind] = self._makers[kind](self)
        assert isinstance(found, kind)
        return found

    @property
    def daemon(self) -> DaemonRecord:
        return self._daemon or self.before.daemon

    def set_daemon(self, record: DaemonRecord) -> None:
        self._daemon = record

    @property
    def answers(self) -> Sequence[Answer]:
        """Those of this step so far."""
        return self._answers

    def applied(self, offset: int) -> None:
        """Note that the outcome of the control record at `offset` is part of this decision."""
        if offset > self.daemon.applied_control_offset:
            decided = self.daemon.decided
            if all(seen.offset <= offset for seen in decided.values()):
                decided = {}
            self._daemon = replace(self.daemon, applied_control_offset=offset, updated_ms=self.now_ms, decided=decided)

    def journal(self, noun: Noun) -> None:
        """Write the noun's record; the last one with an id counts."""
        self._changed[noun.id] = noun

    def forget(self, ids: Iterable[str]) -> None:
        """Delete the records of these ids from the compacted topics."""
        self._forgotten.extend(ids)

    def notice(self, kind: str, subject: str, data: Mapping[str, object], causation_id: str = "") -> None:
        self._notices.append(Notice(kind, subject, data, causation_id))

    def dead_letter(self, event: ControlUnreadable) -> None:
        self._dead_letters.append(event)

    def direct(self, directive: Directive) -> None:
        self._directives.append(directive)

    def effect(self, effect: object) -> None:
        self._effects.append(effect)

    def answer(self, event: CommandReceived, kind: str, message: str, code: str = "", hint: str = "") -> None:
        """The one answer to a control record that is answered at once."""
        command = event.command
        meta = command if isinstance(command, RefusedCommand) else command.meta
        self.answer_later(Answer(kind, command.verb, meta.id, meta.subject, code, message, hint, event.offset))
        self.reason = message

    def refuse(self, event: CommandReceived, refused: Refused) -> None:
        self.answer(event, "rejected", refused.message, refused.code.value, refused.hint)

    def answer_later(self, answer: Answer) -> None:
        """The answer to an earlier command, which waited for its outcome. A refusal without a hint gets the next step
        of its code.
        """
        if answer.kind in _REFUSALS and not answer.hint:
            answer = replace(answer, hint=_NEXT_STEPS.get(answer.code, ""))
        self._answers.append(answer)

    def finish(self) -> Decision:
        """The immutable result; an unchanged part of the state is the same object as before."""
        state = self.before
        for view in self._views.values():
            state = view.finish(state)
        if self._daemon is not None:
            state = replace(state, daemon=self._daemon)
        if self.has_read is not state.has_read:
            state = replace(state, has_read=self.has_read)
        return Decision(
            state=state,
            reason=self.reason,
            changed=tuple(self._changed.values()),
            forgotten=tuple(self._forgotten),
            daemon=self._daemon,
            answers=tuple(self._answers),
            notices=tuple(self._notices),
            directives=tuple(self._directives),
            dead_letters=tuple(self._dead_letters),
            effects=tuple(self._effects),
        )


class View:
    """A capability's view of a draft. A subclass adds its slice of the state, and puts it back in `finish`."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.now_ms = draft.now_ms

    @property
    def has_read(self) -> bool:
        """Whether it is known what was sent while no daemon ran, or while this one stood still: a hold, an approval or
        a stop may lie there.
        """
        return self.draft.has_read

    def notice(self, kind: str, subject: str, data: Mapping[str, object], causation_id: str = "") -> None:
        self.draft.notice(kind, subject, data, causation_id)

    def effect(self, effect: object) -> None:
        self.draft.effect(effect)

    def direct(self, directive: Directive) -> None:
        self.draft.direct(directive)

    def answer(self, event: CommandReceived, kind: str, message: str, code: str = "", hint: str = "") -> None:
        self.draft.answer(event, kind, message, code, hint)

    def refuse(self, event: CommandReceived, refused: Refused) -> None:
        self.draft.refuse(event, refused)

    @property
    def reason(self) -> str:
        return self.draft.reason

    @reason.setter
    def reason(self, why: str) -> None:
        self.draft.reason = why

    def finish(self, state: CoreState) -> CoreState:
        return state
