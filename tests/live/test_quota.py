"""The quota backstop follows the lease at one and a half times and is never cut by more than four in one step."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd.live.backstop import busiest_share, mute_ms, next_quota


def stages(present: float | None, lease: float) -> list[float]:
    """The quotas that are set one after the other, until nothing changes any more."""
    found = [next_quota(present, lease)]
    while (following := next_quota(found[-1], lease)) != found[-1]:
        found.append(following)
    return found


@pytest.mark.parametrize(
    ("present", "lease", "quotas"),
    [
        (None, 10.0, [15.0]),
        (15.0, 10.0, [15.0]),
        (15.0, 40.0, [60.0]),
        (60.0, 10.0, [15.0]),
        (150.0, 10.0, [37.5, 15.0]),
        (960.0, 4.0, [240.0, 60.0, 15.0, 6.0]),
    ],
)
def test_cuts_are_staged(present: float | None, lease: float, quotas: list[float]) -> None:
    assert stages(present, lease) == quotas


@settings(deadline=None)
@given(st.floats(1e-3, 1e12), st.floats(1e-3, 1e12))
def test_no_stage_is_cut_by_more_than_four_and_the_last_is_that_of_the_lease(present: float, lease: float) -> None:
    quotas = stages(present, lease)
    assert all(before / after <= 4 * (1 + 1e-9) for before, after in pairwise([present, *quotas]))
    assert quotas[-1] == 1.5 * lease


def test_the_mute_after_a_cut_grows_with_it() -> None:
    assert (mute_ms(4), mute_ms(2), mute_ms(1), mute_ms(0.5)) == (33_000, 11_000, 0, 0)


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
