"""What is known of the brokers' quotas on recoveries. Not journaled: after a restart the clusters are asked again. The
rules are in `recoveryd.recovery.quotas`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class BrokerShare(NamedTuple):
    """The part of a lease that may pass one broker, and all that it was told by."""

    told_by: tuple[object, ...]
    share: float


@dataclass(frozen=True, slots=True)
class QuotaSeen:
    """The quota of one recovery. A time of 0 means never, or not any more.

    `bytes_per_s` is the quota on its clusters, None = none. `is_settled`: this daemon has had an answer about it, so
    `bytes_per_s` is true on each of its clusters. `cut_until_ms`: until then the brokers may still mute its connections
    because of the last cut. `busiest`: of its lease, while it has one.
    """

    since_ms: int
    bytes_per_s: float | None = None
    is_settled: bool = False
    is_refused: bool = False
    asked_ms: int = 0
    retry_ms: int = 0
    cut_until_ms: int = 0
    busiest: BrokerShare | None = None


@dataclass(frozen=True, slots=True)
class QuotaBook:
    """`swept`: clusters on which no quota of an ended recovery is left; until then no quota is set there. `asked_ms`:
    when each was last asked to sweep.
    """

    swept: frozenset[str] = frozenset()
    asked_ms: Mapping[str, int] = field(default_factory=dict)
    recoveries: Mapping[str, QuotaSeen] = field(default_factory=dict)
