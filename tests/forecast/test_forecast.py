"""Forecasts beyond the vectors: intervals, profiles, skew, retention in event time, suggestions, hysteresis, cost."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd.forecast.completion import (
    ForecastRates,
    PartitionForecast,
    Work,
    duration_s,
    forecast,
    forecast_job,
    required_rate,
)
from recoveryd.forecast.cost import Cost, Prices, Usage, estimate_cost
from recoveryd.forecast.estimate import CountSample, RateEstimate, estimate_rate
from recoveryd.forecast.live_profile import catch_up_s, live_profile
from recoveryd.forecast.outlook import Outlook
from recoveryd.forecast.retention import Retention, beating_rate, loss_in_s
from recoveryd.forecast.track import ForecastTrack

V = Outlook
MOVING = Work(backlog=1_000_000, window_s=1_000, is_moving=True)
PINNED = Work(backlog=1_000_000, window_s=1_000, is_moving=False)
LONG = replace(MOVING, backlog=4_000_000, window_s=4_000)
AT_ONCE = Work(backlog=320_000, window_s=0.3, is_moving=False)


def test_the_interval_takes_the_worse_of_both_rates() -> None:
    found = forecast(MOVING, ForecastRates(11_000, 1_000, replay_sigma=1_000, live_sigma=100))
    assert (found.seconds, found.seconds_lo, found.seconds_hi) == (
        100,
        pytest.approx(1e6 / (12_000 - 900)),
        pytest.approx(1e6 / (10_000 - 1_100)),
    )


def test_an_interval_without_end_is_marginal_at_best() -> None:
    found = forecast(MOVING, ForecastRates(11_000, 1_000, replay_sigma=10_000))
    assert (found.seconds_hi, found.outlook) == (math.inf, V.MARGINAL)


def test_what_arrives_during_the_start_is_copied_too() -> None:
    work = Work(backlog=1_000_000, window_s=1_000, is_moving=True, startup_s=100)
    assert duration_s(work, 11_000, 1_000) == 100 + (1_000_000 + 100_000) / 10_000
    assert required_rate(work, 500, 1_000) == 2_000 + 1_000 + 200


def test_a_short_copy_says_how_long_it_takes_instead_of_how_its_records_came_in() -> None:
    assert forecast(AT_ONCE, ForecastRates(40_000)).why == "it takes 8 s"


@pytest.mark.parametrize(
    ("work", "rates", "retention", "deadline_s", "outlooks"),
    [
        (MOVING, ForecastRates(6_000, 1_000), None, None, (V.OK,)),
        (LONG, ForecastRates(4_000, 1_000), None, None, (V.MARGINAL,)),
        (MOVING, ForecastRates(2_000, 1_000), None, None, (V.IMPRACTICAL_SLOW,)),
        (MOVING, ForecastRates(1_050, 1_000), None, None, (V.IMPRACTICAL_NEVER, V.IMPRACTICAL_SLOW)),
        (PINNED, ForecastRates(1_050, 5_000), None, None, (V.IMPRACTICAL_SLOW,)),
        (PINNED, ForecastRates(10_000, 0), None, 99.0, (V.DEADLINE_MISS,)),
        (PINNED, ForecastRates(10_000, 0), None, 101.0, (V.OK,)),
        (PINNED, ForecastRates(10_000, 0), Retention(margin=100_000, advance=11_001), None, (V.RETENTION_LOSS,)),
        (PINNED, ForecastRates(10_000, 0), Retention(margin=100_000, advance=10_999), None, (V.OK,)),
        (Work(0, 0, is_moving=True), ForecastRates(0, 5), None, 0.0, (V.OK,)),
        (AT_ONCE, ForecastRates(40_000, 0), None, None, (V.OK,)),
        (AT_ONCE, ForecastRates(40_000, 0, replay_sigma=39_900), None, None, (V.IMPRACTICAL_SLOW,)),
        (AT_ONCE, ForecastRates(40_000, 0), None, 5.0, (V.DEADLINE_MISS,)),
        (AT_ONCE, ForecastRates(40_000, 0), Retention(margin=0, advance=50_000), None, (V.RETENTION_LOSS,)),
        (replace(AT_ONCE, is_moving=True), ForecastRates(40_000, 39_000), None, None, (V.IMPRACTICAL_NEVER,)),
    ],
)
def test_verdicts_in_order_of_severity(
    work: Work,
    rates: ForecastRates,
    retention: Retention | None,
    deadline_s: float | None,
    outlooks: tuple[Outlook, ...],
) -> None:
    assert forecast(work, rates, retention, deadline_s).outlooks == outlooks


@pytest.mark.scenario("S-CASTLE-8")
def test_a_suggestion_names_rate_lanes_and_the_window_that_fits() -> None:
    work = Work(backlog=345_600 * 10_000, window_s=345_600, is_moving=True, lanes=2)
    found = forecast(work, ForecastRates(20_000, 10_000))
    assert found.why == "at 2.00 times real time it takes 4.0 d, 1.00 times the window of 4.0 d"
    assert found.suggestion == (
        "more than 20,000/s (2 lanes instead of 2) is needed; a window of 24.0 h fits into 24.0 h"
    )


def test_a_job_is_as_slow_as_its_slowest_partition_not_sum_over_sum() -> None:
    parts = [
        PartitionForecast(0, Work(1_000_000, 1_000, is_moving=False), ForecastRates(10_000)),
        PartitionForecast(1, Work(9_000_000, 1_000, is_moving=False), ForecastRates(10_000)),
    ]
    job = forecast_job(parts)
    assert job is not None
    assert (job.seconds, job.partition, job.outlook) == (900, 1, V.IMPRACTICAL_SLOW)
    assert forecast_job([]) is None


def test_the_worst_verdict_of_any_partition_is_the_jobs() -> None:
    slow = PartitionForecast(0, Work(9_000_000, 9_000, is_moving=False), ForecastRates(10_000))
    racing = PartitionForecast(
        1, Work(1_000_000, 1_000, is_moving=False), ForecastRates(10_000), Retention(margin=1, advance=2e4)
    )
    job = forecast_job([slow, racing])
    assert job is not None
    assert (job.seconds, job.outlook, job.loss_in_s) == (900, V.RETENTION_LOSS, pytest.approx(1e-4))


@pytest.mark.parametrize(
    ("speed_up", "startup_s", "loss_s"), [(2.0, 50, math.inf), (0.5, 0, 200), (0.5, 50, 150), (2.0, 150, 100)]
)
def test_in_event_time_the_danger_is_the_start_and_a_replay_slower_than_real_time(
    speed_up: float, startup_s: float, loss_s: float
) -> None:
    retention = Retention(retention_s=1_000, age_s=900, startup_s=startup_s)
    assert loss_in_s(retention, 1.0, speed_up) == loss_s


@pytest.mark.parametrize(
    ("retention", "needed"),
    [
        (Retention(), 0.0),  # kept for ever
        (
            Retention(retention_s=1_100, age_s=1_000),
            10.0,
        ),  # 1,000 s of records, 100 s left: the last one is deleted in 1,100 s
        (Retention(retention_s=1_100, age_s=1_000, startup_s=100), 11.0),
        (Retention(retention_s=1_000, age_s=1_050), math.inf),  # the first is gone
        (Retention(margin=1_000, advance=36), 33.0),  # 12,000 records may come in until the last is deleted
        (Retention(margin=5, advance=0), 0.0),
        (Retention(margin=-1, advance=1), math.inf),
    ],
)
def test_the_lowest_rate_that_beats_retention(retention: Retention, needed: float) -> None:
    assert beating_rate(retention, 11_000, 1_000, 5, is_moving=False) == pytest.approx(needed)


def test_behind_a_moving_head_live_traffic_must_be_beaten_as_well() -> None:
    tight = Retention(retention_s=1_100, age_s=1_000)
    assert beating_rate(tight, 11_000, 1_000, 25, is_moving=True) == 25
    assert beating_rate(Retention(), 11_000, 1_000, 25, is_moving=True) == 0
    assert beating_rate(tight, 0, 1_000, 25, is_moving=True) == 0


def test_a_profile_steps_the_head_forward_hour_by_hour() -> None:
    profile = live_profile(100.0, [50.0, 400.0, 80.0], hour=0, left_in_hour_s=1_800)
    assert profile == ((1_800, 100), (3_600, 400), (3_600, 100), (1_800, 100))
    assert catch_up_s(200 * 1_800, 300, profile) == 1_800
    assert catch_up_s(200 * 1_800 + 1, 300, profile) == pytest.approx(1_800 + 3_600 + (1 + 100 * 3_600) / 200)
    assert catch_up_s(1e12, 100, profile) == math.inf
    assert live_profile(7.0, [], 0, 0) == ((3_600, 7),)


@settings(deadline=None)
@given(st.floats(1, 1e9), st.floats(1, 1e4), st.floats(0, 1e4))
def test_a_flat_profile_is_the_plain_formula(backlog: float, replay: float, live: float) -> None:
    plain = backlog / (replay - live) if replay > live else math.inf
    assert catch_up_s(backlog, replay, ((3_600, live),)) == pytest.approx(plain, rel=1e-6)


def test_no_rate_from_fewer_than_three_samples() -> None:
    assert estimate_rate([CountSample(0, 0), CountSample(1, 10)]) is None
    assert estimate_rate([CountSample(0, 0)] * 9) is None
    assert estimate_rate([CountSample(0, 0), CountSample(1, math.nan), CountSample(2, 4)]) is None


def test_a_straight_line_is_found_exactly_and_only_the_newest_twenty_count() -> None:
    line = [CountSample(i, 7.0 * i) for i in range(10)]
    assert estimate_rate(line) == RateEstimate(pytest.approx(7), pytest.approx(0, abs=1e-9), 10)
    bent = [*[CountSample(i, 0) for i in range(50)], *[CountSample(50 + i, 3.0 * i) for i in range(20)]]
    assert estimate_rate(bent) == RateEstimate(pytest.approx(3), pytest.approx(0, abs=1e-9), 20)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=30))
def test_no_samples_raise(found: list[tuple[float, float]]) -> None:
    estimate_rate([CountSample(at, total) for at, total in found if abs(at) < 1e9 and abs(total) < 1e15])


def test_a_verdict_changes_only_after_two_evaluations_in_a_row() -> None:
    track, found = ForecastTrack(), []
    for i, outlook in enumerate([V.OK, V.MARGINAL, V.OK, V.MARGINAL, V.DEADLINE_MISS, V.MARGINAL, V.MARGINAL]):
        track = track.with_outlook(outlook, i * 60_000)
        found.append(track.outlook)
    assert found == [V.OK, V.OK, V.OK, V.OK, V.OK, V.OK, V.MARGINAL]
    assert [track.is_due(6 * 60_000 + ms) for ms in (59_999, 60_000)] == [False, True]


def test_cost_is_executors_links_copies_and_disks() -> None:
    usage = Usage(4, 3_600, 1e12, 1e12, replication_factor=3, cross_share=0.5, kept_bytes=3e12, kept_s=86_400, slo_s=60)
    prices = Prices(executor_s=1e-4, network_byte=1e-11, storage_byte_s=1e-17, slo_s=0.5)
    cost = estimate_cost(usage, prices)
    assert cost == Cost(pytest.approx(1.44), pytest.approx(5.0), pytest.approx(20.0), pytest.approx(2.592), 30.0)
    assert cost.total == pytest.approx(59.032)
