"""How old the position of a reader is: the time since the log ended there, as the table of log ends tells it.

It is never guessed. A position from before the table is at least as old as the table, and more is not known. A reader
that waits at the last stable offset lags by the age of the record there, which an open transaction keeps from it.
"""

from typing import NamedTuple

from recoveryd.live.lag.ends import ended_ms
from recoveryd.live.lag.window import LagParams, Window


class Age(NamedTuple):
    """`seconds` None = not known; they are `least_s` or more."""

    seconds: float | None
    least_s: float


_NONE = Age(0.0, 0.0)


def reach_of(window: Window, params: LagParams) -> int:
    """How far the reader can read."""
    last_stable = window.last_stable if params.is_read_committed else None
    return window.ends[-1] if last_stable is None else last_stable


def time_lag(window: Window, position: int, reach: int, params: LagParams) -> Age:
    """The time since the log ended at the position; where all that can be read was, the age of what cannot yet."""
    return stuck_age(window, params) if reach - position <= params.markers else _since_end_at(window, position)


def stuck_age(window: Window, params: LagParams) -> Age:
    """How long records have waited behind the last stable offset of a reader of committed ones."""
    reach = reach_of(window, params)
    if reach >= window.ends[-1]:
        return _NONE
    seconds, least_s = _since_end_at(window, reach, is_begin=True)
    if window.stuck_since_ms is not None:
        least_s = max(least_s, (window.seen_ms - window.stuck_since_ms) / 1000)
    return Age(None if seconds is None else max(seconds, least_s), least_s)


def is_at_stuck(window: Window, params: LagParams) -> bool:
    """Whether the reader has read up to a last stable offset that is not the log end."""
    reach = reach_of(window, params)
    return window.position is not None and reach - window.position <= params.markers and reach < window.ends[-1]


def _since_end_at(window: Window, offset: int, *, is_begin: bool = False) -> Age:
    """What the table does not tell is from before it, and so at least as old, or is not in it yet."""
    at_ms = ended_ms(window.ends, window.ends_ms, offset, is_begin=is_begin)
    if at_ms is None:
        is_before = bool(window.ends) and offset < window.ends[0]
        return Age(None, max(0.0, (window.seen_ms - window.ends_ms[0]) / 1000) if is_before else 0.0)
    seconds = max(0.0, (window.seen_ms - at_ms) / 1000)
    return Age(seconds, seconds)


def is_over_slo(seconds: float | None, params: LagParams) -> bool:
    """Whether a time lag, or what it is at least, is at the SLO of the reader or beyond it."""
    return seconds is not None and params.slo_ms is not None and seconds * 1000 >= params.slo_ms
