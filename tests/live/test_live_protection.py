"""Replays next to live traffic in a simulated world: they stay at the floor until live traffic is known, then speed up,
yield, pause and go on by themselves.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.events import SignalReceived
from recoveryd.kernel.states import State
from recoveryd.live.events import OffsetsSampled, TopicSample
from recoveryd.live.freshness import RejectReason
from recoveryd.live.lag.verdicts import LagVerdict
from recoveryd.live.lag.window import LagSample
from recoveryd.live.law.noise import usual_share
from recoveryd.live.law.types import ControlVerdict, Rule
from recoveryd.live.signals import HealthSignal, LagSignal
from recoveryd.live.signals import SignalledPartition as SignalSample
from recoveryd.live.slice import LIVE
from recoveryd.recovery.model import Wanted
from recoveryd.recovery.spec import Limits
from recoveryd.replay.spec import TargetRef
from tests.builders.core import NOW_MS, command, make_book, make_facts, make_spec, make_verification
from tests.builders.deciding import make_decider
from tests.builders.live_world import BOARD, LAG, LATENCY, MAX, MIN, LiveWorld, lag_look, make_params
from tests.builders.world import World


def test_a_replay_stays_at_the_floor_until_live_traffic_was_measured() -> None:
    world = LiveWorld()
    world.latency_s = None
    world.feed(command("replay"))
    world.live(60)
    assert (world.recovery().state, world.rate, world.directive_rate) == (State.RUNNING, MIN, MIN)
    assert world.recovery().rule == "main: produce_latency was never measured without a replay: stays at the floor"


def test_a_replay_speeds_up_while_live_traffic_is_well() -> None:
    world = LiveWorld().copying()
    started = world.rate
    world.live(120)
    assert MIN < started < MAX  # slow start: from 10 % of the maximum
    assert world.rate == world.directive_rate == MAX
    decided = [n.data for n in world.told("throttle_decided")]
    assert {d["rule_name"] for d in decided} >= {"slow_start"}
    assert all(d["recoveries"] == {"r1": d["rate_bytes_per_s"]} for d in decided if d["verdict"] != "idle")


@pytest.mark.parametrize(
    ("silent", "why"), [({0}, "some were not heard just now"), ({0, 1}, "the achieved rate is not known")]
)
def test_what_a_silent_lane_last_used_raises_no_rate_and_shows_none_to_be_safe(silent: set[int], why: str) -> None:
    world = LiveWorld(replace(make_params(), heartbeat_timeout_ms=30_000))
    world.speed = 10  # each lane then uses less than what both are granted
    world.copying()
    (app,) = world.applications.values()
    app.frozen |= silent
    used = world.rate
    world.live(4)
    held = world.rate
    assert used <= held <= 1.6 * used, "some seconds late is not silent"
    world.live(14)
    assert (world.recovery().state, world.rate) == (State.RUNNING, held), "nor does it decay"
    assert why in world.recovery().rule
    learned = world.state.of(LIVE).protecting.states["main"].memory.safe.values()
    assert max(learned, default=0.0) <= max(used, 1_000 / 0.8), "what the other one used"
    app.frozen.clear()
    world.live(20)
    assert world.rate >= 1.8 * held


def test_a_lane_that_has_returned_may_be_silent() -> None:
    world = LiveWorld().copying()
    (app,) = world.applications.values()
    world.receipts["r1"][1] = 1_000_000
    world.live(120)
    assert app.returned == {1}
    assert world.rate > 0.6 * MAX


@pytest.mark.parametrize("late", [False, True])
def test_a_late_heartbeat_takes_nothing_from_one_of_two(late: bool) -> None:
    world = LiveWorld().copying()
    world.feed(command("replay", "r2", command_id="c2", offset=2, spec=make_spec(target=TargetRef("flights.v3"))))
    world.live(120)
    before = world.recovery("r2").effective_bytes_per_s
    if late:
        next(app for app in world.applications.values() if app.recovery == "r2").frozen.add(0)
    world.live(8)
    assert world.recovery("r2").effective_bytes_per_s == before


def test_it_is_cut_at_once_when_live_traffic_reaches_its_slo() -> None:
    world = LiveWorld().copying()
    world.live(120)
    world.latency_s = lambda: 0.45
    world.live(3)
    assert world.directive_rate <= 0.5 * MAX
    assert world.recovery().rule.startswith("main: produce_latency is at 2.25 of its SLO: cut")
    assert world.told("throttle_decided")[-1].data["rule"] == 3
    violations = world.state.of(LIVE).protecting.violations_s
    assert violations == {("main", "produce_latency", "yes"): 2.0}


def test_telemetry_that_is_cut_for_a_minute_costs_the_rate_down_to_the_floor_and_it_comes_back() -> None:
    world = LiveWorld().copying()
    world.live(120)
    healthy, world.latency_s = world.latency_s, None
    rates = []
    for _ in range(180):
        world.live(1)
        rates.append(world.directive_rate)
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == MIN
    world.latency_s = healthy
    world.live(180)
    assert world.directive_rate > 0.5 * MAX


def test_telemetry_lost_for_five_minutes_pauses_and_its_return_resumes() -> None:
    world = LiveWorld().copying()
    healthy, world.latency_s = world.latency_s, None
    world.live(320)
    paused = world.recovery()
    assert (paused.state, paused.wanted, paused.held) == (State.PAUSED, Wanted.PAUSE, "telemetry")
    assert paused.why == "paused by itself until live traffic is measured again; every position is in a receipt"
    assert [n.data["reason"] for n in world.told("auto_pause")] == ["telemetry"]
    world.latency_s = healthy
    world.live(30)
    assert (world.recovery().state, world.recovery().held, world.directives[-1].wanted) == (State.RUNNING, "", "run")
    world.live(200)
    assert world.directive_rate > MIN


def test_a_pause_by_itself_survives_a_restart_and_ends_only_when_telemetry_is_back() -> None:
    world = LiveWorld().copying()
    healthy, world.latency_s = world.latency_s, None
    world.live(320)
    world.restart_daemon()
    world.live(60)
    assert (world.recovery().state, world.recovery().held) == (State.PAUSED, "telemetry")
    world.latency_s = healthy
    world.live(120)
    assert (world.recovery().state, world.recovery().held) == (State.RUNNING, "")


def test_an_operators_pause_is_never_ended_by_the_daemon() -> None:
    world = LiveWorld().copying()
    world.feed(command("pause"))
    healthy, world.latency_s = world.latency_s, None
    world.live(400)
    world.latency_s = healthy
    world.live(120)
    assert (world.recovery().state, world.recovery().held) == (State.PAUSED, "")


def test_an_operators_pause_takes_over_one_of_the_daemon() -> None:
    world = LiveWorld().copying()
    healthy, world.latency_s = world.latency_s, None
    world.live(320)
    world.feed(command("pause"))
    world.latency_s = healthy
    world.live(120)
    assert (world.recovery().state, world.recovery().held) == (State.PAUSED, "")
    world.feed(command("resume"))
    world.live(10)
    assert world.recovery().state is State.RUNNING


def test_a_resume_does_not_begin_with_the_rate_of_before_the_pause() -> None:
    world = LiveWorld().copying()
    world.live(120)
    assert world.directive_rate == MAX
    world.feed(command("pause"))
    world.live(10)
    world.latency_s = lambda: 1.0
    world.live(20)
    told = len(world.directives)
    world.feed(command("resume"))
    world.live(10)
    rates = [d.max_bytes_per_s or 0.0 for d in world.directives[told:] if d.wanted == "run"]
    assert rates[0] == MIN
    assert max(rates) <= MAX / 10, "as any recovery begins"


def test_what_was_protected_no_longer_limits_a_recovery_that_goes_on() -> None:
    world = LiveWorld().copying(max_bytes_per_s=2_000.0)
    world.latency_s = lambda: 1.0
    world.live(60)
    assert world.directive_rate == MIN
    world.params = replace(world.params, live=replace(world.params.live, domains={}, readers=frozenset(), protected={}))
    world.decider = make_decider(world.params)
    world.restart_daemon()
    world.live(10)
    assert (world.rate, world.directive_rate) == (2_000.0, 2_000.0)


def test_resuming_into_the_dark_is_refused_with_the_way_out() -> None:
    world = LiveWorld().copying()
    world.latency_s = None
    world.live(320)
    world.feed(command("resume"))
    assert (world.answers[-1].kind, world.answers[-1].code) == ("rejected", "RCV-1024")
    world.feed(command("throttle", mode="unlimited"))
    world.live(10)
    assert (world.recovery().state, world.directive_rate) == (State.RUNNING, None)


def test_without_the_right_to_pause_it_stays_at_the_floor() -> None:
    params = make_params(pause_allowed=False)
    domain = replace(params.live.domains["main"], lost_after_ms=10**15)
    world = LiveWorld(replace(params, live=replace(params.live, domains={"main": domain}))).copying()
    world.latency_s = None
    world.live(700)
    assert (world.recovery().state, world.directive_rate) == (State.RUNNING, MIN)


def test_live_traffic_over_its_slo_for_ten_minutes_at_the_floor_pauses_until_an_operator_resumes() -> None:
    world = LiveWorld().copying()
    healthy, world.latency_s = world.latency_s, lambda: 0.5
    world.live(700)
    assert (world.recovery().state, world.recovery().held) == (State.PAUSED, "live_slo")
    (told,) = world.told("auto_pause")
    assert (told.subject, told.data["reason"]) == ("r1", "live_slo")
    world.latency_s = healthy
    world.live(120)
    assert world.recovery().state is State.PAUSED
    world.feed(command("resume"))
    world.live(10)
    assert world.recovery().state is State.RUNNING


def test_a_replay_is_refused_while_live_traffic_is_over_its_slo() -> None:
    world = LiveWorld()
    world.latency_s = lambda: 0.3
    world.live(70)
    world.feed(command("replay"))
    assert (world.recovery().state, world.answers[-1].code) == (State.REJECTED, "RCV-1023")
    assert "produce_latency is at 0.3 s before the start, its SLO is 0.2 s" in world.answers[-1].message
    world.feed(command("replay", "r2", spec=make_spec(limits=Limits(override_live_slo=True))))
    assert world.recovery("r2").state is State.STARTING


@pytest.mark.parametrize(
    ("limits", "rate", "rule"),
    [
        (Limits(mode="unlimited"), None, "no limit was asked for: live traffic is not protected"),
        (Limits(mode="fixed", max_bytes_per_s=900.0), 900.0, "as the command asked: live traffic is not protected"),
    ],
)
def test_other_modes_are_not_the_controllers(limits: Limits, rate: float | None, rule: str) -> None:
    world = LiveWorld()
    world.live(70)
    world.feed(command("replay", spec=make_spec(limits=limits)))
    world.live(60)
    assert (world.rate, world.directive_rate, world.recovery().rule) == (rate, rate, rule)
    assert world.state.of(LIVE).protecting.grants == {}
    world.latency_s = lambda: 0.5
    world.live(60)
    assert world.directive_rate == rate


def test_a_rate_is_the_ceiling_of_the_controller() -> None:
    world = LiveWorld().copying(max_bytes_per_s=500.0)
    world.live(200)
    assert world.directive_rate == 500.0


@pytest.mark.parametrize("verb", ["replay", "verify"])
def test_what_is_measured_next_to_a_recovery_without_limit_is_no_baseline(verb: str) -> None:
    world = LiveWorld()
    world.verify_s = 600
    world.live(70)
    before = world.state.of(LIVE).protecting.states["main"].baselines
    free = Limits(mode="unlimited")
    world.feed(command(verb, spec=make_spec(limits=free) if verb == "replay" else make_verification(limits=free)))
    world.live(20)
    assert world.recovery().state is (State.RUNNING if verb == "replay" else State.VERIFYING)
    world.latency_s = lambda: 0.09
    world.live(60)
    after = world.state.of(LIVE).protecting.states["main"].baselines
    assert 0.09 not in after["produce_latency"]
    assert len(after["produce_latency"]) >= len(before["produce_latency"])


@pytest.mark.parametrize("period_ms", [2_000, 5_000])
def test_the_harm_of_a_recovery_without_limit_is_no_noise_of_a_rest(period_ms: int) -> None:
    params = make_params()
    controller = replace(params.live.domains["main"], period_ms=period_ms)
    live = replace(params.live, domains={"main": controller})
    world = LiveWorld(replace(params, live=live, control=replace(params.control, period_ms=period_ms)))
    world.live(120)
    world.feed(command("replay", spec=make_spec(limits=Limits(mode="unlimited"))))
    world.live(20)
    assert world.recovery().state is State.RUNNING
    world.latency_s = lambda: 0.26
    world.live(300)
    state = world.state.of(LIVE).protecting.states["main"]
    assert usual_share(state, LATENCY.name, LATENCY.slo_s) == 0.0


def test_two_replays_share_one_budget_by_weight_and_tier() -> None:
    world = LiveWorld().copying(max_bytes_per_s=1_000.0, weight=3.0)
    spec = make_spec(limits=Limits(weight=1.0), target=replace(make_spec().target, topic="other.v2"))
    world.feed(command("replay", "r2", spec=spec))
    world.live(20)
    world.latency_s = lambda: 0.02
    grants, decision = world.state.of(LIVE).protecting.grants, world.state.of(LIVE).protecting.decisions["main"]
    rates = {name: grant.bytes_per_s for name, grant in grants.items()}
    assert sum(rates.values()) == pytest.approx(decision.rate_bytes_per_s)
    floor = MIN / 2
    assert rates["r1"] == pytest.approx(min(1_000.0, 3 * max(floor, rates["r2"])), rel=0.05)


def test_after_a_restart_a_running_replay_falls_to_the_floor_until_live_traffic_was_seen() -> None:
    world = LiveWorld().copying()
    world.live(120)
    assert world.directive_rate == MAX
    healthy, world.latency_s = world.latency_s, None
    world.restart_daemon()
    assert world.directive_rate == MIN
    world.live(10)
    assert world.directive_rate == MIN
    world.latency_s = healthy
    world.live(30)
    assert world.directive_rate > 0.5 * MAX


@pytest.mark.scenario("S-RUN-15")
def test_the_lag_of_a_protected_group_presses_on_the_rate() -> None:
    world = LiveWorld(make_params(LATENCY, LAG))
    ends = 0
    for _ in range(20):
        ends += 500
        world.feed(lag_look(world.now_ms, ends, ends))
        world.live(5)
    assert world.state.of(LIVE).protecting.lags[BOARD].group.verdict is LagVerdict.OK
    world.feed(command("replay"))
    stuck = ends
    for _ in range(13):
        ends += 500
        world.feed(lag_look(world.now_ms, stuck, ends))
        world.live(5)
    pressures = {p.name: p.share for p in world.state.of(LIVE).protecting.decisions["main"].pressures}
    assert pressures[LAG.name] == pytest.approx(65 / 30, rel=0.01)
    assert world.directive_rate == MIN
    told = [(n.data["was"], n.data["verdict"]) for n in world.told("lag_verdict_changed")]
    assert told == [(None, "ok"), ("ok", "stalled")]


def test_a_partition_that_is_not_told_makes_the_lag_unknown_and_no_reading() -> None:
    world = LiveWorld(make_params(LATENCY, LAG))
    for _ in range(10):
        world.feed(lag_look(world.now_ms, 100, 100, partitions=2))
        world.live(5)
    group = world.state.of(LIVE).protecting.lags[BOARD].group
    assert (group.verdict, group.offset_lag, group.time_lag_s, group.coverage) == (LagVerdict.UNKNOWN, None, None, 0.5)
    assert LAG.name not in world.state.of(LIVE).protecting.states["main"].tracks


@pytest.mark.scenario("S-RUN-15")
def test_a_group_that_commits_rarely_costs_a_replay_nothing_until_it_stands() -> None:
    """Each 20 s, with an SLO of 30 s."""
    params = make_params(LATENCY, LAG)
    live = replace(params.live, lags={BOARD: replace(params.live.lag, slo_ms=30_000)})
    world, rates = LiveWorld(replace(params, live=live)), []
    for i in range(100):
        committed = min(i, 80) // 4 * 4
        world.feed(lag_look(world.now_ms, committed * 500, i * 500))
        if i == 20:
            world.feed(command("replay"))
        world.live(5)
        rates.append(world.directive_rate if i > 25 else MAX)
    assert min(rate for rate in rates[60:80] if rate is not None) > 0.5 * MAX
    assert rates[88] < 0.5 * MAX
    assert rates[-1] < 0.1 * MAX


def test_a_partition_to_which_nothing_was_written_keeps_no_replay_at_the_floor() -> None:
    world = LiveWorld(make_params(LATENCY, LAG))
    for i in range(60):
        look = lag_look(world.now_ms, i * 500, i * 500, partitions=2)
        bare = (1, LagSample(None, world.now_ms - 10, 0, world.now_ms))
        world.feed(replace(look, samples=(*look.samples, bare)))
        if i == 20:
            world.feed(command("replay"))
        world.live(5)
    assert world.state.of(LIVE).protecting.lags[BOARD].group.verdict is LagVerdict.IDLE
    assert (world.directive_rate or 0) > 0.5 * MAX


def test_a_group_that_nobody_looks_at_any_more_is_unknown() -> None:
    world = LiveWorld(make_params(LATENCY, LAG))
    for i in range(10):
        world.feed(lag_look(world.now_ms, i * 100, i * 100))
        world.live(5)
    assert world.state.of(LIVE).protecting.lags[BOARD].group.verdict is LagVerdict.OK
    world.live(30)
    group = world.state.of(LIVE).protecting.lags[BOARD].group
    assert (group.verdict, group.coverage, group.offset_lag) == (LagVerdict.UNKNOWN, 0.0, None)


def test_lag_signals_and_looks_meet_by_sample_time() -> None:
    world = LiveWorld(make_params(LATENCY, LAG))
    for i in range(10):
        at_ms = world.now_ms
        world.feed(lag_look(at_ms, i * 100, i * 100))
        row = SignalSample(0, i * 100 + 50, i * 100 + 50, at_ms + 2_000)
        late = SignalSample(0, 0, 0, at_ms - 4_000)
        world.now_ms += 2_000
        world.feed(SignalReceived(i, at_ms, LagSignal("main", "board", "departures", (row,))))
        world.feed(SignalReceived(i, at_ms, LagSignal("main", "board", "departures", (late,))))
        world.live(3)
    assert world.state.of(LIVE).protecting.lags[BOARD].group.verdict is LagVerdict.OK
    assert world.state.of(LIVE).protecting.book.readers[BOARD][0].position == 950
    assert world.state.of(LIVE).protecting.rejections == {RejectReason.OUT_OF_ORDER: 10}


@pytest.mark.parametrize(
    ("signal", "reason"),
    [
        (HealthSignal("main", "produce_latency", 0.02, "ms", "ok", NOW_MS), RejectReason.WRONG_UNIT),
        (HealthSignal("main", "produce_latency", None, "s", "degraded", NOW_MS), RejectReason.NOT_A_NUMBER),
        (HealthSignal("main", "some_alert", None, "", "critical", NOW_MS), RejectReason.UNKNOWN_NAME),
        (HealthSignal("main", "produce_latency", None, "", "critical", NOW_MS - 600_000), RejectReason.TOO_OLD),
        (HealthSignal("main", "produce_latency", float("nan"), "s", "ok", NOW_MS), RejectReason.NOT_A_NUMBER),
        (HealthSignal("main", "produce_latency", 0.0, "s", "unknown", NOW_MS), RejectReason.NO_ANSWER),
        (HealthSignal("main", "produce_latency", None, "", "unknown", NOW_MS), RejectReason.NO_ANSWER),
        (HealthSignal("main", "produce_latency", -1.0, "s", "ok", NOW_MS), RejectReason.NEGATIVE),
        (HealthSignal("main", "produce_latency", 0.01, "s", "ok", NOW_MS + 60_000), RejectReason.FUTURE),
        (HealthSignal("main", "produce_latency", 0.01, "s", "ok", NOW_MS - 600_000), RejectReason.TOO_OLD),
        (HealthSignal("main", "some_alert", 0.01, "s", "ok", NOW_MS), RejectReason.UNKNOWN_NAME),
        (HealthSignal("dr", "produce_latency", 0.01, "s", "ok", NOW_MS), RejectReason.UNKNOWN_NAME),
        (LagSignal("main", "nobody", "departures", (SignalSample(0, 5, 5, NOW_MS),)), RejectReason.UNKNOWN_NAME),
        (LagSignal("main", "board", "departures", (SignalSample(0, -5, 5, NOW_MS),)), RejectReason.NEGATIVE),
        (LagSignal("main", "board", "departures", (SignalSample(0, 5, 5, NOW_MS + 60_000),)), RejectReason.FUTURE),
    ],
)
def test_what_cannot_be_believed_is_counted_and_moves_nothing(
    signal: HealthSignal | LagSignal, reason: RejectReason
) -> None:
    world = LiveWorld(make_params(LATENCY, LAG))
    world.latency_s = None
    world.feed(SignalReceived(0, NOW_MS, signal))
    world.live(6)
    assert world.state.of(LIVE).protecting.rejections == {reason: 1}
    assert not any(track.times_ms for track in world.state.of(LIVE).protecting.states["main"].tracks.values())
    assert all(lag.group.time_lag_s is None for lag in world.state.of(LIVE).protecting.lags.values())


def test_a_health_signal_of_a_configured_name_is_a_reading() -> None:
    world = LiveWorld()
    world.latency_s = None
    world.feed(SignalReceived(0, NOW_MS, HealthSignal("main", "produce_latency", 0.05, "s", "ok", NOW_MS)))
    world.live(6)
    assert world.state.of(LIVE).protecting.states["main"].tracks["produce_latency"].values == (0.05,)


def test_signals_of_a_sender_that_knows_nothing_let_no_replay_go_faster() -> None:
    world = LiveWorld().copying()
    world.live(60)
    world.latency_s, before = None, world.directive_rate
    for _ in range(60):
        at_ms = world.now_ms
        world.feed(SignalReceived(0, at_ms, HealthSignal("main", "produce_latency", 0.0, "s", "unknown", at_ms)))
        world.live(1)
    assert world.directive_rate < before


@pytest.mark.scenario("S-RUN-15")
@pytest.mark.parametrize(
    ("value", "unit"), [(None, ""), (None, "s"), (0.001, "s"), (80.0, "percent"), (float("nan"), "s")]
)
def test_what_somebody_calls_critical_cuts_the_rate_whatever_its_value(value: float | None, unit: str) -> None:
    world = LiveWorld().copying()
    world.live(120)
    before = world.directive_rate
    assert before > 2 * MIN
    at_ms = world.now_ms + 1
    world.feed(SignalReceived(0, at_ms, HealthSignal("main", "produce_latency", value, unit, "critical", at_ms)))
    world.latency_s = None
    world.live(6)
    assert world.directive_rate <= 0.71 * before
    assert Rule.GUARD.name.lower() in {rule for _, rule in world.state.of(LIVE).protecting.rules}


def test_a_critical_signal_that_is_older_than_what_the_daemon_measured_since_cuts_the_rate() -> None:
    world = LiveWorld().copying()
    world.live(120)
    before, at_ms = world.directive_rate, world.now_ms - 2_000
    world.feed(SignalReceived(0, at_ms, HealthSignal("main", "produce_latency", None, "", "critical", at_ms)))
    world.live(3)
    assert world.directive_rate <= 0.71 * before
    assert RejectReason.OUT_OF_ORDER not in world.state.of(LIVE).protecting.rejections


def test_a_signal_about_some_partitions_says_nothing_about_the_group() -> None:
    """The topic has two partitions; the daemon's last sample had one of them, or there was none yet."""
    for look in ((), (TopicSample("main", "departures", "id", {0: 0}, {0: 9}, {0: 9}, NOW_MS, 2),)):
        world = LiveWorld(make_params(LATENCY, LAG))
        world.feed(OffsetsSampled(look))
        for i in range(10):
            row = SignalSample(0, 9, 9, world.now_ms)
            world.feed(SignalReceived(i, world.now_ms, LagSignal("main", "board", "departures", (row,))))
            world.live(5)
        group = world.state.of(LIVE).protecting.lags[BOARD].group
        assert (group.verdict, group.offset_lag, group.time_lag_s) == (LagVerdict.UNKNOWN, None, None)
        shown = {s.metric.name for s in make_book(world.params).gauges(world.state, world.now_ms)}
        assert shown & {"recoveryd_lag_records", "recoveryd_lag_seconds"} == set()


def test_idle_domains_are_stepped_but_say_nothing() -> None:
    world = LiveWorld()
    world.live(200)
    decision = world.state.of(LIVE).protecting.decisions["main"]
    assert (decision.verdict, world.told("throttle_decided")) == (ControlVerdict.IDLE, [])
    assert len(world.state.of(LIVE).protecting.states["main"].baselines["produce_latency"]) >= 12


def test_without_anything_protected_nothing_changes() -> None:
    world = World()
    world.feed(command("replay"))
    world.second(20)
    assert (world.state.of(LIVE).protecting.decisions, world.state.of(LIVE).protecting.lags) == ({}, {})
    assert world.recovery().rule == "no limit was asked for"


def test_the_floor_is_at_least_what_beats_retention() -> None:
    """A million records of 100 bytes each in two partitions, 1,100 s old at most, and 100 s left for the oldest."""
    world = LiveWorld()
    world.facts = make_facts((1_000_000, 1_000_000), source_configs={"retention.ms": "1200000"})
    old = [replace(p, first_ms=NOW_MS - 1_100_000, last_ms=NOW_MS) for p in world.facts.source_partitions]
    world.facts = replace(world.facts, source_partitions=tuple(old))
    world.latency_s = None
    world.feed(command("replay"))
    plan = world.recovery().plan
    needed = (
        2_000_000 / (1_100 + 100 - 15) * 100
    )  # the last record is deleted in 1,200 s, and 15 s pass before the first is copied
    assert plan.retention_bytes_per_s == pytest.approx(needed)
    assert [f.code for f in plan.findings if f.code == "retention_floor"] == [
        "retention_floor"
    ]  # at most 4,000 B/s here
    world.live(10)
    assert world.rate == MAX
    params = make_params()
    wide = replace(params.live, domains={"main": replace(params.live.domains["main"], most_bytes_per_s=1e6)})
    slow = LiveWorld(replace(params, live=wide, control=replace(params.control, max_bytes_per_s=1e6)))
    slow.facts, slow.latency_s = world.facts, None
    slow.feed(command("replay"))
    assert [f for f in slow.recovery().plan.findings if f.code == "retention_floor"] == []
    slow.live(30)
    assert slow.rate == slow.directive_rate == pytest.approx(needed)


class CrowdedWorld(LiveWorld):
    """A world with three brokers, known from another topic; `led_by`: the leaders of source and target."""

    def __init__(self, led_by: dict[int, int]) -> None:
        super().__init__()
        self.leaders, self.target_partitions = led_by, len(led_by)

    def sample(self) -> OffsetsSampled:
        wide = TopicSample("main", "departures", "id", {}, {}, {}, self.now_ms, 3, leaders={0: 1, 1: 2, 2: 3})
        return OffsetsSampled((*super().sample().topics, wide))


@pytest.mark.parametrize(
    ("led_by", "most"),
    [
        ({0: 1, 1: 1}, MAX / 3),
        ({0: 1, 1: 2}, MAX / 1.5),
        ({}, MAX),
        ({0: 1, 1: -1}, MAX / 3),
        ({0: -1, 1: -1}, MAX / 3),
    ],
)
def test_no_broker_takes_more_than_its_even_part_of_the_budget_where_leaders_are_known(
    led_by: dict[int, int], most: float
) -> None:
    world = CrowdedWorld(led_by).copying()
    for _ in range(40):
        world.live(5)
        assert world.directive_rate <= most * 1.001
    assert world.directive_rate == pytest.approx(most, rel=0.01)
    assert ("its busiest broker gets 3.0 times an even part" in world.recovery().rule) == (most == MAX / 3)


def test_the_proof_of_a_crowded_replay_gets_no_more_of_the_busiest_broker_than_its_copy() -> None:
    world = CrowdedWorld({0: 1, 1: 1})
    world.verify_s = 1_000
    world.copying()
    world.speed = 100_000
    while world.recovery().state is State.RUNNING:
        world.live(5)
    assert world.recovery().state is State.VERIFYING
    for _ in range(40):
        world.live(5)
        assert world.directive_rate <= MAX / 3 * 1.001


def test_a_crowded_replay_keeps_its_floor() -> None:
    world = CrowdedWorld({0: 1, 1: 1}).copying()
    world.live(120)
    world.latency_s = lambda: 0.5
    world.live(300)
    assert world.directive_rate == pytest.approx(MIN)
