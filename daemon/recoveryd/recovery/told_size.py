"""How much a copy may be without asking anybody: the limits of the config, and above them what a workflow told with its
own plan, which was looked at before anything was stopped. A copy that turns out much larger waits all the same: nobody
has agreed to that.
"""

import sys
from dataclasses import dataclass
from typing import Final

_MORE_PERCENT: Final = 150  # of what was told: records come in while a plan is looked at, and samples differ


@dataclass(frozen=True, slots=True)
class ToldSize:
    """`bytes` None = not known."""

    records: int
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """From which size on somebody is asked; None = never."""

    bytes: int | None
    records: int | None


ANY: Final = ToldSize(sys.maxsize, sys.maxsize)  # of a workflow of an earlier release, which told only a sum


def approval_for_size(size: ToldSize, limits: SizeLimits, told: ToldSize | None = None) -> str | None:
    """Why a person has to look at it first, or None. `told`: what the plan of its workflow told. Where that knows no
    bytes, it was asked about for that.
    """
    known = ToldSize(0, 0) if told is None else told
    kinds = (
        ("bytes", size.bytes, limits.bytes, known.bytes),
        ("records", size.records, limits.records, known.records),
    )
    for what, most, above, expected in kinds:
        if above is None or most is None or most <= above or expected is None or not is_much_more(most, expected):
            continue
        why = f"{most:,} {what} are more than {above:,} (approval.above_{what})"
        return why if told is None else f"{why}, and {much_more_than(expected, 'the plan of its workflow')}"
    return None


def is_much_more(most: int, told: int) -> bool:
    return most > told * _MORE_PERCENT // 100


def much_more_than(told: int, by: str) -> str:
    return f"more than {_MORE_PERCENT / 100:g} times the {told:,} that {by} told"
