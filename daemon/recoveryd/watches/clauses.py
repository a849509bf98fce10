"""What is found of the partitions of a watch: a clause for each, what all of them come to, and the findings on one
reader, which hold until it is looked at again or a moment comes that changes them.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from recoveryd.live.lag.verdicts import LagVerdict
from recoveryd.live.lag.window import Window

_LISTED_MOST = 50


@dataclass(frozen=True, slots=True)
class Clause:
    """One partition at one look: `holds`, or `why` not. Lag, position and end are None where they are not known.
    `passes`: it does not hold because of what changed with this very look, and may hold after it.
    """

    topic: str
    partition: int
    holds: bool
    why: str
    verdict: LagVerdict
    position: int | None
    end: int | None
    lag: int | None
    lag_s: float | None
    is_known: bool
    wanted: int | None = None
    passes: bool = False


class ClauseSum(NamedTuple):
    """What some clauses come to: of `planned` partitions, how many are known, and for how many it holds; their lag
    together and the longest one in seconds, None while that of any is not known; and those for which it does not hold,
    the worst first, bounded.
    """

    planned: int
    known: int
    done: int
    lag: int | None
    lag_s: float | None
    waiting: tuple[Clause, ...]


class Judged(NamedTuple):
    """The findings on one reader by its `windows`. They are the same from `at_ms` on, and before `until_ms`."""

    windows: Mapping[int, Window]
    at_ms: int
    until_ms: int
    reached: frozenset[int]  # the partitions for which it holds
    found: ClauseSum

    @property
    def holds(self) -> bool:
        return self.found.done == self.found.planned


def sum_of(clauses: Sequence[Clause]) -> ClauseSum:
    lags = [c.lag for c in clauses if c.lag is not None]
    seconds = [c.lag_s for c in clauses if c.lag_s is not None]
    return ClauseSum(
        planned=len(clauses),
        known=sum(1 for c in clauses if c.is_known),
        done=sum(1 for c in clauses if c.holds),
        lag=sum(lags) if len(lags) == len(clauses) else None,
        lag_s=max(seconds, default=0.0) if len(seconds) == len(clauses) else None,
        waiting=tuple(worst_of(c for c in clauses if not c.holds)),
    )


def sum_of_all(sums: Sequence[ClauseSum]) -> ClauseSum:
    """The same as of all their clauses."""
    lags = [found.lag for found in sums if found.lag is not None]
    seconds = [found.lag_s for found in sums if found.lag_s is not None]
    worst = heapq.merge(*(found.waiting for found in sums), key=_badness)
    return ClauseSum(
        planned=sum(found.planned for found in sums),
        known=sum(found.known for found in sums),
        done=sum(found.done for found in sums),
        lag=sum(lags) if len(lags) == len(sums) else None,
        lag_s=max(seconds, default=0.0) if len(seconds) == len(sums) else None,
        waiting=tuple(islice(worst, _LISTED_MOST)),
    )


def worst_of(clauses: Iterable[Clause]) -> list[Clause]:
    """Unknown ones first, then those with the most left; bounded."""
    return sorted(clauses, key=_badness)[:_LISTED_MOST]


def _badness(clause: Clause) -> tuple[bool, int, str, int]:
    return clause.lag is not None, -_left(clause), clause.topic, clause.partition


def _left(clause: Clause) -> int:
    if clause.wanted is not None and clause.position is not None:
        return clause.wanted - clause.position
    return clause.lag or 0
