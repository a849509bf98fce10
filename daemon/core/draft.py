"""A decision in the making. Mutable and local to one call of `decide`; what leaves is the immutable `Decision`.

Handlers write what changed; nobody reads a clock or the outside here. `keep` changes memory only (renewed sequences, fresh progress), `put` also asks the
journal to store the recovery.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from daemon.core.commands import Refusal
from daemon.core.decision import Answer, CoreState, Decision, Directive, Notice
from daemon.core.effects import Effect
from daemon.core.events import CommandReceived, ControlUnreadable
from daemon.core.lifecycle import advance
from daemon.core.model import DaemonRecord, Recovery, State
from daemon.core.observed import Observed, SampleHistory
from daemon.core.params import Params
from daemon.core.recoveries import is_live
from daemon.core.watches.model import Watch

SAMPLES_KEPT_MS = 3_600_000


class Draft:
    """Collects what one event changes. `params` and `now_ms` are the only surroundings a handler may use."""

    def __init__(self, state: CoreState, params: Params, now_ms: int) -> None:
        self.state = state
        self.params = params
        self.now_ms = now_ms
        self.reason = ""
        self.quotas = state.quotas
        self.protecting = state.protecting
        self.watches = state.watches
        self.forgetting = state.forgetting
        self._forgotten: list[str] = []
        self._recoveries: dict[str, Recovery] = {}
        self._journal: set[str] = set()
        self._watches: dict[str, Watch] = {}
        self._observed: dict[str, Observed] = {}
        self._samples: dict[tuple[str, str], SampleHistory] = {}
        self._daemon: DaemonRecord | None = None
        self._answers: list[Answer] = []
        self._notices: list[Notice] = []
        self._directives: list[Directive] = []
        self._dead_letters: list[ControlUnreadable] = []
        self._effects: list[Effect] = []

    # Reading what is known, with what this draft already changed.

    def recovery(self, recovery_id: str) -> Recovery | None:
        return self._recoveries.get(recovery_id) or self.state.recoveries.get(recovery_id)

    def live(self) -> list[Recovery]:
        """Every recovery that is not over; the ended ones are many and no rule needs them all."""
        return [r for r in {**self.state.recoveries.live, **self._recoveries}.values() if is_live(r)]

    def observed(self, recovery_id: str) -> Observed:
        return self._observed.get(recovery_id) or self.state.observed.get(recovery_id) or Observed()

    def history(self, key: tuple[str, str]) -> SampleHistory:
        return self._samples.get(key) or self.state.samples.get(key) or SampleHistory()

    @property
    def daemon(self) -> DaemonRecord:
        return self._daemon or self.state.daemon

    # Writing.

    def put(self, recovery: Recovery) -> Recovery:
        """Keep and journal it."""
        self._journal.add(recovery.id)
        return self.keep(recovery)

    def keep(self, recovery: Recovery) -> Recovery:
        self._recoveries[recovery.id] = recovery
        return recovery

    def move(
        self, recovery: Recovery, to: State, why: str, data: Mapping[str, object] | None = None, **changes: Any
    ) -> Recovery:
        """Advance, journal, and tell the events topic `recovery_<state>`."""
        moved = self.put(advance(recovery, to, why, self.now_ms, **changes))
        told: dict[str, object] = {
            "from": recovery.state.value,
            "to": to.value,
            "why": why,
            "attempt": moved.attempt.number,
        }
        self.notice(f"recovery_{to.value}", recovery.id, told | dict(data or {}))
        self.reason = why
        return moved

    def observe(self, recovery_id: str, **changes: Any) -> Observed:
        seen = replace(self.observed(recovery_id), **changes)
        self._observed[recovery_id] = seen
        return seen

    def forget(self, recovery_id: str) -> None:
        """Drop what was heard (a new attempt, or the end)."""
        self._observed[recovery_id] = Observed()

    def forget_for_good(self, recovery_id: str) -> None:
        """Take an ended recovery out of memory and off the status topic."""
        self._forgotten.append(recovery_id)

    def forget_watches(self, watch_ids: Collection[str]) -> None:
        """Take ended watches out of memory and off the status topic."""
        self._forgotten.extend(watch_ids)
        self.watches = self.watches.without(watch_ids)

    def remember_sample(self, key: tuple[str, str], history: SampleHistory) -> None:
        self._samples[key] = history

    def put_watch(self, watch: Watch) -> Watch:
        """Keep and journal it."""
        self._watches[watch.id] = watch
        self.watches = self.watches.with_watch(watch)
        return watch

    def see_watch(self, watch_id: str, **changes: Any) -> None:
        self.watches = self.watches.with_seen(watch_id, replace(self.watches.seen_of(watch_id), **changes))

    def set_daemon(self, record: DaemonRecord) -> None:
        self._daemon = record

    def applied(self, offset: int) -> None:
        """The outcome of the control record at `offset` is part of this decision."""
        if offset > self.daemon.applied_control_offset:
            self._daemon = replace(self.daemon, applied_control_offset=offset, updated_ms=self.now_ms)

    def notice(self, kind: str, subject: str, data: Mapping[str, object], causation_id: str = "") -> None:
        self._notices.append(Notice(kind, subject, data, causation_id))

    def dead_letter(self, event: ControlUnreadable) -> None:
        self._dead_letters.append(event)

    def direct(self, directive: Directive) -> None:
        self._directives.append(directive)

    def effect(self, effect: Effect) -> None:
        self._effects.append(effect)

    def answer(self, event: CommandReceived, kind: str, message: str, code: str = "", hint: str = "") -> None:
        """The one answer to a control record that is answered at once."""
        command = event.command
        meta = command if isinstance(command, Refusal) else command.meta
        self._answers.append(Answer(kind, command.verb, meta.id, meta.subject, code, message, hint, event.offset))
        self.reason = message

    def answer_creation(self, recovery: Recovery, kind: str, message: str, code: str = "", hint: str = "") -> Recovery:
        """The answer to the command that made `recovery`, which waits for the plan. Does nothing the second time."""
        if recovery.answered:
            return recovery
        ref = recovery.command
        self._answers.append(
            Answer(kind, recovery.kind, ref.id, recovery.id, code, message, hint, recovery.control_offset)
        )
        return self.put(replace(recovery, answered=True))

    def finish(self) -> Decision:
        """The immutable result; an unchanged part of the state is the same object as before."""
        state = self.state
        recoveries = state.recoveries.with_changes(self._recoveries)
        if self._forgotten:
            recoveries = recoveries.without(self._forgotten, state.samples)
        observed, samples = state.observed, state.samples
        if self._observed or recoveries.ended is not state.recoveries.ended:
            observed = {i: o for i, o in {**observed, **self._observed}.items() if i in recoveries.live}
        if self._samples:
            samples = {k: h for k, h in {**samples, **self._samples}.items() if self._is_fresh(h)}
        return Decision(
            state=replace(
                state,
                recoveries=recoveries,
                daemon=self.daemon,
                observed=observed,
                samples=samples,
                quotas=self.quotas,
                protecting=self.protecting,
                watches=self.watches,
                forgetting=self.forgetting,
            ),
            reason=self.reason,
            watches=tuple(self._watches.values()),
            changed=tuple(self._recoveries[i] for i in self._recoveries if i in self._journal),
            forgotten=tuple(self._forgotten),
            daemon=self._daemon,
            answers=tuple(self._answers),
            notices=tuple(self._notices),
            directives=tuple(self._directives),
            dead_letters=tuple(self._dead_letters),
            effects=tuple(self._effects),
        )

    def _is_fresh(self, history: SampleHistory) -> bool:
        """Topics that nobody samples any more are forgotten."""
        return bool(history.samples) and self.now_ms - history.samples[-1].sampled_at_ms <= SAMPLES_KEPT_MS
