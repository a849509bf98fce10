"""Bounds become offsets once; a copy that could not be exact is refused with its code."""

from dataclasses import replace

import pytest

from recoveryd.kernel.refused import Refused
from recoveryd.recovery.model import Plan, Severity
from recoveryd.recovery.params import Params
from recoveryd.recovery.plan_facts import PartitionFacts
from recoveryd.recovery.spec import AtOffset, AtOffsets, AtTime, CaughtUp, Earliest, Latest, Limits
from recoveryd.replay.plan import make_plan
from recoveryd.replay.spec import TargetRef
from tests.builders.core import NOW_MS, SOURCE_ID, TARGET_ID, make_facts, make_spec, make_target

PARAMS = Params()
DAY_MS = 86_400_000


def plan_of(spec=None, facts=None) -> Plan:
    made = make_plan(spec or make_spec(), facts or make_facts(), PARAMS)
    assert isinstance(made, Plan), made
    return made


def refusal_of(spec=None, facts=None) -> str:
    made = make_plan(spec or make_spec(), facts or make_facts(), PARAMS)
    assert isinstance(made, Refused), made
    return made.code.value


def ranges(plan: Plan) -> list[tuple[int, int, int | None, bool]]:
    return [(p.partition, p.start, p.stop, p.at_end) for p in plan.partitions]


def timed_facts(starts: tuple[int, int], stops: tuple[int, int]):
    partitions = tuple(PartitionFacts(i, 5, 100, 100, start_at=starts[i], stop_at=stops[i]) for i in range(2))
    return replace(make_facts((100, 100), starts=(5, 5)), source_partitions=partitions)


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (Earliest(), Latest(), [(0, 5, 100, False), (1, 7, 50, False)]),
        (Earliest(), CaughtUp(), [(0, 5, None, False), (1, 7, None, False)]),
        (AtOffset(10), AtOffset(20), [(0, 10, 20, False), (1, 10, 20, False)]),
        (AtOffsets({0: 5, 1: 50}), Latest(), [(0, 5, 100, False), (1, 50, 50, False)]),
        (AtOffset(50), AtOffset(50), [(0, 50, 50, False), (1, 50, 50, False)]),
        (
            AtOffsets({0: 9}, others_earliest=True, topic_id=SOURCE_ID),
            Latest(),
            [(0, 9, 100, False), (1, 7, 50, False)],
        ),
    ],
)
def test_bounds_are_pinned_to_offsets(start, stop, expected) -> None:
    assert ranges(plan_of(make_spec(start, stop), make_facts((100, 50), starts=(5, 7)))) == expected


def test_offsets_of_another_topic_of_this_name_are_refused() -> None:
    assert refusal_of(make_spec(AtOffsets({0: 5, 1: 5}, topic_id="an-earlier-one"))) == "RCV-3002"
    assert refusal_of(make_spec(AtOffsets({0: 5}, topic_id=SOURCE_ID))) == "RCV-1005"


def test_another_target_of_this_name_is_refused() -> None:
    target = make_spec().target
    facts = make_facts(target=make_target())
    assert plan_of(replace(make_spec(), target=replace(target, topic_id=TARGET_ID)), facts).target.topic_id == TARGET_ID
    other = replace(make_spec(), target=replace(target, topic_id="an-earlier-one", create=True))
    assert refusal_of(other, facts) == "RCV-3002"
    assert refusal_of(other, make_facts(no_target=True)) == "RCV-3002"


def test_a_time_that_no_record_reaches_resolves_to_the_end_and_says_so() -> None:
    plan = plan_of(make_spec(AtTime(1), AtTime(2)), timed_facts((10, -1), (-1, -1)))
    assert ranges(plan) == [(0, 10, 100, True), (1, 100, 100, True)]
    assert "time_at_end" in [f.code for f in plan.findings]
    assert (plan.from_time_ms, plan.to_time_ms) == (1, 2)


def test_between_two_times_without_a_record_between_them_the_range_is_empty() -> None:
    plan = plan_of(make_spec(AtTime(1), AtTime(2)), timed_facts((10, 20), (10, 20)))
    assert (plan.records_at_most, plan.lanes) == (0, ())


@pytest.mark.parametrize(
    ("start", "stop", "code"),
    [
        (AtOffset(4), Latest(), "RCV-2003"),
        (AtOffset(51), Latest(), "RCV-2003"),
        (Earliest(), AtOffset(101), "RCV-2003"),
        (AtOffset(20), AtOffset(10), "RCV-2010"),
        (AtOffsets({0: 10}), Latest(), "RCV-1005"),
    ],
)
def test_offsets_outside_the_log_are_refused_never_clamped(start, stop, code) -> None:
    assert refusal_of(make_spec(start, stop), make_facts((100, 50), starts=(5, 7))) == code


@pytest.mark.parametrize(
    ("spec", "facts", "code"),
    [
        (make_spec(), replace(make_facts(), source=None), "RCV-2001"),
        (make_spec(partitions=(0, 9)), make_facts(), "RCV-2002"),
        (make_spec(), make_facts(no_target=True), "RCV-2004"),
        (make_spec(), make_facts(target=make_target(2, records=1)), "RCV-2005"),
        (make_spec(), make_facts(target=make_target(1)), "RCV-2006"),
        (make_spec(), make_facts(target=replace(make_target(2), topic_id=SOURCE_ID)), "RCV-1019"),
        (make_spec(), make_facts(target=make_target(2, cleanup_policy="compact")), "RCV-2008"),
        (
            make_spec(),
            make_facts(target=make_target(2, retention_ms="1000"), oldest_record_ms=NOW_MS - DAY_MS),
            "RCV-2014",
        ),
        (make_spec(), make_facts(target=make_target(2, max_message_bytes="100"), largest_record_bytes=101), "RCV-2009"),
        (
            make_spec(),
            make_facts(target=make_target(2, message_timestamp_before_max_ms="1000"), oldest_record_ms=NOW_MS - DAY_MS),
            "RCV-2009",
        ),
    ],
)
def test_a_target_or_source_that_cannot_work_is_refused(spec, facts, code) -> None:
    assert refusal_of(spec, facts) == code


@pytest.mark.parametrize(
    ("facts", "finding"),
    [
        (
            make_facts(target=make_target(2, message_timestamp_type="LogAppendTime")),
            ("target_log_append_time", Severity.WARN),
        ),
        (
            make_facts(target=make_target(2, retention_ms="604800000"), oldest_record_ms=NOW_MS - 1000),
            ("target_retention", Severity.WARN),
        ),
        (make_facts(target=make_target(3)), ("target_partitions", Severity.WARN)),
        (
            make_facts(target=make_target(2, max_message_bytes="100"), source_configs={"max.message.bytes": "200"}),
            ("target_max_message_bytes", Severity.WARN),
        ),
        (make_facts(source_configs={"cleanup.policy": "compact"}), ("source_compacted", Severity.INFO)),
    ],
)
def test_what_may_surprise_is_a_finding(facts, finding) -> None:
    assert finding in [(f.code, f.severity) for f in plan_of(facts=facts).findings]


def test_log_append_time_targets_keep_old_records_so_their_age_does_not_matter() -> None:
    target = make_target(2, message_timestamp_type="LogAppendTime", retention_ms="1000")
    assert (
        plan_of(facts=make_facts(target=target, oldest_record_ms=NOW_MS - DAY_MS)).findings[0].code
        == "target_log_append_time"
    )


@pytest.mark.scenario("S-CASTLE-1a")
def test_a_created_target_keeps_old_records_and_the_largest_ones() -> None:
    facts = make_facts(no_target=True, source_configs={"max.message.bytes": "2000000"})
    plan = plan_of(make_spec(target=TargetRef("flights.v2", create=True)), facts)
    assert plan.create_configs["retention.ms"] == "-1"
    assert plan.create_configs["max.message.bytes"] == "2000000"
    assert (plan.target.topic_id, plan.target.partitions) == ("", 2)


@pytest.mark.parametrize(
    ("source_configs", "largest", "room"),
    [
        ({"max.message.bytes": "1048588"}, 500_000, "1048588"),
        ({"max.message.bytes": "1048588"}, 3_000_000, "6000000"),
        ({"max.message.bytes": "1048588"}, 2_000_000_000, "2147483647"),
        ({"max.message.bytes": "1048588"}, None, "1048588"),
        ({}, 3_000_000, None),
    ],
)
def test_a_created_target_takes_records_that_the_source_has_compressed_far_better_than_lanes_do(
    source_configs, largest, room
) -> None:
    facts = make_facts(no_target=True, source_configs=source_configs, largest_record_bytes=largest)
    plan = plan_of(make_spec(target=TargetRef("flights.v2", create=True)), facts)
    assert plan.create_configs.get("max.message.bytes") == room


def test_a_created_target_has_the_sources_replicas_and_on_another_cluster_that_clusters_default() -> None:
    facts = make_facts(no_target=True)
    facts = replace(facts, source=replace(facts.source, replication_factor=3))
    targets = (TargetRef("flights.v2", create=True), TargetRef("flights.v2", cluster="other", create=True))
    assert [plan_of(make_spec(target=target), facts).replication_factor for target in targets] == [3, -1]


def test_append_accepts_a_target_that_has_records() -> None:
    spec = make_spec(target=TargetRef("flights.v2", on_existing="append"))
    assert plan_of(spec, make_facts(target=make_target(2, records=9))).records_at_most == 150


def test_the_plan_knows_where_the_targets_partitions_ended_also_those_that_it_does_not_write() -> None:
    appending = make_spec(target=TargetRef("flights.v2", on_existing="append"))
    wide = make_facts(target=make_target(3, records=9))
    assert plan_of(appending, wide).target_starts == ((0, 9), (1, 9), (2, 9))
    assert (
        plan_of(facts=make_facts(no_target=True), spec=make_spec(target=TargetRef("new", create=True))).target_starts
        == ()
    )
    longer = make_facts(target=make_target(3, records=10))
    assert plan_of(appending, wide).hash == plan_of(appending, longer).hash


def test_lanes_are_at_most_the_task_slots_and_hold_every_partition_with_data_once() -> None:
    plan = plan_of(facts=make_facts((10, 100, 0, 60, 55), slots=2, target=make_target(5)))
    assert sorted(p for lane in plan.lanes for p in lane) == [0, 1, 3, 4]
    assert len(plan.lanes) == 2


@pytest.mark.parametrize(("most", "lanes"), [(1, 1), (2, 2), (3, 3), (9, 3), (None, 3)])
def test_lanes_are_at_most_as_many_as_the_command_allows(most: int | None, lanes: int) -> None:
    limited = make_spec(stop=CaughtUp(), limits=Limits(max_lanes=most))
    plan = plan_of(limited, make_facts((10, 100, 60, 55), slots=3, target=make_target(4)))
    assert sorted(p for lane in plan.lanes for p in lane) == [0, 1, 2, 3]
    assert len(plan.lanes) == lanes


def test_following_lanes_hold_empty_partitions_too() -> None:
    plan = plan_of(make_spec(stop=CaughtUp()), make_facts((10, 0), slots=4))
    assert sorted(p for lane in plan.lanes for p in lane) == [0, 1]


@pytest.mark.scenario("S-RUN-2")
def test_the_hash_is_of_what_matters_only() -> None:
    base = plan_of()
    assert base.hash == plan_of(facts=make_facts(bytes_per_s=1.0, slots=1)).hash
    changed = [
        plan_of(make_spec(AtOffset(1))),
        plan_of(make_spec(verify="none")),
        plan_of(make_spec(limits=Limits(max_records=5))),
        plan_of(make_spec(target=TargetRef("flights.v2", mapping="key_hash"))),
        plan_of(facts=make_facts((100, 51))),
    ]
    assert len({base.hash, *(p.hash for p in changed)}) == 6


def test_the_eta_uses_the_slower_of_rate_and_limit() -> None:
    slow = plan_of(make_spec(limits=Limits(max_records_per_s=1.0)))
    assert slow.eta_seconds.mid == 158.0
    assert slow.eta_seconds.lo < slow.eta_seconds.mid < slow.eta_seconds.hi
