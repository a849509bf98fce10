"""Who has to approve what is done to a unit: by the rules of the config, else one of its approvers, if it has some.

Where several units have one group, or one output, it takes one of any of them: else a command would choose its
approvers by the unit that it names.

Never the one who asked for it. A rule that asks people whom the unit does not have refuses, since nobody could ever
approve.
"""

from collections.abc import Iterable, Mapping, Sequence
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


_WRITES_NOTHING: Final = frozenset({ApprovedVerb.SAVEPOINT, ApprovedVerb.WATCH})
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


def approval_of_all(
    rules: Sequence[ApprovalRule], verb: str, unit: Unit, units: Mapping[str, Unit], others: Iterable[Unit] = ()
) -> Approval | None:
    """The approval that is needed of all that it concerns, by whichever of them a command names: one who may approve it
    for any of them may approve it. `others`: that the command names as well, as an upgrade does.
    """
    concerned = {each.name: each for named in (unit, *others) for each in concerned_by(verb, named, units)}
    found = (approval_for(rules, verb, each) for each in concerned.values())
    asked = [each for each in found if each is not None]
    if len(asked) <= 1:
        return asked[0] if asked else None
    who = " or ".join(dict.fromkeys(each.who for each in asked))
    sources = dict.fromkeys(source for each in asked for source in each.sources)
    return Approval(" or ".join(each.unit for each in asked), who, tuple(sources))


def concerned_by(verb: str, unit: Unit, units: Mapping[str, Unit]) -> tuple[Unit, ...]:
    """The unit, and others that own its group, or one of the outputs that would be written again."""
    outputs = frozenset() if verb in _WRITES_NOTHING else unit.outputs.keys()
    others = (
        other
        for other in units.values()
        if other.name != unit.name
        and other.cluster == unit.cluster
        and (other.consumer_group == unit.consumer_group or not outputs.isdisjoint(other.outputs))
    )
    return (unit, *others)
