"""The broker's client quota as a backstop behind the lease (POLICIES 3.1): higher than the lease, and never cut in one go.

A quota over its limit mutes the channel for (X - q) / q of its window, uncapped: a cut by ten would silence a lane for 100 s. So a cut is staged, each stage
at most four times lower than the one before, and the next stage waits until the mute of the last is over. Rates in bytes/s *per broker*.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

HEADROOM = 1.5
CUT_MOST = 4.0
WINDOW_MS = 11_000
_STAGES_AT_MOST = 40


@dataclass(frozen=True, slots=True)
class QuotaStep:
    """Set the quota to `bytes_per_s`, `after_ms` from now."""

    bytes_per_s: float
    after_ms: int


def quota_for_lease(lease_bytes_per_s: float) -> float:
    """The backstop of a lease: it acts only when the lanes do not keep to theirs."""
    return HEADROOM * lease_bytes_per_s


def quota_steps(present: float | None, lease_bytes_per_s: float) -> tuple[QuotaStep, ...]:
    """Stages from the present quota (None = none is set) to that of the lease. Raises and first settings take one stage; nothing to do takes none."""
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
    """How long the broker silences a channel that ran at its quota when it is cut by this factor."""
    return int(max(0.0, cut - 1) * WINDOW_MS)


def quota_per_broker(lease_bytes_per_s: float, leaders: Mapping[int, int]) -> dict[int, float]:
    """q_b by the number of the recovery's partitions each broker leads, for a quota counts on each broker alone."""
    total = sum(leaders.values())
    if total <= 0:
        return {}
    return {broker: quota_for_lease(lease_bytes_per_s) * n / total for broker, n in leaders.items() if n > 0}
