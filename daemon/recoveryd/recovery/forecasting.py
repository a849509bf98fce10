"""The forecast of a whole recovery, from its lanes and the partitions that each one reads.

A lane reads its partitions at the same time and they end together, so rates are per lane; all lanes run at once, so the
slowest one decides how long it takes. The formulas are in `recoveryd.forecast`. `forecast_plan` asks before the
recovery runs, `forecast_run` while it runs, each with its own rates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from recoveryd.forecast.completion import Forecast, ForecastRates, PartitionForecast, Work, forecast, forecast_job
from recoveryd.forecast.live_profile import live_profile
from recoveryd.forecast.outlook import Outlook
from recoveryd.forecast.retention import Retention
from recoveryd.forecast.view import ForecastView, make_view

_HOUR_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is left of one partition: `records`, the event time they span (0 = not known), the rate at which more
    arrive, and its race with retention.
    """

    partition: int
    records: float
    window_s: float
    live: float = 0.0
    retention: Retention = Retention()


@dataclass(frozen=True, slots=True)
class LaneWork:
    """Partitions of one lane and the records/s it copies, with its standard deviation; `rise` is how much faster it may
    become, None = its deviation.
    """

    stretches: tuple[Stretch, ...]
    replay: float
    sigma: float = 0.0
    rise: float | None = None

    @property
    def records(self) -> float:
        return math.fsum(s.records for s in self.stretches)

    @property
    def live(self) -> float:
        return math.fsum(s.live for s in self.stretches)


@dataclass(frozen=True, slots=True)
class ForecastQuestion:
    """What to forecast. `hourly`: records/s of these lanes' partitions in each of the 24 hours that ended
    `hourly_age_s` ago, () = take the present rate. `deadline_s` counts from now.
    """

    lanes: tuple[LaneWork, ...]
    is_moving: bool
    startup_s: float = 0.0
    deadline_s: float | None = None
    live_sigma: float = 0.0
    hourly: tuple[float, ...] = ()
    hourly_age_s: float = 0.0

    @property
    def records(self) -> float:
        return math.fsum(lane.records for lane in self.lanes)

    @property
    def live(self) -> float:
        return math.fsum(lane.live for lane in self.lanes)

    @property
    def window_s(self) -> float:
        return max((s.window_s for lane in self.lanes for s in lane.stretches), default=0.0)


@dataclass(frozen=True, slots=True)
class ForecastAnswer:
    """The forecast of the job and its view. `slack_s`: seconds until retention deletes the record at the worst position
    if nothing is copied, infinite = never.
    """

    forecast: Forecast
    view: ForecastView
    slack_s: float


def ask(question: ForecastQuestion) -> ForecastAnswer:
    """The forecast of a recovery with at least one lane; OK when nothing is left."""
    work = Work(
        question.records, question.window_s, question.is_moving, question.startup_s, len(question.lanes) or None
    )
    parts = forecast_job([p for lane in question.lanes for p in _parts(lane, question)], question.deadline_s)
    rates = _job_rates(question, work, parts)
    whole = forecast(work, rates, None, question.deadline_s)
    if parts is not None:
        whole = _with_worst(whole, parts)
    slack_s = min((_slack_s(s.retention) for lane in question.lanes for s in lane.stretches), default=math.inf)
    view = make_view(whole, work, rates)
    slack = round(slack_s, 1) if math.isfinite(slack_s) else None
    return ForecastAnswer(whole, replace(view, slack_s=slack, deadline_s=question.deadline_s), slack_s)


def _parts(lane: LaneWork, question: ForecastQuestion) -> list[PartitionForecast]:
    """The partitions of a lane, each with the part of the lane's rate with which all end together."""
    found = []
    records, live, whole_live = lane.records, lane.live, question.live
    for stretch in lane.stretches:
        part = stretch.records / records if records > 0 else 1 / len(lane.stretches)
        replay = _part_of_rate(lane, stretch, part, live, is_moving=question.is_moving)
        share = replay / lane.replay if lane.replay > 0 else 0.0
        profile = _profile(question, stretch.live, whole_live)
        rise = None if lane.rise is None else lane.rise * share
        rates = ForecastRates(replay, stretch.live, lane.sigma * share, question.live_sigma * share, profile, rise)
        work = Work(stretch.records, stretch.window_s, question.is_moving, question.startup_s)
        found.append(PartitionForecast(stretch.partition, work, rates, stretch.retention))
    return found


def _part_of_rate(lane: LaneWork, stretch: Stretch, part: float, live: float, *, is_moving: bool) -> float:
    """The stretch's part of the lane's rate. `part`: the stretch's share of the lane's records; `live`: records/s that
    arrive for the whole lane.
    """
    if is_moving and live > 0 and lane.replay <= live:
        return lane.replay * stretch.live / live
    return stretch.live + (lane.replay - live) * part if is_moving else lane.replay * part


def _job_rates(question: ForecastQuestion, work: Work, parts: Forecast | None) -> ForecastRates:
    """The rates of the job as a whole. A slow lane holds the job back, so the rate is the one at which the job as a
    whole ends when its slowest part does.
    """
    replay = math.fsum(lane.replay for lane in question.lanes)
    sigma = math.fsum(lane.sigma for lane in question.lanes)
    live = question.live
    profile = _profile(question, live, live)
    held = replay
    if parts is not None and work.backlog > 0:
        copying_s = parts.seconds - work.startup_s
        if math.isinf(parts.seconds):
            held = live * min((lane.replay / lane.live for lane in question.lanes if lane.live > 0), default=0.0)
        elif copying_s > 0 and not profile:
            arrived = live * work.startup_s if work.is_moving else 0.0
            held = (work.backlog + arrived) / copying_s + (live if work.is_moving else 0.0)
    held = min(held, replay)
    part = held / replay if replay > 0 else 0.0
    rises = [lane.sigma if lane.rise is None else lane.rise for lane in question.lanes]
    rise = None if all(lane.rise is None for lane in question.lanes) else math.fsum(rises) * part
    return ForecastRates(held, live, sigma * part, question.live_sigma, profile, rise)


def _profile(question: ForecastQuestion, live: float, whole_live: float) -> tuple[tuple[float, float], ...]:
    """How the head of a part of the source will move: the higher of the present rate and that of the same hour of the
    day that is known. `live`: the rate of the part, `whole_live`: that of all lanes.
    """
    if not question.is_moving or not question.hourly or whole_live <= 0:
        return ()
    share = live / whole_live
    passed, in_hour_s = divmod(max(0.0, question.hourly_age_s), _HOUR_S)
    hour = int(passed) % len(question.hourly)
    return live_profile(live, [rate * share for rate in question.hourly], hour, _HOUR_S - in_hour_s)


def hours_of(lanes: Sequence[LaneWork], hourly: Sequence[float], source_live: float) -> tuple[float, ...]:
    """The part of these lanes in `hourly`, which is of the whole source, where `source_live` records/s arrive now."""
    live = math.fsum(lane.live for lane in lanes)
    part = min(1.0, live / source_live) if source_live > 0 else 1.0
    return tuple(rate * part for rate in hourly)


def _with_worst(whole: Forecast, parts: Forecast) -> Forecast:
    """The job's forecast, completed by what only partitions show: which one is slowest, and which one loses the race
    with retention.
    """
    reasons = [r for r in parts.reasons if r.outlook is Outlook.RETENTION_LOSS]
    reasons += [r for r in whole.reasons if not (reasons and r.outlook is Outlook.OK)]
    return replace(
        whole,
        outlook=reasons[0].outlook,
        outlooks=tuple(r.outlook for r in reasons),
        why=reasons[0].why,
        suggestion=reasons[0].suggestion,
        reasons=tuple(reasons),
        seconds=max(whole.seconds, parts.seconds),
        seconds_lo=max(whole.seconds_lo, 0.0),
        seconds_hi=max(whole.seconds_hi, parts.seconds),
        loss_in_s=parts.loss_in_s,
        lost_data_s=parts.lost_data_s,
        partition=parts.partition,
    )


def _slack_s(retention: Retention) -> float:
    by_size = retention.margin / retention.advance if retention.advance > 0 else math.inf
    return min(retention.slack_s, by_size)


def lanes_of(
    rows: Sequence[Stretch], lanes: Sequence[Sequence[int]], replay: Sequence[float], sigma: float
) -> tuple[LaneWork, ...]:
    """The lanes with the stretches that each one reads. `replay`: rate of each lane; `sigma`: its relative error."""
    by_partition = {row.partition: row for row in rows}
    return tuple(
        LaneWork(tuple(by_partition[p] for p in members if p in by_partition), rate, sigma * rate)
        for members, rate in zip(lanes, replay, strict=True)
    )
