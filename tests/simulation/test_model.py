"""The simulated cluster behaves as specified, and the worlds are the same for every policy."""

import pytest

from recoveryd.simulation.model import Broker, ModelParams
from recoveryd.simulation.quota import QuotaGate
from recoveryd.simulation.run import rest, simulate
from recoveryd.simulation.scenarios import Scenario, make_world

PARAMS = ModelParams()


def settle(
    broker: Broker, seconds: int, *, capacity: float = 100.0, consumer: float = 40.0, replay: float = 0.0
) -> None:
    for _ in range(seconds):
        broker.advance(capacity, 20.0, consumer, replay)


def test_at_rest_the_broker_is_at_forty_percent() -> None:
    broker = Broker(PARAMS)
    settle(broker, 60)
    assert broker.latency_s == pytest.approx(0.008 / 0.6)
    assert broker.lag_s() <= PARAMS.commit_every_s + 1


def test_the_safe_rate_is_about_55() -> None:
    broker = Broker(PARAMS)
    settle(broker, 60, replay=55.0)
    assert broker.latency_s == pytest.approx(0.16)
    settle(broker, 60, replay=57.0)
    assert broker.latency_s > PARAMS.slo_latency_s


def test_overload_serves_everybody_the_same_part_and_queues_produce() -> None:
    broker = Broker(PARAMS)
    settle(broker, 300, replay=120.0)
    assert broker.served_replay == pytest.approx(60.0, rel=0.01)
    assert broker.served_live == pytest.approx(20.0, rel=0.01)
    assert broker.queue == pytest.approx(20.0, rel=0.02)
    assert broker.latency_s > 1.0


def test_nothing_is_made_or_lost() -> None:
    broker = Broker(PARAMS)
    settle(broker, 200, replay=90.0)
    assert broker.produced[-1] + broker.queue == pytest.approx(200 * 20.0)
    assert broker.committed <= broker.consumed <= broker.produced[-1]


def test_time_lag_counts_from_the_committed_offset() -> None:
    broker = Broker(PARAMS)
    settle(broker, 100)
    settle(broker, 40, consumer=0.0)
    assert 40 <= broker.lag_s() <= 46
    settle(broker, 120)
    assert broker.lag_s() <= 6


@pytest.mark.parametrize("scenario", list(Scenario))
def test_a_world_depends_on_scenario_and_seed_only(scenario: Scenario) -> None:
    short = ModelParams(horizon_s=900)
    assert make_world(scenario, 7, short) == make_world(scenario, 7, short)
    assert make_world(scenario, 7, short) != make_world(scenario, 8, short)


def test_scenarios_do_what_they_say() -> None:
    at = PARAMS.warm_up_s
    worlds = {s: make_world(s, 1, PARAMS) for s in Scenario}
    calm, burst = worlds[Scenario.STEADY], worlds[Scenario.BURST]
    assert sum(burst.live[at + 240 : at + 360]) > 1.6 * sum(calm.live[at + 240 : at + 360])
    assert worlds[Scenario.SLOWDOWN].capacity[at + 300 : at + 302] == (60.0, 60.0)
    outage = worlds[Scenario.OUTAGE]
    assert (outage.heard[at + 199 : at + 201], outage.capacity[at + 239 : at + 241]) == (
        (True, False),
        (100.0, pytest.approx(55.0)),
    )
    assert outage.heard[at + 350] is True
    assert max(worlds[Scenario.SICK_CONSUMER].consumer_max[at + 300 : at + 600]) == 16.0
    assert {sum(w.live[:at]) / at for w in worlds.values()} != {20.0}, "live traffic is never quite even"


def test_the_oracle_never_harms_and_is_faster_than_any_safe_fixed_rate() -> None:
    world = make_world(Scenario.BURST, 3, PARAMS)
    oracle, alone = simulate(world, None, 3, PARAMS), rest(world, 3, PARAMS, 2_000)
    assert oracle.finished_s is not None
    assert oracle.finished_s < 48_000 / 40
    harmed = [a for a, b in zip(oracle.latency_s, alone.latency_s, strict=False) if a > 0.2 >= b]
    assert harmed == []


@pytest.mark.parametrize(("quota", "seconds_on"), [(10.0, 1), (20.0, 2), (40.0, 4)])
def test_a_broker_quota_is_kept_on_average_in_bursts_of_line_rate(quota: float, seconds_on: int) -> None:
    gate = QuotaGate(120.0)
    passed = [gate.let_through(quota, at) for at in range(1_100)]
    assert sum(passed) / 1_100 == pytest.approx(quota, rel=0.02)
    assert sum(p > 0 for p in passed) == 100 * seconds_on
    assert max(passed) >= 108.0


@pytest.mark.parametrize(("cut", "least_s", "most_s"), [(2, 5, 12), (4, 20, 34), (10, 65, 101)])
def test_a_cut_quota_mutes_for_long(cut: float, least_s: int, most_s: int) -> None:
    gate = QuotaGate(120.0)
    for at in range(100):
        gate.let_through(40.0, at)
    silent = next(at for at in range(300) if gate.let_through(40.0 / cut, 100 + at) > 0)
    assert least_s <= silent <= most_s
