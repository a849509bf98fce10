"""One recovery within a step, always read in its present value: a function that changes it need not return the new
value, and none works on a stale one.
"""

from collections.abc import Mapping
from typing import Any

from recoveryd.kernel.replacing import replaced
from recoveryd.kernel.states import State
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.model import Plan, Recovery
from recoveryd.recovery.observed import Observed
from recoveryd.recovery.params import Params


class Case:
    """The recovery with this `id` in `draft`, which must know it."""

    __slots__ = ("_present", "draft", "id")

    def __init__(self, draft: RecoveryDraft, recovery_id: str) -> None:
        assert draft.recovery(recovery_id) is not None
        self.draft = draft
        self.id = recovery_id
        self._present = draft.present

    @property
    def recovery(self) -> Recovery:
        return self._present[self.id]  # asked for by each rule of each step, so in the shortest way

    @property
    def plan(self) -> Plan:
        """The plan, which must be made already."""
        found = self.recovery.plan
        assert found is not None
        return found

    @property
    def seen(self) -> Observed:
        return self.draft.observed(self.id)

    @property
    def source_history(self) -> SampleHistory:
        source = self.recovery.spec.source
        return self.draft.history((source.cluster, source.topic))

    @property
    def now_ms(self) -> int:
        return self.draft.now_ms

    @property
    def params(self) -> Params:
        return self.draft.params

    @property
    def approval_ends_ms(self) -> int:
        """Until when its plan, which must be made already, may be approved. Not since it was last changed: a throttle
        is no reason to wait longer.
        """
        return self.as_of_now(self.plan.pinned_at_ms) + self.params.approval_ttl_ms

    @property
    def end_began_ms(self) -> int:
        """When the recovery began to end. What was seen since then is newer than the end."""
        stop = self.recovery.stop
        return self.as_of_now(stop.at_ms if stop is not None else 0)

    def as_of_now(self, at_ms: int) -> int:
        """A journaled time; where the clock has been set back since, the time when this daemon began to lead, which is
        no earlier, or now where it leads since before that.
        """
        return at_ms if at_ms <= self.now_ms else self.seen.adopted_ms or self.now_ms

    def journal(self, **changes: Any) -> None:
        """Change it, and write its status record."""
        self.draft.journal(replaced(self.recovery, **changes))

    def remember(self, **changes: Any) -> None:
        """Change it in memory only."""
        self.draft.remember(replaced(self.recovery, **changes))

    def revise(self, **changes: Any) -> None:
        """Change it, and write its status record as the next version."""
        self.journal(**changes, updated_ms=self.now_ms, version=self.recovery.version + 1)

    def move(self, to: State, why: str, told: Mapping[str, object] | None = None, **changes: Any) -> None:
        """Change its state, journal it, and tell the events topic."""
        self.draft.move(self.recovery, to, why, told, **changes)

    def observe(self, **changes: Any) -> None:
        self.draft.observe(self.id, **changes)

    def notice(self, kind: str, data: Mapping[str, object], causation_id: str = "") -> None:
        self.draft.notice(kind, self.id, data, causation_id)

    def effect(self, effect: object) -> None:
        self.draft.effect(effect)
