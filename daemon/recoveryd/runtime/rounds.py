"""One round: fold `decide` over the waiting events, and merge the decisions into one journal batch. Without I/O, so
that a round can be tested alone.

An exception out of `decide` is a bug of ours. It must not stop the daemon, and a control record must still leave a
trace: the record goes to the dead letters with `RCV-5002`; any other event is left out of the round (the next tick
compares what is wanted and what is seen again).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.decision import Decision, Noun
from recoveryd.kernel.effects import Effect
from recoveryd.kernel.events import CommandReceived, ControlCutBack, ControlUnreadable, Event
from recoveryd.kernel.state import CoreState
from recoveryd.ports import ControlRecord, JournalBatch
from recoveryd.runtime.inbox import Item
from recoveryd.runtime.seen import SeenLedger
from recoveryd_jobs.contract import Directive

Decide = Callable[[CoreState, Event, int], Decision]


@dataclass(frozen=True, slots=True)
class Step:
    """One event and its decision; `error` is the bug that `decide` raised, if any."""

    item: Item
    before: CoreState
    decision: Decision
    seconds: float
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """`covered`: control records up to this offset are decided. `batch` is None when nothing needs a transaction."""

    state: CoreState
    batch: JournalBatch | None
    effects: tuple[Effect, ...]
    steps: tuple[Step, ...]
    covered: int


class Rounds:
    """Takes rounds. `decide` never sees a control record twice: offsets up to `covered` are skipped."""

    def __init__(self, decide: Decide, monotonic_s: Callable[[], float]) -> None:
        self._decide = decide
        self._monotonic_s = monotonic_s

    def take(
        self,
        state: CoreState,
        items: Iterable[Item],
        seen: SeenLedger,
        covered: int,
        now_ms: int,
        *,
        must_cover: bool = False,
    ) -> Round:
        """Decide each item in order. With `must_cover` the covered offset is journaled even when nothing else is."""
        steps: list[Step] = []
        for item in items:
            if item.record is not None:
                if item.record.offset <= covered:
                    continue
                covered = item.record.offset
                if isinstance(item.event, CommandReceived) and seen.was_decided(item.event):
                    continue  # it was never lost: its end was told wrong
            elif isinstance(item.event, ControlCutBack):
                covered = min(covered, item.event.end - 1)
            step = self._step(state, item, seen, now_ms)
            steps.append(step)
            state = step.decision.state
        batch = merge([step.decision for step in steps])
        if (batch is not None or must_cover) and covered > state.daemon.applied_control_offset:
            daemon = replace(state.daemon, applied_control_offset=covered, updated_ms=now_ms)
            state = replace(state, daemon=daemon)
            batch = replace(batch or JournalBatch(), daemon=daemon)
        effects = tuple(effect for step in steps for effect in step.decision.effects)
        return Round(state, batch, effects, tuple(steps), covered)

    def _step(self, state: CoreState, item: Item, seen: SeenLedger, now_ms: int) -> Step:
        event = item.event
        if isinstance(event, CommandReceived):
            event = seen.annotate(event)
        elif isinstance(event, ControlCutBack):
            event = replace(event, decided=seen.decided_from(event.end))
        started_s = self._monotonic_s()
        error: Exception | None = None
        try:
            decision = self._decide(state, event, now_ms)
        except Exception as bug:  # noqa: BLE001  (see the module's docstring)
            error = bug
            decision = self._after_bug(state, item, bug, now_ms)
        return Step(item, state, decision, self._monotonic_s() - started_s, error)

    def _after_bug(self, state: CoreState, item: Item, bug: Exception, now_ms: int) -> Decision:
        if item.record is None:
            return Decision(state)
        try:
            return self._decide(state, _as_unreadable(item.record, bug), now_ms)
        except Exception as second:
            raise RecoverydError(
                Code.INVARIANT_BROKEN,
                f"control record {item.record.offset} can be neither decided nor put aside: {second!r}",
            ) from second


def merge(decisions: Sequence[Decision]) -> JournalBatch | None:
    """Everything that the decisions want journaled, as one batch; of several records with one key the last wins."""
    if not any(decision.needs_journal for decision in decisions):
        return None
    changed: dict[str, Noun] = {}
    directives: dict[str, Directive] = {}
    for decision in decisions:
        # An id may be used again in the same round; its new records then follow the tombstones.
        for gone in decision.forgotten:
            changed.pop(gone, None)
            directives.pop(gone, None)
        changed |= {noun.id: noun for noun in decision.changed}
        directives |= {x.recovery: x for x in decision.directives}
    daemons = [d.daemon for d in decisions if d.daemon is not None]
    return JournalBatch(
        changed=tuple(changed.values()),
        forgotten=tuple(gone for d in decisions for gone in d.forgotten),
        daemon=daemons[-1] if daemons else None,
        answers=tuple(a for d in decisions for a in d.answers),
        notices=tuple(n for d in decisions for n in d.notices),
        directives=tuple(directives.values()),
        dead_letters=tuple(x for d in decisions for x in d.dead_letters),
    )


def _as_unreadable(record: ControlRecord, bug: Exception) -> ControlUnreadable:
    return ControlUnreadable(
        partition=record.partition,
        offset=record.offset,
        code=Code.INVARIANT_BROKEN.value,
        message=f"recoveryd could not decide on this record: {type(bug).__name__}",
        key=record.key,
        value=record.value,
        headers=record.headers,
    )
