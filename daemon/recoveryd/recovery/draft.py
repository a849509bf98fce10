"""How a step sees recoveries: what is known, including what this step has changed already, and the ways to change it.

`remember` changes memory only (renewed sequences, fresh progress), `journal` also has the status record written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from recoveryd.kernel.decision import Answer
from recoveryd.kernel.draft import Draft, View
from recoveryd.kernel.replacing import replaced
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import CommandRef, State
from recoveryd.live.slice import LIVE, LiveDraft, SampleHistory, Topic
from recoveryd.recovery.kinds import Kind
from recoveryd.recovery.lifecycle import advance
from recoveryd.recovery.model import PlannedTopic, Recovery
from recoveryd.recovery.observed import Observed
from recoveryd.recovery.params import Params
from recoveryd.recovery.recoveries import Recoveries, is_live
from recoveryd.recovery.slice import RECOVERY, RecoverySlice
from recoveryd.recovery.told_size import ToldSize

_NEVER_HEARD = Observed()
Groups = Mapping[tuple[str, str], str]  # by cluster and name, a sentence of each


def _nobody(_state: CoreState, _cluster: str, _topic: str) -> None:
    return None


def _untold(_state: CoreState, _recovery: str, _command: CommandRef) -> ToldSize | None:
    return None


def _never(_state: CoreState, _recovery: str, _command: CommandRef) -> bool:
    return False


def _no_group(_state: CoreState) -> tuple[Groups, Groups]:
    return {}, {}


@dataclass(frozen=True, slots=True)
class Beside:
    """What is asked of workflows. `taken_away`: of a cluster and a topic, the sentence that names the one which will
    take it away. `is_begun`: whether one wants a recovery of this id, by this command, `told_size`: and how much it
    told with its own plan that this copies. `groups`: those whose application one keeps stopped, and those that one
    works on, each with the sentence that names it.
    """

    taken_away: Callable[[CoreState, str, str], str | None] = _nobody
    is_begun: Callable[[CoreState, str, CommandRef], bool] = _never
    told_size: Callable[[CoreState, str, CommandRef], ToldSize | None] = _untold
    groups: Callable[[CoreState], tuple[Groups, Groups]] = _no_group


class RecoveryDraft(View):
    """`quotas`, `forgetting`, `is_leaving` and `measured_bytes_per_s` may be replaced; `stored` are the recoveries as
    they were before the event, `present` those that were read or changed since, as they are now.
    """

    def __init__(self, draft: Draft, params: Params, kinds: Mapping[str, Kind], beside: Beside) -> None:
        super().__init__(draft)
        self._beside = beside
        self.params = params
        self.kinds = kinds
        self._before = draft.before.of(RECOVERY)
        self.stored: Recoveries = self._before.recoveries
        self.quotas = self._before.quotas
        self.forgetting = self._before.forgetting
        self.is_leaving = self._before.is_leaving
        self.measured_bytes_per_s = self._before.measured_bytes_per_s
        self._forgotten: list[str] = []
        self.present: dict[str, Recovery] = {}
        self._changed: set[str] = set()
        self._journaled: set[str] = set()
        self._observed: dict[str, Observed] = {}

    # Reading.

    @property
    def protection(self) -> LiveDraft:
        """What is known of live traffic."""
        return self.draft.view(LiveDraft)

    def recovery(self, recovery_id: str) -> Recovery | None:
        found = self.present.get(recovery_id)
        if found is None:
            found = self.stored.find(recovery_id)
            if found is not None:
                self.present[recovery_id] = found
        return found

    def live(self) -> list[Recovery]:
        """Every recovery that has not ended. The ended ones are many, and no rule needs them all."""
        return [r for r in {**self.stored.live, **self.present}.values() if is_live(r)]

    def observed(self, recovery_id: str) -> Observed:
        return self._observed.get(recovery_id) or self._before.observed.get(recovery_id) or _NEVER_HEARD

    def taken_away(self, cluster: str, topic: str) -> str | None:
        """The sentence that names the workflow which will take this topic away, or None."""
        return self._beside.taken_away(self.draft.before, cluster, topic)

    def is_begun_by_workflow(self, recovery_id: str, command: CommandRef) -> bool:
        """Whether a workflow that is known wants it, by this command."""
        return self._beside.is_begun(self.draft.before, recovery_id, command)

    def told_size(self, recovery_id: str, command: CommandRef) -> ToldSize | None:
        """How much the plan of the workflow that wants it told that it copies; None = no such plan did."""
        return self._beside.told_size(self.draft.before, recovery_id, command)

    def groups_of_workflows(self) -> tuple[Groups, Groups]:
        """Consumer groups whose application a workflow keeps stopped, and those that one works on."""
        return self._beside.groups(self.draft.before)

    def history(self, topic: Topic) -> SampleHistory:
        return self.protection.history(topic)

    def leaders(self, topic: PlannedTopic) -> Mapping[int, int]:
        """The broker that leads each partition, by the topic's newest sample; empty where it was never sampled."""
        newest = self.history((topic.cluster, topic.topic)).newest
        return newest.leaders if newest else {}

    # Writing.

    def journal(self, recovery: Recovery) -> Recovery:
        """Remember it, and write its status record."""
        self._journaled.add(recovery.id)
        return self.remember(recovery)

    def remember(self, recovery: Recovery) -> Recovery:
        self._changed.add(recovery.id)
        self.present[recovery.id] = recovery
        return recovery

    def move(
        self, recovery: Recovery, to: State, why: str, data: Mapping[str, object] | None = None, **changes: Any
    ) -> Recovery:
        """Advance, journal, and tell the events topic `recovery_<state>`."""
        moved = self.journal(advance(recovery, to, why, self.now_ms, **changes))
        if moved.is_terminal:
            self.draft.ended.append(moved.id)
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
        seen = replaced(self.observed(recovery_id), **changes)
        self._observed[recovery_id] = seen
        return seen

    def forget(self, recovery_id: str) -> None:
        """Drop what was heard of it (for a new attempt, or at its end)."""
        self._observed[recovery_id] = Observed()

    def forget_for_good(self, recovery_id: str) -> None:
        """Take an ended recovery out of memory and off the status topic."""
        self._forgotten.append(recovery_id)
        self.draft.forget([recovery_id])

    def answer_creation(self, recovery: Recovery, kind: str, message: str, code: str = "", hint: str = "") -> Recovery:
        """The answer to the command that made `recovery`, which waits for the plan. A second call does nothing."""
        if recovery.answered:
            return recovery
        ref, verb = recovery.command, self.kinds[recovery.kind].verb
        self.draft.answer_later(Answer(kind, verb, ref.id, recovery.id, code, message, hint, recovery.control_offset))
        return self.journal(replace(recovery, answered=True))

    def finish(self, state: CoreState) -> CoreState:
        changed = {
            recovery_id: recovery for recovery_id, recovery in self.present.items() if recovery_id in self._changed
        }
        for recovery_id, recovery in changed.items():
            if recovery_id in self._journaled:
                self.draft.journal(recovery)
        before, observed = self._before, self._before.observed
        recoveries = before.recoveries.with_changes(changed)
        if self._forgotten:
            recoveries = recoveries.without(self._forgotten, state.of(LIVE).samples)
        if self._observed or recoveries.ended is not before.recoveries.ended:
            observed = {**observed, **self._observed}
            if recoveries.ended is not before.recoveries.ended or not self._observed.keys() <= recoveries.live.keys():
                observed = {i: o for i, o in observed.items() if i in recoveries.live}
        after = RecoverySlice(
            recoveries, observed, self.quotas, self.forgetting, self.is_leaving, self.measured_bytes_per_s
        )
        return state if after.is_same(before) else state.having(RECOVERY, after)
