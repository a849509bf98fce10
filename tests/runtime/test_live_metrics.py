"""What /metrics and the API say of live traffic and the controllers, from a simulated world."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from recoveryd.kernel.metrics import Sample
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import State
from recoveryd.live.events import ReadingTaken
from recoveryd.live.freshness import Reading
from recoveryd.live.lag.verdicts import LagVerdict
from recoveryd.live.law.assessment import assess
from recoveryd.live.slice import LIVE
from recoveryd.live.wire.page import control_document, lag_document
from recoveryd.recovery.spec import Limits
from tests.builders.core import BOOK, FOLLOWING, command, make_book, make_spec
from tests.builders.live_world import BOARD, LAG, LATENCY, MAX, LiveWorld, lag_look, make_params


def values(samples: Iterable[Sample]) -> dict[tuple[str, ...], float]:
    return {(s.metric.name.removeprefix("recoveryd_"), *s.labels): s.value for s in samples}


def gauges(world: LiveWorld) -> dict[tuple[str, ...], float]:
    return values(make_book(world.params).gauges(world.state, world.now_ms))


def test_before_anything_is_known_only_what_the_config_says_is_there() -> None:
    world = LiveWorld(make_params(LATENCY, LAG))
    world.latency_s = None
    world.state = CoreState()
    assert {key: value for key, value in gauges(world).items() if key[0] != "recoveries"} == {
        ("live_slo_seconds", "main", "produce_latency"): 0.2,
        ("live_slo_seconds", "main", LAG.name): 30.0,
        ("signal_left_out", "main", "produce_latency"): 0.0,
        ("signal_left_out", "main", LAG.name): 0.0,
        ("schedule_overrun_expected",): 0.0,
        ("units_reread_refused",): 0.0,
    }


def test_a_running_replay_next_to_live_traffic() -> None:
    world = LiveWorld(make_params(LATENCY, LAG))
    for i in range(40):
        world.feed(lag_look(world.now_ms, 100 * i, 100 * i))
        world.live(5)
        if i == 20:
            world.feed(command("replay", spec=make_spec(limits=Limits(max_bytes_per_s=3_000.0))))
    shown = gauges(world)
    verdicts = {key[3]: value for key, value in shown.items() if key[0] == "lag_verdict"}
    assert verdicts == {v.value: float(v is LagVerdict.OK) for v in LagVerdict}
    assert shown["coverage_ratio", "departures", "board"] == 1.0
    assert shown["lag_records", "live", "departures", "board"] == 0
    assert shown["lag_seconds", "live", "departures", "board"] == 0.0
    assert shown["rate_requested_bytes_per_second", "r1"] == 3_000.0
    assert shown["budget_bytes_per_second", "main"] == 3_000.0
    assert shown["pressure", "main", "produce_latency"] == pytest.approx(0.05)
    assert shown["pressure", "main", LAG.name] == 0.0
    assert shown["signal_age_seconds", "main", "produce_latency"] == 0.0
    assert shown["loop_delay_seconds", "main"] > 0
    grown = values(BOOK.increments(CoreState(), world.state))
    assert grown["control_rule_total", "main", "slow_start"] >= 1
    assert ("live_slo_violation_seconds_total", "main", "produce_latency", "yes") not in grown


def test_a_signal_is_stale_by_the_age_that_the_controller_goes_by() -> None:
    """One that comes once a minute beside one of which there are three samples: the loop delay is not measured yet."""
    seldom = replace(LATENCY, name="checkout_p99")
    world = LiveWorld(make_params(LATENCY, seldom))
    world.latency_s = None
    for _ in range(3):
        world.feed(ReadingTaken("main", Reading("checkout_p99", 0.01, world.now_ms)))
        world.live(60)
    for _ in range(3):
        world.feed(ReadingTaken("main", Reading("produce_latency", 0.01, world.now_ms)))
        world.live(2)
    shown = gauges(world)
    age_s = shown["signal_age_seconds", "main", "checkout_p99"]
    limit_s = shown["signal_stale_after_seconds", "main", "checkout_p99"]
    assert shown["loop_delay_seconds", "main"] < age_s < limit_s == shown["loop_delay_seconds", "main"] + 60
    state = world.state.of(LIVE).protecting.states["main"]
    controller = world.params.live.domains["main"]
    assert assess(state, frozenset(), world.now_ms, controller).stale == ()
    late_ms = world.now_ms + round((limit_s - age_s) * 1000) + 1
    assert assess(state, frozenset(), late_ms, controller).stale == ("produce_latency", "checkout_p99")


def test_the_same_group_on_two_clusters_is_shown_once_by_the_one_in_more_trouble() -> None:
    params = make_params()
    mirror = BOARD._replace(cluster="far")
    world = LiveWorld(replace(params, live=replace(params.live, readers=frozenset({BOARD, mirror}))))
    for _ in range(3):
        world.feed(replace(lag_look(world.now_ms, 3, 9), reader=mirror))
        world.feed(lag_look(world.now_ms, 3, 5))
        world.live(5)
    samples = list(make_book(world.params).gauges(world.state, world.now_ms))
    assert max(Counter((s.metric.name, s.labels) for s in samples).values()) == 1
    assert values(samples)["lag_records", "live", "departures", "board"] == 6


def test_violations_count_as_ours_only_while_a_replay_runs_above_the_floor() -> None:
    world = LiveWorld()
    world.live(70)
    world.latency_s = lambda: 0.3
    world.live(20)
    alone = values(BOOK.increments(CoreState(), world.state))
    assert alone["live_slo_violation_seconds_total", "main", "produce_latency", "no"] == pytest.approx(20.0)
    world.feed(command("replay", spec=make_spec(limits=Limits(mode="unlimited", override_live_slo=True))))
    world.live(30)
    both = values(BOOK.increments(CoreState(), world.state))
    assert both["live_slo_violation_seconds_total", "main", "produce_latency", "yes"] >= 20.0


def test_a_candidate_shows_its_evaluations() -> None:
    world = LiveWorld()
    world.live_per_s = 0
    world.live(70)
    world.speed = 500_000
    world.feed(command("replay", spec=FOLLOWING))
    counts = []
    for _ in range(40):
        world.live(1)
        if world.recovery().state is State.RUNNING:
            counts.append(gauges(world).get(("stop_candidate", "r1")))
    assert counts[0] == 0
    assert max(count or 0 for count in counts) >= 2


def test_the_lag_document_has_every_watched_group_and_partition() -> None:
    world = LiveWorld(make_params(LATENCY, LAG))
    (unknown,) = lag_document(world.state, world.params.live, world.now_ms)["groups"]
    assert (unknown["verdict"], unknown["slo_seconds"], unknown["partitions"]) == ("unknown", 30.0, [])
    for i in range(10):
        world.feed(lag_look(world.now_ms, 100 * i, 100 * i + 7, partitions=2))
        world.live(5)
    (group,) = lag_document(world.state, world.params.live, world.now_ms)["groups"]
    assert (group["cluster"], group["topic"], group["group"]) == BOARD
    assert (group["verdict"], group["lag_records"], group["coverage"]) == ("unknown", None, 0.5)
    assert [(p["partition"], p["position"], p["end"], p["lag_records"]) for p in group["partitions"]] == [
        (0, 900, 907, 7),
        (1, None, None, None),
    ]
    assert group["partitions"][0]["sample_age_ms"] == 5_010


def test_the_control_document_says_what_was_decided_and_why() -> None:
    world = LiveWorld().copying()
    world.live(120)
    document = control_document(world.state, world.params.live, world.params.control, world.now_ms)
    (domain,) = document["domains"]
    assert domain["protected"] == [
        {
            "signal": "produce_latency",
            "kind": "latency",
            "slo_seconds": 0.2,
            "value_seconds": 0.01,
            "sample_age_ms": 0,
            "is_fresh": True,
            "baseline_samples": 35,
            "is_dropped": False,
        }
    ]
    assert domain["grants"]["r1"]["bytes_per_s"] == MAX
    assert domain["decision"]["rule_name"] in {"slow_start", "track", "no_windup", "gate"}
    assert domain["decision"]["rate_bytes_per_s"] == MAX


def test_the_control_document_says_which_values_the_controller_still_goes_by() -> None:
    world = LiveWorld().copying()
    told = []
    world.latency_s = None
    for _ in range(60):
        world.live(1)
        (domain,) = control_document(world.state, world.params.live, world.params.control, world.now_ms)["domains"]
        (signal,) = domain["protected"]
        told.append((signal["is_fresh"], signal["value_seconds"]))
        assert signal["is_fresh"] is (signal["sample_age_ms"] <= domain["decision"]["loop_delay_ms"])
    assert (told[0], told[-1]) == ((True, 0.01), (False, 0.01))


def test_what_was_never_measured_is_not_fresh() -> None:
    world = LiveWorld()
    document = control_document(CoreState(), world.params.live, world.params.control, world.now_ms)
    (signal,) = document["domains"][0]["protected"]
    assert (signal["is_fresh"], signal["value_seconds"], signal["sample_age_ms"]) == (False, None, None)
