"""Numbers of live protection. Frozen for the life of a daemon, made from the config; the defaults are the documented
ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.window import LagParams
from recoveryd.live.law.types import ControllerParams

LOOK_COUNTS_LEAST_MS = 30_000  # a look at a slow broker takes its time


def look_counts_ms(period_ms: int) -> int:
    """For how long what was seen is shown as it is now, where it is looked at again after each period."""
    return max(LOOK_COUNTS_LEAST_MS, 3 * period_ms)


@dataclass(frozen=True, slots=True)
class ControlParams:
    """What holds for all budget domains. `default_mode` is auto | controller | unlimited. Rates in bytes/s, of all
    recoveries of a domain together.
    """

    default_mode: str = "auto"
    max_bytes_per_s: float = 100e6
    min_bytes_per_s: float = 1e6
    pause_allowed: bool = True
    period_ms: int = 2_000


@dataclass(frozen=True, slots=True)
class LiveParams:
    """What is watched and protected of live traffic. A budget domain is a cluster's name; only clusters with something
    to protect are domains.

    `lag` holds for all readers but those in `lags`. `readers`: consumer groups whose lag is evaluated. `protected`:
    those with an SLO, with the name of their reading in the domain of their cluster. `health`: (cluster, name) of the
    health signals that are readings.
    """

    domains: Mapping[str, ControllerParams] = field(default_factory=dict)
    lag: LagParams = LagParams()
    lags: Mapping[Reader, LagParams] = field(default_factory=dict)
    readers: frozenset[Reader] = frozenset()
    protected: Mapping[Reader, str] = field(default_factory=dict)
    health: frozenset[tuple[str, str]] = frozenset()
    sample_history: int = 20  # samples kept of each topic

    def lag_of(self, reader: Reader) -> LagParams:
        return self.lags.get(reader, self.lag)
