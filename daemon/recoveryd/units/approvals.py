"""Who has to approve what is done to a unit: by the rules of the config, else one of its approvers, if it has some.

Never the one who asked for it. A rule that asks people whom the unit does not have refuses, since nobody could ever
approve.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from recoveryd.units.model import Behaviour, Unit


class ApprovalBy(StrEnum):
    NOBODY = "nobody"
    OWNER = "owner"
    APPROVERS = "approvers"
    OWNER_OR_APPROVERS = "owner_or_approvers"


class OutputKind(StrEnum):
    """What is known of an output before it is written again."""

    IDEMPOTENT = Behaviour.IDEMPOTENT.value
    TRANSACTIONAL = Behaviour.TRANSACTIONAL.value
    APPEND_ONLY = Behaviour.APPEND_ONLY.value
    UNDECLARED = "undeclared"


class ApprovedVerb(StrEnum):
    """What is done to a unit: by a plan, which waits for its approval, or by a watch that stops it, which an approver
    has to send.
    """

    RESET = "reset"
    REPROCESS = "reprocess"
    SAVEPOINT = "savepoint"
    RESTORE_SAVEPOINT = "restore_savepoint"
    UPGRADE = "upgrade"
    RUNBOOK = "runbook"
    WATCH = "watch"


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Empty = all. `units` are names, in which * stands for anything; one output of a kind in `outputs` is enough."""

    by: ApprovalBy
    verbs: frozenset[ApprovedVerb] = frozenset()
    units: tuple[str, ...] = ()
    outputs: frozenset[OutputKind] = frozenset()

    def fits(self, verb: str, unit: str, outputs: Iterable[OutputKind]) -> bool:
        return (
            (not self.verbs or verb in self.verbs)
            and (not self.units or any(fnmatchcase(unit, pattern) for pattern in self.units))
            and (not self.outputs or not self.outputs.isdisjoint(outputs))
        )


@dataclass(frozen=True, slots=True)
class Approval:
    """`sources` of commands that may approve; `who` they are to the unit."""

    unit: str
    who: str
    sources: tuple[str, ...]

    def refusal(self, requester: str, source: str) -> str | None:
        """Why `source` may not approve what `requester` asked for; None when it may."""
        if source == requester:
            return f"{source} asked for it, so somebody else has to approve it"
        if source not in self.sources:
            return f"{source} is no {self.who} of {self.unit}; it has {', '.join(self.sources) or 'nobody'}"
        return None

    def refusal_of_sender(self, source: str) -> str | None:
        """Why `source` may not have it done where nothing waits for an approval; None when it may."""
        if self.dead_end is not None or source in self.sources:
            return self.dead_end
        return f"{source} is no {self.who} of {self.unit}; it has {', '.join(self.sources)}"

    @property
    def dead_end(self) -> str | None:
        """Why nobody can approve it, whoever asks; None when somebody can."""
        return None if self.sources else f"an approval by the {self.who} of {self.unit} is needed, and it has none"

    def wait(self, requester: str) -> str:
        """Who is waited for."""
        others = [source for source in self.sources if source != requester]
        named = f"one of {', '.join(others)}" if others else f"another {self.who} of {self.unit} than {requester}"
        return f"waits for approval by {named}"


_BY_DEFAULT: Final = ApprovalRule(ApprovalBy.APPROVERS)


def approval_for(
    rules: Sequence[ApprovalRule], verb: str, unit: Unit, outputs: Iterable[str] | None = None
) -> Approval | None:
    """The approval that is needed, by the first rule that fits; None = none is. `outputs`: those that will be written
    again, all of the unit's when left out.
    """
    written = unit.outputs if outputs is None else {name: unit.outputs[name] for name in outputs}
    kinds = {OutputKind(each.behaviour or OutputKind.UNDECLARED) for each in written.values()}
    rule = next((rule for rule in rules if rule.fits(verb, unit.name, kinds)), None)
    if rule is None:
        rule = _BY_DEFAULT if unit.approvers else ApprovalRule(ApprovalBy.NOBODY)
    owner = () if unit.owner is None else (unit.owner,)
    match rule.by:
        case ApprovalBy.NOBODY:
            return None
        case ApprovalBy.OWNER:
            return Approval(unit.name, "owner", owner)
        case ApprovalBy.APPROVERS:
            return Approval(unit.name, "approver", unit.approvers)
        case ApprovalBy.OWNER_OR_APPROVERS:
            return Approval(unit.name, "owner or approver", tuple(dict.fromkeys((*owner, *unit.approvers))))
