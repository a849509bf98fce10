"""Numbers of live protection. Frozen for the life of a daemon, made from the config; every default is the documented one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.window import LagParams
from recoveryd.live.law.types import ControllerParams


@dataclass(frozen=True, slots=True)
class ControlParams:
    """What holds for all budget domains. `default_mode` is auto | controller | unlimited; rates in bytes/s, of a domain's recoveries together."""

    default_mode: str = "auto"
    max_bytes_per_s: float = 100e6
    min_bytes_per_s: float = 1e6
    pause_allowed: bool = True
    period_ms: int = 5_000


@dataclass(frozen=True, slots=True)
class LiveParams:
    """What of live traffic is watched and protected. A budget domain is a cluster's name; only clusters with something to protect are domains.

    `readers` are the consumer groups whose lag is evaluated, `protected` those with an SLO and the name of their reading in the domain of their cluster,
    `health` the (cluster, name) of health signals that are readings.
    """

    domains: Mapping[str, ControllerParams] = field(default_factory=dict)
    lag: LagParams = LagParams()
    readers: frozenset[Reader] = frozenset()
    protected: Mapping[Reader, str] = field(default_factory=dict)
    health: frozenset[tuple[str, str]] = frozenset()
    sample_history: int = 20  # looks at each topic that are kept
