"""Pressure is 0 at rest, 1 at the SLO, linear in utilisation between; baselines are medians of calm."""

import pytest

from recoveryd.live.freshness import Track
from recoveryd.live.pressure import (
    Pressure,
    Protection,
    SignalKind,
    baseline_s,
    growth,
    lag_pressure,
    latency_pressure,
    measure_pressure,
    with_baseline_sample,
)


@pytest.mark.parametrize(("utilisation", "z"), [(0.4, 0.0), (0.68, 0.5), (0.96, 1.0), (0.3, 0.0)])
def test_latency_pressure_is_linear_in_the_utilisation_of_a_queue(utilisation: float, z: float) -> None:
    assert latency_pressure(0.008 / (1 - utilisation), 0.008 / 0.6, 0.2) == pytest.approx(z)


@pytest.mark.parametrize(
    ("lag_s", "slope", "z"), [(5, 0, 0), (17.5, 0, 0.5), (30, 0, 1), (17.5, 0.14, 0.5), (5, 1.0, 1.0), (0, 0, 0)]
)
def test_lag_pressure_looks_one_loop_ahead_when_the_lag_grows(lag_s: float, slope: float, z: float) -> None:
    assert lag_pressure(lag_s, slope, 25.0, 5.0, 30.0) == pytest.approx(z)


def test_growth_needs_six_samples() -> None:
    times = tuple(range(0, 30_000, 5_000))
    assert growth(times, (0.0, 2.5, 5.0, 7.5, 10.0, 12.5)) == pytest.approx(0.5)
    assert growth(times[:5], (0.0, 2.5, 5.0, 7.5, 10.0)) == 0.0


def test_a_baseline_is_the_median_of_twelve_or_more_and_at_most_half_of_the_slo() -> None:
    samples: tuple[float, ...] = ()
    for i in range(11):
        samples = with_baseline_sample(samples, 0.01 + i / 1_000)
    assert baseline_s(samples, 0.2) is None
    assert baseline_s(with_baseline_sample(samples, 9.0), 0.2) == pytest.approx(0.0155)
    for _ in range(200):
        samples = with_baseline_sample(samples, 0.19)
    assert (len(samples), baseline_s(samples, 0.2)) == (36, 0.1)


def test_the_worse_of_the_last_two_latencies_counts_and_only_samples_since_the_cut() -> None:
    protection = Protection("p99", SignalKind.LATENCY, 0.2)
    track = Track((1_000, 2_000, 3_000), (0.4, 0.1, 0.02), (0, 0, 0))
    both = measure_pressure(protection, track, 1_000, 0.0125, 25.0, 4_000)
    one = measure_pressure(protection, track, 2_000, 0.0125, 25.0, 4_000)
    assert both == Pressure("p99", pytest.approx(70 / 75), pytest.approx(0.5), 0.1, 1_000)
    assert one == Pressure("p99", pytest.approx(30 / 75), pytest.approx(0.1), 0.02, 1_000)
    assert measure_pressure(protection, track, 3_000, 0.0125, 25.0, 4_000) is None
    assert measure_pressure(protection, track, 0, None, 25.0, 4_000) is None
