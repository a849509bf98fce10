"""The sentence that names the members of a group, and the report of a step that has to wait until they are gone."""

from collections.abc import Sequence
from typing import Final

from recoveryd.adapters.kafka.steps.reporting import report, still_untried
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported

_NAMED_MOST: Final = 5


def told(group: str, members: Sequence[str]) -> str:
    more = f" and {len(members) - _NAMED_MOST} more" if len(members) > _NAMED_MOST else ""
    return f"the group {group} has {len(members)} members: {', '.join(members[:_NAMED_MOST])}{more}"


def not_empty(effect: TakeStep, group: str, members: tuple[str, ...], *, is_tried: bool = False) -> StepReported:
    """`is_tried`: it was seen when something may have been changed already."""
    evidence = effect.seen if is_tried else still_untried(effect)
    return report(effect, Outcome.NOT_YET, told(group, members), members=members, evidence=evidence)
