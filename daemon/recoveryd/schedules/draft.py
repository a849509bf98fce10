"""How a step sees schedules, and their slice of the state."""

from collections.abc import Callable, Collection, Mapping, Sequence

from recoveryd.kernel.commands import Command
from recoveryd.kernel.decision import Answer, Noun
from recoveryd.kernel.draft import Draft, View
from recoveryd.kernel.state import CoreState, Slot
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.slice import RECOVERY
from recoveryd.schedules.known import Schedules
from recoveryd.schedules.model import Schedule
from recoveryd.schedules.params import ScheduleParams

SCHEDULES = Slot("schedules", Schedules())


class ScheduleDraft(View):
    """`schedules` may be replaced, which changes memory only; `put_schedule` also asks the journal to store one."""

    def __init__(
        self,
        draft: Draft,
        params: ScheduleParams,
        find: Callable[[CoreState, str], Noun | None],
        ends: Callable[[Draft, Command], str],
    ) -> None:
        super().__init__(draft)
        self.params = params
        self._find = find
        self._ends = ends
        self.schedules = draft.before.of(SCHEDULES)

    @property
    def answers(self) -> Sequence[Answer]:
        """The answers of this step so far, to any command."""
        return self.draft.answers

    def find(self, noun_id: str) -> Noun | None:
        """What another capability knew under this id before the step."""
        return self._find(self.draft.before, noun_id)

    @property
    def recoveries(self) -> Mapping[str, Recovery]:
        """All that were known before the step."""
        return self.draft.before.of(RECOVERY).recoveries

    def ends(self, command: Command) -> str:
        """The longest end that ids of what the command begins have behind its own."""
        return self._ends(self.draft, command)

    def put_schedule(self, schedule: Schedule) -> Schedule:
        """Keep and journal it."""
        self.draft.journal(schedule)
        self.schedules = self.schedules.with_schedule(schedule)
        return schedule

    def sent(self, schedule_id: str) -> None:
        """Note that the command of its run is being sent now."""
        self.schedules = self.schedules.with_sent(schedule_id, self.now_ms)

    def forget_schedules(self, schedule_ids: Collection[str]) -> None:
        """Take ended schedules out of memory and off the status topic."""
        self.draft.forget(schedule_ids)
        self.schedules = self.schedules.without(schedule_ids)

    def finish(self, state: CoreState) -> CoreState:
        return state if self.schedules is state.of(SCHEDULES) else state.having(SCHEDULES, self.schedules)
