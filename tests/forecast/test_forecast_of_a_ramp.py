"""The rate that a moving grant lets expect."""

import math

import pytest

from recoveryd.forecast.ramp import GrantedSample, RampRate, has_moved, ramp_rate


def samples(*granted: float, used: float = 1.0) -> list[GrantedSample]:
    """One each ten seconds; in between, `used` of the grant at its start was copied."""
    found, total = [], 0.0
    for number, rate in enumerate(granted):
        found.append(GrantedSample(10.0 * number, total, rate))
        total += 10 * rate * used
    return found


def test_a_grant_that_stays_is_no_ramp() -> None:
    assert not has_moved(samples(10, 10.5, 10))
    assert has_moved(samples(10, 20, 20))
    assert not has_moved([])


def test_after_the_climb_the_present_grant_counts_and_not_the_way_there() -> None:
    assert ramp_rate(samples(1, 8, 30, 30, 30), 1e6, None, 100) == RampRate(30, 30, 30)


def test_a_climb_goes_on_to_the_last_safe_rate() -> None:
    found = ramp_rate(samples(5, 10, 20), 1e9, 60, 1_000)
    assert found is not None
    assert found.per_s == pytest.approx(60, rel=0.01)
    assert found.slow == pytest.approx(7.5), "nothing grows any more"
    assert found.fast == pytest.approx(1_000, rel=0.01)


def test_a_climb_to_nobody_knows_where_ends_in_the_middle_of_grant_and_limit() -> None:
    found = ramp_rate(samples(5, 10, 20), 1e9, None, 320)
    assert found is not None
    assert found.per_s == pytest.approx(80, rel=0.01)


def test_no_forecast_goes_beyond_the_limit() -> None:
    found = ramp_rate(samples(5, 10, 20), 1e9, 500, 30)
    assert found is not None
    assert found.fast == pytest.approx(30, rel=0.01)
    assert found.per_s <= 30


def test_a_copy_that_ends_within_the_climb_is_not_forecast_at_its_end() -> None:
    found = ramp_rate(samples(5, 10, 20), 400, 1_000, 1_000)
    assert found is not None
    seconds = 400 / found.per_s
    doubled_s = 10.0
    assert 20 * doubled_s / math.log(2) * (2 ** (seconds / doubled_s) - 1) == pytest.approx(400)


def test_lanes_that_do_not_use_their_grant_are_as_fast_as_they_are() -> None:
    assert ramp_rate(samples(20, 40, 80, used=0.3), 1e6, None, 1_000) == RampRate(9, 9, 9)
    part = ramp_rate(samples(40, 20, 20, used=0.8), 1e6, None, 1_000)
    assert part is not None
    assert part.per_s == pytest.approx(16)


def test_a_cut_counts_at_once_and_nothing_grows() -> None:
    found = ramp_rate(samples(100, 100, 10), 1e6, 100, 1_000)
    assert found is not None
    assert (found.per_s, found.slow, found.fast) == (10, 10, 10)


@pytest.mark.parametrize("rows", [samples(1, 2), samples(1, 0, 2), samples(1, 2, 4, used=0.0)])
def test_nothing_is_made_up_from_too_little(rows: list[GrantedSample]) -> None:
    assert ramp_rate(rows, 100, None, 100) is None
