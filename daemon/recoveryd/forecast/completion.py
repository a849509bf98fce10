"""Forecasts: how long a replay takes, whether it can ever catch up, what a deadline needs, and whether retention wins
the race.

The formulas, and the assembly of a `Forecast`; `outlook` has the verdicts. All rates are records/s (or all bytes/s),
all times seconds; `math.inf` means never. A job is as slow as its slowest partition.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from recoveryd.forecast.live_profile import catch_up_s
from recoveryd.forecast.outlook import Outlook, Situation, all_outlooks, suggest
from recoveryd.forecast.retention import Retention, loss_in_s, lost_data_s


@dataclass(frozen=True, slots=True)
class ForecastRates:
    """Sustained replay rate and live rate, each with its standard deviation. `profile`: (seconds, rate) pairs of how
    the live head will move, () = as now. `replay_rise`: how much faster the replay may become, None = its deviation.
    """

    replay: float
    live: float = 0.0
    replay_sigma: float = 0.0
    live_sigma: float = 0.0
    profile: tuple[tuple[float, float], ...] = ()
    replay_rise: float | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """`backlog`: records to copy, which span `window_s` of event time. `is_moving`: it follows the live head.
    `startup_s` pass before the first record.
    """

    backlog: float
    window_s: float
    is_moving: bool
    startup_s: float = 0.0
    lanes: int | None = None


class Reason(NamedTuple):
    """Why a verdict applies and what would help, one sentence each; `suggestion` is empty for OK."""

    outlook: Outlook
    why: str
    suggestion: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """The worst verdict first, its interval and a suggestion in numbers; `reasons` has the same for every verdict that
    applies.

    `speed_up` = replay rate / historical rate of the window. `processed` = records read until done, `extra_share` the
    part of them that arrives meanwhile. `loss_in_s` = until retention deletes the record at the position; `lost_data_s`
    = event time lost before the start.
    """

    outlook: Outlook
    outlooks: tuple[Outlook, ...]
    why: str
    suggestion: str
    seconds: float
    seconds_lo: float
    seconds_hi: float
    speed_up: float
    required_rate: float | None
    processed: float
    extra_share: float
    loss_in_s: float
    lost_data_s: float
    partition: int | None = None
    reasons: tuple[Reason, ...] = ()


def duration_s(work: Work, replay: float, live: float, profile: tuple[tuple[float, float], ...] = ()) -> float:
    """Start-up plus backlog / replay for a pinned end, or plus (backlog + live * start-up) / (replay - live) for a
    moving head; infinite when the head moves at least as fast as the replay.
    """
    if work.backlog <= 0:
        return 0.0
    if not work.is_moving:
        return work.startup_s + work.backlog / replay if replay > 0 else math.inf
    backlog = work.backlog + live * work.startup_s
    if profile:
        return work.startup_s + catch_up_s(backlog, replay, profile)
    return work.startup_s + backlog / (replay - live) if replay > live else math.inf


def required_rate(work: Work, deadline_s: float, live: float) -> float:
    """The rate for the deadline: backlog / deadline; for a moving head plus live + live * start-up / deadline."""
    if deadline_s <= 0:
        return math.inf
    return work.backlog / deadline_s + (live + live * work.startup_s / deadline_s if work.is_moving else 0.0)


def forecast(
    work: Work, rates: ForecastRates, retention: Retention | None = None, deadline_s: float | None = None
) -> Forecast:
    """The forecast of one partition, or of one recovery taken as a whole."""
    replay, live = rates.replay, rates.live
    seconds = duration_s(work, replay, live, rates.profile)
    rise = rates.replay_sigma if rates.replay_rise is None else rates.replay_rise
    slow, fast = max(0.0, replay - rates.replay_sigma), replay + rise
    quiet, busy = max(0.0, live - rates.live_sigma), live + rates.live_sigma
    historical = work.backlog / work.window_s if work.window_s > 0 else 0.0
    speed_up = replay / historical if historical > 0 else math.inf
    gain = replay - live if work.is_moving else replay
    loss_s = loss_in_s(retention, replay, speed_up) if retention else math.inf
    situation = Situation(
        is_moving=work.is_moving,
        backlog=work.backlog,
        window_s=work.window_s,
        lanes=work.lanes,
        replay=replay,
        live=live,
        seconds=seconds,
        seconds_hi=duration_s(work, slow, busy, _shifted(rates.profile, rates.live_sigma)),
        speed_up=speed_up,
        loss_in_s=loss_s,
        lost_data_s=lost_data_s(retention) if retention else 0.0,
        required_rate=required_rate(work, deadline_s, live) if deadline_s is not None else None,
        deadline_s=deadline_s,
    )
    outlooks = all_outlooks(situation)
    reasons = tuple(Reason(outlook, *suggest(outlook, situation)) for outlook in outlooks)
    return Forecast(
        outlook=outlooks[0],
        outlooks=outlooks,
        why=reasons[0].why,
        suggestion=reasons[0].suggestion,
        seconds=seconds,
        seconds_lo=duration_s(work, fast, quiet, _shifted(rates.profile, -rates.live_sigma)),
        seconds_hi=situation.seconds_hi,
        speed_up=speed_up,
        required_rate=situation.required_rate,
        processed=work.backlog + (live * seconds if work.is_moving else 0.0),
        extra_share=live / gain if work.is_moving and gain > 0 else 0.0,
        loss_in_s=loss_s,
        lost_data_s=situation.lost_data_s,
        reasons=reasons,
    )


@dataclass(frozen=True, slots=True)
class PartitionForecast:
    """What one partition has to do, and how fast it can."""

    partition: int
    work: Work
    rates: ForecastRates
    retention: Retention | None = None


def forecast_job(parts: Sequence[PartitionForecast], deadline_s: float | None = None) -> Forecast | None:
    """The forecast of a job by its slowest partition, because sums over all partitions hide skew. The verdict is the
    worst one of all partitions. None without partitions.
    """
    found = [replace(forecast(p.work, p.rates, p.retention, deadline_s), partition=p.partition) for p in parts]
    if not found:
        return None
    slowest = max(found, key=lambda f: f.seconds)
    worst = min(found, key=lambda f: (f.outlook.rank, -f.seconds))
    told: dict[Outlook, Reason] = {}
    for one in sorted(found, key=lambda f: -f.seconds):
        for reason in one.reasons:
            told.setdefault(reason.outlook, reason)
    outlooks = tuple(o for o in Outlook if o in told and (o is not Outlook.OK or len(told) == 1))
    return replace(
        slowest,
        outlook=worst.outlook,
        outlooks=outlooks,
        why=worst.why,
        suggestion=worst.suggestion,
        seconds_lo=max(f.seconds_lo for f in found),
        seconds_hi=max(f.seconds_hi for f in found),
        processed=math.fsum(f.processed for f in found),
        loss_in_s=min(f.loss_in_s for f in found),
        lost_data_s=max(f.lost_data_s for f in found),
        required_rate=math.fsum(f.required_rate for f in found if f.required_rate is not None)
        if deadline_s is not None
        else None,
        reasons=tuple(told[o] for o in outlooks),
    )


def _shifted(profile: tuple[tuple[float, float], ...], by: float) -> tuple[tuple[float, float], ...]:
    return tuple((seconds, max(0.0, rate + by)) for seconds, rate in profile)
