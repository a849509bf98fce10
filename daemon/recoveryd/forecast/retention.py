"""The retention race: does the log start reach the position before the copy is past it? All times seconds, rates
records/s.

Brokers delete whole segments, and late, so the real slack is larger; nothing here relies on that.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """`margin` records lie between log start and position; the log start moves at `advance` (retention by size: the
    live rate; by time: the rate at which records came in one retention ago).

    In event time: the topic's `retention_s`, the `age_s` of the record at the position, and `startup_s` until the job
    moves the position.
    """

    margin: float = math.inf
    advance: float = 0.0
    retention_s: float = math.inf
    age_s: float = 0.0
    startup_s: float = 0.0

    @property
    def slack_s(self) -> float:
        """Seconds until the record at the position is deleted if nothing is copied."""
        return self.retention_s - self.age_s


def loss_in_s(retention: Retention, replay: float, speed_up: float = math.inf) -> float:
    """Seconds from now until retention deletes the record at the position; infinite when the position stays ahead."""
    return min(_loss_by_records(retention, replay), _loss_by_time(retention, speed_up))


def lost_data_s(retention: Retention) -> float:
    """Seconds of event time that are lost before the job has started, if segments are deleted without delay."""
    return max(0.0, retention.startup_s - max(0.0, retention.slack_s))


def beating_rate(retention: Retention, records: float, window_s: float, live: float, *, is_moving: bool) -> float:
    """The lowest steady rate at which `records`, which came in over `window_s`, are copied before retention deletes
    them; infinite = no rate is enough.

    With retention by time, the copy may take the slack at its start plus the window, since the last record is deleted
    that much later. With retention by size, the log start advances at the live rate meanwhile. When following the head,
    the rate must also reach that of live traffic.
    """
    if records <= 0:
        return 0.0
    needed = 0.0
    if math.isfinite(retention.slack_s):
        left_s = retention.slack_s - retention.startup_s
        needed = records / (left_s + window_s) if left_s >= 0 and left_s + window_s > 0 else math.inf
    if math.isfinite(retention.margin) and retention.advance > 0:
        margin = retention.margin - retention.advance * retention.startup_s
        needed = max(needed, retention.advance * records / (records + margin) if margin >= 0 else math.inf)
    return max(needed, live) if needed and is_moving else needed


def _loss_by_records(retention: Retention, replay: float) -> float:
    if not math.isfinite(retention.margin) or retention.advance <= 0:
        return math.inf
    at_start = retention.margin - retention.advance * retention.startup_s
    if at_start < 0:
        return max(0.0, retention.margin) / retention.advance
    if retention.advance <= replay:
        return math.inf
    return retention.startup_s + at_start / (retention.advance - replay)


def _loss_by_time(retention: Retention, speed_up: float) -> float:
    """Slack shrinks by 1 s/s until the job starts, and then grows by (speed-up - 1) s/s. So records are lost before the
    start, or if the replay is slower than real time.
    """
    slack = retention.slack_s
    if not math.isfinite(slack):
        return math.inf
    at_start = slack - retention.startup_s
    if at_start < 0:
        return max(0.0, slack)
    return math.inf if speed_up >= 1 else retention.startup_s + at_start / (1 - speed_up)
