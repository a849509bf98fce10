"""From what was seen during one step to its line in the file. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from recoveryd.simulation.response import ResponseStep
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.gameday.judge import LiveSecond, Second

_LEAST_SECONDS = 2


@dataclass(frozen=True)
class Copied:
    """What had been copied at a moment: wall-clock time, bytes and records since the recovery's start."""

    at_s: float
    bytes: float
    records: float


@dataclass(frozen=True)
class Window:
    """The measured stretch of one step. `copied` is empty without a replay; `broker_cpu_s` is what the broker used."""

    order: int
    repeat: int
    share: float
    start_s: float
    stop_s: float
    broker_cpu_s: float
    copied: Sequence[Copied] = ()


def fold(
    window: Window, seconds: Sequence[Second], live: Sequence[LiveSecond], seen_least: float = 0.9
) -> ResponseStep:
    """`seconds` and `live` are those of the window. Raises `SandboxError` when more than `1 - seen_least` of them is
    missing.
    """
    lasted_s = window.stop_s - window.start_s
    seen = [s for s in seconds if s.p99_s is not None and s.lag_s is not None]
    told = [second.p99_s for second in live]
    if len(seen) < max(_LEAST_SECONDS, seen_least * int(lasted_s) - 1) or not told:
        raise SandboxError(
            f"step {window.order} ({window.share:.0%}) was seen in {len(seen)} of its {lasted_s:.0f} s only",
            "Is the machine busy with something else? Try again, with longer steps.",
        )
    waits = sorted(wait_s for s in seen for wait_s in s.waits_s)
    p50, p90, p99 = (quantile(waits, share) for share in (0.5, 0.9, 0.99))
    return ResponseStep(
        order=window.order,
        repeat=window.repeat,
        share=window.share,
        seconds=round(lasted_s),
        bytes_per_s=round(rate(window.copied, lambda c: c.bytes)),
        canary_p50_ms=_ms(p50),
        canary_p90_ms=_ms(p90),
        canary_p99_ms=_ms(p99),
        live_p99_ms=_ms(median(told)),
        lag_s=round(max(s.lag_s or 0.0 for s in seen), 3),
        broker_cores=round(window.broker_cpu_s / lasted_s, 3),
        second_p99_ms=tuple(_ms(s.p99_s or 0.0) for s in seen),
        second_lag_s=tuple(round(s.lag_s or 0.0, 3) for s in seen),
    )


def rate(copied: Sequence[Copied], amount: Callable[[Copied], float]) -> float:
    """Amount per second between the first and the last look; 0 without two looks at different times."""
    if len(copied) < 2 or copied[-1].at_s <= copied[0].at_s:
        return 0.0
    first, last = copied[0], copied[-1]
    return (amount(last) - amount(first)) / (last.at_s - first.at_s)


def steady(copied: Sequence[Copied]) -> Sequence[Copied]:
    """From the first look at which something was copied to the last at which more was: no start, no end."""
    return [later for earlier, later in pairwise(copied) if later.bytes > earlier.bytes]


def quantile(ordered: Sequence[float], share: float) -> float:
    """Nearest rank of sorted values. Raises `SandboxError` when there are none."""
    if not ordered:
        raise SandboxError("the observer sent no records of its own", "Is the machine busy with something else?")
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
