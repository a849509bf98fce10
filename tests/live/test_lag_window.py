"""Which samples a window takes and refuses, and how times are found in the table of log ends."""

import math
from array import array
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd.live.freshness import RejectReason
from recoveryd.live.lag.age import time_lag
from recoveryd.live.lag.evaluate import evaluate_partition
from recoveryd.live.lag.verdicts import LagVerdict
from recoveryd.live.lag.window import LagParams, LagSample, Window, with_sample

NOW_MS = 1_800_000_000_000
PARAMS = LagParams()


def look(position: int | None, end: int | None, at_ms: int = NOW_MS, **more: object) -> LagSample:
    return LagSample(position, at_ms, end, at_ms, **more)  # type: ignore[arg-type]


ONE = with_sample(Window(), look(10, 100), NOW_MS, PARAMS)


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (look(math.nan, 100, NOW_MS + 1), RejectReason.NOT_A_NUMBER),  # type: ignore[arg-type]
        (look(10, math.inf, NOW_MS + 1), RejectReason.NOT_A_NUMBER),  # type: ignore[arg-type]
        (look(10, 2**63, NOW_MS + 1), RejectReason.NOT_A_NUMBER),
        (look(-2, 100, NOW_MS + 1), RejectReason.NEGATIVE),
        (look(10, -1, NOW_MS + 1), RejectReason.NEGATIVE),
        (look(10, 100, NOW_MS + 1, log_start=-5), RejectReason.NEGATIVE),
        (look(10, 100, NOW_MS + 1, last_stable=-1), RejectReason.NEGATIVE),
        (look(10, 100, NOW_MS + 2_001), RejectReason.FUTURE),
        (LagSample(10, NOW_MS + 1, 100, NOW_MS + 60_000), RejectReason.FUTURE),
        (look(10, 100, math.nan), RejectReason.FUTURE),  # type: ignore[arg-type]
        (look(10, 100, NOW_MS - 300_001), RejectReason.TOO_OLD),
        (look(10, 100, NOW_MS), RejectReason.OUT_OF_ORDER),
        (look(10, 100, NOW_MS - 1), RejectReason.OUT_OF_ORDER),
        (LagSample(10, NOW_MS + 1, 100, NOW_MS - 1), RejectReason.OUT_OF_ORDER),
        (look(10, 99, NOW_MS + 1), RejectReason.END_DECREASED),
    ],
)
def test_a_sample_that_cannot_be_true_is_refused_and_counted(sample: LagSample, reason: RejectReason) -> None:
    after = with_sample(ONE, sample, NOW_MS, PARAMS)
    assert after.rejections == {reason: 1}
    assert (after.positions, after.ends) == (ONE.positions, ONE.ends)


def test_a_refused_sample_alone_leaves_the_partition_unknown() -> None:
    window = with_sample(Window(), look(-7, 100), NOW_MS, PARAMS)
    assert evaluate_partition(0, window, NOW_MS, PARAMS).verdict is LagVerdict.UNKNOWN


def test_a_glitch_of_the_end_is_forgiven_once_the_old_end_is_back() -> None:
    window = with_sample(ONE, look(10, 50, NOW_MS + 5_000), NOW_MS + 5_000, PARAMS)
    assert evaluate_partition(0, window, NOW_MS + 5_000, PARAMS).verdict is LagVerdict.INVALID
    window = with_sample(window, look(10, 110, NOW_MS + 10_000), NOW_MS + 10_000, PARAMS)
    assert (window.mark, list(window.ends)) == (None, [100, 110])


def test_an_end_that_stays_low_is_a_truncated_log_and_is_believed_only_when_the_new_window_is_half_full() -> None:
    window, found = ONE, []
    for i in range(1, 9):
        at_ms = NOW_MS + i * 5_000
        window = with_sample(window, look(40, 50, at_ms), at_ms, PARAMS)
        found.append(evaluate_partition(0, window, at_ms, PARAMS).verdict)
    assert found == [LagVerdict.INVALID] * 6 + [LagVerdict.STALLED] * 2
    assert window.rejections == {RejectReason.END_DECREASED: 3}


def test_commits_closer_than_a_slot_keep_the_older_time() -> None:
    window = with_sample(ONE, look(20, 100, NOW_MS + 400), NOW_MS + 400, PARAMS)
    assert (window.times_ms, window.positions, window.lags) == ((NOW_MS,), (20,), (80,))


def test_flat_runs_of_the_log_end_take_two_points() -> None:
    window = Window()
    for i, end in enumerate([100, 100, 100, 100, 200, 200, 200]):
        at_ms = NOW_MS + i * 1_000
        window = with_sample(window, look(50, end, at_ms), at_ms, PARAMS)
    assert list(window.ends) == [100, 100, 200, 200]
    assert [t - NOW_MS for t in window.ends_ms] == [0, 3_000, 4_000, 6_000]


@pytest.mark.parametrize(
    ("position", "seconds"),
    [
        (1_000, 0.0),  # the last point
        (950, 2.5),  # between the last two points
        (900, 5.0),  # a point itself
        (600, 10.0),  # of a flat part, the newest point counts
        (550, 15.5),  # between the first two
        (500, 16.0),  # the first point
    ],
)
def test_time_lag_is_read_off_the_table_of_ends(position: int, seconds: float) -> None:
    points = [(500, 16), (600, 15), (600, 10), (900, 5), (1_000, 0)]  # (end, seconds ago)
    ends, times = array("q", (e for e, _ in points)), array("q", (NOW_MS - ago * 1_000 for _, ago in points))
    window = Window(ends=ends, ends_ms=times, seen_ms=NOW_MS)
    told = time_lag(window, position, 1_000, PARAMS)
    assert told == (pytest.approx(seconds), pytest.approx(seconds))


def test_time_lag_from_before_the_table_is_at_least_the_age_of_the_table_and_else_not_known() -> None:
    one = Window(ends=array("q", [500]), ends_ms=array("q", [NOW_MS]), seen_ms=NOW_MS)
    flat = Window(ends=array("q", [500, 500]), ends_ms=array("q", [NOW_MS - 9_000, NOW_MS]), seen_ms=NOW_MS)
    burst = Window(ends=array("q", [500, 9_000]), ends_ms=array("q", [NOW_MS - 7_000, NOW_MS]), seen_ms=NOW_MS)
    for window, least_s in ((Window(seen_ms=NOW_MS), 0.0), (one, 0.0), (flat, 9.0), (burst, 7.0)):
        assert time_lag(window, 400, 500, PARAMS) == (None, least_s)


@pytest.mark.parametrize("every_ms", [1_000, 5_000])
@pytest.mark.parametrize("slo_s", [30, 120, 600, 3_600])
def test_the_table_reaches_back_to_the_slo_and_tells_ages_by_it(slo_s: int, every_ms: int) -> None:
    """A hundred records come in each second, in the looks of a group that is as late as its SLO."""
    params, window, at_ms = replace(PARAMS, slo_ms=slo_s * 1_000), Window(), NOW_MS
    for i in range((slo_s + 400) * 1_000 // every_ms):
        at_ms = NOW_MS + i * every_ms
        end = i * every_ms // 10
        window = with_sample(window, look(max(0, end - slo_s * 100), end, at_ms), at_ms, params)
    assert len(window.ends) <= 60
    told = evaluate_partition(0, window, at_ms, params)
    assert told.time_lag_s == pytest.approx(slo_s, abs=0.1)
    recent = list(window.ends_ms)[-params.recent :]
    assert recent == [at_ms - i * every_ms for i in reversed(range(params.recent))]


def test_a_window_is_bounded_however_long_it_is_fed() -> None:
    window = Window()
    for i in range(500):
        at_ms = NOW_MS + i * 5_000
        window = with_sample(window, look(i, i * 2, at_ms), at_ms, PARAMS)
    assert (len(window.times_ms), len(window.lags), len(window.ends)) == (10, 10, 60)


numbers = st.one_of(
    st.none(), st.integers(-3, 200), st.just(math.nan), st.just(math.inf), st.just(-math.inf), st.integers(2**62, 2**64)
)
anything = st.builds(
    LagSample,
    position=numbers,
    position_at_ms=st.integers(NOW_MS - 400_000, NOW_MS + 10_000),
    end=numbers,
    end_at_ms=st.integers(NOW_MS - 400_000, NOW_MS + 10_000),
    log_start=numbers,
    last_stable=numbers,
    topic_id=st.sampled_from(["", "a", "b"]),
    is_active=st.sampled_from([True, False, None]),
    is_signal=st.booleans(),
)


@settings(deadline=None)
@given(st.lists(anything, max_size=30), st.booleans(), st.integers(NOW_MS - 60_000, NOW_MS + 60_000))
def test_no_input_raises_and_zero_lag_always_has_a_fresh_true_sample(
    found: list[LagSample], is_committed: bool, now_ms: int
) -> None:
    params = replace(PARAMS, is_read_committed=is_committed, advance_most_per_s=50.0)
    window = Window()
    for sample in found:
        window = with_sample(window, sample, NOW_MS, params)
    verdict = evaluate_partition(0, window, now_ms, params)
    assert verdict.why
    assert verdict.offset_lag is None or verdict.offset_lag >= 0
    assert verdict.time_lag_s is None or verdict.time_lag_s >= 0
    if verdict.offset_lag == 0 and verdict.verdict is not LagVerdict.DATA_LOST:
        reach = {s.end for s in found} | {s.last_stable for s in found}
        assert window.position in {s.position for s in found}
        assert any(r is not None and r >= 0 and r <= (window.position or 0) for r in reach)
        assert now_ms - window.seen_ms <= 2 * params.period_ms
