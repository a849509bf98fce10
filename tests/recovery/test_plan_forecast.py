"""The forecast of a plan: which rates it takes, what it says about skew, retention, deadlines and moving heads, and
that the hash does not depend on it.
"""

from dataclasses import replace

import pytest

from recoveryd.forecast.cost import Prices, Pricing
from recoveryd.forecast.view import CostView, Storage
from recoveryd.live.events import TopicSample
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.model import EtaSeconds, Plan, RemoteRange, Severity
from recoveryd.recovery.params import Params
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.recovery.spec import AtOffset, CaughtUp, Limits
from recoveryd.replay.plan import make_plan
from recoveryd.replay.spec import ReplaySpec
from tests.builders.core import NOW_MS, SOURCE_ID, make_facts, make_spec

DAY_MS = 86_400_000
LIVE = 10_000.0
PARAMS = Params()


def four_days(*, days: float = 4.0, partitions: int = 2, recent: bool = True, **configs: str) -> PlanFacts:
    """Four days of 10,000 records of 100 bytes a second over some partitions, and 2 M records/s measured."""
    each = round(days * 86_400 * LIVE / partitions)
    facts = make_facts((each,) * partitions, bytes_per_s=200e6, rate_source="measured", source_configs=configs)
    rows = tuple(
        replace(
            p,
            first_ms=NOW_MS - round(days * DAY_MS),
            last_ms=NOW_MS,
            recent_at=each - round(600 * LIVE / partitions) if recent else None,
        )
        for p in facts.source_partitions
    )
    return replace(facts, source_partitions=rows, oldest_record_ms=NOW_MS - round(days * DAY_MS))


def plan_of(
    spec: ReplaySpec | None = None, facts: PlanFacts | None = None, history: SampleHistory | None = None
) -> Plan:
    plan = make_plan(spec or make_spec(), facts or four_days(), PARAMS, history or SampleHistory())
    assert isinstance(plan, Plan)
    assert plan.forecast is not None
    return plan


def codes(plan: Plan) -> dict[str, Severity]:
    return {f.code: f.severity for f in plan.findings if f.code.startswith("forecast_")}


def test_four_days_at_two_million_a_second_take_29_minutes_and_the_start_up() -> None:
    plan = plan_of()
    found = plan.forecast
    assert found is not None
    assert (found.bounded_s, found.speed_up, found.outlook) == (1_736.0, 200.0, "ok")
    assert found.moving_s == pytest.approx(8 + (3.456e9 + 8 * LIVE) / 1.99e6, abs=0.1)
    assert found.sentence == "200 times real time: 28.9 min"
    assert plan.eta_seconds == EtaSeconds(1386.4, 1736.0, 2311.0 + 8.0)
    assert (found.rate_source, found.live_per_s, found.live_source) == ("measured", LIVE, "log times")
    assert (found.replay_per_s, found.backlog, found.window_s) == (2e6, 3.456e9, 345_600.0)
    assert codes(plan) == {}


def test_a_moving_head_that_is_too_fast_is_never_reached_and_the_finding_says_what_would_do() -> None:
    facts = replace(four_days(), bytes_per_s=100 * LIVE)
    plan = plan_of(make_spec(stop=CaughtUp()), facts)
    assert plan.forecast is not None
    assert (plan.eta_seconds, plan.forecast.eta_seconds.mid, plan.forecast.outlook) == (None, None, "impractical_never")
    assert codes(plan)["forecast_impractical_never"] is Severity.WARN
    assert plan.forecast.suggestion.startswith("more than 20,000/s (4 lanes instead of 2) is needed; or pin the end")


def test_the_hash_does_not_know_the_forecast() -> None:
    fast, slow = plan_of(), plan_of(facts=replace(four_days(), bytes_per_s=1e3))
    assert fast.forecast != slow.forecast
    assert fast.hash == slow.hash


@pytest.mark.scenario("S-CASTLE-7a")
def test_the_samples_of_a_watched_source_win_over_the_times_of_its_log() -> None:
    def sample(at_s: int, end: int) -> TopicSample:
        return TopicSample("main", "flights", SOURCE_ID, {}, {0: end, 1: end}, {}, NOW_MS - 15_000 + at_s * 1000)

    rising = SampleHistory(tuple(sample(s, 50 * s) for s in (0, 5, 10)))
    found = plan_of(history=rising).forecast
    assert found is not None
    assert (found.live_per_s, found.live_source) == (100.0, "sampled")
    old = SampleHistory(tuple(replace(s, sampled_at_ms=s.sampled_at_ms - 60_000) for s in rising.samples))
    few = SampleHistory(rising.samples[:2])
    for history in (old, few):
        assert plan_of(history=history).forecast == plan_of().forecast


def test_a_live_rate_that_nobody_knows_is_said_to_be_unknown() -> None:
    found = plan_of(facts=four_days(recent=False)).forecast
    assert found is not None
    assert (found.live_per_s, found.live_source) == (None, "unknown")


def test_a_young_log_is_measured_over_its_age() -> None:
    facts = make_facts((6_000,), bytes_per_s=1e6)
    row = replace(facts.source_partitions[0], first_ms=NOW_MS - 60_000, last_ms=NOW_MS, recent_at=0)
    found = plan_of(facts=replace(facts, source_partitions=(row,))).forecast
    assert found is not None
    assert found.live_per_s == 100.0


def test_without_measurement_the_configured_rate_counts_and_may_be_off_by_half() -> None:
    plan = plan_of(facts=replace(four_days(), bytes_per_s=None, rate_source="measured"))
    assert plan.forecast is not None
    assert (plan.forecast.replay_per_s, plan.forecast.rate_source) == (300_000.0, "configured")
    assert plan.forecast.eta_seconds.hi == pytest.approx(8 + 2 * 3.456e9 / 300_000)


def test_one_large_partition_holds_the_job_back_unless_a_limit_is_divided_by_what_is_left() -> None:
    skewed = make_facts((900_000, 100_000), bytes_per_s=10e6)  # 50,000 records/s for each of two lanes
    free = plan_of(facts=skewed).forecast
    limited = plan_of(make_spec(limits=Limits(max_bytes_per_s=5e6)), skewed).forecast
    assert free is not None
    assert limited is not None
    assert (free.bounded_s, free.partition) == (8 + 18.0, 0)
    assert limited.bounded_s == 8 + 20.0


@pytest.mark.scenario("S-RUN-5a")
@pytest.mark.parametrize(
    ("configs", "spec", "loss_s", "outlook"),
    [
        ({"retention.ms": str(4 * DAY_MS + 5_000)}, make_spec(), 5.0, "retention_loss"),
        ({"retention.ms": str(5 * DAY_MS)}, make_spec(), None, "ok"),
        ({"retention.ms": str(4 * DAY_MS + 5_000), "cleanup.policy": "compact"}, make_spec(), None, "ok"),
        ({"retention.ms": "-1"}, make_spec(), None, "ok"),
        ({"retention.ms": "nonsense"}, make_spec(), None, "ok"),
        # full by size: 50,000 records a second into each partition delete the start while the job starts
        ({"retention.bytes": str(172_800_000_000)}, make_spec(), 0.0, "retention_loss"),
        ({"retention.bytes": str(172_800_000_000)}, make_spec(AtOffset(10**9)), None, "ok"),
        ({"retention.bytes": str(10**15)}, make_spec(), None, "ok"),
    ],
)
def test_the_race_with_retention(configs: dict[str, str], spec: ReplaySpec, loss_s: float | None, outlook: str) -> None:
    plan = plan_of(spec, four_days(**configs))
    assert plan.forecast is not None
    assert (plan.forecast.loss_in_s, plan.forecast.outlook) == (loss_s, outlook)
    assert codes(plan) == ({"forecast_retention_loss": Severity.WARN} if outlook != "ok" else {})


def test_a_deadline_that_will_be_missed_names_the_rate_it_needs() -> None:
    plan = plan_of(make_spec(limits=Limits(deadline_ms=NOW_MS + 3_600_000)), replace(four_days(), bytes_per_s=20e6))
    assert plan.forecast is not None
    assert plan.forecast.required_per_s == 960_000.0
    assert codes(plan) == {"forecast_deadline_miss": Severity.WARN}
    text = next(f.message for f in plan.findings if f.code == "forecast_deadline_miss")
    assert "960,000/s (10 lanes instead of 2) would make it" in text
    short = plan_of(make_spec(limits=Limits(max_runtime_ms=60_000))).forecast
    assert short is not None
    assert (short.deadline_s, short.outlook) == (60.0, "deadline_miss")


def test_two_verdicts_at_once_are_two_findings_worst_first() -> None:
    facts = replace(four_days(**{"retention.ms": str(4 * DAY_MS + 5_000)}), bytes_per_s=1.5e6)
    plan = plan_of(facts=facts)
    assert list(codes(plan)) == ["forecast_retention_loss", "forecast_impractical_slow"]


def test_a_short_copy_of_a_short_window_is_not_called_slow() -> None:
    facts = make_facts((100_000,), bytes_per_s=5e6)
    row = replace(facts.source_partitions[0], first_ms=NOW_MS - 300, last_ms=NOW_MS)
    plan = plan_of(facts=replace(facts, source_partitions=(row,)))
    assert codes(plan) == {}
    assert plan.forecast is not None
    assert plan.forecast.outlook == "ok"


def test_history_of_the_same_hour_counts_for_a_moving_head() -> None:
    calm = plan_of(make_spec(stop=CaughtUp()), replace(four_days(), bytes_per_s=3e6)).forecast
    busy = plan_of(
        make_spec(stop=CaughtUp()), replace(four_days(), bytes_per_s=3e6, hourly=(LIVE, *[25_000.0] * 23))
    ).forecast
    assert calm is not None
    assert busy is not None
    assert calm.eta_seconds.mid is not None
    assert busy.eta_seconds.mid is not None
    assert busy.eta_seconds.mid > 2 * calm.eta_seconds.mid


@pytest.mark.scenario("S-RUN-18")
def test_storage_counts_replicas_and_prices_make_a_cost() -> None:
    facts = four_days(days=1.0)
    assert facts.target is not None
    facts = replace(facts, target=replace(facts.target, replication_factor=3))
    pricing = Pricing(Prices(executor_s=0.01, storage_byte_s=1e-15), "EUR", 0.5, 86_400.0)
    plan = make_plan(make_spec(), facts, Params(pricing=pricing))
    assert isinstance(plan, Plan)
    assert plan.forecast is not None
    assert plan.forecast.storage == Storage(86_400_000_000, 259_200_000_000)
    assert plan.forecast.cost == CostView("EUR", 8.8, 0.0, 22.3949, 0.0, 31.1949)
    assert plan_of(facts=facts).forecast == replace(plan.forecast, cost=None)


def test_an_empty_range_is_done_at_once_and_all_is_well() -> None:
    plan = plan_of(facts=make_facts((0, 0)))
    assert plan.forecast is not None
    assert (plan.forecast.eta_seconds.mid, plan.forecast.outlook, plan.forecast.speed_up) == (0.0, "ok", None)


def with_remote(facts: PlanFacts, *local_starts: int | None) -> PlanFacts:
    assert facts.source is not None
    rows = tuple(replace(p, local_start=at) for p, at in zip(facts.source_partitions, local_starts, strict=True))
    source = replace(facts.source, configs={**facts.source.configs, "remote.storage.enable": "true"})
    return replace(facts, source=source, source_partitions=rows)


@pytest.mark.scenario("S-RUN-17")
def test_a_part_in_remote_storage_is_named_and_slows_the_forecast_by_its_share() -> None:
    """Half of 3.456e9 records of 100 bytes at 200 MB/s, the other half at 10 MB/s; the hash is that of the same
    copy.
    """
    facts = four_days()
    each = facts.source_partitions[0].high_watermark
    plain, plan = plan_of(facts=facts), plan_of(facts=with_remote(facts, each, 0))
    assert (plan.remote, plan.hash) == ((RemoteRange(0, 0, each),), plain.hash)
    [finding] = [f for f in plan.findings if f.code == "source_remote"]
    assert finding.message.startswith(
        f"{each:,} offsets lie in remote storage, [0, {each:,}) of partition 0: no more than"
    )
    assert plan.forecast is not None
    assert plan.forecast.bounded_s == pytest.approx(8 + each / 2e6 + each / 1e5)
    assert plan_of(make_spec(start=AtOffset(each)), with_remote(facts, each, each)).remote == ()


def test_what_the_cluster_does_not_say_of_remote_storage_is_not_known_and_no_topic_without_has_any() -> None:
    plan = plan_of(facts=with_remote(four_days(), None, None))
    assert (plan.remote, [f.code for f in plan.findings if "remote" in f.code]) == ((), ["source_remote_unknown"])
    assert [f.code for f in plan_of().findings if "remote" in f.code] == []
    some = plan_of(facts=with_remote(four_days(), None, 7))
    told = {f.code: f.message for f in some.findings if "remote" in f.code}
    assert told["source_remote_unknown"].endswith("which part of partition 0 lies there")
    assert (list(some.remote), "source_remote" in told) == ([RemoteRange(1, 0, 7)], True)
    one = plan_of(make_spec(partitions=(1,)), with_remote(four_days(), None, 7))
    assert [f.code for f in one.findings if "remote" in f.code] == ["source_remote"], "the other one is not copied"


def compressed(facts: PlanFacts) -> PlanFacts:
    """Its records have ten times the bytes that they take on the disk."""
    return replace(
        facts, source_partitions=tuple(replace(p, bytes_per_offset=1_000.0) for p in facts.source_partitions)
    )


def test_the_bytes_of_a_compressed_topic_are_those_that_lanes_count() -> None:
    limited = make_spec(limits=Limits(mode="fixed", max_bytes_per_s=100e6))
    facts = four_days(**{"retention.ms": str(5 * DAY_MS)})
    plain, packed = plan_of(limited, facts), plan_of(limited, compressed(facts))
    assert packed.bytes_at_most == 10 * plain.bytes_at_most
    assert packed.eta_seconds is not None
    assert plain.eta_seconds is not None
    assert packed.eta_seconds.mid > 9 * plain.eta_seconds.mid
    assert packed.retention_bytes_per_s == pytest.approx(10 * plain.retention_bytes_per_s)
    assert packed.retention_bytes_per_s > 0
    assert packed.forecast is not None
    assert plain.forecast is not None
    assert packed.forecast.storage == plain.forecast.storage, "it takes no more of a disk"


def test_a_dense_end_of_a_compacted_log_counts_for_no_more_than_compression_can_have_saved() -> None:
    facts = four_days()
    rows = tuple(replace(p, bytes_per_offset=100_000.0) for p in facts.source_partitions)
    assert plan_of(facts=replace(facts, source_partitions=rows)).bytes_at_most == 20 * plan_of().bytes_at_most


def test_the_disk_counts_where_a_log_takes_more_of_it_than_its_records_have_bytes() -> None:
    facts = four_days()
    rows = tuple(replace(p, bytes_per_offset=80.0) for p in facts.source_partitions)
    assert plan_of(facts=replace(facts, source_partitions=rows)).bytes_at_most == plan_of().bytes_at_most
