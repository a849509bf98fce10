"""Water-filling: the given vectors, tiers, deadlines, several brokers, and what must hold for any claims."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd.live.budget_shares import Claim, Spread, deadline_weight, share_budget, share_over_domains


@pytest.mark.parametrize(
    ("budget", "claims", "shares"),
    [
        (60, [Claim(1, 100), Claim(1, 100), Claim(1, 10)], [25, 25, 10]),
        (60, [Claim(1, 100, 2), Claim(1, 100), Claim(1, 10)], [33.3333, 16.6667, 10]),
        (2, [Claim(1, 100), Claim(1, 100), Claim(1, 10)], [0.6667, 0.6667, 0.6667]),
        (200, [Claim(1, 50), Claim(1, 60, 3)], [50, 60]),
        (0, [Claim(1, 50), Claim(3, 60)], [0, 0]),
        (10, [], []),
        (100, [Claim(40, 50), Claim(0, math.inf)], [50, 50]),
        (100, [Claim(60, 80), Claim(0, 100), Claim(0, 100)], [60, 20, 20]),
        (10, [Claim(0, 100, 1, tier=1), Claim(0, 8, 1, tier=0)], [2, 8]),
        (10, [Claim(3, 100, 1, tier=1), Claim(0, 80, 1, tier=0)], [3, 7]),
        (math.nan, [Claim(1, 5)], [0]),
        (10, [Claim(math.nan, math.nan), Claim(0, 20, math.nan)], [0, 10]),
    ],
)
def test_a_budget_is_shared_by_water_filling(budget: float, claims: list[Claim], shares: list[float]) -> None:
    assert list(share_budget(budget, claims)) == pytest.approx(shares, rel=1e-4)


rate = st.floats(0, 1e9, allow_nan=False)
claim = st.builds(
    lambda floor, room, weight, tier: Claim(floor, floor + room, weight, tier),
    rate,
    rate,
    st.floats(1e-3, 1e3),
    st.integers(0, 2),
)


@settings(deadline=None)
@given(rate, st.lists(claim, max_size=50))
def test_shares_use_the_budget_up_and_keep_floors_and_ceilings(budget: float, claims: list[Claim]) -> None:
    shares = share_budget(budget, claims)
    ceilings, floors = math.fsum(c.ceiling for c in claims), math.fsum(c.floor for c in claims)
    assert math.fsum(shares) == pytest.approx(min(budget, ceilings), rel=1e-6, abs=1e-3)
    for share, c in zip(shares, claims, strict=True):
        assert share <= c.ceiling * (1 + 1e-9)
        assert share >= c.floor * min(1.0, budget / floors if floors else 1.0) * (1 - 1e-6) - 1e-3


@settings(deadline=None)
@given(rate, st.lists(claim, min_size=2, max_size=20))
def test_of_two_in_a_tier_the_poorer_by_weight_is_at_its_ceiling_or_the_richer_at_its_floor(
    budget: float, claims: list[Claim]
) -> None:
    shares = share_budget(budget, claims)
    if math.fsum(c.floor for c in claims) >= budget:
        return
    for poor, a in zip(shares, claims, strict=True):
        for rich, b in zip(shares, claims, strict=True):
            if a.tier == b.tier and poor / a.weight < rich / b.weight * (1 - 1e-6) - 1e-3:
                assert poor >= a.ceiling * (1 - 1e-9) or rich <= b.floor * (1 + 1e-9)


def test_a_deadline_raises_the_weight_in_proportion_and_within_bounds() -> None:
    assert [deadline_weight(2.0, r, 10.0) for r in (None, 5.0, 10.0, 30.0, 1e9, math.inf)] == [2, 2, 2, 6, 20, 2]
    assert deadline_weight(1.0, 5.0, 0.0) == 10.0


def test_a_recovery_over_two_brokers_gets_what_the_narrower_one_allows() -> None:
    both = Spread(Claim(0, 100), {"b1": 0.5, "b2": 0.5})
    rates = share_over_domains({"b1": 40, "b2": 10}, {"r1": both, "r2": Spread(Claim(0, 100), {"b1": 1.0})})
    assert rates == {"r1": 20.0, "r2": pytest.approx(20.0)}


def test_a_broker_without_a_budget_allows_nothing() -> None:
    assert share_over_domains({}, {"r1": Spread(Claim(1, 9), {"b1": 1.0})}) == {"r1": 0.0}
