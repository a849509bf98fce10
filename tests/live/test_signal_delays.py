"""Signals of one domain that come at different delays: each is as fresh as it can be, whatever the slowest one is."""

from itertools import pairwise

import pytest

from recoveryd.live.freshness import Reading
from recoveryd.live.law.controller import step
from recoveryd.live.law.types import ControlDecision, ControllerParams, ControllerState, Inputs, Rule
from recoveryd.live.pressure import Protection, SignalKind
from tests.live.control_rig import START_MS

PROTECTIONS = tuple(Protection(name, SignalKind.LATENCY, 0.3) for name in ("canary", "p99"))
PARAMS = ControllerParams(protections=PROTECTIONS)
PERIOD_S, SCRAPED_S, REST_STEPS = 2, 15, 150
SOON_S = 20
RANGES = pytest.mark.parametrize("range_s", [0, 60, 90])


class Domain:
    """A canary each period, and a Prometheus that tells with each scrape of the last `range_s`."""

    def __init__(self, range_s: int) -> None:
        self.range_s = range_s
        self.state, self.steps, self.now_ms = ControllerState(), 0, START_MS
        for _ in range(REST_STEPS):
            self.step(0.02, active=False)

    def step(
        self,
        canary_s: float | None,
        *,
        p99_s: float | None = 0.02,
        active: bool = True,
        used: float | None = None,
        live: float | None = None,
    ) -> ControlDecision:
        """`used`: what lanes achieve, None = what they were granted. `live`: what live traffic writes, if known."""
        self.now_ms += 1_000 * PERIOD_S
        readings = [Reading("canary", canary_s, self.now_ms - 100)] if canary_s is not None else []
        if p99_s is not None and self.steps * PERIOD_S % SCRAPED_S < PERIOD_S:
            readings.append(Reading("p99", p99_s, self.now_ms - 1_000 * self.range_s - 500))
        self.steps += 1
        achieved = self.state.published if used is None else used
        load = None if live is None else Reading("ingress", live, self.now_ms)
        inputs = Inputs(tuple(readings), load, achieved, 1e6, 100e6, active)
        self.state, decision = step(self.state, inputs, self.now_ms, PARAMS)
        return decision


@RANGES
def test_a_canary_that_falls_silent_is_noticed_as_soon_beside_a_latency_over_a_range(range_s: int) -> None:
    domain = Domain(range_s)
    climbing = [domain.step(0.02).wanted_bytes_per_s for _ in range(6)]
    assert climbing[-1] >= 10e6
    silent = [domain.step(None) for _ in range(2 * SOON_S // PERIOD_S)]
    first = next(n for n, told in enumerate(silent) if told.rule is Rule.STALE)
    assert (first + 1) * PERIOD_S <= SOON_S
    assert "canary is older than" in silent[first].why
    own_s = int(domain.state.tracks["canary"].gap_ms / 1000) + 3 * PERIOD_S
    later = [climbing[-1], *(told.wanted_bytes_per_s for told in silent)][own_s // PERIOD_S :]
    assert later == sorted(later, reverse=True), "nothing rises without the canary"
    assert later[-1] < climbing[-1]


@RANGES
def test_a_short_silence_of_the_canary_costs_no_loop_delay_of_a_latency_over_a_range(range_s: int) -> None:
    """That one's samples from before tell of a higher rate than the one to which it decayed."""
    domain = Domain(range_s)
    for _ in range(450):
        before = domain.step(0.02)
    silent = [domain.step(None).wanted_bytes_per_s for _ in range(6)]
    assert silent[-1] < before.wanted_bytes_per_s
    back = [domain.step(0.02).wanted_bytes_per_s for _ in range(45)]
    assert back[0] == silent[-1], "no sample tells yet of the rate to which it decayed"
    assert back[-1] >= 0.95 * before.wanted_bytes_per_s


def test_a_raise_that_waits_for_samples_of_a_signal_that_was_stale_is_not_saved_up() -> None:
    domain = Domain(60)
    for _ in range(400):
        domain.step(0.006, live=5e6)
    for _ in range(100):
        silent = domain.step(0.006, p99_s=None, live=5e6)
    assert silent.rate_bytes_per_s == 1e6
    told = [silent, *(domain.step(0.006, live=5e6) for _ in range(200))]
    rates = [decision.rate_bytes_per_s for decision in told]
    assert max(after / before for before, after in pairwise(rates)) <= 2
    waiting = [decision for decision in told if decision.rate_bytes_per_s == 1e6]
    assert len(waiting) > 30
    assert {decision.rule for decision in waiting} == {Rule.STALE, Rule.GATE}
    assert any("waits for samples of p99 that tell of the present rate" in decision.why for decision in waiting)
    assert rates[-1] > 50e6, "it is back after some loop delays"


@pytest.mark.parametrize("both", [False, True])
@RANGES
def test_harm_soon_after_lanes_have_begun_is_cut_as_soon_beside_a_latency_over_a_range(
    range_s: int, *, both: bool
) -> None:
    domain = Domain(range_s)
    domain.step(0.02, used=0.0)
    told = [domain.step(0.45, p99_s=0.45 if both else 0.02) for _ in range(SOON_S // PERIOD_S)]
    assert "lanes have only begun to copy" in told[0].why
    first = next(n for n, decision in enumerate(told) if decision.rule is Rule.GUARD)
    assert first * PERIOD_S <= SOON_S // 2
    assert told[-1].wanted_bytes_per_s < 10e6


HARM = 40e6  # from this rate on the latency is over its SLO


@pytest.mark.parametrize("silent_after_s", range(12, 18, 2))
def test_harm_from_before_a_silence_is_that_of_the_rate_which_did_it(silent_after_s: int) -> None:
    """A Prometheus tells that a fifth of the last minute was over the SLO. Soon after that begins the canary falls
    silent for half a minute, and the rate decays.
    """
    domain, granted = Domain(60), list[float]()

    def go(canary_s: float | None) -> ControlDecision:
        granted.append(domain.state.published)
        window = granted[-30:]
        decision = domain.step(canary_s, p99_s=0.36 if sum(rate >= HARM for rate in window) >= 6 else 0.02)
        assert decision.rule is not Rule.GUARD or domain.state.comfortable >= 0.4 * HARM
        return decision

    while domain.state.published < HARM:
        go(0.02)
    for _ in range(silent_after_s // PERIOD_S):
        go(0.02)
    for _ in range(15):
        go(None)
    told = [go(0.02) for _ in range(60)]
    assert any(decision.rule is Rule.GUARD for decision in told)
    assert min(domain.state.memory.safe.values()) >= 0.4 * HARM
