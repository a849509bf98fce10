"""How often a group commits, as it was seen to, and what its lag is without the wait for its next commit.

A group of Kafka Streams commits each 30 s by default: its lag goes up and down with that, however well it reads. Only a
group that moves is waited for; one that stands longer than it usually does has the lag that it has. The same holds for
the transactions of who writes, where the group reads committed records.
"""

from recoveryd.live.lag.age import is_at_stuck, stuck_age
from recoveryd.live.lag.window import LagParams, Window


def commit_gap_ms(window: Window, params: LagParams) -> int:
    """How long the group usually takes between two commits: longer than most where that was seen twice lately. A gap
    beyond the ring says nothing, because whoever stands still cannot be told from it.
    """
    return max(params.commit_interval_ms, min(_usual_ms(window.waits_ms), params.slots * params.period_ms))


def stuck_gap_ms(window: Window, params: LagParams) -> int:
    """How long transactions usually keep the last stable offset where it is; most no longer than a commit interval."""
    return max(params.commit_interval_ms, min(_usual_ms(window.stuck_ms), params.blocked_after_ms))


def _usual_ms(seen_ms: tuple[int, ...]) -> int:
    """Of the last few the second longest, so that a single one changes nothing."""
    return sorted(seen_ms)[-2] if len(seen_ms) > 1 else 0


def is_stuck_long(window: Window, params: LagParams) -> bool:
    """Whether a transaction has been open for longer than is usual, or nothing tells for how long."""
    seconds = stuck_age(window, params).seconds
    return seconds is None or seconds * 1000 > stuck_gap_ms(window, params) + params.period_ms


def wait_ms(window: Window, params: LagParams, gap_ms: int | None = None) -> int | None:
    """How long the next commit has been waited for; None = it is late, or nobody is there to commit. `gap_ms`:
    `commit_gap_ms`, of who has asked for it already.
    """
    stood_ms = window.seen_ms - window.moved_ms
    gap_ms = commit_gap_ms(window, params) if gap_ms is None else gap_ms
    return None if window.is_active is False or stood_ms > gap_ms + params.period_ms else stood_ms


def lag_at_commit_s(window: Window, seconds: float | None, params: LagParams) -> float | None:
    """Of a time lag, what it was at the last commit, of the group or of who writes, as long as the next one is not
    late.
    """
    if seconds and is_at_stuck(window, params):
        return seconds if is_stuck_long(window, params) else 0.0
    waited_ms = wait_ms(window, params)
    return seconds if seconds is None or waited_ms is None else max(0.0, seconds - waited_ms / 1000)


def steady_s(window: Window, seconds: float | None, params: LagParams) -> float | None:
    """The time lag as it would be if the group, and who writes, committed as often as most do, as long as the next
    commit is not late. Where it has an SLO, what stands, and what lags, for nearly as long is told as it is.
    """
    if not seconds:
        return seconds
    if is_at_stuck(window, params):
        gap_ms, waited_ms = stuck_gap_ms(window, params), None if is_stuck_long(window, params) else seconds * 1000
    else:
        gap_ms = commit_gap_ms(window, params)
        waited_ms = wait_ms(window, params, gap_ms)
    more_ms, most_ms = gap_ms - params.commit_interval_ms, params.wait_most_ms
    if more_ms <= 0:
        return seconds
    if waited_ms is None or (most_ms is not None and max(waited_ms, seconds * 1000) > most_ms):
        return seconds
    return max(0.0, seconds - min(waited_ms, more_ms) / 1000)
