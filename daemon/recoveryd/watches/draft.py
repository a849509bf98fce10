"""How a step sees watches, and their slice of the state."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from recoveryd.kernel.draft import Draft, View
from recoveryd.kernel.state import CoreState, Slot
from recoveryd.watches.known import Watches
from recoveryd.watches.model import Watch
from recoveryd.watches.params import WatchParams

# Of a state, a cluster and a group: the sentence that names the workflow on it.
FindWorkflow = Callable[[CoreState, str, str], str | None]
WATCHES = Slot("watches", Watches())


class WatchDraft(View):
    """`watches` may be replaced, which changes memory only; `put_watch` also asks the journal to store one."""

    def __init__(self, draft: Draft, params: WatchParams, find_workflow: FindWorkflow) -> None:
        super().__init__(draft)
        self._find_workflow = find_workflow
        self.params = params
        self.watches = draft.before.of(WATCHES)

    def workflow_on(self, cluster: str, group: str) -> str | None:
        """The sentence that names a workflow on this group, or None."""
        return self._find_workflow(self.draft.before, cluster, group)

    def put_watch(self, watch: Watch) -> Watch:
        """Keep and journal it."""
        self.draft.journal(watch)
        self.watches = self.watches.with_watch(watch)
        return watch

    def see_watch(self, watch_id: str, **changes: Any) -> None:
        self.watches = self.watches.with_seen(watch_id, replace(self.watches.seen_of(watch_id), **changes))

    def forget_watches(self, watch_ids: Collection[str]) -> None:
        """Take ended watches out of memory and off the status topic."""
        self.draft.forget(watch_ids)
        self.watches = self.watches.without(watch_ids)

    def finish(self, state: CoreState) -> CoreState:
        return state if self.watches is state.of(WATCHES) else state.having(WATCHES, self.watches)
