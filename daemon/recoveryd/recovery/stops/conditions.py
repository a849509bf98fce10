"""Conditions on what is around a recovery: live SLO, retention race, event time, idleness. Each function gives a
`Condition` or None.

The conditions on the recovery's own limits and progress are in `auto_stop`. Pure: the callers drain and journal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from recoveryd.forecast.completion import Forecast
from recoveryd.forecast.outlook import Outlook
from recoveryd.forecast.track import ForecastTrack
from recoveryd.kernel.states import StopReason
from recoveryd.live.law.cause import FOREIGN_MS
from recoveryd.live.law.types import ControllerState

# By then a rise is tried, to see whether it is us, with the next sample that can tell (`live.law.rules`).
PRESSED_MOST_MS = FOREIGN_MS + 60_000
IDLE_AFTER_MS = 60_000
_LISTED_MOST = 20


@dataclass(frozen=True, slots=True)
class Condition:
    """A rule that holds: its reason, one sentence, and the numbers that the rule saw."""

    reason: StopReason
    why: str
    evidence: Mapping[str, object] = field(default_factory=dict)


class HeadState(NamedTuple):
    """One partition: event time of its last copied record (None = none yet), and since when its position is at the log
    end (None = it is not).
    """

    event_time_ms: int | None
    at_end_since_ms: int | None


def live_slo(state: ControllerState, now_ms: int) -> Condition | None:
    """LIVE_SLO: the rate was at the floor and the pressure at the SLO for eleven minutes, and did not become less. The
    recovery is paused and not stopped, since nothing is wrong with it.
    """
    since_ms = now_ms if state.pressed is None else state.pressed.unchanged_ms
    if now_ms - since_ms < PRESSED_MOST_MS:
        return None
    pressed_s = (now_ms - since_ms) / 1000
    why = f"live traffic came no nearer to its SLO in {pressed_s:.0f} s although the replay is at its floor"
    evidence = {"pressed_s": pressed_s, "rate_bytes_per_s": state.rate, "since_ms": since_ms}
    return Condition(StopReason.LIVE_SLO, why, evidence)


def retention_race(forecast: Forecast, track: ForecastTrack) -> Condition | None:
    """RETENTION_RACE: in two forecasts in a row, retention reaches the position before the copy is past it."""
    if track.outlook is not Outlook.RETENTION_LOSS or Outlook.RETENTION_LOSS not in forecast.outlooks:
        return None
    evidence = {
        "loss_in_s": forecast.loss_in_s,
        "seconds": forecast.seconds,
        "lost_data_s": forecast.lost_data_s,
        "partition": forecast.partition,
    }
    return Condition(StopReason.RETENTION_RACE, forecast.why, evidence)


def event_time(
    heads: Mapping[int, HeadState], planned: frozenset[int], until_ms: int, now_ms: int, idle_ms: int = IDLE_AFTER_MS
) -> Condition | None:
    """EVENT_TIME: every planned partition is past the requested event time, or was at its end for `idle_ms`: otherwise
    one idle partition would block the stop for ever.
    """
    idle: list[int] = []
    for partition in planned:
        head = heads.get(partition)
        if head is None:
            return None
        if head.event_time_ms is not None and head.event_time_ms >= until_ms:
            continue
        if head.at_end_since_ms is None or now_ms - head.at_end_since_ms < idle_ms:
            return None
        idle.append(partition)
    if not planned:
        return None
    why = f"all {len(planned)} partitions are past the wanted event time"
    if idle:
        why += f", or idle at their end ({len(idle)})"
    return Condition(StopReason.EVENT_TIME, why, {"until_ms": until_ms, "idle_partitions": sorted(idle)[:_LISTED_MOST]})


def idle(
    heads: Mapping[int, HeadState], planned: frozenset[int], progress_ms: int, now_ms: int, idle_ms: int = IDLE_AFTER_MS
) -> Condition | None:
    """IDLE: for `idle_ms`, no durable position moved and every planned partition was at its end."""
    if not planned or now_ms - progress_ms < idle_ms:
        return None
    since: list[int] = []
    for partition in planned:
        head = heads.get(partition)
        if head is None or head.at_end_since_ms is None or now_ms - head.at_end_since_ms < idle_ms:
            return None
        since.append(head.at_end_since_ms)
    idle_s = (now_ms - max(*since, progress_ms)) / 1000
    why = f"nothing moved and every partition was at its end for {idle_s:.0f} s"
    return Condition(StopReason.IDLE, why, {"idle_s": idle_s, "partitions": len(planned)})
