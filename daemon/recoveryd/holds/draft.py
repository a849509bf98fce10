"""How a step sees holds, and their slice of the state."""

from collections.abc import Collection

from recoveryd.holds.known import Holds
from recoveryd.holds.model import Hold
from recoveryd.holds.params import HoldParams
from recoveryd.kernel.draft import Draft, View
from recoveryd.kernel.state import CoreState, Slot

HOLDS = Slot("holds", Holds())


class HoldDraft(View):
    """`put_hold` keeps a hold and asks the journal to store it."""

    def __init__(self, draft: Draft, params: HoldParams) -> None:
        super().__init__(draft)
        self.params = params
        self.holds = self._before = draft.before.of(HOLDS)

    @property
    def are_others_held(self) -> bool:
        """Whether this step changed which topics are held."""
        return self.holds.held is not self._before.held

    def put_hold(self, hold: Hold) -> Hold:
        self.draft.journal(hold)
        self.holds = self.holds.with_hold(hold)
        return hold

    def forget_holds(self, hold_ids: Collection[str]) -> None:
        """Take ended holds out of memory and off the status topic."""
        self.draft.forget(hold_ids)
        self.holds = self.holds.without(hold_ids)

    def finish(self, state: CoreState) -> CoreState:
        return state if self.holds is self._before else state.having(HOLDS, self.holds)
