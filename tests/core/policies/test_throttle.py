"""From signals to the grants of all recoveries, over several domains."""

import pytest

from recoveryd.live.budget_shares import Claim
from recoveryd.live.budgets import Claimant, DomainSignals, Grant, Mode, Throttled, throttle
from recoveryd.live.freshness import Reading
from recoveryd.live.law.types import ControllerState, ControlVerdict, Rule
from tests.core.policies.control_rig import GROUP, LATENCY, PARAMS, PERIOD_MS, START_MS, latency_at

ALONE = {"main": 1.0}
DOMAINS = {"main": PARAMS}


def controlled(floor: float = 1.0, ceiling: float = 100.0, *, weight: float = 1.0, **more: object) -> Claimant:
    more.setdefault("achieved_bytes_per_s", 1e9)
    return Claimant(Mode.CONTROLLED, Claim(floor, ceiling, weight), ALONE, **more)  # type: ignore[arg-type]


def signals(now_ms: int, z: float = 0.0) -> DomainSignals:
    return DomainSignals((Reading(LATENCY, latency_at(z), now_ms), Reading(GROUP, 5.0, now_ms)))


def run(claimants: dict[str, Claimant], ticks: int, z: float = 0.0, *, heard: bool = True) -> Throttled:
    """Let a baseline form without recoveries, then take `ticks` steps with the claimants."""
    states: dict[str, ControllerState] = {}
    now_ms = START_MS
    for i in range(15 + ticks):
        now_ms += PERIOD_MS
        told = {"main": signals(now_ms, z if i >= 15 else 0.0)} if heard or i < 15 else {}
        found = throttle(states, told, claimants if i >= 15 else {}, now_ms, DOMAINS)
        states = dict(found.states)
    return found


def test_the_budget_of_a_domain_is_shared_by_weight() -> None:
    found = run({"r1": controlled(weight=3.0), "r2": controlled()}, ticks=12)
    budget = found.decisions["main"].rate_bytes_per_s
    assert budget > 20.0
    assert [g.bytes_per_s for g in found.grants.values()] == [
        pytest.approx(budget * 0.75),
        pytest.approx(budget * 0.25),
    ]
    assert found.grants["r1"].why.startswith("main: pressure 0.17")


def test_a_deadline_shifts_the_shares() -> None:
    late = controlled(required_bytes_per_s=20.0, achieved_bytes_per_s=10.0)
    found = run({"late": late, "early": controlled()}, ticks=8)
    rates = [g.bytes_per_s for g in found.grants.values()]
    assert rates[0] == pytest.approx(2 * (rates[1] or 0))


def test_fixed_and_unlimited_recoveries_stand_outside_the_budget() -> None:
    fixed = Claimant(Mode.FIXED, Claim(0, 7.0), ALONE)
    found = run({"f": fixed, "u": Claimant(Mode.UNLIMITED, Claim(0, 0), ALONE)}, ticks=1)
    assert found.decisions["main"].verdict is ControlVerdict.IDLE
    assert [found.grants[n].bytes_per_s for n in "fu"] == [7.0, None]
    assert all("not protected" in g.why for g in found.grants.values())


def test_lost_telemetry_pauses_every_recovery_of_the_domain() -> None:
    found = run({"r1": controlled(), "r2": controlled()}, ticks=62, heard=False)
    assert [(g.bytes_per_s, g.pause, g.rule) for g in found.grants.values()] == [(0.0, True, Rule.STALE)] * 2


def test_a_recovery_outside_of_all_domains_has_its_own_ceiling() -> None:
    elsewhere = Claimant(Mode.CONTROLLED, Claim(1.0, 30.0), {"other": 1.0})
    found = run({"r1": elsewhere}, ticks=1)
    assert found.grants["r1"] == Grant(30.0, False, None, None, "", "no protected domain is touched: its own ceiling")


def test_a_recovery_over_two_domains_gets_the_lesser() -> None:
    both = Claimant(Mode.CONTROLLED, Claim(1.0, 100.0), {"b1": 0.5, "b2": 0.5}, 1e9)
    states: dict[str, ControllerState] = {}
    now_ms = START_MS
    for i in range(30):
        now_ms += PERIOD_MS
        told = {"b1": signals(now_ms), "b2": signals(now_ms, 0.9 if i > 18 else 0.0)}
        found = throttle(states, told, {"r1": both} if i >= 15 else {}, now_ms, {"b1": PARAMS, "b2": PARAMS})
        states = dict(found.states)
    assert found.grants["r1"].domain == "b2"
    assert found.grants["r1"].bytes_per_s == pytest.approx(2 * found.decisions["b2"].rate_bytes_per_s)
    assert found.decisions["b1"].rate_bytes_per_s > found.decisions["b2"].rate_bytes_per_s
