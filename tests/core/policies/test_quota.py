"""The quota backstop follows the lease at one and a half times and is never cut by more than four in one step."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd.live.backstop import QuotaStep, busiest_share, mute_ms, quota_steps


@pytest.mark.parametrize(
    ("present", "lease", "steps"),
    [
        (None, 10.0, (QuotaStep(15.0, 0),)),
        (15.0, 10.0, ()),
        (15.0, 40.0, (QuotaStep(60.0, 0),)),
        (60.0, 10.0, (QuotaStep(15.0, 0),)),
        (150.0, 10.0, (QuotaStep(37.5, 0), QuotaStep(15.0, 33_000))),
        (960.0, 4.0, (QuotaStep(240.0, 0), QuotaStep(60.0, 33_000), QuotaStep(15.0, 66_000), QuotaStep(6.0, 99_000))),
        (15.0, 0.0, ()),
        (15.0, math.inf, ()),
        (math.nan, 10.0, (QuotaStep(15.0, 0),)),
    ],
)
def test_cuts_are_staged(present: float | None, lease: float, steps: tuple[QuotaStep, ...]) -> None:
    assert quota_steps(present, lease) == steps


@settings(deadline=None)
@given(st.floats(1e-3, 1e12), st.floats(1e-3, 1e12))
def test_no_stage_is_cut_by_more_than_four_and_each_waits_for_the_mute_of_the_last(
    present: float, lease: float
) -> None:
    steps = quota_steps(present, lease)
    before, before_ms = present, -mute_ms(4)
    for step in steps:
        assert before / step.bytes_per_s <= 4 * (1 + 1e-9)
        assert step.after_ms - before_ms >= mute_ms(4) or step.bytes_per_s >= before
        before, before_ms = step.bytes_per_s, step.after_ms
    assert not steps or steps[-1].bytes_per_s == 1.5 * lease


@pytest.mark.parametrize(
    ("lanes", "share"),
    [
        ((), 1.0),
        (((1.0, {1, 2, 3}),), 1.0),  # one lane may draw all from one broker at a time
        (((0.5, {1}), (0.5, {2})), 0.5),
        (((0.5, {1}), (0.25, {2}), (0.25, {2})), 0.5),
        (((0.5, {1, 2}), (0.25, {2}), (0.25, {3})), 0.75),
        (((0.3, {1}), (0.7, {2})), 0.75),  # rounded up
        (((0.0, {1}),), 1.0),
    ],
)
def test_a_quota_counts_on_each_broker_alone_so_it_is_that_of_the_busiest(
    lanes: tuple[tuple[float, set[int]], ...], share: float
) -> None:
    assert busiest_share((part, frozenset(brokers)) for part, brokers in lanes) == share
