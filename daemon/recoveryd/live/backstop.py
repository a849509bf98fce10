"""The broker's client quota as a backstop behind the lease: higher than the lease, and never cut in one step.

A client at rate X over its quota q is muted for (X - q) / q of the quota's window, without an upper bound: a cut by ten
would silence a lane for 100 s. So a cut is made in stages, each at most four times lower than the one before
(`next_quota`), and each waits until the mute of the last one is over (`mute_ms`). Rates in bytes/s *per broker*.
"""

import math
from collections import Counter
from collections.abc import Iterable

HEADROOM = 1.5
CUT_MOST = 4.0
WINDOW_MS = 11_000
_STEPS = 8
_SLACK = 0.1  # of a step: shares of equal lanes vary a little


def quota_for_lease(lease_bytes_per_s: float) -> float:
    """The quota for a lease: it acts only when the lanes do not keep to their lease."""
    return HEADROOM * lease_bytes_per_s


def next_quota(present: float | None, lease_bytes_per_s: float) -> float:
    """The quota to set now on the way from the present one (None = none is set) to that of the lease."""
    wanted = quota_for_lease(lease_bytes_per_s)
    return wanted if present is None else max(wanted, present / CUT_MOST)


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
