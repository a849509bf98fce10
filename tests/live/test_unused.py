"""A rate that lanes do not use: it goes back, its use counts as a raise of ours, and a cut of it is no proof."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from recoveryd.live.budget_shares import Claim
from recoveryd.live.budgets import Claimant, DomainSignals, Mode, throttle
from recoveryd.live.freshness import Reading
from recoveryd.live.law.controller import step
from recoveryd.live.law.noise import AT_REST, step_of
from recoveryd.live.law.types import ControlDecision, ControllerParams, ControllerState, Inputs, Law, Rule
from recoveryd.live.pressure import Protection, SignalKind
from tests.live.control_rig import START_MS

CANARY = Protection("canary", SignalKind.LATENCY, 0.2)
PARAMS = ControllerParams(protections=(CANARY,))
PERIOD_S, MB = 2, 1e6
FLOOR, CEILING, BEGIN = 1 * MB, 100 * MB, 10 * MB
IDLE = 0.3 * MB
MINUTE = 60 // PERIOD_S  # steps
SLO_AT = 24.6 * MB  # what is used when the latency is at its SLO


def latency_at(used: float) -> float:
    return 0.006 + 0.194 * (used / SLO_AT) ** 2


@dataclass
class Plant:
    """Lanes that use at most `demand` of what they are granted, and a canary each third second whose latency follows
    that.
    """

    params: ControllerParams = PARAMS
    state: ControllerState = field(default_factory=ControllerState)
    now_ms: int = START_MS
    used: float = 0.0
    over_s: int = 0
    latency: Callable[[float], float] = latency_at

    def step(self, demand: float | None, *, active: bool = True, all_heard: bool = True) -> ControlDecision:
        """`demand` None = it is not known what lanes use."""
        self.now_ms += 1_000 * PERIOD_S
        self.used = min(self.state.published, demand or 0.0)
        latency_s = self.latency(self.used)
        self.over_s += PERIOD_S * (latency_s >= CANARY.slo_s)
        is_told = self.now_ms // (1_000 * PERIOD_S) % 2 == 0
        readings = (Reading("canary", latency_s, self.now_ms - 500),) if is_told else ()
        used = None if demand is None else self.used
        inputs = Inputs(readings, None, used, FLOOR, CEILING, active, all_heard=all_heard)
        self.state, decision = step(self.state, inputs, self.now_ms, self.params)
        return decision

    def run(self, demand: float | None, steps: int, **more: bool) -> list[ControlDecision]:
        return [self.step(demand, **more) for _ in range(steps)]

    def quiet(self) -> "Plant":
        """At rest, and then so that nothing harms: up to the ceiling."""
        self.latency = lambda _used: 0.006
        self.run(0.0, MINUTE, active=False)
        self.run(CEILING, 4 * MINUTE)
        assert self.state.published == CEILING
        return self

    def busy(self) -> "Plant":
        self.latency = latency_at
        return self


@pytest.mark.parametrize("law", [Law.BUDGET, Law.ADDITIVE])
def test_a_copy_that_follows_its_source_begins_anew_when_a_burst_comes(law: Law) -> None:
    plant = Plant(replace(PARAMS, law=law)).quiet()
    told = plant.run(IDLE, 60 * MINUTE)
    assert plant.state.published == BEGIN
    assert any("the rest goes back" in d.why and d.rule is Rule.NO_WINDUP for d in told)
    plant.busy()
    told = plant.run(30 * MB, 30 * MINUTE)
    assert plant.over_s <= 24
    assert 12 * MB < plant.used < SLO_AT
    assert not any("did not change" in d.why for d in told)


def test_one_that_begins_beside_a_copy_that_stands_at_the_head_begins_as_low_as_ever() -> None:
    params = {"main": replace(PARAMS, most_bytes_per_s=CEILING)}
    states: dict[str, ControllerState] = {}
    now_ms, over_s = START_MS, 0

    def claim(used: float | None, *, settled: bool = True) -> Claimant:
        return Claimant(
            Mode.CONTROLLED, Claim(FLOOR / 2, CEILING), {"main": 1.0}, used, used, writes=frozenset({"main"}),
            has_settled=settled,
        )  # fmt: skip

    def go(latency_s: float, **claims: Claimant) -> dict[str, float | None]:
        nonlocal now_ms, states
        now_ms += 1_000 * PERIOD_S
        signals = {"main": DomainSignals((Reading("canary", latency_s, now_ms - 500),))}
        found = throttle(states, signals, claims, now_ms, params)
        states = dict(found.states)
        return {name: grant.bytes_per_s for name, grant in found.grants.items()}

    for _ in range(MINUTE):
        go(0.006)
    used: float | None = None
    for _ in range(4 * MINUTE):
        used = go(0.006, follower=claim(used))["follower"]
    assert used == CEILING
    for _ in range(10 * MINUTE):
        go(0.006, follower=claim(IDLE))
    first, granted = None, 0.0
    for second in range(0, 600, PERIOD_S):
        copied = min(granted, 30 * MB) if second >= 10 else None
        over_s += PERIOD_S * (latency_at(copied or 0.0) >= CANARY.slo_s)
        new = claim(copied, settled=second >= 60)
        granted = go(latency_at(copied or 0.0), follower=claim(IDLE), new=new)["new"] or 0.0
        first = granted if first is None else first
    assert first is not None
    assert first <= BEGIN
    assert over_s <= 24
    assert granted > 12 * MB


def test_a_short_time_without_use_takes_nothing_back() -> None:
    plant = Plant().quiet()
    for _ in range(5):
        plant.run(0.0, 110 // PERIOD_S)  # a chunk that ends, a source that moves
        assert plant.state.published == CEILING
        plant.run(CEILING, 10 // PERIOD_S)
    assert plant.state.published == CEILING


def test_what_silent_lanes_use_is_not_known_so_nothing_is_taken_back() -> None:
    plant = Plant().quiet()
    plant.run(IDLE, 30 * MINUTE, all_heard=False)
    plant.run(None, 30 * MINUTE)
    assert plant.state.published == CEILING
    plant.run(IDLE, MINUTE)
    assert plant.state.published == CEILING, "known for a minute only"


@pytest.mark.parametrize("dip", [1.0, 0.6])
def test_lanes_that_something_else_limits_lose_no_speed(dip: float) -> None:
    plant = Plant().quiet()
    for n in range(60 * MINUTE):
        demand = 30 * MB * (dip if n % 20 < 10 else 1.0)
        plant.step(demand)
        assert plant.used == demand, "they always have what they can use"
    assert plant.state.published < 1.6 * 30 * MB


def test_a_rate_that_nothing_protects_from_is_not_taken_back() -> None:
    plant = Plant(ControllerParams())
    plant.run(IDLE, 20 * MINUTE)
    assert plant.state.published == CEILING


def test_after_minutes_without_use_what_was_safe_comes_back_within_loop_delays() -> None:
    plant = Plant().quiet()
    plant.state = replace(plant.state, comfortable=80 * MB)
    plant.run(0.0, 10 * MINUTE)
    assert plant.state.published == BEGIN
    plant.run(CEILING, 3 * PARAMS.loop_delay_ms // (1_000 * PERIOD_S))
    assert plant.state.published >= 80 * MB


def test_a_cut_begins_from_what_is_used() -> None:
    """Else it would change nothing, and show that replays are not the cause."""
    plant = Plant(latency=lambda _used: 0.006)
    plant.run(0.0, MINUTE, active=False)
    plant.run(28 * MB, 2 * MINUTE)
    assert plant.state.published > 45 * MB
    plant.busy()
    told = plant.run(28 * MB, 2 * MINUTE)
    cut = next(d for d in told if d.rule is Rule.GUARD)
    assert cut.rate_bytes_per_s <= SLO_AT
    assert plant.over_s <= 30
    assert not any("did not change" in d.why for d in told)


def test_a_cut_that_nobody_feels_is_no_proof_and_teaches_nothing() -> None:
    """Lanes use next to nothing of late, and something else harms live traffic: cut on."""
    plant = Plant().quiet()
    plant.run(IDLE, MINUTE)
    assert plant.state.published == CEILING
    safe = dict(plant.state.memory.safe)
    plant.latency = lambda _used: 0.3
    told = plant.run(IDLE, 4 * MINUTE)
    assert not any("did not change" in d.why for d in told)
    assert plant.state.published == FLOOR
    assert plant.state.memory.safe == safe


def test_the_use_of_what_stood_unused_counts_as_a_raise() -> None:
    plant = Plant().quiet()
    plant.run(IDLE, 20 * MINUTE)
    plant.run(BEGIN, 2)
    plant.latency = lambda _used: 0.3
    first = next(d for d in plant.run(BEGIN, 4) if d.rule is not Rule.GATE)
    assert first.rule is Rule.GUARD, "a rise that followed nothing would wait for a second sample"


def test_samples_count_for_what_was_used() -> None:
    plant = Plant().quiet()
    before = plant.state.counted["canary"][step_of(CEILING)].samples
    plant.run(IDLE, MINUTE)
    counted = plant.state.counted["canary"]
    assert counted[step_of(CEILING)].samples <= before + 8
    assert counted[step_of(FLOOR)].samples > 5
    assert max(step for step in counted if step != AT_REST) == step_of(CEILING)


@pytest.mark.parametrize("lanes", [2, 4, 16])
def test_a_lane_that_uses_its_whole_part_beside_idle_ones_keeps_its_rate(lanes: int) -> None:
    """Lanes of a copy that follows get equal parts. All but one are at the head."""
    plant = Plant().quiet()
    for _ in range(60 * MINUTE):
        part = plant.state.published / lanes
        plant.now_ms += 1_000 * PERIOD_S
        reading = Reading("canary", 0.006, plant.now_ms - 500)
        used = part + (lanes - 1) * min(part, 0.01 * MB)
        inputs = Inputs((reading,), None, used, FLOOR, CEILING, needed_bytes_per_s=lanes * part)
        plant.state, _ = step(plant.state, inputs, plant.now_ms, PARAMS)
    assert plant.state.published == CEILING


def test_a_copy_that_uses_all_it_is_given_loses_nothing_to_one_that_starts_for_long() -> None:
    plant, given = Plant().quiet(), 50 * MB
    states, claim, told = {"main": plant.state}, Claim(0.5 * MB, CEILING), []
    for _ in range(15 * MINUTE):
        plant.now_ms += 1_000 * PERIOD_S
        busy = Claimant(Mode.CONTROLLED, claim, {"main": 1.0}, given, given, has_settled=True, needed_bytes_per_s=given)
        late = Claimant(Mode.CONTROLLED, claim, {"main": 1.0}, needed_bytes_per_s=given)
        signals = {"main": DomainSignals((Reading("canary", 0.006, plant.now_ms - 500),), None)}
        made = throttle(states, signals, {"busy": busy, "late": late}, plant.now_ms, {"main": PARAMS})
        states = dict(made.states)
        given = made.grants["busy"].bytes_per_s or 0.0
        told.append(given)
    assert min(told) >= 45 * MB
