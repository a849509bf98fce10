"""What holds for the controller with any input: bounds, no raise without telemetry or by samples older than the last
cut, same output for the same input.
"""

import math
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from recoveryd.live.freshness import Reading
from recoveryd.live.law.controller import step
from recoveryd.live.law.types import ControllerParams, ControllerState, Inputs, Law
from recoveryd.live.law.usual import LEVEL_STEP
from tests.live.control_rig import GROUP, LATENCY, PARAMS, START_MS, latency_at

TICK_MS = 5_000

number = st.one_of(st.floats(0, 60), st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0, 1e300]))
reading = st.builds(
    Reading,
    st.sampled_from([LATENCY, GROUP, GROUP, "stranger"]),
    number,
    st.integers(-400_000, 60_000),  # relative to now
)
tick = st.tuples(
    st.lists(reading, max_size=5),
    st.one_of(st.none(), st.tuples(number, st.integers(-60_000, 10_000))),
    st.one_of(st.none(), number),
    st.integers(-20_000, 60_000),
    st.booleans(),
)
law = st.sampled_from([PARAMS, replace(PARAMS, law=Law.ADDITIVE), replace(PARAMS, measure_delay=True)])


def inputs_at(now_ms: int, found: tuple[object, ...], *, active: bool = True) -> Inputs:
    readings, ingress, achieved = found[0], found[1], found[2]
    load = None if ingress is None else Reading("ingress", ingress[0], now_ms + ingress[1])  # type: ignore[index]
    told = tuple(r._replace(sampled_at_ms=now_ms + r.sampled_at_ms) for r in readings)  # type: ignore[attr-defined]
    return Inputs(told, load, achieved, 1.0, 100.0, active)  # type: ignore[arg-type]


def calm(params: ControllerParams, now_ms: int, rate: float) -> ControllerState:
    """A state with a baseline and fresh samples, running at `rate`."""
    state = ControllerState()
    for i in range(15):
        at_ms = now_ms - (15 - i) * 5_000
        told = (Reading(LATENCY, 0.0125, at_ms), Reading(GROUP, 5.0, at_ms))
        state, _ = step(state, Inputs(told, None, None, 1.0, 100.0, active=i > 12), at_ms, params)
    return replace(state, rate=rate, budget=rate, published=rate, publications=((now_ms, rate),))


@settings(max_examples=60, deadline=None)
@given(law, st.lists(tick, max_size=40))
def test_any_input_stays_within_the_bounds_and_is_told_in_one_sentence(params: ControllerParams, ticks: list) -> None:
    state, now_ms = calm(params, START_MS, 20.0), START_MS
    for found in ticks:
        now_ms += found[3]
        inputs = inputs_at(now_ms, found, active=found[4])
        again = step(state, inputs, now_ms, params)
        state, decision = step(state, inputs, now_ms, params)
        assert (state, decision) == again
        assert decision.rate_bytes_per_s == 0.0 or 1.0 <= decision.rate_bytes_per_s <= 100.0
        assert math.isfinite(state.budget)
        assert decision.rate_bytes_per_s > 0.0 or decision.pause or not inputs.active
        assert decision.why
        assert all(p.strain >= 0 for p in decision.pressures)
        assert sum(state.rejections.values()) < 10**4
        assert len(state.publications) <= 32
        assert all(len(t.values) <= 24 for t in state.tracks.values())


@settings(max_examples=60, deadline=None)
@given(
    law, st.floats(1.0, 100.0), st.lists(tick, max_size=15), st.lists(st.integers(1, 30_000), min_size=1, max_size=40)
)
def test_missing_telemetry_never_raises_a_rate(
    params: ControllerParams, rate: float, ticks: list, gaps: list[int]
) -> None:
    state, now_ms = calm(params, START_MS, rate), START_MS
    for found in ticks:
        now_ms += abs(found[3])
        state, _ = step(state, inputs_at(now_ms, found), now_ms, params)
    for gap_ms in gaps:
        now_ms += gap_ms
        before, told = state.rate, state.published
        state, decision = step(state, Inputs((), None, before, 1.0, 100.0), now_ms, params)
        assert state.rate <= max(before, 1.0)
        assert decision.rate_bytes_per_s <= max(told, 1.0)


@settings(max_examples=60, deadline=None)
@given(law, st.floats(2.0, 100.0), st.lists(tick, max_size=20), st.sampled_from([LATENCY, GROUP]))
def test_one_silent_signal_never_lets_the_rate_rise_once_it_is_stale(
    params: ControllerParams, rate: float, ticks: list, silent: str
) -> None:
    state, now_ms = calm(params, START_MS, rate), START_MS + 130_000
    state, _ = step(state, Inputs((), None, rate, 1.0, 100.0), now_ms, params)
    for found in ticks:
        now_ms += abs(found[3])
        heard = tuple(r for r in inputs_at(now_ms, found).readings if r.name != silent)
        before = state.rate
        state, _ = step(state, replace(inputs_at(now_ms, found), readings=heard), now_ms, params)
        assert state.rate <= max(before, 1.0)


@settings(max_examples=60, deadline=None)
@given(st.floats(5.1, 100.0), st.lists(tick, min_size=1, max_size=20))  # above the rate that a recovery begins with
def test_behind_the_gate_the_rate_never_rises_whatever_older_samples_say(rate: float, ticks: list) -> None:
    state, now_ms = calm(PARAMS, START_MS, rate), START_MS + 1_000
    told = (Reading(LATENCY, 0.5, now_ms), Reading(GROUP, 5.0, now_ms))
    state, decision = step(state, Inputs(told, None, rate, 1.0, 100.0), now_ms, PARAMS)
    assert decision.wanted_bytes_per_s < rate
    gate_ms = now_ms + PARAMS.cut_latency_ms
    for found in ticks:
        now_ms += abs(found[3])
        inputs = inputs_at(now_ms, found)
        older = tuple(r for r in inputs.readings if r.sampled_at_ms <= gate_ms or r.name == "stranger")
        before = state.rate
        state, _ = step(state, replace(inputs, readings=older), now_ms, PARAMS)
        assert state.rate <= max(before, 1.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.floats(0.05, 0.99), st.floats(0.05, 0.99))
@example(3, 0.5, 0.25)
@example(3, 0.3085, 0.31085)
def test_of_two_worlds_below_the_slo_the_one_with_more_pressure_never_gets_much_more(
    ticks: int, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    rates = []
    for z in (low, high):
        state, now_ms = calm(PARAMS, START_MS, 20.0), START_MS
        for _ in range(ticks):
            now_ms += TICK_MS
            latency = latency_at(z)
            told = (Reading(LATENCY, latency, now_ms), Reading(GROUP, 5.0, now_ms))
            state, _ = step(state, Inputs(told, None, state.published, 1.0, 100.0), now_ms, PARAMS)
        rates.append(state.rate)
    # They are not seen at the same rates, so what is known of other rates may count one step earlier in one of them.
    one_step = (1 + LEVEL_STEP) ** (TICK_MS / PARAMS.loop_delay_ms)
    assert rates[0] * one_step >= rates[1]
