"""Pressure is a share of the SLO, strain 0 at rest and 1 at the SLO; baselines are medians of calm."""

import pytest

from recoveryd.live.freshness import Track
from recoveryd.live.pressure import (
    Pressure,
    Protection,
    SignalKind,
    baseline_s,
    growth,
    lag_strain,
    latency_strain,
    measure_pressure,
    peak_count,
    target_share,
    with_baseline_sample,
)

REST = 0.0125 / 0.2


@pytest.mark.parametrize(
    ("share", "rest", "strain"),
    [(1.0, 0.02, 1.0), (0.02, 0.02, 0.0), (0.01, 0.02, 0.0), (4.0, 0.25, 1.5), (4 / 9, 0.25, 0.5), (0.0, 0.5, 0.0)],
)
def test_strain_is_zero_at_rest_and_one_at_the_slo_and_grows_most_near_rest(
    share: float, rest: float, strain: float
) -> None:
    assert latency_strain(share, rest) == pytest.approx(strain)


@pytest.mark.parametrize(("rest", "share"), [(0.0, 0.6), (0.4, 0.6), (0.5, 0.65), (0.8, 0.86)])
def test_the_target_lies_above_a_rest_that_is_near_the_slo(rest: float, share: float) -> None:
    assert target_share(0.6, rest) == pytest.approx(share)


@pytest.mark.parametrize(
    ("lag_s", "slope", "z"), [(5, 0, 0), (17.5, 0, 0.5), (30, 0, 1), (17.5, 0.14, 0.5), (5, 1.0, 1.0), (0, 0, 0)]
)
def test_lag_strain_looks_one_loop_ahead_when_the_lag_grows(lag_s: float, slope: float, z: float) -> None:
    assert lag_strain(lag_s, slope, 25.0, 5.0, 30.0) == pytest.approx(z)


def test_growth_needs_six_samples() -> None:
    times = tuple(range(0, 30_000, 5_000))
    assert growth(times, (0.0, 2.5, 5.0, 7.5, 10.0, 12.5)) == pytest.approx(0.5)
    assert growth(times[:5], (0.0, 2.5, 5.0, 7.5, 10.0)) == 0.0


def test_a_baseline_is_the_median_of_six_or_more_and_leaves_room_below_the_slo() -> None:
    samples: tuple[float, ...] = ()
    for i in range(5):
        samples = with_baseline_sample(samples, 0.01 + i / 1_000)
    assert baseline_s(samples, 0.2) is None
    assert baseline_s(with_baseline_sample(samples, 9.0), 0.2) == pytest.approx(0.0125)
    for _ in range(200):
        samples = with_baseline_sample(samples, 0.19)
    assert (len(samples), baseline_s(samples, 0.2)) == (36, pytest.approx(0.16))


def test_pressure_is_of_the_newest_sample_and_strain_of_the_worst_of_three_and_only_samples_since_the_cut_count() -> (
    None
):
    protection = Protection("p99", SignalKind.LATENCY, 0.2)
    track = Track((1_000, 2_000, 3_000), (0.4, 0.1, 0.02), (0, 0, 0))
    both = measure_pressure(protection, track, 1_000, 0.0125, 25.0, 4_000)
    one = measure_pressure(protection, track, 2_000, 0.0125, 25.0, 4_000)
    assert both is not None
    assert one is not None
    worse, newest, aim = (latency_strain(share, REST) for share in (0.5, 0.1, 0.6))
    assert both == Pressure(
        "p99",
        SignalKind.LATENCY,
        pytest.approx(0.1),
        worse,
        pytest.approx(aim - worse),
        0.02,
        1_000,
        pytest.approx(aim - worse),
        slo_s=0.2,
        most_share=0.5,
    )
    assert (one.share, one.strain, one.room) == (pytest.approx(0.1), pytest.approx(newest), pytest.approx(aim - newest))
    assert measure_pressure(protection, track, 3_000, 0.0125, 25.0, 4_000) is None
    assert measure_pressure(protection, track, 0, None, 25.0, 4_000) is None


def test_room_is_by_the_upper_quartile_of_what_counts_and_room_to_lower_by_the_median_of_three() -> None:
    protection = Protection("p99", SignalKind.LATENCY, 0.2)
    track = Track((1_000, 2_000, 3_000, 4_000), (0.15, 0.02, 0.1, 0.05), (0,) * 4)
    found = measure_pressure(protection, track, -1, 0.0125, 25.0, 5_000, count=4)
    assert found is not None
    upper, middle, aim = (latency_strain(share, REST) for share in (0.5, 0.25, 0.6))
    assert (found.room, found.level_room) == (pytest.approx(aim - upper), pytest.approx(aim - middle))


def test_what_is_used_at_most_is_of_the_newest_and_the_worst_and_of_a_lag_where_it_will_be() -> None:
    latency, lag = Protection("p99", SignalKind.LATENCY, 0.2), Protection("shop", SignalKind.LAG, 100.0)
    times_ms = tuple(range(5_000, 35_000, 5_000))
    falls = Track(times_ms, (0.09, 0.09, 0.016, 0.09, 0.09, 0.016), (0,) * 6)
    rises = Track(times_ms, (0.016, 0.016, 0.016, 0.016, 0.016, 0.09), (0,) * 6)
    grows = Track(times_ms, (0.0, 2.0, 4.0, 6.0, 8.0, 10.0), (0,) * 6)
    found = [
        measure_pressure(protection, track, -1, 0.0125, 25.0, 35_000, count=6)
        for protection, track in ((latency, falls), (latency, rises), (lag, grows))
    ]
    assert [p and p.most_share for p in found] == pytest.approx([0.45, 0.45, 0.2])


@pytest.mark.parametrize(("since_ms", "count"), [(-1, 6), (2_000, 4), (4_500, 3), (6_000, 3)])
def test_samples_taken_after_a_moment_count_and_three_always_do(since_ms: int, count: int) -> None:
    assert peak_count((1_000, 2_000, 3_000, 4_000, 5_000, 6_000), since_ms) == count


@pytest.mark.parametrize(("value_s", "room"), [(1.0, 0.5), (2.5, 0.5), (2.75, 0.25), (3.0, 0.0), (4.0, -0.4)])
def test_a_lag_at_rest_leaves_half_of_its_scale_however_near_its_target_is_to_rest(value_s: float, room: float) -> None:
    """With a commit interval of 2.5 s and an SLO of 5 s the target of 3 s is a fifth of the way to the SLO."""
    protection = Protection("board", SignalKind.LAG, 5.0, idle_s=2.5)
    found = measure_pressure(protection, Track((1_000,), (value_s,), (0,)), -1, None, 10.0, 1_000)
    assert found is not None
    assert (found.room, found.level_room) == (pytest.approx(room), pytest.approx(room))


def test_a_latency_far_below_its_slo_is_not_strained_however_little_it_is_at_rest() -> None:
    protection = Protection("p99", SignalKind.LATENCY, 0.2)
    track = Track((1_000, 2_000, 3_000), (0.012,) * 3, (0,) * 3)
    found = measure_pressure(protection, track, -1, 0.000_2, 25.0, 4_000)
    assert found is not None
    assert (found.strain, found.is_far) == (pytest.approx(0.0, abs=1e-9), True)


@pytest.mark.parametrize(
    ("values", "is_calm"),
    [
        ((0.02, 0.15, 0.02), True),
        ((0.15, 0.15, 0.02, 0.15, 0.02), True),  # the last three count
        ((0.02, 0.05, 0.15), False),
        ((0.02, 0.02), True),  # whatever the third is, it is not the middle
        ((0.02, 0.15), False),
        ((0.02,), False),
        ((0.3, 0.02, 0.3), False),  # those over the SLO count
    ],
)
def test_a_latency_is_calm_when_the_median_of_three_is_well_below_its_target(
    values: tuple[float, ...], is_calm: bool
) -> None:
    track = Track(tuple(range(1_000, 1_000 + len(values))), values, (0,) * len(values))
    found = measure_pressure(Protection("p99", SignalKind.LATENCY, 0.2), track, -1, 0.0125, 25.0, 5_000)
    assert found is not None
    assert found.is_calm is is_calm


def test_a_growing_lag_strains_before_it_is_at_its_slo_and_its_pressure_is_what_it_is() -> None:
    protection = Protection("board", SignalKind.LAG, 30.0)
    times = tuple(range(0, 30_000, 5_000))
    found = measure_pressure(
        protection, Track(times, (0.0, 4.0, 8.0, 12.0, 16.0, 20.0), (0,) * 6), -1, None, 25.0, 30_000
    )
    assert found is not None
    assert (found.share, found.strain) == (pytest.approx(2 / 3), pytest.approx(1.4))
    assert found.room < 0
