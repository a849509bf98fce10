"""Known cases of the forecast: four days of reprocessing at given rates, and what follows from them."""

import math

import pytest

from recoveryd.forecast.completion import ForecastRates, Work, duration_s, forecast, required_rate
from recoveryd.forecast.estimate import contended_rate
from recoveryd.forecast.outlook import Outlook
from recoveryd.forecast.retention import Retention, loss_in_s

DAY_S = 86_400.0
LIVE = 10_000.0


def days(n: float, *, is_moving: bool) -> Work:
    return Work(backlog=n * DAY_S * LIVE, window_s=n * DAY_S, is_moving=is_moving)


def test_a_producer_beside_the_replay_takes_a_fifth_of_250_mb_per_s() -> None:
    assert contended_rate(250e6) == 200e6
    assert contended_rate(2.6e6) == pytest.approx(2.08e6)
    assert contended_rate(250e6) / 100 == 2.0e6  # records of 100 bytes


def test_two_million_against_ten_thousand_per_s_is_two_hundred_times_real_time() -> None:
    assert forecast(days(4, is_moving=True), ForecastRates(2e6, LIVE)).speed_up == pytest.approx(200)


def test_four_days_take_29_minutes_to_a_pinned_end_and_half_a_percent_more_behind_a_moving_head() -> None:
    work = days(4, is_moving=False)
    assert work.backlog == 3.456e9
    assert duration_s(work, 2e6, LIVE) == 1_728.0
    moving = forecast(days(4, is_moving=True), ForecastRates(2e6, LIVE))
    assert moving.seconds == pytest.approx(1_736.7, abs=0.05)
    assert moving.extra_share == pytest.approx(0.00503, abs=1e-5)
    assert moving.processed == pytest.approx(3.456e9 * 1.00503, rel=1e-5)
    assert moving.outlook is Outlook.OK


@pytest.mark.parametrize(("n", "seconds"), [(1, 432), (7, 3_024), (30, 12_960)])
def test_a_pinned_window_of_days_takes(n: int, seconds: float) -> None:
    assert duration_s(days(n, is_moving=False), 2e6, LIVE) == seconds


@pytest.mark.parametrize(
    ("replay", "is_moving", "seconds", "outlook"),
    [
        (20_000, True, 345_600, Outlook.IMPRACTICAL_SLOW),
        (11_000, True, 3.456e6, Outlook.IMPRACTICAL_SLOW),
        (10_000, True, math.inf, Outlook.IMPRACTICAL_NEVER),
        (9_000, True, math.inf, Outlook.IMPRACTICAL_NEVER),
        (10_000, False, 345_600, Outlook.IMPRACTICAL_SLOW),
        (9_000, False, 384_000, Outlook.IMPRACTICAL_SLOW),
    ],
)
def test_four_days_at_a_slow_rate(replay: float, is_moving: bool, seconds: float, outlook: Outlook) -> None:
    found = forecast(days(4, is_moving=is_moving), ForecastRates(replay, LIVE))
    assert (found.seconds, found.outlook) == (pytest.approx(seconds), outlook)


def test_a_pinned_end_slower_than_real_time_says_that_a_new_backlog_will_have_formed() -> None:
    assert "a new backlog as long as the window" in forecast(days(4, is_moving=False), ForecastRates(9_000, LIVE)).why
    assert "a new backlog" not in forecast(days(4, is_moving=False), ForecastRates(12_000, LIVE)).why


@pytest.mark.parametrize(("hours", "rate"), [(1, 970_000), (24, 50_000)])
def test_a_deadline_needs_the_backlog_over_it_and_the_live_rate(hours: float, rate: float) -> None:
    assert required_rate(days(4, is_moving=True), hours * 3_600, LIVE) == rate


def test_a_log_start_that_is_faster_than_the_replay_catches_it() -> None:
    assert loss_in_s(Retention(margin=1e9, advance=LIVE), 5_000) == 200_000


def test_a_slow_start_loses_the_oldest_data_before_the_first_record() -> None:
    retention = Retention(retention_s=4 * DAY_S, age_s=4 * DAY_S - 60, startup_s=90)
    found = forecast(days(4, is_moving=False), ForecastRates(2e6, LIVE), retention)
    assert (found.outlook, found.lost_data_s, found.loss_in_s) == (Outlook.RETENTION_LOSS, 30, 60)
    assert found.why == "retention deletes 30 s of data before the job has started"
    quick = forecast(Work(1_000, 100, is_moving=False), ForecastRates(1_000, 0), retention)
    assert quick.outlook is Outlook.RETENTION_LOSS, "also when the copy itself would be done before"
