"""Lag verdicts per partition and per group. Zero lag has to be observed: without an observation the verdict is UNKNOWN.

Per partition the first rule that matches wins, in this order but for two: a group without members is IDLE or STOPPED
before rule 10 is asked, and 13 is asked before 11 and 12. Rules 11 to 15 are rules 1 to 5 of Burrow (LinkedIn's lag
monitor) with four faults mended: a ring less than half full is UNKNOWN, so is an empty history, a position past the end
is INVALID instead of zero lag, and all planned partitions count, not only those with commits.

    1  UNKNOWN         never observed
    2  INVALID         the topic was created again, or its end moved back
    3  UNKNOWN         position or end older than two periods
    4  UNKNOWN         no committed offset; unless nothing was ever written there and the group committed on another
                       partition of the topic, which is 13
    5  DATA_LOST       position before the log start
    6  INVALID         position past the end
    7  INVALID         the position jumped further than any reader reads
    8  BLOCKED_BY_TXN  at the last stable offset, which an open transaction holds
    9  UNKNOWN         end asked for before the position
    10 UNKNOWN         ring less than half full
    11 STOPPED         no commit for longer than the window, and the end was never reached; or the group is empty
    12 REWOUND         the position moved back and has not come back
    13 OK, IDLE        within the tolerance now; IDLE when nothing moves at all
    14 OK              within the tolerance at some time of the window
    15 STALLED         the position does not move
    16 FALLING_BEHIND  the lag never shrinks
    17 CATCHING_UP     the lag shrank over the window
    18 OK              up and down

The worst verdict of its planned partitions is the group's.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import ge
from typing import Final

from recoveryd.live.lag.age import is_over_slo, reach_of, time_lag
from recoveryd.live.lag.commits import commit_gap_ms, steady_s, wait_ms
from recoveryd.live.lag.verdicts import SEVERITY, GroupLag, LagVerdict, PartitionLag
from recoveryd.live.lag.window import LagParams, Window

WITHIN_TOLERANCE: Final = 13  # rules
_STALE: Final = 3
_NO_COMMIT: Final = 4
FOR_EVER_MS: Final = 2**63
_NEVER_SEEN = Window()


def evaluate_group(windows: Mapping[int, Window], planned: Iterable[int], now_ms: int, params: LagParams) -> GroupLag:
    """The verdict over `planned` partitions; one without a window is UNKNOWN."""
    parts = evaluate_partitions(windows, planned, now_ms, params)
    if not parts:
        return GroupLag(LagVerdict.UNKNOWN, None, None, 0.0, None, 0.0, 0, ())
    _, verdicts, _, offset_lags, time_lags, coverages, ages, fills, losses, steady = zip(*parts, strict=True)
    return GroupLag(
        verdict=_worst(verdicts),
        offset_lag=None if None in offset_lags else sum(offset_lags),
        time_lag_s=None if None in time_lags else max(time_lags),
        coverage=sum(coverages) / len(parts),
        sample_age_ms=None if None in ages else max(ages),
        fill=min(fills),
        lost=sum(losses),
        partitions=parts,
        steady_s=_steady_of_all(steady, params),
    )


def _steady_of_all(steady: Sequence[float | None], params: LagParams) -> float | None:
    """The largest; where it is beyond the SLO, those that are not known change nothing."""
    most = max((seconds for seconds in steady if seconds is not None), default=None)
    return most if None not in steady or is_over_slo(most, params) else None


def evaluate_partitions(
    windows: Mapping[int, Window], planned: Iterable[int], now_ms: int, params: LagParams
) -> tuple[PartitionLag, ...]:
    """The verdict on each of the `planned` partitions. A group that reads a topic commits nothing on a partition to
    which nothing was ever written, as where keys choose the partitions.
    """
    found = windows.get
    parts = [evaluate_partition(p, found(p, _NEVER_SEEN), now_ms, params) for p in dict.fromkeys(planned)]
    bare = [at for at, part in enumerate(parts) if part.rule == _NO_COMMIT and windows[part.partition].ends[-1] == 0]
    if bare and any(found(part.partition, _NEVER_SEEN).position is not None for part in parts):
        for at in bare:
            parts[at] = parts[at].holding_nothing()._replace(rule=WITHIN_TOLERANCE, fill=1.0, steady_s=0.0)
    return tuple(parts)


def _worst(verdicts: tuple[LagVerdict, ...]) -> LagVerdict:
    """Mostly all partitions are as well as the first, and comparing them by identity is much cheaper than
    hashing each.
    """
    first = verdicts[0]
    return first if verdicts.count(first) == len(verdicts) else max(set(verdicts), key=SEVERITY.__getitem__)


def evaluate_partition(partition: int, window: Window, now_ms: int, params: LagParams) -> PartitionLag:
    """The verdict of the first rule that matches."""
    fill = len(window.times_ms) / params.slots
    if window.seen_ms < 0:
        return PartitionLag(partition, LagVerdict.UNKNOWN, 1, None, None, 0.0, None, fill)
    ends_ms = window.ends_ms
    age_ms = max(now_ms - window.seen_ms, now_ms - ends_ms[-1] if ends_ms else 0, 0)
    untold = _untold(window, age_ms, now_ms, params)
    if untold is not None:
        return PartitionLag(partition, *untold, None, None, 0.0, age_ms, fill)
    position, reach = window.position or 0, reach_of(window, params)
    if position < window.log_start:
        left, lost = max(0, reach - window.log_start), window.log_start - position
        return PartitionLag(partition, LagVerdict.DATA_LOST, 5, left, None, 1.0, age_ms, fill, lost)
    lag = max(0, reach - position)
    untrue = _untrue(window, position, reach, now_ms, params)
    if untrue is None:
        verdict, rule = _behaviour(window, lag, fill, now_ms, params)
    elif untrue[0] is LagVerdict.BLOCKED_BY_TXN:
        (verdict, rule), lag = untrue, max(0, window.ends[-1] - position)
    else:
        return PartitionLag(partition, *untrue, None, None, 0.0, age_ms, fill)
    seconds, least_s = time_lag(window, position, reach, params)
    steady = steady_s(window, seconds, params)
    if seconds is None and is_over_slo(least_s, params):
        steady = least_s
    return PartitionLag(partition, verdict, rule, lag, seconds, 1.0, age_ms, fill, 0, steady)


def _untold(window: Window, age_ms: int, now_ms: int, params: LagParams) -> tuple[LagVerdict, int] | None:
    """Rules 2 to 4: the lag is not known."""
    if window.mark is not None:
        return LagVerdict.INVALID, 2
    if not window.ends_ms or age_ms > 2 * params.period_ms or window.seen_ms > now_ms + params.future_ms:
        return LagVerdict.UNKNOWN, _STALE
    return (LagVerdict.UNKNOWN, 4) if window.position is None else None


def same_until_ms(window: Window, now_ms: int, params: LagParams) -> int:
    """When the verdict or its sentence may become another one although no sample comes: each rule that asks for the
    time is here.
    """
    seen_ms, ends_ms, times = window.seen_ms, window.ends_ms, window.times_ms
    if seen_ms < 0:
        return FOR_EVER_MS
    fresh_ms = 2 * params.period_ms
    moments = [seen_ms + fresh_ms + 1, seen_ms - params.future_ms]
    oldest_ms = seen_ms
    if ends_ms:
        oldest_ms = min(seen_ms, ends_ms[-1])
        moments.append(ends_ms[-1] + fresh_ms + 1)
    if window.stuck_since_ms is not None:
        moments.append(window.stuck_since_ms + params.blocked_after_ms + 1)
    if times:
        moments.append(2 * times[-1] - times[0] + 1)
    age_ms = max(now_ms - oldest_ms, 0)
    untold = _untold(window, age_ms, now_ms, params)
    if untold is not None and untold[1] == _STALE:
        moments.append(oldest_ms + _next_said_ms(age_ms))
    return min((at_ms for at_ms in moments if at_ms > now_ms), default=FOR_EVER_MS)


def _next_said_ms(age_ms: int) -> int:
    """The next age that is said in other words: whole seconds, of which a half is rounded to the even one."""
    seconds = round(age_ms / 1000)
    return 1000 * seconds + (500 if seconds % 2 else 501)


def _untrue(window: Window, position: int, reach: int, now_ms: int, params: LagParams) -> tuple[LagVerdict, int] | None:
    """Rules 6 to 9: there is a number, but it is not the lag."""
    is_ordered = window.ends_ms[-1] >= window.seen_ms
    if position > reach and is_ordered:
        return LagVerdict.INVALID, 6
    if window.skipped_ms is not None and window.times_ms and window.times_ms[0] <= window.skipped_ms:
        return LagVerdict.INVALID, 7
    stuck_ms = window.stuck_since_ms
    is_held = params.is_read_committed and stuck_ms is not None and position >= reach
    if is_held and stuck_ms is not None and now_ms - stuck_ms > params.blocked_after_ms:
        return LagVerdict.BLOCKED_BY_TXN, 8
    return None if is_ordered else (LagVerdict.UNKNOWN, 9)


def _behaviour(window: Window, lag: int, fill: float, now_ms: int, params: LagParams) -> tuple[LagVerdict, int]:
    """Rules 10 to 13, and 14 to 18 by `_trend`. An empty group needs no history: unless it has read everything, it is
    STOPPED.
    """
    # what must be tolerated at least is known without a look at the table of ends, and is enough for most
    allowed = params.tolerated if lag <= params.tolerated else tolerance(window, params)
    if window.is_active is False:
        return (LagVerdict.IDLE, 13) if lag <= allowed else (LagVerdict.STOPPED, 11)
    if fill < params.fill_least:
        return LagVerdict.UNKNOWN, 10
    times, positions, ends = window.times_ms, window.positions, window.ends
    if lag <= allowed:
        still = positions[0] == positions[-1] and ends[0] == ends[-1] and lag <= params.markers
        return (LagVerdict.IDLE if still else LagVerdict.OK), 13
    if now_ms - times[-1] > times[-1] - times[0] and not _was_at_end(window):
        return LagVerdict.STOPPED, 11
    if _is_rewound(positions):
        return LagVerdict.REWOUND, 12
    return _trend(window, allowed)


def _trend(window: Window, allowed: float) -> tuple[LagVerdict, int]:
    """Rules 14 to 18, for a reader that is behind now."""
    lags = window.lags
    known: Sequence[int] = [n for n in lags if n is not None] if None in lags else lags  # type: ignore[assignment]
    if known and min(known) <= allowed:
        return LagVerdict.OK, 14
    if window.positions[0] == window.positions[-1]:
        return LagVerdict.STALLED, 15
    if all(map(ge, known[1:], known)):
        return LagVerdict.FALLING_BEHIND, 16
    return (LagVerdict.CATCHING_UP, 17) if known[-1] < known[0] else (LagVerdict.OK, 18)


def _is_rewound(positions: tuple[int, ...]) -> bool:
    """A position is lower than an earlier one and has not reached it again since; then the last position is not the
    highest.
    """
    return positions[-1] < max(positions)


def _was_at_end(window: Window) -> bool:
    """Whether the reader had read everything at some time of the window: an end of that time is not past the last
    position.
    """
    first_ms, position = window.times_ms[0], window.positions[-1]
    return any(end <= position and at >= first_ms for end, at in zip(window.ends, window.ends_ms, strict=True))


def tolerance(window: Window, params: LagParams) -> float:
    """How many records may lie between position and end of a reader that keeps up: markers, and what arrives between
    two commits and two samples, by what came in the time of the ring: what was written before that says nothing of a
    reader that stopped with the writers.
    """
    least, ends, ends_ms, times = params.tolerated, window.ends, window.ends_ms, window.times_ms
    if not ends or not times:
        return least
    first = max(0, bisect_right(ends_ms, ends_ms[-1] - (times[-1] - times[0])) - 1)
    elapsed_ms = ends_ms[-1] - ends_ms[first]
    per_ms = (ends[-1] - ends[first]) / elapsed_ms if elapsed_ms > 0 else 0.0
    gap_ms = commit_gap_ms(window, params)
    between_ms = params.commit_interval_ms if wait_ms(window, params, gap_ms) is None else gap_ms
    return max(least, per_ms * (between_ms + params.period_ms))
