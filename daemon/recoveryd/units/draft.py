"""How a step of the core sees units, and the slice of the state that is theirs.

All of it is soft: a new daemon reads the config and looks at clusters itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.kernel.draft import Draft, View
from recoveryd.kernel.state import CoreState, Slot
from recoveryd.units.approvals import ApprovalRule
from recoveryd.units.model import Unit


@dataclass(frozen=True, slots=True)
class UnitsSlice:
    """`reread`: the units that stand instead of those that the daemon started with; None = nobody has read them again.
    `approvals`: the same of the rules. `problem`: why the last reading was refused.

    `short`: by unit, the inputs that are kept too short; a unit of which something is not known is absent.
    """

    reread: Mapping[str, Unit] | None = None
    problem: str | None = None
    short: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    approvals: tuple[ApprovalRule, ...] | None = None


UNITS = Slot("units", UnitsSlice())


def units_in(state: CoreState, configured: Mapping[str, Unit]) -> Mapping[str, Unit]:
    """The units in force; `configured` are those that the daemon started with."""
    reread = state.of(UNITS).reread
    return configured if reread is None else reread


class UnitsDraft(View):
    """`reread`, `approvals`, `problem` and `short` may be replaced."""

    def __init__(self, draft: Draft, configured: Mapping[str, Unit]) -> None:
        super().__init__(draft)
        self._configured = configured
        self._before = draft.before.of(UNITS)
        self.reread, self.problem, self.short = self._before.reread, self._before.problem, self._before.short
        self.approvals = self._before.approvals

    @property
    def units(self) -> Mapping[str, Unit]:
        return self._configured if self.reread is None else self.reread

    def finish(self, state: CoreState) -> CoreState:
        after = UnitsSlice(self.reread, self.problem, self.short, self.approvals)
        before = self._before
        is_read_again = after.reread is not before.reread or after.approvals is not before.approvals
        is_same = not is_read_again and after.problem == before.problem and after.short is before.short
        return state if is_same else state.having(UNITS, after)
