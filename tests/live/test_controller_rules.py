"""The eight rules of the controller, each on its own."""

import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest

from recoveryd.live.freshness import Reading, RejectReason
from recoveryd.live.law.controller import step
from recoveryd.live.law.memory import HOUR_MS, Memory, hour_of
from recoveryd.live.law.types import ControllerState, ControlVerdict, Inputs, Law, Rule
from recoveryd.live.pressure import Protection, SignalKind, latency_strain
from tests.live.control_rig import (
    CEILING,
    FLOOR,
    GROUP,
    LATENCY,
    PARAMS,
    PERIOD_MS,
    SLO_S,
    Rig,
    latency_at,
    started,
)

AIM = latency_strain(0.6, 0.08)  # the strain at the target


@pytest.mark.scenario("S-RUN-1")
def test_it_starts_at_five_percent_of_the_ceiling_and_doubles_per_loop_delay() -> None:
    rig = Rig().rest()
    first = rig.tick(0.0)
    assert (first.rate_bytes_per_s, first.publish, first.rule) == (5.0, True, Rule.SLOW_START)
    rates = [rig.tick(0.0).wanted_bytes_per_s for _ in range(5)]
    assert rates[-1] == pytest.approx(10.0)
    assert rig.decision is not None
    assert (rig.decision.rule, rig.decision.verdict) == (Rule.SLOW_START, ControlVerdict.PROTECTED)


def test_1_stale_telemetry_decays_to_the_floor_within_the_bound() -> None:
    rig = started(40.0)
    ticks = 0
    while rig.state.rate > FLOOR and ticks < 60:
        decision = rig.tick(None, lag_s=None)
        ticks += 1
    fresh_ticks = PARAMS.loop_delay_ms // PERIOD_MS
    assert 0 < ticks - fresh_ticks <= math.ceil(math.log(40.0 / FLOOR) / 0.223)
    assert (decision.rule, decision.verdict) == (Rule.STALE, ControlVerdict.BLIND)


def test_1_one_stale_signal_is_enough() -> None:
    rig = started(40.0)
    rates = [rig.tick(0.2, lag_s=None).wanted_bytes_per_s for _ in range(7)]
    assert rates[-1] == pytest.approx(rates[-3] * 0.64)


def test_1_telemetry_older_than_five_minutes_pauses_and_then_starts_anew() -> None:
    rig = started(40.0)
    decisions = [rig.tick(None, lag_s=None) for _ in range(62)]
    assert [d.pause for d in decisions[-3:]] == [False, True, True]
    assert (decisions[-1].rate_bytes_per_s, decisions[-1].verdict) == (0.0, ControlVerdict.PAUSED)
    assert rig.tick(0.0).rate_bytes_per_s == 5.0
    assert [rig.tick(0.0).pause for _ in range(3)] == [False] * 3


def test_1_after_an_outage_only_samples_taken_since_count() -> None:
    rig = started(40.0)
    for _ in range(10):
        rig.tick(None, lag_s=None)
    low = rig.state.rate
    assert rig.tick(0.0, age_ms=10_000).wanted_bytes_per_s == low
    assert rig.tick(0.0, age_ms=10_000).wanted_bytes_per_s == low
    assert rig.tick(0.0, age_ms=4_000).wanted_bytes_per_s > low


@pytest.mark.parametrize("missing", ["never measured", "no baseline"])
def test_1_a_signal_that_was_never_seen_keeps_the_rate_at_the_floor(missing: str) -> None:
    rig = Rig() if missing == "no baseline" else Rig().rest()
    if missing == "never measured":
        rig.params = replace(PARAMS, protections=(*PARAMS.protections, Protection("other", SignalKind.LAG, 30.0)))
    for _ in range(5):
        decision = rig.tick(0.0)
    assert (decision.rate_bytes_per_s, decision.rule, decision.verdict) == (FLOOR, Rule.STALE, ControlVerdict.BLIND)


def test_1_a_baseline_is_taken_at_the_floor_when_there_was_no_rest() -> None:
    rig = Rig()
    for _ in range(11):
        assert rig.tick(0.0).rate_bytes_per_s == FLOOR
    assert rig.tick(0.0).rate_bytes_per_s == pytest.approx(5.0), "then it starts as any other"


def test_the_baseline_does_not_drift_while_the_replay_runs() -> None:
    rig = started(40.0)
    before = rig.state.baselines
    for _ in range(50):
        rig.tick(0.9)
    assert rig.state.baselines == before


def test_at_the_floor_the_baseline_follows_drift_but_not_a_sick_broker() -> None:
    rig = started(2.0)
    for _ in range(60):
        rig.tick(0.3, lag_s=90.0)  # 0.02 s, less than twice the idle 0.016 s
    assert rig.state.rate == FLOOR
    assert rig.state.baselines[LATENCY][-1] == pytest.approx(latency_at(0.3))
    for _ in range(60):
        rig.tick(0.95, lag_s=90.0)
    assert rig.state.baselines[LATENCY][-1] == pytest.approx(latency_at(0.3))


def test_without_a_floor_a_stale_rate_ends_at_zero() -> None:
    rig = started(40.0)
    rig.floor = 0.0
    for _ in range(50):
        rig.tick(None, lag_s=None)
    assert (rig.state.rate, rig.state.published) == (0.0, 0.0)


def test_a_signal_slower_than_the_loop_is_waited_for_but_never_longer_than_five_minutes() -> None:
    rig = Rig(replace(PARAMS, measure_delay=True))
    for _ in range(40):
        rig.tick(0.0, after_ms=60_000, active=False)
    rig.tick(0.5, after_ms=60_000)
    assert [rig.tick(None, lag_s=None, after_ms=60_000).verdict for _ in range(5)] == [
        ControlVerdict.PROTECTED,
        ControlVerdict.PROTECTED,
        ControlVerdict.BLIND,
        ControlVerdict.BLIND,
        ControlVerdict.BLIND,
    ]
    assert rig.tick(None, lag_s=None, after_ms=60_000).pause


def test_2_no_raise_and_no_second_cut_before_a_sample_taken_after_the_cut() -> None:
    rig = started(40.0)
    cut = rig.cut()
    assert cut.rule is Rule.GUARD
    low = rig.state.rate
    for age_ms in (8_000, 12_000):
        held = rig.tick(0.0, age_ms=age_ms)
        assert (held.rule, held.wanted_bytes_per_s) == (Rule.GATE, low)
    assert rig.tick(0.0).wanted_bytes_per_s > low


def test_2_nothing_new_moves_nothing() -> None:
    rig = started(40.0)
    rig.tick(0.2)
    rate = rig.state.rate
    held = [rig.tick(None, lag_s=None) for _ in range(4)]
    assert {(d.rule, d.wanted_bytes_per_s) for d in held} == {(Rule.GATE, rate)}


@pytest.mark.parametrize(("latency_s", "factor"), [(0.4, 0.5), (0.5, 0.4), (0.8, 0.25), (60.0, 0.25)])
def test_3_the_cut_grows_with_severity(latency_s: float, factor: float) -> None:
    rig = started(40.0)
    decision = rig.tick(None, more=(Reading("produce_latency", latency_s, rig.now_ms + PERIOD_MS),))
    assert (decision.rule, decision.wanted_bytes_per_s) == (Rule.GUARD, pytest.approx(40.0 * factor))
    assert decision.publish


def test_3_lag_over_its_slo_cuts_even_while_latency_is_calm() -> None:
    rig = started(40.0)
    decision = rig.tick(0.0, lag_s=60.0)
    assert (decision.rule, decision.wanted_bytes_per_s) == (Rule.GUARD, pytest.approx(20.0))
    assert decision.why == "shop is at 2.00 of its SLO: cut to 50%"


def test_3_what_the_start_of_the_lanes_does_to_live_traffic_is_no_reason_for_a_cut() -> None:
    """Before they copy, no lower rate would change it, and samples of that come in for a loop delay longer; then it is
    judged as ever.
    """
    rig = Rig().rest()
    rig.tick(0.0, achieved=None)
    told = [rig.tick(None, achieved=0.0, more=(Reading(LATENCY, 0.5, rig.now_ms + PERIOD_MS),)) for _ in range(4)]
    assert {(d.rule, d.rate_bytes_per_s) for d in told} == {(Rule.FOREIGN, 5.0)}
    assert "nothing is copied yet" in told[0].why
    copying = [rig.tick(None, achieved=4.0, more=(Reading(LATENCY, 0.5, rig.now_ms + PERIOD_MS),)) for _ in range(7)]
    begun = copying[: PARAMS.loop_delay_ms // PERIOD_MS]
    assert {(d.rule, d.rate_bytes_per_s) for d in begun} == {(Rule.FOREIGN, 5.0)}
    assert "only begun to copy" in begun[0].why
    assert (copying[5].rule, copying[5].wanted_bytes_per_s) == (Rule.GUARD, pytest.approx(2.0))


def test_3_the_start_of_lanes_is_waited_for_a_minute_and_a_lag_is_not() -> None:
    rig = Rig().rest()
    rig.tick(0.0, achieved=None)
    harm = [rig.tick(None, achieved=None, more=(Reading(LATENCY, 0.5, rig.now_ms + PERIOD_MS),)) for _ in range(12)]
    assert [d.rule for d in harm] == [Rule.FOREIGN] * 11 + [Rule.GUARD]
    rig = Rig().rest()
    rig.tick(0.0, achieved=None)
    assert rig.tick(0.0, achieved=None, lag_s=60.0).rule is Rule.GUARD


def test_3_lanes_that_copy_already_when_signals_are_first_seen_are_judged_as_ever() -> None:
    """A daemon that was started again finds them at the floor, and begins where this hour was safe."""
    rig = Rig()
    rig.state = replace(rig.state, baselines={LATENCY: (0.0125,) * 10}, memory=Memory({hour_of(rig.now_ms): 80.0}))
    rig.tick(None, lag_s=None, achieved=1.0)
    rig.tick(0.0, achieved=1.0)
    assert rig.state.rate == 80.0
    assert rig.tick(None, achieved=1.0, more=(Reading(LATENCY, 0.5, rig.now_ms + PERIOD_MS),)).rule is Rule.GUARD


def test_3_a_signal_that_somebody_called_critical_counts_before_anything_is_copied() -> None:
    rig = Rig().rest()
    rig.tick(0.0, achieved=None)
    alarm = Reading(LATENCY, 0.3, rig.now_ms + PERIOD_MS, is_critical=True)
    assert rig.tick(None, achieved=0.0, more=(alarm,)).rule is Rule.GUARD


def test_3_the_comfortable_rate_is_three_quarters_of_the_first_cut_in_a_while() -> None:
    rig = started(40.0)
    rig.cut()
    assert rig.state.comfortable == pytest.approx(30.0)
    rig.tick(2.0)
    assert rig.state.comfortable == pytest.approx(30.0), "a second cut soon after tells nothing about what was well"


def test_4_recovery_is_quick_up_to_the_comfortable_rate_and_slow_above() -> None:
    rig = started(40.0)
    rig.tick(None, more=(Reading("produce_latency", 0.8, rig.now_ms + PERIOD_MS),))
    told = [rig.tick(0.3) for _ in range(12)]
    assert (told[0].rule, told[0].why.endswith("back to what was safe")) == (Rule.SLOW_START, True)
    assert (told[-1].rule, told[-1].why.endswith("beyond what was safe before")) == (Rule.SLOW_START, True)
    assert 30.0 < rig.state.rate < 36.0


NOISE = (0.1, 0.4, 0.95, 0.2, 0.5, 0.9, 0.3)


def after_a_cut_in_noise(noise: tuple[float, ...]) -> Rig:
    """Rest shows `NOISE`; a broker that was slow for a while led to a cut from 40 to the floor. `noise` follows."""
    rig = Rig()
    for z in NOISE * 4:
        rig.tick(z, active=False)
    rig.run(40.0)
    rig.tick(None, more=(Reading("produce_latency", 1.6, rig.now_ms + PERIOD_MS),))
    told = ((rig.now_ms, 1.0),)
    rig.state = replace(rig.state, rate=1.0, budget=1.0, published=1.0, comfortable=30.0, publications=told)
    for z in noise * 3:
        rig.tick(z)
    return rig


def test_4_where_rest_is_noisy_it_comes_back_to_what_was_safe_although_nothing_is_far_below_the_target() -> None:
    rig = after_a_cut_in_noise(NOISE)
    assert rig.state.rate >= 30.0


def test_4_calm_leads_back_in_two_steps_at_least_however_long_it_was_waited_for() -> None:
    rig = after_a_cut_in_noise(tuple(max(0.7, z) for z in NOISE))
    rates = [rig.state.rate]
    for z in NOISE * 3:
        rig.tick(z)
        rates.append(rig.state.rate)
    assert rates[-1] >= 30.0
    assert max(after / before for before, after in pairwise(rates)) < math.sqrt(30.0) * 1.05


def in_noise(rate: float) -> Rig:
    """Rest shows `NOISE` and a sample over the SLO; it runs at a rate that was safe."""
    rig = Rig()
    for z in (*NOISE * 3, 1.02):
        rig.tick(z, active=False)
    rig.run(rate)
    rig.state = replace(rig.state, comfortable=rate)
    return rig


def test_4_noise_as_at_rest_is_far_below_the_target_whatever_its_single_samples_show() -> None:
    rig = in_noise(20.0)
    for z in (0.1, 0.95, 0.2) * 20:
        rig.tick(z)
    assert rig.state.rate == rig.ceiling


def test_5_calm_raises_a_rate_beyond_what_was_safe_although_single_samples_are_near_the_target() -> None:
    rig = started(20.0)
    rig.state = replace(rig.state, comfortable=20.0)
    for z in (0.1, 0.95, 0.2) * 20:
        rig.tick(z)
    assert rig.state.rate > 22.0


def test_5_where_the_middle_of_the_noise_is_not_calm_single_samples_near_the_target_hold_the_rate() -> None:
    rig = in_noise(20.0)
    for z in (0.75, 0.95, 0.8) * 20:
        rig.tick(z)
    assert rig.state.rate == pytest.approx(20.0, rel=0.15)


def test_3_cuts_in_noise_on_the_way_back_leave_most_of_what_was_safe() -> None:
    """Else a few of them, at rates that harm nobody, would leave the floor as the only rate known to be safe."""
    rig = in_noise(40.0)
    for _ in range(3):
        rig.cut(1.02)
        rig.state = replace(rig.state, rate=2.0, budget=2.0, published=2.0, publications=((rig.now_ms, 2.0),))
        for _ in range(2 * PARAMS.loop_delay_ms // PERIOD_MS + 1):
            rig.tick(0.9)
    assert rig.state.rate == pytest.approx(2.0, rel=0.2)
    assert rig.state.comfortable == pytest.approx(40.0 * 0.75**3, rel=0.01)


def test_4_it_does_not_come_back_where_the_middle_of_the_noise_is_near_the_target() -> None:
    rig = after_a_cut_in_noise(tuple(max(0.7, z) for z in NOISE))
    assert rig.state.rate < 3.0


def test_4_a_rate_that_was_not_used_shows_nothing_of_what_is_beyond_it() -> None:
    """Lanes that something else held up for a while come back to a rate that goes on as slowly as at first."""
    rig = started(20.0)
    rig.state = replace(rig.state, comfortable=20.0, guarded_ms=0)
    while rig.state.probing_ms is None:
        rig.tick(0.1)
    for _ in range(20):
        rig.tick(0.1, achieved=0.0)
    before = rig.state.rate
    assert before >= 20.0
    for _ in range(PARAMS.loop_delay_ms // PERIOD_MS):
        rig.tick(0.1)
    assert before < rig.state.rate < 1.25 * before


def test_4_at_its_ceiling_a_rate_shows_nothing_of_what_is_beyond_it() -> None:
    rig = started(20.0)
    rig.state = replace(rig.state, comfortable=20.0)
    rig.ceiling = 24.0
    for _ in range(60):
        rig.tick(0.1)
    assert (rig.state.rate, rig.state.probing_ms) == (24.0, None)


@pytest.mark.parametrize(("harm_ms", "least", "most"), [(None, 1.8, 2.4), (HOUR_MS, 1.1, 1.5)])
@pytest.mark.parametrize("late_ticks", [0, 3])
def test_4_it_does_not_go_beyond_what_was_safe_before_samples_tell_of_that(
    late_ticks: int, harm_ms: int | None, least: float, most: float
) -> None:
    """Lanes use it `late_ticks` after they were granted it. Then it goes on, twice as much per loop delay where nothing
    was ever too much.
    """
    rig = Rig()
    harm = None if harm_ms is None else rig.now_ms - harm_ms
    rig.state = ControllerState(memory=replace(Memory().with_safe(20.0, rig.now_ms), harm_ms=harm))
    rig.rest()
    delay_ticks = PARAMS.loop_delay_ms // PERIOD_MS
    starting = [rig.tick(0.0, lag_s=1.0, achieved=None) for _ in range(late_ticks)]
    told = [*starting, *(rig.tick(0.0, lag_s=1.0) for _ in range(delay_ticks))]
    assert {d.wanted_bytes_per_s for d in told} == {20.0}
    assert told[-1].rule is Rule.GATE
    rates = [rig.tick(0.0, lag_s=1.0).wanted_bytes_per_s for _ in range(delay_ticks + 1)]
    assert 20.0 < rates[1] < rates[2]
    assert least * 20.0 < rates[-1] < most * 20.0


def test_6_of_lanes_that_were_not_all_heard_no_achieved_rate_is_told() -> None:
    rig = started(40.0)
    inputs = Inputs((), None, 20.0, FLOOR, CEILING)
    assert step(rig.state, inputs, rig.now_ms + PERIOD_MS, PARAMS)[1].achieved_bytes_per_s == 20.0
    some = replace(inputs, all_heard=False)
    assert step(rig.state, some, rig.now_ms + PERIOD_MS, PARAMS)[1].achieved_bytes_per_s is None


def test_5_for_lags_alone_it_does_not_go_beyond_what_was_safe_before_samples_tell_of_that() -> None:
    rig = Rig(replace(PARAMS, protections=PARAMS.protections[1:]))
    rig.state = ControllerState(memory=Memory().with_safe(20.0, rig.now_ms))
    rig.rest()
    delay_ticks = PARAMS.loop_delay_ms // PERIOD_MS
    told = [rig.tick(None, lag_s=1.0) for _ in range(delay_ticks)]
    assert {d.wanted_bytes_per_s for d in told} == {20.0}
    assert told[-1].rule is Rule.GATE
    rig.tick(None, lag_s=1.0)
    assert rig.tick(None, lag_s=1.0).wanted_bytes_per_s > 20.0


@pytest.mark.parametrize("z", [1.0, 1.02])
def test_9_a_rise_after_it_began_at_what_was_safe_is_ours(z: float) -> None:
    """From nothing to that is the largest raise of all."""
    rig = Rig()
    rig.state = ControllerState(memory=Memory().with_safe(60.0, rig.now_ms))
    rig.rest()
    rig.tick(0.1)
    decision = rig.tick(z)
    assert (decision.rule, decision.wanted_bytes_per_s) == (Rule.GUARD, pytest.approx(42.0))
    assert rig.state.comfortable == pytest.approx(45.0)
    for _ in range(2 * PARAMS.loop_delay_ms // PERIOD_MS + 1):
        rig.tick(0.9)
    assert rig.tick(z).rule is Rule.FOREIGN, "the next one follows nothing"


def test_9_a_rise_long_after_it_began_at_what_was_safe_is_doubted() -> None:
    rig = Rig()
    rig.state = ControllerState(memory=Memory().with_safe(60.0, rig.now_ms))
    rig.rest()
    for _ in range(PARAMS.loop_delay_ms // PERIOD_MS + 1):
        rig.tick(0.9)
    assert rig.tick(1.0).rule is Rule.FOREIGN


def test_after_a_restart_what_was_safe_is_gone_back_to_in_one_step_and_is_waited_for_too() -> None:
    """Lanes copy all the while, and nothing was ever too much."""
    rig = Rig()
    rig.state = replace(rig.state, baselines={LATENCY: (0.0125,) * 10}, memory=Memory({hour_of(rig.now_ms): 40.0}))
    for _ in range(PARAMS.loop_delay_ms // PERIOD_MS + 1):
        rig.tick(None, lag_s=None, achieved=1.0)
    rates = [rig.tick(0.0, lag_s=1.0).wanted_bytes_per_s for _ in range(PARAMS.loop_delay_ms // PERIOD_MS + 2)]
    assert set(rates[:-2]) == {40.0}
    assert rates[-1] > 40.0


def test_4_beyond_what_was_safe_at_another_time_the_rate_grows_the_faster_the_longer_all_is_well() -> None:
    rig = started(5.0)
    rig.state = replace(rig.state, comfortable=5.0)
    rates = [rig.state.rate]
    for _ in range(4):
        for _ in range(PARAMS.loop_delay_ms // PERIOD_MS):
            rig.tick(0.1)
        rates.append(rig.state.rate)
    steps = [after / before for before, after in pairwise(rates)]
    assert 1.05 < steps[0] < steps[1] < 1.5 < steps[2] < 2.3
    assert rig.decision is not None
    assert rig.decision.why.endswith("beyond what was safe before")


@pytest.mark.parametrize(
    ("hour", "least", "most"),
    [(None, 1.9, 2.1), (0, 1.0, 1.5), (24, 1.0, 1.5), (25, 1.0, 1.5), (27, 1.9, 2.1)],
    ids=str,
)
def test_4_where_nothing_was_ever_too_much_and_next_to_nothing_of_an_slo_is_used_the_slow_start_goes_on(
    hour: int | None, least: float, most: float
) -> None:
    """`hour`: so long ago a rate was too high."""
    rig = started(5.0).settle(0.0, lag_s=1.0)
    rig.state = replace(rig.state, rate=5.0, budget=5.0, published=5.0, publications=((rig.now_ms - HOUR_MS, 5.0),))
    memory = Memory() if hour is None else Memory().with_most(30.0, rig.now_ms - hour * HOUR_MS)
    rig.state = replace(rig.state, comfortable=5.0, probing_ms=None, memory=memory)
    for _ in range(PARAMS.loop_delay_ms // PERIOD_MS):
        rig.tick(0.0, lag_s=1.0)
    assert least <= rig.state.rate / 5.0 <= most


@pytest.mark.parametrize("low", [0.08, 0.13])
@pytest.mark.parametrize("harm_ms", [None, HOUR_MS])
def test_4_single_low_samples_are_not_far_below_the_target(harm_ms: int | None, low: float) -> None:
    rig = Rig().rest()
    memory = Memory({hour_of(rig.now_ms): 20.0}, harm_ms=None if harm_ms is None else rig.now_ms - harm_ms)
    rig.state = replace(rig.state, memory=memory)
    why = []
    for at in range(40):
        share = (0.45, 0.45, low)[at % 3]
        sample = Reading(LATENCY, share * SLO_S, rig.now_ms + PERIOD_MS)
        why.append(rig.tick(None, lag_s=1.0, more=(sample,)).why)
    assert rig.state.rate < 1.15 * 20.0
    assert not [told for told in why[2:] if "far below" in told]


@pytest.mark.parametrize(
    ("z", "factor"),
    [
        (0.6, math.exp(0.2 * 0.2 * (AIM - 0.6))),
        (0.8, math.exp(0.2 * 0.2 * (AIM - 0.8))),
        (0.86, 1.0),
        (0.93, 1.0),
        (0.99, math.exp(1.0 * 0.2 * (AIM - 0.99))),
    ],
)
def test_5_the_budget_follows_the_pressure_and_rests_near_the_target(z: float, factor: float) -> None:
    rig = started(40.0)
    rig.state = replace(rig.state, comfortable=40.0)  # else the room that rest leaves would raise it sooner
    before = rig.settle(z).state.rate  # of the last few latencies the upper quartile counts
    assert rig.tick(z).wanted_bytes_per_s == pytest.approx(before * factor)


@pytest.mark.parametrize("calm", [0.3, 0.6])
def test_5_one_high_sample_lowers_nothing_and_no_longer_holds_once_three_others_tell_of_the_same_rate(
    calm: float,
) -> None:
    rig = started(5.0).settle(calm).settle(calm)
    rates = [rig.state.rate, *(rig.tick(z).wanted_bytes_per_s for z in (0.99, calm, calm, calm, calm, calm))]
    assert rates == sorted(rates)
    assert rates[-1] > 1.001 * rates[-2]


def test_5_two_high_samples_of_those_that_count_raise_nothing_and_lower_nothing() -> None:
    rig = started(40.0).settle(0.6)
    for z in (0.99, 0.6, 0.6):
        rig.tick(z)
    before = rig.state.rate
    assert rig.tick(0.99).wanted_bytes_per_s == before


def test_5_two_high_samples_of_three_lower_it() -> None:
    rig = started(40.0).settle(0.3)
    before = rig.tick(0.99).wanted_bytes_per_s
    assert rig.tick(0.99).wanted_bytes_per_s < before


def test_5_the_rate_falls_steadily_with_the_pressure() -> None:
    found = []
    for z in [i / 50 for i in range(54)]:
        found.append(started(40.0).settle(z).tick(z).wanted_bytes_per_s)
    assert found[0] > 40.0 > found[-1]
    assert found == sorted(found, reverse=True)


def test_6_lanes_that_do_not_use_their_rate_get_no_more() -> None:
    rig = started(40.0).settle(0.2, achieved=31.0)
    held = rig.tick(0.2, achieved=31.0)
    assert (held.rule, held.wanted_bytes_per_s) == (Rule.NO_WINDUP, 40.0)
    assert rig.tick(0.2, achieved=None).rule is Rule.NO_WINDUP
    assert rig.tick(0.2, achieved=33.0).wanted_bytes_per_s > 40.0


def test_7_small_raises_are_kept_back_and_every_cut_is_told() -> None:
    rig = started(40.0)
    rig.state = replace(rig.state, comfortable=40.0)  # else the room that rest leaves would raise it sooner
    rig.settle(0.6)
    told = [rig.tick(0.6) for _ in range(5)]
    published = [d.rate_bytes_per_s for d in told if d.publish]
    assert [d.publish for d in told].count(True) == 1
    assert 42.0 <= published[0] < 43.5
    assert rig.cut().publish


def test_8_pressure_that_stays_at_the_floor_is_not_ours() -> None:
    rig = started(2.0)
    decisions = [rig.tick(0.0, lag_s=90.0) for _ in range(20)]
    assert decisions[2].verdict is ControlVerdict.PROTECTED
    last = decisions[-1]
    assert (last.verdict, last.rule, last.rate_bytes_per_s) == (ControlVerdict.UNATTRIBUTABLE, Rule.PROTECT, FLOOR)
    assert not rig.state.dropped


def slowly_read_off(tick: int) -> float:
    """A group that needs the floor: it stood for half a minute, and reads off a quarter of a second in each."""
    return 30.0 + 5.0 * tick if tick < 6 else 60.0 - 0.25 * 5.0 * (tick - 6)


def test_8_what_gets_less_at_the_floor_may_be_ours_and_is_not_left_out() -> None:
    group = Protection(GROUP, SignalKind.LAG, 30.0, drop_when_unattributable=True)
    rig = started(2.0, replace(PARAMS, protections=(PARAMS.protections[0], group)))
    decisions = [rig.tick(0.0, lag_s=slowly_read_off(tick)) for tick in range(28)]
    told = {d.verdict for d in decisions[7:]}
    assert (told, rig.state.dropped) == ({ControlVerdict.PROTECTED}, {})
    assert {d.wanted_bytes_per_s for d in decisions[7:]} == {FLOOR}


def test_8_a_group_that_got_less_and_then_stays_is_left_out() -> None:
    group = Protection(GROUP, SignalKind.LAG, 30.0, drop_when_unattributable=True)
    rig = started(2.0, replace(PARAMS, protections=(PARAMS.protections[0], group)))
    for tick in range(12):
        rig.tick(0.0, lag_s=slowly_read_off(tick))
    assert not rig.state.dropped
    for _ in range(17):
        rig.tick(0.0, lag_s=52.0)
    assert set(rig.state.dropped) == {GROUP}


def test_8_of_two_groups_the_one_that_stays_is_left_out_and_the_other_goes_on_to_count() -> None:
    groups = tuple(Protection(name, SignalKind.LAG, 30.0, drop_when_unattributable=True) for name in (GROUP, "dead"))
    rig = started(2.0, replace(PARAMS, protections=(PARAMS.protections[0], *groups)))
    for tick in range(24):
        dead = Reading("dead", 90.0 + 5.0 * tick, rig.now_ms + PERIOD_MS)
        decision = rig.tick(0.0, lag_s=60.0 - tick, more=(dead,))
    assert (set(rig.state.dropped), decision.wanted_bytes_per_s) == ({"dead"}, FLOOR)


def test_8_a_group_that_is_left_out_counts_again_where_it_gets_much_worse() -> None:
    group = Protection(GROUP, SignalKind.LAG, 30.0, drop_when_unattributable=True)
    rig = started(2.0, replace(PARAMS, protections=(PARAMS.protections[0], group)))
    for _ in range(40):
        rig.tick(0.0, lag_s=90.0)
    rate = rig.tick(0.0, lag_s=110.0).wanted_bytes_per_s
    assert (set(rig.state.dropped), rate > 3 * FLOOR) == ({GROUP}, True)
    decisions = [rig.tick(0.0, lag_s=lag_s) for lag_s in (113.0, 114.0, 115.0)]
    assert rig.state.dropped == {}
    assert decisions[-1].wanted_bytes_per_s < rate
    for _ in range(40):
        rig.tick(0.0, lag_s=115.0)
    assert set(rig.state.dropped) == {GROUP}


@pytest.mark.parametrize("seed", range(8))
def test_8_noise_does_not_look_like_what_gets_less(seed: int) -> None:
    rig, noise = started(2.0), random.Random(seed)
    for _ in range(60):
        sample = Reading(LATENCY, 1.5 * SLO_S * noise.uniform(0.8, 1.2), rig.now_ms + PERIOD_MS)
        decision = rig.tick(None, more=(sample,))
    assert decision.verdict is ControlVerdict.UNATTRIBUTABLE


def test_8_a_group_may_be_left_out_once_it_is_shown_that_we_do_not_move_it() -> None:
    group = Protection(GROUP, SignalKind.LAG, 30.0, drop_when_unattributable=True)
    rig = started(2.0, replace(PARAMS, protections=(PARAMS.protections[0], group)))
    for _ in range(40):
        decision = rig.tick(0.0, lag_s=90.0)
    assert (set(rig.state.dropped), decision.verdict) == ({GROUP}, ControlVerdict.UNATTRIBUTABLE)
    assert decision.wanted_bytes_per_s > 3 * FLOOR
    assert decision.rule in {Rule.SLOW_START, Rule.TRACK}
    assert decision.why.endswith("; shop does not count: it stayed as bad with replays at their floor")
    assert "at its floor" not in decision.why
    rig.tick(0.0, lag_s=6.0)
    assert not rig.state.dropped


def test_8_where_the_group_that_is_left_out_is_all_there_is_the_rate_stays_and_says_why() -> None:
    group = Protection(GROUP, SignalKind.LAG, 30.0, drop_when_unattributable=True)
    rig = started(2.0, replace(PARAMS, protections=(group,)))
    for _ in range(40):
        decision = rig.tick(None, lag_s=90.0)
    assert (set(rig.state.dropped), decision.verdict) == ({GROUP}, ControlVerdict.UNATTRIBUTABLE)
    assert decision.wanted_bytes_per_s == FLOOR
    assert decision.why.startswith("shop is not ours to move, and nothing else tells of live traffic: holds")


def test_8_nothing_listed_means_nothing_is_held_back() -> None:
    rig = Rig(replace(PARAMS, protections=()))
    assert rig.tick(None, lag_s=None).rate_bytes_per_s == CEILING


LEFT_OUT = replace(PARAMS, protections=(), all_left_out=True)


def test_8_where_nothing_that_is_listed_counts_now_the_rate_goes_on_in_steps() -> None:
    rig = started(2.0, replace(PARAMS, protections=(PARAMS.protections[1],)))
    rig.params, before = LEFT_OUT, rig.state.rate
    decisions = [rig.tick(None, lag_s=None) for _ in range(5)]
    assert decisions[0].wanted_bytes_per_s == pytest.approx(before * 2**0.2)
    assert decisions[-1].wanted_bytes_per_s == pytest.approx(before * 2)
    assert (decisions[0].rule, decisions[0].verdict) == (Rule.PROTECT, ControlVerdict.LATENCY_UNPROTECTED)
    assert decisions[0].why.startswith("nothing that is listed to be protected counts now: slow start")
    for _ in range(30):
        decision = rig.tick(None, lag_s=None)
    assert decision.rate_bytes_per_s == CEILING
    assert decision.why.startswith("nothing that is listed to be protected counts now (")


def test_8_nor_does_a_recovery_begin_at_the_ceiling_or_rise_beyond_what_lanes_use() -> None:
    rig = Rig(LEFT_OUT)
    assert rig.tick(None, lag_s=None).rate_bytes_per_s == 5.0
    for _ in range(10):
        decision = rig.tick(None, lag_s=None, achieved=1.0)
    assert decision.wanted_bytes_per_s == pytest.approx(5.0)
    assert "something else limits them" in decision.why


def test_live_traffic_takes_its_part_at_once_and_gives_it_back() -> None:
    rig = started(40.0)
    rig.tick(0.9, ingress=10.0)
    assert rig.state.rate == pytest.approx(40.0), "an ingress that becomes known moves the budget, not the rate"
    assert rig.tick(0.9, ingress=20.0).wanted_bytes_per_s == pytest.approx(25.0)
    assert rig.tick(0.9, ingress=10.0).wanted_bytes_per_s == pytest.approx(40.0)
    assert rig.tick(0.9, ingress=None, after_ms=30_000).wanted_bytes_per_s == pytest.approx(40.0)


def test_an_ingress_that_is_measured_in_another_way_changes_no_rate_and_what_comes_later_does() -> None:
    rig = started(40.0)
    rig.tick(0.9, ingress=10.0, ingress_since_ms=1)
    rig.tick(0.9, ingress=10.0, ingress_since_ms=1)
    assert rig.tick(0.9, ingress=30.0, ingress_since_ms=2).wanted_bytes_per_s == pytest.approx(40.0)
    assert rig.tick(0.9, ingress=40.0, ingress_since_ms=2).wanted_bytes_per_s == pytest.approx(25.0)


def test_a_burst_that_fell_into_the_floor_gives_back_only_what_it_took() -> None:
    rig = started(40.0)
    rig.tick(0.9, ingress=10.0)
    rig.tick(0.9, ingress=200.0)
    assert rig.state.rate == FLOOR
    rig.tick(1.0, ingress=200.0)
    assert rig.tick(0.9, ingress=10.0).wanted_bytes_per_s <= 40.0


@pytest.mark.parametrize("is_critical", [True, False])
def test_live_traffic_that_writes_less_while_it_suffers_gives_nothing_to_the_replay(is_critical: bool) -> None:
    rig = started(10.0)
    for _ in range(4):
        rig.tick(0.9, ingress=20.0)
    before = rig.state.rate
    at_ms = rig.now_ms + PERIOD_MS
    latency_s = (PARAMS.raw_guard if is_critical else 1.2) * SLO_S
    rates = [rig.tick(None, ingress=0.0, more=(Reading(LATENCY, latency_s, at_ms, is_critical),)).wanted_bytes_per_s]
    rates += [rig.tick(1.1, ingress=0.0).wanted_bytes_per_s for _ in range(3)]
    assert max(rates) <= before
    assert rates[0] <= (0.7 if is_critical else 1.0) * before


def test_1_a_signal_that_is_stale_hides_no_harm_that_another_one_shows() -> None:
    rig = started(40.0)
    for _ in range(6):
        rig.tick(0.3, lag_s=None)
    before = rig.state.rate
    assert rig.tick(None, lag_s=None, more=(Reading(LATENCY, 10 * SLO_S, rig.now_ms + PERIOD_MS),)).rule in (
        Rule.STALE,
        Rule.GUARD,
    )
    assert rig.state.rate <= 0.26 * before


def test_1_harm_is_cut_while_another_signal_is_stale_at_any_period() -> None:
    rig = started(40.0, replace(PARAMS, period_ms=2_000))
    while not rig.state.is_stale:
        rig.tick(0.3, lag_s=None, after_ms=2_000)
    before = rig.state.rate
    rules = [rig.tick(1.6, lag_s=None, after_ms=2_000).rule for _ in range(3)]
    assert Rule.GUARD in rules
    assert rig.state.rate <= 0.3 * before


def test_a_critical_word_that_was_heard_in_a_rest_counts_when_a_recovery_begins() -> None:
    rig = started(40.0)
    rig.tick(0.3, more=(Reading(LATENCY, 1.1 * SLO_S, rig.now_ms + PERIOD_MS, True),), active=False)
    assert rig.state.alarmed == {LATENCY}


@pytest.mark.parametrize(("share", "comfortable"), [(0.1, 40.0), (1.2, 10.0)])
def test_1_a_rate_that_something_speaks_against_is_not_remembered_as_comfortable(
    share: float, comfortable: float
) -> None:
    rig = started(40.0)
    for _ in range(5):
        rig.tick(0.9, lag_s=None)
    rig.state = replace(rig.state, comfortable=10.0)
    rig.tick(None, lag_s=None, more=(Reading(LATENCY, share * SLO_S, rig.now_ms + PERIOD_MS),))
    assert rig.state.is_stale
    assert rig.state.comfortable == pytest.approx(comfortable, rel=0.2)


def test_without_a_latency_the_lag_only_law_applies_and_says_so() -> None:
    rig = started(40.0, replace(PARAMS, protections=(PARAMS.protections[1],)))
    assert rig.params.effective_law is Law.LAG_ONLY
    before = rig.state.rate
    up = rig.tick(None, lag_s=5.0)
    assert up.wanted_bytes_per_s == pytest.approx(before + 0.8)
    assert up.verdict is ControlVerdict.LATENCY_UNPROTECTED
    assert "produce latency is not measured" in up.why
    before = rig.state.rate
    assert rig.tick(None, lag_s=15.0).wanted_bytes_per_s == pytest.approx(before / 2)


def test_when_nothing_wants_to_copy_it_rests_and_the_next_one_starts_low_where_nothing_is_remembered() -> None:
    rig = started(40.0)
    rig.tick(2.0)
    decision = rig.tick(0.0, active=False)
    assert (decision.rate_bytes_per_s, decision.publish, decision.verdict) == (0.0, True, ControlVerdict.IDLE)
    assert rig.tick(0.0, active=False).publish is False
    rig.state = replace(rig.state, memory=Memory())
    assert rig.tick(0.0).rate_bytes_per_s == 5.0


def test_readings_nobody_asked_for_or_that_cannot_be_true_are_counted() -> None:
    rig = started(40.0)
    at_ms = rig.now_ms + PERIOD_MS
    odd = (
        Reading("stranger", 1.0, at_ms),
        Reading(GROUP, math.nan, at_ms - 2),
        Reading(GROUP, -1.0, at_ms - 1),
        Reading(GROUP, 0.0, at_ms + 60_000),
    )
    rig.tick(0.9, more=odd)
    assert rig.state.rejections == {
        RejectReason.UNKNOWN_NAME: 1,
        RejectReason.NOT_A_NUMBER: 1,
        RejectReason.NEGATIVE: 1,
        RejectReason.FUTURE: 1,
    }
    assert rig.state.rate == 40.0


def test_a_clock_that_was_set_back_makes_old_samples_unknown_instead_of_fresh() -> None:
    rig = started(40.0)
    decision = rig.tick(None, lag_s=None, after_ms=-3_600_000)
    assert (decision.rate_bytes_per_s, decision.verdict) == (FLOOR, ControlVerdict.BLIND)


def test_a_ceiling_that_is_not_known_leaves_the_floor() -> None:
    rig = Rig(ceiling=math.inf).rest()
    assert [rig.tick(0.0).rate_bytes_per_s for _ in range(3)] == [FLOOR] * 3


def test_latency_at_gives_the_latency_of_a_pressure() -> None:
    assert (latency_at(0.0), latency_at(1.0)) == (pytest.approx(0.016), pytest.approx(0.2))
    assert ControllerState().rate == 0.0


@pytest.mark.parametrize("age_ms", [0, 1, 4_000])
def test_3_a_critical_word_cuts_although_a_reading_as_new_or_newer_is_calm(age_ms: int) -> None:
    rig = started(40.0)
    critical = Reading(LATENCY, 0.22, rig.now_ms + PERIOD_MS - age_ms, is_critical=True)
    decision = rig.tick(0.1, more=(critical,))
    assert decision.rule is Rule.GUARD
    assert decision.wanted_bytes_per_s <= 0.71 * 40.0
    assert rig.state.rejections == {}


def test_3_a_critical_word_that_came_after_a_newer_reading_was_used_still_cuts() -> None:
    rig = started(40.0)
    rig.tick(0.1)
    rate = rig.state.rate
    critical = Reading(LATENCY, 0.22, rig.now_ms - 1_000, is_critical=True)
    assert rig.tick(None, more=(critical,)).wanted_bytes_per_s <= 0.71 * rate


def test_3_a_late_critical_word_about_the_load_before_the_last_cut_does_not_cut_again() -> None:
    rig = started(40.0)
    before_ms = rig.now_ms
    rig.cut(1.02)
    cut = rig.state.rate
    for _ in range(3):
        rig.tick(0.1, more=(Reading(LATENCY, 0.22, before_ms, is_critical=True),))
    assert rig.state.rate >= cut
    assert rig.state.rejections == {RejectReason.OUT_OF_ORDER: 3}


def test_3_a_late_word_counts_no_longer_than_a_loop_delay_and_only_when_critical() -> None:
    rig = started(40.0)
    calm = rig.state.rate
    old = Reading(LATENCY, 0.22, rig.now_ms + PERIOD_MS - PARAMS.loop_delay_ms - 1, is_critical=True)
    rig.tick(0.5, more=(old,))
    rig.tick(0.5, more=(Reading(LATENCY, 0.22, rig.now_ms - 1),))
    assert rig.state.rate >= calm
    assert rig.state.rejections == {RejectReason.OUT_OF_ORDER: 2}
