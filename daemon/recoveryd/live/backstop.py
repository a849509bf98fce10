"""The broker's client quota as a backstop behind the lease: higher than the lease, and never cut in one step.

A client at rate X over its quota q is muted for (X - q) / q of the quota's window, without an upper bound: a cut by ten
would silence a lane for 100 s. So a cut is made in stages, each at most four times lower than the one before, and each
waits until the mute of the last one is over. Rates in bytes/s *per broker*.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

HEADROOM = 1.5
CUT_MOST = 4.0
WINDOW_MS = 11_000
_STAGES_AT_MOST = 40
_STEPS = 8
_SLACK = 0.1  # of a step: shares of equal lanes vary a little


@dataclass(frozen=True, slots=True)
class QuotaStep:
    """Set the quota to `bytes_per_s`, `after_ms` from now."""

    bytes_per_s: float
    after_ms: int


def quota_for_lease(lease_bytes_per_s: float) -> float:
    """The quota for a lease: it acts only when the lanes do not keep to their lease."""
    return HEADROOM * lease_bytes_per_s


def quota_steps(present: float | None, lease_bytes_per_s: float) -> tuple[QuotaStep, ...]:
    """Stages from the present quota (None = none is set) to that of the lease. A raise or a first setting takes one
    stage; an equal quota takes none.
    """
    wanted = quota_for_lease(max(0.0, lease_bytes_per_s)) if math.isfinite(lease_bytes_per_s) else math.inf
    if not math.isfinite(wanted) or wanted <= 0 or wanted == present:
        return ()
    if present is None or present <= 0 or not math.isfinite(present) or wanted >= present / CUT_MOST:
        return (QuotaStep(wanted, 0),)
    stages: list[QuotaStep] = []
    after_ms = 0
    while present > wanted * CUT_MOST and len(stages) < _STAGES_AT_MOST - 1:
        present /= CUT_MOST
        stages.append(QuotaStep(present, after_ms))
        after_ms += mute_ms(CUT_MOST)
    return (*stages, QuotaStep(wanted, after_ms))


def mute_ms(cut: float) -> int:
    """How long the broker mutes a client that used its whole quota when the quota is divided by `cut`."""
    return int(max(0.0, cut - 1) * WINDOW_MS)


def busiest_share(lanes: Iterable[tuple[float, frozenset[int]]]) -> float:
    """The largest part of the lease that may pass one broker. `lanes`: (share of the lease, brokers it still reads from
    or writes to) per lane.

    Each broker counts a quota on its own, and Kafka has one value for all brokers. So the value of the busiest broker
    is the lowest that never limits the lease: a lane may draw its whole share from a single one of its brokers. Rounded
    up to eighths, so that it does not follow each small change of shares.
    """
    load: Counter[int] = Counter()
    for share, brokers in lanes:
        for broker in brokers:
            load[broker] += share  # type: ignore[assignment]  # a counter of shares
    most = max(load.values(), default=1.0)
    return min(1.0, math.ceil(most * _STEPS - _SLACK) / _STEPS) if most > 0 else 1.0
