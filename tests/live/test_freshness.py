"""Readings that cannot be true are refused and counted; the loop delay is measured from those that were taken."""

import math

import pytest

from recoveryd.live.freshness import FreshnessParams, Reading, RejectReason, Track, counted, loop_delay_ms, with_reading

NOW_MS = 1_800_000_000_000
PARAMS = FreshnessParams()


@pytest.mark.parametrize(
    ("value", "at_ms", "reason"),
    [
        (math.nan, NOW_MS, RejectReason.NOT_A_NUMBER),
        (math.inf, NOW_MS, RejectReason.NOT_A_NUMBER),
        (-0.001, NOW_MS, RejectReason.NEGATIVE),
        (1.0, NOW_MS + 2_001, RejectReason.FUTURE),
        (1.0, NOW_MS - 300_001, RejectReason.TOO_OLD),
        (1.0, NOW_MS - 5_000, RejectReason.OUT_OF_ORDER),
        (1.0, NOW_MS - 4_999, None),
        (0.0, NOW_MS + 2_000, None),
    ],
)
def test_a_reading_is_taken_or_refused_with_its_reason(value: float, at_ms: int, reason: RejectReason | None) -> None:
    track = Track((NOW_MS - 5_000,), (0.5,), (0,))
    after, refused = with_reading(track, Reading("p99", value, at_ms), NOW_MS, PARAMS)
    assert refused is reason
    assert len(after.values) == (2 if reason is None else 1)


def test_reasons_are_counted() -> None:
    counts = counted({RejectReason.FUTURE: 2}, [RejectReason.FUTURE, RejectReason.NEGATIVE])
    assert counts == {RejectReason.FUTURE: 3, RejectReason.NEGATIVE: 1}


def track(period_ms: int, age_ms: int, samples: int = 20) -> Track:
    times = tuple(NOW_MS + i * period_ms for i in range(samples))
    return Track(times, (1.0,) * samples, (age_ms,) * samples)


@pytest.mark.parametrize(
    ("tracks", "delay_ms"),
    [
        ([track(5_000, 15_000)], 25_000),
        ([track(5_000, 2_000)], 12_000),
        ([track(15_000, 15_000)], 35_000),
        ([track(5_000, 2_000), track(5_000, 15_000)], 25_000),
        ([track(5_000, 15_000, samples=11)], 31_000),
        ([track(5_000, 2_000), Track()], 31_000),
        ([track(5_000, 500_000)], 120_000),
        ([track(1_000, 0)], 31_000),
        ([], 31_000),
    ],
)
def test_the_loop_delay_is_measured_from_the_worst_signal(tracks: list[Track], delay_ms: int) -> None:
    assert loop_delay_ms(tracks, 5_000, 5_000, 31_000) == delay_ms
