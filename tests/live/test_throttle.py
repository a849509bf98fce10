"""From signals to the grants of all recoveries, over several domains."""

from dataclasses import dataclass, replace

import pytest

from recoveryd.live.budget_shares import Claim
from recoveryd.live.budgets import Claimant, DomainSignals, Grant, Mode, Throttled, share_out, throttle
from recoveryd.live.freshness import Reading
from recoveryd.live.law.types import ControllerState, ControlVerdict, Rule
from tests.live.control_rig import GROUP, LATENCY, PARAMS, PERIOD_MS, START_MS, latency_at

ALONE = {"main": 1.0}
DOMAINS = {"main": PARAMS}


def controlled(floor: float = 1.0, ceiling: float = 100.0, *, weight: float = 1.0, **more: object) -> Claimant:
    more.setdefault("heard_bytes_per_s", more.setdefault("achieved_bytes_per_s", 1e9))
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


def test_what_one_does_not_use_others_get_and_it_gets_more_as_it_uses_it() -> None:
    idle = controlled(achieved_bytes_per_s=0.1, has_settled=True)
    busy = controlled(achieved_bytes_per_s=90.0, has_settled=True)
    shares = share_out({"main": 100.0}, {"idle": idle, "busy": busy}, DOMAINS)
    assert shares == {"idle": pytest.approx(5.0), "busy": pytest.approx(95.0)}
    woken = controlled(achieved_bytes_per_s=5.0, has_settled=True)
    assert 5.0 < share_out({"main": 100.0}, {"idle": woken, "busy": busy}, DOMAINS)["idle"] < 6.5
    begun = controlled(achieved_bytes_per_s=0.0)
    assert share_out({"main": 100.0}, {"idle": begun, "busy": busy}, DOMAINS)["idle"] == pytest.approx(50.0)
    assert share_out({"main": 100.0}, {"idle": idle}, DOMAINS) == {"idle": 100.0}, "alone it is the controller's"


@dataclass
class Shared:
    """Recoveries that share a budget for long: each uses at most what `wants` says. Latency follows what they use."""

    wants: dict[str, float]
    caps: dict[str, float]
    capacity: float

    def run(self, ticks: int) -> list[dict[str, float]]:
        states: dict[str, ControllerState] = {}
        now_ms, used, found = START_MS, dict.fromkeys(self.wants, 0.0), []
        for i in range(15 + ticks):
            now_ms += PERIOD_MS
            z = min(1.6, sum(used.values()) / self.capacity)
            claimants = {
                name: controlled(ceiling=cap, achieved_bytes_per_s=used[name], has_settled=i > 25)
                for name, cap in self.caps.items()
            }
            made = throttle(states, {"main": signals(now_ms, z)}, claimants if i >= 15 else {}, now_ms, DOMAINS)
            states = dict(made.states)
            granted = {name: made.grants[name].bytes_per_s or 0.0 for name in claimants} if i >= 15 else used
            used = {name: min(self.wants[name], granted[name]) for name in self.wants}
            found.append(granted)
        return found


def told_with_some_silent(heard: float) -> list[float]:
    """Budgets over two minutes in which lanes use what they are granted, of which only this share is heard of."""
    states: dict[str, ControllerState] = {}
    now_ms, budgets = START_MS, [0.0]
    for i in range(15 + 24):
        now_ms += PERIOD_MS
        copying = controlled(achieved_bytes_per_s=budgets[-1], heard_bytes_per_s=heard * budgets[-1])
        made = throttle(states, {"main": signals(now_ms)}, {"r1": copying} if i >= 15 else {}, now_ms, DOMAINS)
        states = dict(made.states)
        budgets.append(made.decisions["main"].rate_bytes_per_s)
    return budgets[16:]


def test_one_silent_lane_of_eight_holds_no_rate_and_one_of_two_does() -> None:
    assert told_with_some_silent(7 / 8)[-1] == told_with_some_silent(1.0)[-1] == 100.0
    held = told_with_some_silent(1 / 2)
    assert max(held) <= 2 * held[0]


def test_an_idle_or_limited_neighbour_keeps_nobody_at_a_fraction() -> None:
    for wants in ({"b": 1e9, "f": 0.1}, {"b": 1e9, "f": 10.0}, {"b": 1e9, "f": 10.0, "g": 0.0, "h": 3.0}):
        found = Shared(wants, dict.fromkeys(wants, 100.0), capacity=1e9).run(120)
        assert found[-1]["b"] >= 0.9 * min(100.0, sum(found[-1].values()))
        assert found[-1]["b"] >= 80.0, wants


def test_harm_is_cut_out_of_what_is_used_also_where_others_are_idle() -> None:
    shared = Shared({"busy": 1e9, "idle": 0.1}, {"busy": 40.0, "idle": 100.0}, capacity=25.0)
    found = shared.run(150)
    assert max(granted["busy"] for granted in found[60:]) < 40.0
    assert sorted(granted["busy"] for granted in found[60:])[45] < 30.0, "near what live traffic bears"


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
    both = Claimant(Mode.CONTROLLED, Claim(1.0, 100.0), {"b1": 0.5, "b2": 0.5}, 1e9, 1e9)
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


def test_the_domain_that_is_told_is_the_one_whose_share_is_the_least_and_not_whose_budget_is() -> None:
    params = {"lone": replace(PARAMS, most_bytes_per_s=20.0), "shared": replace(PARAMS, most_bytes_per_s=50.0)}
    both = Claimant(Mode.CONTROLLED, Claim(1.0, 100.0), {"lone": 1.0, "shared": 1.0}, 1e9, 1e9)
    others = {f"r{i}": Claimant(Mode.CONTROLLED, Claim(1.0, 100.0), {"shared": 1.0}, 1e9, 1e9) for i in range(1, 5)}
    states: dict[str, ControllerState] = {}
    now_ms = START_MS
    for i in range(45):
        now_ms += PERIOD_MS
        told = {domain: signals(now_ms) for domain in params}
        found = throttle(states, told, {"r0": both, **others} if i >= 15 else {}, now_ms, params)
        states = dict(found.states)
    assert [found.decisions[domain].rate_bytes_per_s for domain in params] == [20.0, 50.0]
    grant = found.grants["r0"]
    assert (grant.bytes_per_s, grant.domain, grant.why.split(":")[0]) == (pytest.approx(10.0), "shared", "shared")
