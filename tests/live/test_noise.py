"""What much lower rates show as often is noise: it lowers no rate for long, and hides no harm that grows with
the rate.
"""

import random
from dataclasses import replace
from statistics import mean

import pytest

from recoveryd.live.freshness import Reading
from recoveryd.live.law.cause import EVIDENCE_FREQUENT
from recoveryd.live.law.noise import evidence_of, step_of, usual_share
from recoveryd.live.law.types import AtRate, ControllerState, Rule
from tests.live.control_rig import FLOOR, LATENCY, PERIOD_MS, Rig, latency_at, started

SLO_S = latency_at(1.0)
BY_RATE = {"p99": {step_of(8.0): AtRate(20.0, 2.0), step_of(16.0): AtRate(50.0, 50.0)}}


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


def test_harm_that_grows_with_the_rate_is_seen_in_noise_too() -> None:
    runs = [in_noise(started(20.0), 900, 0.15, seed, most=40.0) for seed in range(12)]
    harmful = [mean(rate > 40.0 for rate in rates) for rates in runs]
    assert mean(harmful) < 0.3
    assert max(harmful) < 0.4
    assert all(10.0 < mean(rates[300:]) < 45.0 for rates in runs)


def test_a_signal_that_is_over_its_slo_near_the_floor_is_no_reason_to_go_there() -> None:
    rig = started(40.0)
    in_noise(rig, 300, 0.2, 1)
    counted = rig.state.counted[LATENCY]
    low = replace(rig.state, rate=1_000.0, counted={LATENCY: counted}, floor=FLOOR)
    assert usual_share(low, LATENCY, SLO_S) == pytest.approx(0.2, abs=0.12)


def test_only_rates_up_to_half_of_ours_tell_what_is_there_without_us() -> None:
    state = ControllerState(rate=16.0, floor=1.0, counted=BY_RATE)
    assert usual_share(state, "p99", 1.0) == pytest.approx(0.1)
    assert usual_share(replace(state, rate=40.0), "p99", 1.0) == pytest.approx(52 / 70)
    assert usual_share(replace(state, rate=8.0), "p99", 1.0) == 0.0


def test_a_few_samples_tell_nothing() -> None:
    state = ControllerState(rate=16.0, floor=1.0, counted={"p99": {step_of(2.0): AtRate(11.0, 11.0)}})
    assert usual_share(state, "p99", 1.0) == 0.0


def test_rest_counts_as_well() -> None:
    state = ControllerState(rate=16.0, floor=1.0, baselines={"p99": (0.1, 0.1, 2.0, 0.1)})
    assert usual_share(state, "p99", 1.0) == 0.25


def test_what_is_seen_at_rest_is_counted_too_and_for_longer_than_the_baseline() -> None:
    rig = Rig()
    for i in range(200):
        rig.tick(None, active=False, more=(Reading(LATENCY, (1.2 if i < 20 else 0.1) * SLO_S, rig.now_ms + PERIOD_MS),))
    assert max(rig.state.baselines[LATENCY]) < SLO_S
    assert usual_share(replace(rig.state, rate=16.0), LATENCY, SLO_S) == pytest.approx(0.07, abs=0.04)


def test_what_was_seen_long_ago_is_forgotten() -> None:
    rig = started(40.0)
    in_noise(rig, 2_000, 0.0, 1)
    assert sum(c.samples for c in rig.state.counted[LATENCY].values()) < 260
    assert all(c.samples > 0.4 for c in rig.state.counted[LATENCY].values())


@pytest.mark.parametrize(
    ("recent", "usual", "is_enough"),
    [
        ("x", 0.0, False),
        ("xx", 0.0, True),
        ("x.x", 0.0, True),
        ("x......x", 0.0, False),
        ("xx", 0.05, True),
        ("xx", 0.1, False),
        ("xxxx", 0.1, True),
        ("xx.xx", 0.1, True),
        ("x..x..x..x", 0.1, False),
        ("xxxxx", 0.3, False),
        ("xxxxxx", 0.3, True),
        ("x" * 6, 0.9, True),  # that is sickness, and what comes after it is told all the same
        ("." * 24, 0.0, False),
    ],
)
def test_how_much_more_than_usual_is_more_than_noise(recent: str, usual: float, *, is_enough: bool) -> None:
    """`x` is a sample over the SLO."""
    found = evidence_of([sample == "x" for sample in recent], usual)
    assert (found >= EVIDENCE_FREQUENT) is is_enough


def test_samples_that_are_well_again_use_up_what_spoke_for_harm() -> None:
    assert evidence_of([True, *[False] * 20, True], 0.05) == evidence_of([True], 0.05)


def test_noise_hardly_ever_looks_like_harm() -> None:
    """A share of 3 % of samples over the SLO, each second for a day."""
    chance = random.Random(1)
    samples = [chance.random() < 0.03 for _ in range(86_400)]
    looks = sum(evidence_of(samples[at - 24 : at], 0.03) >= EVIDENCE_FREQUENT for at in range(24, len(samples)))
    assert looks < 0.02 * len(samples)


def test_harm_is_seen_within_seconds() -> None:
    chance = random.Random(2)
    waits = []
    for _ in range(300):
        samples = [chance.random() < 0.02 for _ in range(20)]
        while evidence_of(samples[-24:], 0.02) < EVIDENCE_FREQUENT:
            samples.append(chance.random() < 0.5)
        waits.append(len(samples) - 20)
    assert mean(waits) < 5.0


def test_an_hour_of_sickness_near_the_floor_hides_no_harm_that_comes_after_it() -> None:
    rig = started(FLOOR)
    for _ in range(700):
        tell(rig, 1.3)
    rig.run(40.0)
    assert Rule.GUARD in [tell(rig, 1.3) for _ in range(8)]
