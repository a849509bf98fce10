"""Four things that somebody should have thought of before offsets are set back: retention, outputs, scope, owner.

An offset is progress and says nothing about correctness: what was made from the records behind it is there already.
What the cluster and the config tell is judged here; what only a person can know has to be said.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.approvals import Approval
from recoveryd.units.model import Behaviour, ConfirmationPolicy, Unit
from recoveryd.workflows.model.positions import NewPosition, PartitionLook

_NAMED_MOST: Final = 3


class ConfirmedItem(StrEnum):
    RETENTION = "retention"
    OUTPUTS = "outputs"
    SCOPE = "scope"
    OWNER = "owner"


class ConfirmedBy(StrEnum):
    """`open`: the plan cannot tell, and nobody said it."""

    PLAN = "plan"
    PERSON = "person"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """`told`: what was found, or what was said."""

    item: ConfirmedItem
    by: ConfirmedBy
    told: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What a reset leaves as it is: partitions that the command does not name, and state."""

    is_part: bool = False
    is_state: bool = False


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the plan finds of one item. Not `is_clear` = a person has to know better."""

    is_clear: bool
    told: str


def confirmations(
    unit: Unit,
    said: Mapping[str, str],
    moved: Sequence[tuple[NewPosition, PartitionLook]],
    looks: Sequence[PartitionLook],
    approval: Approval | None,
    kept: Kept = Kept(),
) -> tuple[Confirmation, ...]:
    """All four, in their order. `moved`: what is to be set, of all `looks`; `said`: the words of the command by
    item.
    """
    seen = {
        ConfirmedItem.RETENTION: _retention(moved),
        ConfirmedItem.OUTPUTS: _outputs(unit),
        ConfirmedItem.SCOPE: _scope(unit, moved, looks, kept),
        ConfirmedItem.OWNER: _owner(approval),
    }
    return tuple(_confirmed(item, found, said.get(item)) for item, found in seen.items())


def as_said(said: Mapping[str, str]) -> tuple[Confirmation, ...]:
    """Of a group of which the config says nothing: the words of the command alone."""
    return tuple(Confirmation(ConfirmedItem(item), ConfirmedBy.PERSON, told) for item, told in said.items())


def _confirmed(item: ConfirmedItem, seen: _Seen, said: str | None) -> Confirmation:
    if said is not None:
        return Confirmation(item, ConfirmedBy.PERSON, said)
    return Confirmation(item, ConfirmedBy.PLAN if seen.is_clear else ConfirmedBy.OPEN, seen.told)


def refuse_open(unit: Unit, found: Iterable[Confirmation]) -> Refused | None:
    """Of a unit that requires all four: the first that is open."""
    if unit.confirmations is not ConfirmationPolicy.REQUIRED:
        return None
    left = next((each for each in found if each.by is ConfirmedBy.OPEN), None)
    if left is None:
        return None
    message = f"{left.item.value} is not confirmed for {unit.name}: {left.told}"
    hint = f'Say what comes of it: `confirm: {{"{left.item.value}": "..."}}`.'
    if left.item is ConfirmedItem.OWNER:  # an approval is given by `approve` alone, not by saying that somebody agrees
        hint = "Give the unit an owner or approvers, and a rule by which one of them approves."
    return Refused(Code.NOT_CONFIRMED, message, hint)


def question(unit: Unit, found: Iterable[Confirmation]) -> str | None:
    """What a person is asked before anything is set; None = nobody wants to be asked, the outputs take every record
    twice, or it was said.
    """
    if unit.confirmations is ConfirmationPolicy.TOLD:
        return None
    outputs = next((each for each in found if each.item is ConfirmedItem.OUTPUTS), None)
    if outputs is None or outputs.by is not ConfirmedBy.OPEN:
        return None
    return f"say what is rebuilt, and how doubled or missing results are dealt with: {outputs.told}"


def _retention(moved: Sequence[tuple[NewPosition, PartitionLook]]) -> _Seen:
    """What was in front of a log's start is gone; who begins just there may have wanted more of it."""
    cut = [f"{look} begins at {look.log_start:,}" for to, look in moved if 0 < look.log_start == to.offset]
    noted = [to.note for to, _ in moved if to.note]
    if noted or cut:
        told = noted or [f"{place}, and what was before it is gone" for place in cut]
        return _Seen(False, _some(told))
    return _Seen(True, "every position lies inside its log, behind its beginning")


def _outputs(unit: Unit) -> _Seen:
    if not unit.outputs:
        return _Seen(True, "the config names no outputs")
    twice = [
        f"{name} is {output.behaviour.value}" if output.behaviour is not None else f"nothing says what {name} does"
        for name, output in unit.outputs.items()
        if output.behaviour is not Behaviour.IDEMPOTENT
    ]
    if twice:
        return _Seen(False, f"{_some(twice)} where a record is written twice")
    return _Seen(True, f"{_some(list(unit.outputs))} takes the same record twice")


def _scope(
    unit: Unit, moved: Sequence[tuple[NewPosition, PartitionLook]], looks: Sequence[PartitionLook], kept: Kept
) -> _Seen:
    topics = sorted({look.topic for _, look in moved})
    told = f"{len(moved):,} of {len(looks):,} partitions of {_some(topics)}"
    others = [topic for topic in unit.positioned if topic not in topics]
    stays = [f"{_some(others)} goes on where it is"] if others else []
    stays += ["other partitions go on where they are"] if kept.is_part or len(moved) < len(looks) else []
    stays += ["its state stays as it is, so records are counted in twice or never"] if kept.is_state else []
    return _Seen(not stays, "; ".join([told, *stays]))


def _owner(approval: Approval | None) -> _Seen:
    if approval is None:
        return _Seen(False, "nobody has to approve it")
    return _Seen(True, f"one of {', '.join(approval.sources)} has to approve it")


def _some(words: Sequence[str]) -> str:
    more = f" and {len(words) - _NAMED_MOST} more" if len(words) > _NAMED_MOST else ""
    return ", ".join(words[:_NAMED_MOST]) + more
