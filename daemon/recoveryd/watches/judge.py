"""Whether the condition of a watch holds. Zero lag is a predicate over several looks, and a group that never commits is
unknown. A look is one sample of the group's positions and the log ends.

    1  offsets    a partition is done once its committed position, seen on the same topic and not past the end,
                  reached the wanted offset; it stays done
    2  caught_up  at each look and for every partition of every topic: position and end are known and fresh, the
                  position was asked for before the end, topic and log are the same, and the lag is no more than
                  the command tolerates, was at most ten seconds old at the last commit, or is no more than what
                  arrives between two commits and two looks of a group that still moves; never while the group
                  stands still or has stopped behind the end, or was rewound, or while an open transaction has
                  kept records from it for longer than is usual
    3             enough looks in a row must hold, over a long enough span, without a gap; a rewind, a change
                  between active and empty, or one look that violates a clause starts over
    4             a partition that never held a record needs no commit, if the group committed on another
                  partition of the topic

The maximum over partitions counts, never a sum.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.commits import is_stuck_long, lag_at_commit_s, wait_ms
from recoveryd.live.lag.evaluate import WITHIN_TOLERANCE, evaluate_partition, evaluate_partitions
from recoveryd.live.lag.verdicts import LagVerdict, PartitionLag
from recoveryd.live.lag.window import LagParams, Window
from recoveryd.watches.clauses import Clause
from recoveryd.watches.known import Span

_MAY_BE_THERE = frozenset({LagVerdict.OK, LagVerdict.IDLE, LagVerdict.CATCHING_UP, LagVerdict.FALLING_BEHIND})
_GAP_PERIODS = 3
_TIME_LAG_LEAST_MS = 10_000


def judge_caught_up(
    topic: str,
    windows: Mapping[int, Window],
    before: Mapping[int, Window],
    planned: Iterable[int],
    now_ms: int,
    params: LagParams,
) -> tuple[Clause, ...]:
    """A clause for each planned partition. `before`: the windows before the newest look (the same = nothing new)."""
    return tuple(
        _clause(topic, found, windows.get(found.partition, Window()), before.get(found.partition, Window()), params)
        for found in evaluate_partitions(windows, planned, now_ms, params)
    )


def _clause(topic: str, found: PartitionLag, window: Window, before: Window, params: LagParams) -> Clause:
    if found.rule == WITHIN_TOLERANCE and window.position is None:
        return _told(topic, found, window, True, "nothing was ever written to it")
    if not _is_within_reach(found, window, params):
        return _told(topic, found, window, False, _why_not(found, window, params))
    if window.position is not None and before.position is not None and window.position < before.position:
        return replace(_told(topic, found, window, False, "the position moved back"), passes=True)
    if None not in {window.is_active, before.is_active} and window.is_active is not before.is_active:
        return replace(_told(topic, found, window, False, "members of the group came or went"), passes=True)
    return _told(topic, found, window, True, found.why)


def _why_not(found: PartitionLag, window: Window, params: LagParams) -> str:
    if found.rule != WITHIN_TOLERANCE:
        return found.why
    if _is_kept_from_it(window, params):
        left = window.ends[-1] - (window.position or 0)
        return f"an open transaction holds the last stable offset, {left:,} records wait"
    return f"the position stands, {found.offset_lag or 0:,} records wait"


def _is_kept_from_it(window: Window, params: LagParams) -> bool:
    """Whether an open transaction keeps more than is tolerated from the group, for longer than is usual."""
    if not window.ends or window.position is None:
        return False
    left = window.ends[-1] - window.position
    return left > params.tolerated and is_stuck_long(window, params)


def _is_within_reach(found: PartitionLag, window: Window, params: LagParams) -> bool:
    if found.verdict not in _MAY_BE_THERE or found.coverage < 1.0 or found.offset_lag is None:
        return False
    if _is_kept_from_it(window, params):
        return False
    if found.offset_lag <= params.tolerated:
        return True
    if window.is_active is False:
        return False
    late_s = max(2 * params.commit_interval_ms, _TIME_LAG_LEAST_MS) / 1000
    seconds = lag_at_commit_s(window, found.time_lag_s, params)
    is_late = seconds is None or seconds > late_s
    return not is_late or (found.rule == WITHIN_TOLERANCE and wait_ms(window, params) is not None)


def judge_offsets(
    topic: str,
    windows: Mapping[int, Window],
    wanted: Mapping[int, int],
    reached: frozenset[int],
    now_ms: int,
    params: LagParams,
) -> tuple[Clause, ...]:
    """A clause for each partition with an offset that is wanted there. `reached`: those that did so at an earlier
    look.
    """
    return tuple(
        _offset_clause(topic, partition, offset, windows.get(partition, Window()), now_ms, params, partition in reached)
        for partition, offset in wanted.items()
    )


def _offset_clause(
    topic: str, partition: int, wanted: int, window: Window, now_ms: int, params: LagParams, is_reached: bool
) -> Clause:
    """Whether the committed position reached the wanted offset."""
    found = evaluate_partition(partition, window, now_ms, params)
    position, end = window.position, window.ends[-1] if window.ends else None
    is_fresh = window.seen_ms >= 0 and now_ms - window.seen_ms <= 2 * params.period_ms
    is_true = position is not None and end is not None and position <= end and window.mark is None and is_fresh
    holds = is_reached or (is_true and position is not None and position >= wanted)
    why = "there" if holds else f"at {position:,} of {wanted:,}" if position is not None and is_true else found.why
    return replace(_told(topic, found, window, holds, why), wanted=wanted)


def _told(topic: str, found: PartitionLag, window: Window, holds: bool, why: str) -> Clause:
    return Clause(
        topic=topic,
        partition=found.partition,
        holds=holds,
        why=why,
        verdict=found.verdict,
        position=window.position,
        end=window.ends[-1] if window.ends else None,
        lag=found.offset_lag,
        lag_s=found.time_lag_s,
        is_known=found.coverage >= 1.0,
    )


def with_look(
    span: Span | None, reader: Reader, holds: bool, readers: frozenset[Reader], now_ms: int, params: LagParams
) -> Span | None:
    """The evaluations in a row after one more look at one reader; one counts once every reader was looked at."""
    if not holds:
        return None
    if span is not None and now_ms - span.counted_ms > _GAP_PERIODS * params.period_ms:
        span = None  # what happened in the gap is not known
    if span is None:
        span = Span(now_ms, now_ms, 0, frozenset())
    heard = span.heard | {reader}
    if heard < readers:
        return replace(span, heard=heard)
    since_ms = span.since_ms if span.count else now_ms
    return Span(since_ms, now_ms, span.count + 1, frozenset())
