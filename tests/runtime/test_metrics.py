"""The metrics are those of the contract, and agree with the state."""

import time
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.kernel.decision import Answer, Decision
from recoveryd.kernel.metrics import MetricKind, Sample
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import State
from recoveryd.live.events import OffsetsSampled, TopicSample
from recoveryd.live.measures import lag_of_signal
from recoveryd.live.metrics import RECORDS
from recoveryd.live.signals import LagSignal, SignalledPartition
from recoveryd.live.slice import LIVE, LiveSlice, SampleHistory
from recoveryd.live.traffic import LiveTraffic
from recoveryd.recovery.metrics import RECORDS_LOST
from recoveryd.recovery.model import PartitionProgress, Recovery
from recoveryd.recovery.own_traffic import copied_by_all
from recoveryd.recovery.progress import progress_ratio
from recoveryd.recovery.recoveries import Recoveries
from recoveryd.recovery.slice import RECOVERY, RecoverySlice
from tests.builders.core import BOOK, FOLLOWING, NOW_MS, command, make_facts, make_spec, state_of
from tests.builders.world import World

CONTRACT = {
    "recoveryd_records_total": ("traffic", "topic"),
    "recoveryd_bytes_total": ("traffic", "topic"),
    "recoveryd_lag_records": ("traffic", "topic", "group"),
    "recoveryd_lag_seconds": ("traffic", "topic", "group"),
    "recoveryd_recoveries": ("kind", "state"),
    "recoveryd_recovery_progress_ratio": ("recovery",),
    "recoveryd_recovery_eta_seconds": ("recovery",),
    "recoveryd_rate_limit_bytes_per_second": ("recovery",),
    "recoveryd_rate_achieved_bytes_per_second": ("recovery",),
    "recoveryd_commands_total": ("verb", "answer"),
    "recoveryd_decision_seconds": (),
    "recoveryd_journal_commit_seconds": (),
    "recoveryd_leader": (),
    "recoveryd_loop_age_seconds": (),
    "recoveryd_control_unread_offsets": (),
    "recoveryd_auto_stops_total": ("reason",),
    "recoveryd_records_lost_total": ("topic",),
    "recoveryd_verifications_total": ("result",),
    "recoveryd_pressure": ("domain", "signal"),
    "recoveryd_budget_bytes_per_second": ("domain",),
    "recoveryd_control_rule_total": ("domain", "rule"),
    "recoveryd_signal_age_seconds": ("domain", "signal"),
    "recoveryd_signal_stale_after_seconds": ("domain", "signal"),
    "recoveryd_signal_left_out": ("domain", "signal"),
    "recoveryd_loop_delay_seconds": ("domain",),
    "recoveryd_recovery_progress_timestamp_seconds": ("recovery",),
    "recoveryd_stop_candidate": ("recovery",),
    "recoveryd_lag_verdict": ("topic", "group", "verdict"),
    "recoveryd_coverage_ratio": ("topic", "group"),
    "recoveryd_recovery_eta_bound_seconds": ("recovery", "bound"),
    "recoveryd_speedup_ratio": ("recovery",),
    "recoveryd_retention_slack_seconds": ("recovery",),
    "recoveryd_live_slo_seconds": ("domain", "signal"),
    "recoveryd_live_slo_violation_seconds_total": ("domain", "signal", "attributable"),
    "recoveryd_signals_rejected_total": ("reason",),
    "recoveryd_canary_produce_seconds": ("cluster",),
    "recoveryd_rate_requested_bytes_per_second": ("recovery",),
    "recoveryd_recovery_state": ("recovery", "state"),
    "recoveryd_recovery_held": ("recovery", "reason"),
    "recoveryd_recovery_offsets": ("recovery", "outcome"),
    "recoveryd_partition_position_offset": ("recovery", "partition"),
    "recoveryd_partition_stop_offset": ("recovery", "partition"),
    "recoveryd_partitions": ("recovery", "state"),
    "recoveryd_lanes": ("recovery", "state"),
    "recoveryd_attempt_number": ("recovery",),
    "recoveryd_attempt_failures": ("recovery",),
    "recoveryd_verification_records": ("recovery", "result", "side"),
    "recoveryd_verification_progress_ratio": ("recovery",),
    "recoveryd_recovery_stop_timestamp_seconds": ("recovery", "reason", "mode"),
    "recoveryd_recovery_stop_evidence": ("recovery", "name"),
    "recoveryd_journal_failing_seconds": (),
    "recoveryd_secret_refused": ("secret",),
    "recoveryd_webhook_transitions_total": ("webhook", "outcome"),
    "recoveryd_webhook_transitions_waiting": ("webhook",),
    "recoveryd_unit_retention_short": ("unit",),
    "recoveryd_schedule_due_total": ("result",),
    "recoveryd_schedule_runs_total": ("outcome",),
    "recoveryd_schedule_run_ended_timestamp_seconds": ("outcome",),
    "recoveryd_schedule_overdue_seconds": (),
    "recoveryd_schedule_overrun_expected": (),
    "recoveryd_workflow_ended_timestamp_seconds": ("outcome",),
    "recoveryd_units_reread_refused": (),
    "recoveryd_topic_held_seconds": ("topic",),
}


def values(samples: list[Sample]) -> dict[tuple[str, ...], float]:
    return {(s.metric.name.removeprefix("recoveryd_"), *s.labels): s.value for s in samples}


def sample(at_ms: int, *ends: int, stable: tuple[int, ...] = ()) -> TopicSample:
    high = dict(enumerate(ends))
    last_stable = dict(enumerate(stable)) if stable else high
    return TopicSample("main", "flights", "id", dict.fromkeys(high, 0), high, last_stable, at_ms)


def running_world() -> World:
    world = World()
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    return world


def with_progress(recovery: Recovery, copied: int, *, lost: int = 0) -> Recovery:
    row = PartitionProgress(0, copied + lost, 100, "copying", copied=copied, lost=lost, bytes=copied * 100)
    return replace(recovery, progress=replace(recovery.progress, partitions=(row,)))


def test_the_catalogue_is_the_contract() -> None:
    assert {m.name: m.labels for m in BOOK.metrics} == CONTRACT
    assert all(m.name.endswith("_total") == (m.kind is MetricKind.COUNTER) for m in BOOK.metrics)


def test_every_metric_has_its_help_and_type_on_the_page() -> None:
    families = {f.name: f for f in text_string_to_metric_families(Metrics(BOOK.metrics).render().decode())}
    for metric in BOOK.metrics:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind.value, metric.help)


def test_a_series_without_value_is_gone_at_the_next_scrape() -> None:
    recovery = running_world().recovery()
    now = [BOOK.gauges(state_of(Recoveries({"r1": recovery})), NOW_MS), BOOK.gauges(CoreState(), NOW_MS)]
    metrics = Metrics(BOOK.metrics, lambda: now.pop(0))
    assert 'recovery="r1"' in metrics.render().decode()
    assert 'recovery="r1"' not in metrics.render().decode()


def test_recoveries_are_counted_by_state_also_where_there_are_none() -> None:
    found = values(BOOK.gauges(state_of(Recoveries({"r1": running_world().recovery()})), NOW_MS))
    counts = {state: found["recoveries", "replay", state.value] for state in State}
    assert counts == dict.fromkeys(State, 0) | {State.RUNNING: 1}


def test_when_a_recovery_made_progress_last_is_told_while_it_works() -> None:
    world = running_world()
    seen = replace(world.state.of(RECOVERY).observed["r1"], progress_ms=NOW_MS)
    for state, told in ((State.RUNNING, NOW_MS / 1000), (State.VERIFYING, NOW_MS / 1000), (State.PAUSED, None)):
        recoveries = Recoveries({"r1": replace(world.recovery(), state=state)})
        known = CoreState().having(RECOVERY, RecoverySlice(recoveries, {"r1": seen}))
        found = values(BOOK.gauges(known, NOW_MS + 60_000))
        assert found.get(("recovery_progress_timestamp_seconds", "r1")) == told, state


def test_series_of_an_ended_recovery_go_an_hour_later() -> None:
    world = running_world()
    ended = world.run_until(State.COMPLETED)
    state = state_of(Recoveries({"r1": ended}))
    soon = values(BOOK.gauges(state, ended.updated_ms + 3_600_000))
    assert soon["recovery_progress_ratio", "r1"] == 1.0
    assert soon["rate_achieved_bytes_per_second", "r1"] == 0.0
    late = values(BOOK.gauges(state, ended.updated_ms + 3_600_001))
    assert [key for key in late if "r1" in key] == []
    assert late["recoveries", "replay", "completed"] == 1


def test_a_dry_run_is_over_once_it_is_planned() -> None:
    """No retention overtakes what copies nothing, and nothing of it is left an hour later."""
    facts = make_facts(source_configs={"retention.ms": str(86_400_000)}, bytes_per_s=1e6, oldest_record_ms=NOW_MS)
    world = World(facts)
    world.feed(command("replay", spec=make_spec(dry_run=True)))
    planned = world.recovery()
    assert (planned.state, planned.plan.forecast.slack_s) == (State.PLANNED, 86_400)
    of_it = {key[0] for key in values(BOOK.gauges(world.state, NOW_MS + 3_600_000)) if "r1" in key}
    assert "recovery_state" in of_it
    assert not of_it & {
        "retention_slack_seconds", "recovery_eta_seconds", "recovery_eta_bound_seconds", "lag_seconds",
        "rate_limit_bytes_per_second", "speedup_ratio",
    }  # fmt: skip
    late = values(BOOK.gauges(world.state, NOW_MS + 3_600_001))
    assert [key for key in late if "r1" in key] == []
    assert late["recoveries", "replay", "planned"] == 1
    assert BOOK.topics(world.state, NOW_MS + 3_600_001) == set()


def test_of_many_ended_recoveries_only_the_newest_have_series() -> None:
    ended = running_world().run_until(State.COMPLETED)
    ended = replace(ended, attempt=replace(ended.attempt, released=True))
    many = {f"r{i}": replace(ended, id=f"r{i}", updated_ms=ended.updated_ms + i) for i in range(600)}
    found = values(BOOK.gauges(state_of(Recoveries(many)), ended.updated_ms + 600))
    kept = {key[1] for key in found if key[0] == "recovery_progress_ratio"}
    assert kept == {f"r{i}" for i in range(100, 600)}
    assert found["recoveries", "replay", "completed"] == 600


def test_progress_of_a_bounded_recovery_is_the_durable_part_of_its_range() -> None:
    recovery = running_world().recovery()
    assert progress_ratio(with_progress(recovery, 75)) == 0.5  # 75 of 100 + 50
    assert progress_ratio(replace(recovery, plan=None)) is None


def test_progress_of_a_following_recovery_is_the_part_of_what_is_there() -> None:
    world = World()
    world.feed(command("replay", spec=FOLLOWING))
    recovery = with_progress(world.run_until(State.RUNNING), 30)
    assert progress_ratio(replace(recovery, progress=replace(recovery.progress, lag_records=90))) == 0.25
    assert progress_ratio(replace(recovery, progress=replace(recovery.progress, lag_records=None))) == 0.0


def test_counters_move_by_what_became_durable() -> None:
    before = with_progress(running_world().recovery(), 10)
    after = with_progress(before, 25, lost=5)
    state = state_of(Recoveries({"r1": after}))
    moved = values(BOOK.increments(state_of(Recoveries({"r1": before})), state))
    assert moved == {
        ("records_total", "replay", "flights.v2"): 15,
        ("bytes_total", "replay", "flights.v2"): 1_500,
        ("records_lost_total", "flights"): 5,
    }
    assert BOOK.increments(state, state) == []


def test_an_answer_an_auto_stop_and_a_verification_count_once() -> None:
    world = World()
    answer = Answer("rejected", "", "c", "r1", "RCV-1003", "m", "h", 3)
    assert values(BOOK.increments(CoreState(), CoreState(), [answer, answer])) == {
        ("commands_total", "unknown", "rejected"): 1
    }
    counted: dict[tuple[str, ...], float] = {}
    real = world._note

    def note(before: CoreState, decision: Decision) -> None:
        real(before, decision)
        for found in BOOK.increments(before, decision.state, decision.answers):
            key = (found.metric.name, *found.labels)
            counted[key] = counted.get(key, 0) + found.value

    world._note = note  # type: ignore[method-assign]
    world.feed(command("replay"))
    ended = world.run_until(State.COMPLETED)
    assert counted["recoveryd_auto_stops_total", "zero_lag"] == 1
    assert counted["recoveryd_verifications_total", "match"] == 1
    assert counted["recoveryd_commands_total", "replay", "accepted"] == 1
    assert counted["recoveryd_records_total", "replay", "flights.v2"] == ended.progress.records == 150


def test_an_operators_stop_is_no_auto_stop() -> None:
    world = running_world()
    before = world.state
    world.feed(command("stop", offset=1))
    ended = world.run_until(State.STOPPED)
    assert ended.stop is not None
    assert not [key for key in values(BOOK.increments(before, world.state)) if key[0] == "auto_stops_total"]


def lag(*partitions: tuple[int | None, int | None]) -> LagSignal:
    rows = tuple(SignalledPartition(i, committed, end, NOW_MS) for i, (committed, end) in enumerate(partitions))
    return LagSignal("main", "billing", "flights", rows)


def test_lag_of_a_live_group_is_summed_in_records_and_worst_in_seconds() -> None:
    history = SampleHistory((sample(NOW_MS - 10_000, 0, 0), sample(NOW_MS, 100, 40)))
    found = values(lag_of_signal(lag((50, 100), (40, 40)), history, NOW_MS))
    assert found == {
        ("lag_records", "live", "flights", "billing"): 50,
        ("lag_seconds", "live", "flights", "billing"): 5.0,
    }


def test_lag_that_is_not_known_is_no_sample_never_zero() -> None:
    assert lag_of_signal(lag((50, 100), (None, 40)), None, NOW_MS) == []
    assert lag_of_signal(lag((-1, 100)), None, NOW_MS) == []
    assert lag_of_signal(lag((101, 100)), None, NOW_MS) == [], "a commit past the end is no lag of zero"
    assert lag_of_signal(lag(), None, NOW_MS) == []
    older_than_samples = SampleHistory((sample(NOW_MS, 100),))
    assert values(lag_of_signal(lag((50, 100)), older_than_samples, NOW_MS)) == {
        ("lag_records", "live", "flights", "billing"): 50
    }


def test_live_gauges_go_when_unknown_or_not_reported_for_long() -> None:
    metrics = Metrics(BOOK.metrics)
    labels = ("live", "flights", "billing")
    metrics.set_live(labels, lag_of_signal(lag((5, 10)), None, NOW_MS))
    assert 'recoveryd_lag_records{group="billing",topic="flights",traffic="live"} 5.0' in metrics.render().decode()
    metrics.set_live(labels, [])
    assert "billing" not in metrics.render().decode()
    late = Metrics(BOOK.metrics, live_kept_s=-1.0)
    late.set_live(labels, lag_of_signal(lag((5, 10)), None, NOW_MS))
    assert "billing" not in late.render().decode()


def test_live_gauges_go_with_the_lead_and_do_not_come_back_with_it() -> None:
    metrics = Metrics(BOOK.metrics)
    metrics.set_live(("live", "flights", "billing"), lag_of_signal(lag((5, 10)), None, NOW_MS))
    metrics.is_leader = lambda: False
    assert "billing" not in metrics.render().decode()
    metrics.is_leader = lambda: True
    assert "billing" not in metrics.render().decode(), "it may be of before another daemon led"


def test_the_lag_of_a_group_that_nobody_looks_at_any_more_goes_within_a_minute(monkeypatch) -> None:
    metrics = Metrics(BOOK.metrics)
    metrics.set_live(("live", "flights", "billing"), lag_of_signal(lag((5, 10)), None, NOW_MS))
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 15)
    assert "billing" in metrics.render().decode()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 60)
    assert "billing" not in metrics.render().decode()


def test_of_a_group_of_one_name_on_two_clusters_the_larger_lag_is_shown_once() -> None:
    metrics = Metrics(BOOK.metrics)
    for cluster, end in (("main", 10), ("mirror", 30), ("third", 20)):
        metrics.set_live((cluster, "flights", "billing"), lag_of_signal(lag((5, end)), None, NOW_MS))
    shown = [line for line in metrics.render().decode().splitlines() if line.startswith("recoveryd_lag_records{")]
    assert shown == ['recoveryd_lag_records{group="billing",topic="flights",traffic="live"} 25.0']


def feed(
    live: LiveTraffic, state: CoreState, at_ms: int, stable: int, high: int | None = None
) -> tuple[LiveTraffic, float]:
    topic = TopicSample("main", "flights.v2", "t", {0: 0}, {0: high or stable}, {0: stable}, at_ms)
    live, written = live.with_sample(OffsetsSampled((topic,)), copied_by_all(state.of(RECOVERY).recoveries), at_ms)
    return live, sum(grown.records for grown in written)


def test_live_records_of_a_target_are_what_replays_did_not_write() -> None:
    recovery = running_world().recovery()
    states = [state_of(Recoveries({"r1": with_progress(recovery, copied)})) for copied in (0, 0, 80, 80)]
    live, counted = LiveTraffic(), []
    # 80 records of the replay become stable before its lanes report them; 7 are others'.
    for step, (state, stable) in enumerate(zip(states, (10, 97, 97, 97), strict=True)):
        live, grown = feed(live, state, step * 5_000, stable)
        counted.append(grown)
    assert counted == [0, 0, 7, 0]


def test_live_records_are_never_counted_from_an_open_transaction_nor_twice() -> None:
    live, counted = LiveTraffic(), []
    for step, (stable, high) in enumerate([(0, 0), (0, 500), (20, 500), (20, 500), (20, 500)]):
        live, grown = feed(live, CoreState(), step * 5_000, stable, high)
        counted.append(grown)
    assert counted == [0, 0, 0, 20, 0]


def test_a_topic_made_anew_starts_counting_anew() -> None:
    live, _ = feed(LiveTraffic(), CoreState(), 0, 100)
    renewed = TopicSample("main", "flights.v2", "other", {0: 0}, {0: 900}, {0: 900}, 5_000)
    live, written = live.with_sample(OffsetsSampled((renewed,)), {}, 5_000)
    assert written == []
    live, written = live.with_sample(OffsetsSampled(()), {}, 10_000)
    assert live == LiveTraffic({})


def test_counters_of_topics_leave_when_nobody_has_to_do_with_them_any_more() -> None:
    metrics = Metrics(BOOK.metrics)
    for number in range(200):
        metrics.add([Sample(RECORDS, ("replay", f"copy{number}"), 5), Sample(RECORDS_LOST, (f"copy{number}",), 1)])
    metrics.add([Sample(RECORDS, ("live", "orders"), 7)])
    metrics.keep_topics({"orders", "copy199"})
    shown = metrics.render().decode()
    assert [
        line for line in shown.splitlines() if line.startswith(("recoveryd_records_total", "recoveryd_records_lost"))
    ] == [
        'recoveryd_records_total{topic="copy199",traffic="replay"} 5.0',
        'recoveryd_records_total{topic="orders",traffic="live"} 7.0',
        'recoveryd_records_lost_total{topic="copy199"} 1.0',
    ]


def test_topics_of_live_recoveries_and_of_those_that_ended_within_the_hour_are_in_play() -> None:
    world = World()
    world.feed(command("replay", "r1"))
    world.run_until(State.COMPLETED)
    ended_ms = world.recovery("r1").updated_ms
    state = world.state.having(LIVE, LiveSlice())
    assert BOOK.topics(state, ended_ms + 3_600_000) == {"flights", "flights.v2"}
    assert BOOK.topics(state, ended_ms + 3_600_001) == set()
