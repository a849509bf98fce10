"""Values of the lag evaluation: the verdicts in order of severity, and the results for a partition and a group.

A lag that is not known is None, never zero. Which verdict applies is decided in `evaluate`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class LagVerdict(StrEnum):
    OK = "ok"
    IDLE = "idle"
    CATCHING_UP = "catching_up"
    UNKNOWN = "unknown"
    FALLING_BEHIND = "falling_behind"
    STALLED = "stalled"
    STOPPED = "stopped"
    REWOUND = "rewound"
    BLOCKED_BY_TXN = "blocked_by_txn"
    INVALID = "invalid"
    DATA_LOST = "data_lost"


# Mildest first. UNKNOWN is worse than any verdict that needs no action, and milder than any trouble that was really
# observed.
SEVERITY: Mapping[LagVerdict, int] = {verdict: i for i, verdict in enumerate(LagVerdict)}


class PartitionLag(NamedTuple):
    """The verdict on one partition and the number of its rule. Lags are None where they are not known; `sample_age_ms`
    None = never observed.

    `coverage` is 1.0 when position and end are known and fresh, else 0.0. `fill`: filled part of the ring. `lost`:
    records deleted before they were read. `steady_s`: the time lag, less the wait by which its group commits more
    rarely than most.
    """

    partition: int
    verdict: LagVerdict
    rule: int
    offset_lag: int | None
    time_lag_s: float | None
    coverage: float
    sample_age_ms: int | None
    fill: float
    lost: int = 0
    steady_s: float | None = None

    def holding_nothing(self) -> "PartitionLag":
        """The same of a partition in which there is nothing to read."""
        return self._replace(verdict=LagVerdict.IDLE, offset_lag=0, time_lag_s=0.0, coverage=1.0)

    @property
    def why(self) -> str:
        """The verdict as a sentence."""
        lag = "unknown" if self.offset_lag is None else f"{self.offset_lag:,}"
        return _WHY[self.rule].format(lag=lag, lost=self.lost, fill=self.fill, age=(self.sample_age_ms or 0) / 1000)


class GroupLag(NamedTuple):
    """The worst verdict of the planned partitions. Lags are the sum of records and the largest times; None unless every
    planned partition is known.
    """

    verdict: LagVerdict
    offset_lag: int | None
    time_lag_s: float | None
    coverage: float
    sample_age_ms: int | None
    fill: float
    lost: int
    partitions: tuple[PartitionLag, ...]
    steady_s: float | None = None

    @property
    def worst(self) -> PartitionLag | None:
        """The partition that gave the verdict; of several, the one with the largest lag."""
        return max(self.partitions, key=lambda p: (SEVERITY[p.verdict], p.offset_lag or 0), default=None)

    @property
    def why(self) -> str:
        worst = self.worst
        return f"partition {worst.partition}: {worst.why}" if worst else "no partition is planned"


_WHY: Mapping[int, str] = {
    1: "never observed",
    2: "the log is not the one that was observed before",
    3: "position or end is {age:.0f} s old",
    4: "the group has no committed offset",
    5: "{lost:,} records were deleted before they were read",
    6: "the position lies past the log end",
    7: "the position jumped: records were skipped",
    8: "an open transaction holds the last stable offset",
    9: "the end was asked for before the position",
    10: "only {fill:.0%} of the window is filled",
    11: "nobody commits any more, {lag} records wait",
    12: "the position moved back, {lag} records to read again",
    13: "lag {lag} is within the tolerance",
    14: "lag {lag}, but it was within the tolerance in this window",
    15: "the position does not move, {lag} records wait",
    16: "the lag never shrinks, {lag} records wait",
    17: "the lag shrinks, {lag} records wait",
    18: "lag {lag} goes up and down",
}
