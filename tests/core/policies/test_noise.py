"""What much lower rates show as often is noise: it lowers no rate for long, and hides no harm that grows with the rate."""

import random
from dataclasses import replace
from statistics import mean

import pytest

from recoveryd.live.freshness import Reading
from recoveryd.live.law.noise import chance_of, usual_share
from recoveryd.live.law.types import ControllerState, Counted, Rule
from tests.core.policies.control_rig import FLOOR, LATENCY, PERIOD_MS, Rig, latency_at, started

SLO_S = latency_at(1.0)


def tell(rig: Rig, share: float) -> Rule:
    reading = Reading(LATENCY, share * SLO_S, rig.now_ms + PERIOD_MS)
    return rig.tick(None, more=(reading,)).rule


def in_noise(rig: Rig, steps: int, often: float, seed: int, most: float = 1e9) -> list[float]:
    """The rates while a share of samples is over the SLO at any rate; above `most` half of them are."""
    chance, rates = random.Random(seed), []
    for _ in range(steps):
        is_over = chance.random() < (often if rig.state.published <= most else 0.5)
        tell(rig, chance.uniform(1.0, 1.9) if is_over else chance.uniform(0.06, 0.12))
        rates.append(rig.state.rate)
    return rates


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("often", [0.05, 0.15, 0.25])
def test_noise_that_only_a_replay_shows_does_not_keep_it_near_its_floor(often: float, seed: int) -> None:
    rates = in_noise(started(40.0), 900, often, seed)
    assert mean(rates[300:]) > 30.0


@pytest.mark.parametrize("seed", range(6))
def test_harm_that_grows_with_the_rate_is_seen_in_noise_too(seed: int) -> None:
    rates = in_noise(started(20.0), 900, 0.15, seed, most=40.0)
    assert sum(rate > 40.0 for rate in rates) < 0.25 * len(rates)
    assert 10.0 < mean(rates[300:]) < 40.0


def test_a_signal_that_is_over_its_slo_near_the_floor_is_no_reason_to_go_there() -> None:
    rig = started(40.0)
    in_noise(rig, 300, 0.2, 1)
    counted = rig.state.counted[LATENCY]
    low = replace(rig.state, rate=1_000.0, counted={LATENCY: counted}, floor=FLOOR)
    assert usual_share(low, LATENCY, SLO_S) == pytest.approx(0.2, abs=0.12)


def test_only_rates_up_to_half_of_ours_tell_what_is_there_without_us() -> None:
    state = ControllerState(rate=16.0, floor=1.0, counted={"p99": {6: Counted(20.0, 2.0), 8: Counted(50.0, 50.0)}})
    assert usual_share(state, "p99", 1.0) == pytest.approx(0.1)
    assert usual_share(replace(state, rate=40.0), "p99", 1.0) == pytest.approx(52 / 70)
    assert usual_share(replace(state, rate=8.0), "p99", 1.0) == 0.0


def test_a_few_samples_tell_nothing() -> None:
    state = ControllerState(rate=16.0, floor=1.0, counted={"p99": {2: Counted(11.0, 11.0)}})
    assert usual_share(state, "p99", 1.0) == 0.0


def test_rest_counts_as_well() -> None:
    state = ControllerState(rate=16.0, floor=1.0, baselines={"p99": (0.1, 0.1, 2.0, 0.1)})
    assert usual_share(state, "p99", 1.0) == 0.25


def test_what_was_seen_long_ago_is_forgotten() -> None:
    rig = started(40.0)
    in_noise(rig, 2_000, 0.0, 1)
    assert sum(c.samples for c in rig.state.counted[LATENCY].values()) < 260
    assert all(c.samples > 0.4 for c in rig.state.counted[LATENCY].values())


@pytest.mark.parametrize(
    ("recent", "usual", "chance"),
    [
        ((True, True), 0.1, 0.01),
        ((False, True, True), 0.1, 0.01),
        ((True, False), 0.1, 0.19),
        ((True, True, True), 0.5, 0.125),
        ((True,), 0.0, 1.0),
        ((False, True), 0.0, 0.0),
        ((False, False), 0.3, 1.0),
    ],
)
def test_how_likely_noise_shows_this(recent: tuple[bool, ...], usual: float, chance: float) -> None:
    assert chance_of(recent, usual) == pytest.approx(chance)
