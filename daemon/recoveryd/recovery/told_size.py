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


def approval_for_size(
    size: ToldSize, limits: SizeLimits, told: ToldSize | None = None, by: str = "the plan of its workflow"
) -> str | None:
    """Why a person has to look at it first, or None. `told`: what somebody has looked at, `by`: in what."""
    known = ToldSize(0) if told is None else told
    kinds = (
        ("bytes", size.bytes, limits.bytes, known.bytes),
        ("records", size.records, limits.records, known.records),
    )
    for what, most, above, expected in kinds:
        if above is None or most is None or most <= max(above, (expected or 0) * _MORE_PERCENT // 100):
            continue
        why = f"{most:,} {what} are more than {above:,} (approval.above_{what})"
        return why if told is None else f"{why}, and {_beyond(expected, by)}"
    return None


def _beyond(expected: int | None, by: str) -> str:
    if expected is None:
        return f"{by} did not tell how many"
    return f"more than {_MORE_PERCENT / 100:g} times the {expected:,} that {by} told"
