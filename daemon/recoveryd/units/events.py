"""What the daemon sees of units while it watches them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.units.approvals import ApprovalRule
from recoveryd.units.model import Unit


@dataclass(frozen=True, slots=True)
class RetentionSeen:
    """How long the inputs of a unit are kept, in ms; None = for ever. `unknown` are those that could not be asked or do
    not exist.
    """

    unit: str
    kept_ms: Mapping[str, int | None] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnitsRead:
    """The config's units were read again. `units` None: nothing that was ever read again could be used, and those of
    the start stand. `approvals`: the rules that were read with them, None = those of the start.

    `problem`, `code` and `hint`: why the last reading was refused. `is_told_again`: by a daemon that has just begun to
    lead, of a reading before.
    """

    units: Mapping[str, Unit] | None = None
    problem: str | None = None
    code: str = ""
    hint: str = ""
    is_told_again: bool = False
    approvals: tuple[ApprovalRule, ...] | None = None
