"""How old the position of a reader is: the time since the log ended there, as the table of log ends tells it.

It is never guessed. A position from before the table is at least as old as the table, and more is not known.
"""

from bisect import bisect_right

from recoveryd.live.lag.window import LagParams, Window


def time_lag(window: Window, position: int, lag: int, params: LagParams) -> tuple[float | None, float]:
    """The seconds since the log ended at the position, interpolated between two samples of the end; None = not known.
    And what they are at least.
    """
    return (0.0, 0.0) if lag <= params.markers else _since_end_at(window, position)


def _since_end_at(window: Window, offset: int) -> tuple[float | None, float]:
    ends, ends_ms = window.ends, window.ends_ms
    after = bisect_right(ends, offset)
    if not 0 < after < len(ends):
        return None, (max(0.0, (window.seen_ms - ends_ms[0]) / 1000) if ends and not after else 0.0)
    left, left_ms = ends[after - 1], ends_ms[after - 1]
    ended_ms = left_ms + (offset - left) * (ends_ms[after] - left_ms) / (ends[after] - left)
    seconds = max(0.0, (window.seen_ms - ended_ms) / 1000)
    return seconds, seconds


def is_over_slo(seconds: float | None, params: LagParams) -> bool:
    """Whether a time lag, or what it is at least, is at the SLO of the reader or beyond it."""
    return seconds is not None and params.slo_ms is not None and seconds * 1000 >= params.slo_ms
