"""Questions to clusters: what planning and sampling see, and the creation of topics."""

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka import clusters as kafka_clusters
from recoveryd.adapters.kafka import offsets
from recoveryd.adapters.kafka.client import Properties, make_admin
from recoveryd.adapters.kafka.log_cut import LogCut
from recoveryd.adapters.memory import MemoryRecord
from recoveryd.errors import ClusterProblem, OwnTopicProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.live.events import OffsetsSampled, TopicSample
from recoveryd.recovery.effects import GatherFacts
from recoveryd.recovery.events import TargetReady
from recoveryd.recovery.plan_facts import PartitionFacts
from recoveryd.recovery.spec import AtOffset, AtTime
from recoveryd.verification.spec import ComparedRef
from tests.builders.core import make_verification
from tests.builders.records import make_creation, make_facts_question
from tests.contract.harness import Harness, KafkaHarness


def records(harness: Harness, count: int, size: int = 100, step_ms: int = 1_000) -> list[MemoryRecord]:
    """Records up to the present time, each one step older than the next."""
    now_ms = harness.now_ms()
    return [MemoryRecord(b"k", b"v" * (size - 1), now_ms - (count - 1 - i) * step_ms) for i in range(count)]


async def test_facts_tell_the_offsets_of_every_partition_and_what_the_topics_are(harness: Harness, unique: str) -> None:
    source, target = unique + "source", unique + "target"
    source_id = harness.create(source, 3, retention_ms="-1")
    harness.create(target, 2)
    written = records(harness, 10)
    harness.write(source, written, 0)
    harness.write(source, written, 1)
    harness.truncate(source, 4, 1)

    facts = await harness.clusters().gather_facts(make_facts_question(source, target))

    assert facts.source is not None
    assert facts.target is not None
    assert (facts.source.topic, facts.source.topic_id, facts.source.partitions) == (source, source_id, 3)
    assert (facts.source.starts, facts.source.ends) == ({0: 0, 1: 4, 2: 0}, {0: 10, 1: 10, 2: 0})
    assert facts.source.configs["retention.ms"] == "-1"
    assert (facts.target.partitions, facts.target.starts, facts.target.ends) == (2, {0: 0, 1: 0}, {0: 0, 1: 0})
    assert facts.target.configs["message.timestamp.type"] == "CreateTime"
    times = [r.timestamp_ms for r in written]
    assert [replace(p, bytes_on_disk=None) for p in facts.source_partitions[:2]] == [
        PartitionFacts(0, 0, 10, 10, first_ms=times[0], last_ms=times[9], recent_at=0, bytes_per_offset=100.0),
        PartitionFacts(1, 4, 10, 10, first_ms=times[4], last_ms=times[9], recent_at=4, bytes_per_offset=100.0),
    ]
    empty = facts.source_partitions[2]
    assert replace(empty, bytes_on_disk=None, bytes_per_offset=None) == PartitionFacts(2, 0, 0, 0, recent_at=-1)
    assert facts.hourly == ()
    sizes = [p.bytes_on_disk for p in facts.source_partitions]
    assert sizes[0] is not None
    assert sizes[0] >= 1_000
    assert sizes[2] == 0
    assert (facts.oldest_record_ms, facts.largest_record_bytes) == (written[0].timestamp_ms, 100)
    assert (facts.task_slots, facts.bytes_per_s, facts.rate_source) == (3, 5e6, "measured")
    assert abs(facts.gathered_at_ms - harness.now_ms()) < 60_000


async def test_facts_answer_time_bounds_with_the_first_offset_at_or_after_them(harness: Harness, unique: str) -> None:
    source = unique + "source"
    harness.create(source, 2)
    written = records(harness, 10)
    harness.write(source, written, 0)
    start, stop = AtTime(written[6].timestamp_ms), AtTime(harness.now_ms() + 3_600_000)

    facts = await harness.clusters().gather_facts(make_facts_question(source, unique + "none", start=start, stop=stop))

    assert [(p.start_at, p.stop_at) for p in facts.source_partitions] == [(6, -1), (-1, -1)]
    assert facts.oldest_record_ms == written[6].timestamp_ms


@pytest.mark.broker
async def test_a_record_that_comes_while_a_time_is_looked_up_is_in_the_range_that_begins_there(
    bootstrap: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the record would lie before the planned range, and nobody would miss it."""
    harness, source = KafkaHarness(bootstrap, unique), unique + "source"
    harness.create(source, 2)
    harness.write(source, records(harness, 5, step_ms=3_600_000), 0)
    now_ms, read_offsets = harness.now_ms(), offsets.read_offsets

    def and_one_more_comes(admin: AdminClient, keys: Any, spec: Any, timeout_s: float, **more: Any) -> dict[int, int]:
        found = read_offsets(admin, keys, spec, timeout_s, **more)
        if spec not in {offsets.EARLIEST, offsets.LATEST} and found == {0: -1, 1: -1}:
            harness.write(source, [MemoryRecord(b"k", b"new", harness.now_ms())], 0)
        return found

    monkeypatch.setattr(offsets, "read_offsets", and_one_more_comes)
    asked = make_facts_question(source, unique + "none", start=AtTime(now_ms + 1))
    facts = await harness.clusters().gather_facts(asked)
    harness.close()

    assert [(p.start_at, p.high_watermark) for p in facts.source_partitions] == [(5, 6), (-1, 0)]


async def test_facts_of_a_comparison_pin_the_target_by_its_own_log(harness: Harness, unique: str) -> None:
    source, target = unique + "source", unique + "target"
    for topic in (source, target):
        harness.create(topic, 2)
    written = records(harness, 10)
    harness.write(source, written, 0)
    harness.write(target, written[4:], 0)
    harness.write(target, written, 1)
    harness.truncate(target, 3, 1)
    start, stop = AtTime(written[6].timestamp_ms), AtTime(written[8].timestamp_ms)
    spec = make_verification(start, stop, target=ComparedRef(target))

    asked = GatherFacts("r1", replace(spec, source=replace(spec.source, topic=source)))
    facts = await harness.clusters().gather_facts(asked)

    assert [(p.start_at, p.stop_at) for p in facts.source_partitions] == [(6, 8), (-1, -1)]
    assert [(p.log_start, p.high_watermark, p.start_at, p.stop_at) for p in facts.target_partitions] == [
        (0, 6, 2, None),
        (3, 10, 6, None),
    ], "where times end is no place in the target: it is read to its end, and each record's own time decides"
    assert all(p.bytes_on_disk for p in facts.target_partitions)


async def test_what_is_copied_asks_for_no_range_of_the_target(harness: Harness, unique: str) -> None:
    source, target = unique + "source", unique + "target"
    for topic in (source, target):
        harness.create(topic, 1)
    facts = await harness.clusters().gather_facts(make_facts_question(source, target))
    assert facts.target is not None
    assert facts.target_partitions == ()


async def test_the_age_of_a_range_is_judged_by_its_own_records(harness: Harness, unique: str) -> None:
    source = unique + "source"
    harness.create(source, 2)
    written = records(harness, 10)
    harness.write(source, written, 0)
    harness.write(source, written[3:], 1)
    asked = make_facts_question(source, unique + "none", start=AtOffset(5), partitions=(0,))

    facts = await harness.clusters().gather_facts(asked)

    assert facts.oldest_record_ms == written[5].timestamp_ms


async def test_topics_that_do_not_exist_are_told_as_none(harness: Harness, unique: str) -> None:
    facts = await harness.clusters().gather_facts(make_facts_question(unique + "no", unique + "neither"))
    assert (facts.source, facts.source_partitions, facts.target) == (None, (), None)
    assert (facts.oldest_record_ms, facts.largest_record_bytes, facts.task_slots) == (None, None, 3)


async def test_an_open_transaction_holds_the_last_stable_offset_of_facts_and_samples(
    harness: Harness, unique: str
) -> None:
    source = unique + "source"
    harness.create(source)
    harness.write(source, records(harness, 5))
    clusters = harness.clusters()
    with harness.open_transaction(source):
        facts = await clusters.gather_facts(make_facts_question(source, unique + "none"))
        sampled = await clusters.sample([("main", source)])
    [partition] = facts.source_partitions
    [sample] = sampled.topics
    assert (partition.high_watermark, partition.last_stable) == (6, 5)
    assert (sample.high_watermark, sample.last_stable) == ({0: 6}, {0: 5})


async def test_a_cluster_nobody_configured_is_named_and_final(harness: Harness) -> None:
    question = make_facts_question("a", "b", cluster="moon")
    with pytest.raises(ClusterProblem) as caught:
        await harness.clusters().gather_facts(question)
    assert (caught.value.code, caught.value.retriable) == (Code.UNKNOWN_CLUSTER, False)
    assert "moon" in caught.value.message


async def test_a_cluster_that_does_not_answer_is_a_problem_worth_trying_again(harness: Harness) -> None:
    clusters = harness.clusters(reachable=False)
    with pytest.raises(ClusterProblem) as caught:
        await clusters.sample([("main", "any")])
    assert (caught.value.code, caught.value.retriable) == (Code.CLUSTER_UNREACHABLE, True)


async def test_creating_a_target_twice_gives_the_same_topic(harness: Harness, unique: str) -> None:
    clusters, wanted = harness.clusters(), make_creation(unique + "target", 3, retention_ms="-1")
    first = await clusters.create_target(wanted)
    second = await clusters.create_target(wanted)
    facts = await clusters.gather_facts(make_facts_question(unique + "none", unique + "target"))
    assert facts.target is not None
    assert first == second == TargetReady("r1", facts.target.topic_id, 3)
    assert facts.target.configs["retention.ms"] == "-1"


async def test_a_topic_that_holds_records_is_not_taken_for_the_created_target(harness: Harness, unique: str) -> None:
    harness.create(unique + "target", 2)
    harness.write(unique + "target", records(harness, 1), 1)
    with pytest.raises(ClusterProblem) as caught:
        await harness.clusters().create_target(make_creation(unique + "target", 2))
    assert (caught.value.code, caught.value.retriable) == (Code.TARGET_NOT_EMPTY, False)


async def test_a_topic_that_holds_records_is_taken_by_a_copy_that_appends(harness: Harness, unique: str) -> None:
    topic_id = harness.create(unique + "target", 2)
    harness.write(unique + "target", records(harness, 1), 1)
    creation = replace(make_creation(unique + "target", 2), appends=True)
    assert await harness.clusters().create_target(creation) == TargetReady("r1", topic_id, 2)
    with pytest.raises(ClusterProblem) as caught:
        await harness.clusters().create_target(replace(creation, partitions=3))
    assert (caught.value.code, caught.value.retriable) == (Code.TARGET_CREATE_FAILED, False)


async def test_a_topic_of_another_width_is_not_taken_for_the_created_target(harness: Harness, unique: str) -> None:
    harness.create(unique + "target", 2)
    with pytest.raises(ClusterProblem) as caught:
        await harness.clusters().create_target(make_creation(unique + "target", 3))
    assert (caught.value.code, caught.value.retriable) == (Code.TARGET_CREATE_FAILED, False)


async def test_a_sample_tells_ends_of_many_topics_and_which_do_not_exist(harness: Harness, unique: str) -> None:
    first, second, gone = unique + "first", unique + "second", unique + "gone"
    first_id, second_id = harness.create(first, 2), harness.create(second)
    harness.write(first, records(harness, 3), 1)
    before_ms = harness.now_ms()

    sampled = await harness.clusters().sample([("main", first), ("main", gone), ("main", second), ("main", first)])

    assert [replace(t, sampled_at_ms=0) for t in sampled.topics] == [
        TopicSample("main", first, first_id, {0: 0, 1: 0}, {0: 0, 1: 3}, {0: 0, 1: 3}, 0, 2, leaders={0: 1, 1: 1}),
        TopicSample("main", second, second_id, {0: 0}, {0: 0}, {0: 0}, 0, 1, leaders={0: 1}),
    ]
    assert sampled.missing == (("main", gone),)
    assert all(before_ms <= t.sampled_at_ms <= harness.now_ms() for t in sampled.topics)
    assert await harness.clusters().sample([]) == OffsetsSampled((), ())


async def test_a_topic_that_vanished_between_samples_is_missing_at_the_next(harness: Harness, unique: str) -> None:
    topic, clusters = unique + "topic", harness.clusters()
    harness.create(topic)
    assert (await clusters.sample([("main", topic)])).missing == ()
    harness.delete(topic)
    assert await clusters.sample([("main", topic)]) == OffsetsSampled((), (("main", topic),))


async def test_a_topic_made_again_narrower_has_its_new_id_in_the_next_sample(harness: Harness, unique: str) -> None:
    topic, clusters = unique + "topic", harness.clusters()
    harness.create(topic, 2)
    await clusters.sample([("main", topic)])
    harness.delete(topic)
    new_id = harness.create(topic, 1)
    [sample] = (await clusters.sample([("main", topic)])).topics
    assert (sample.topic_id, sample.high_watermark) == (new_id, {0: 0})


async def test_own_topics_as_wanted_pass_the_check(harness: Harness) -> None:
    clusters = harness.clusters()
    await clusters.check_own_topics()
    assert len(await clusters.control_topic_id()) >= 22


async def test_each_missing_own_topic_is_named(harness: Harness) -> None:
    harness.delete(harness.names.events)
    harness.delete(harness.names.control)
    with pytest.raises(OwnTopicProblem) as caught:
        await harness.clusters().check_own_topics()
    assert caught.value.code is Code.OWN_TOPIC_MISSING
    assert set(caught.value.problems) == {
        f"{harness.names.control} does not exist.",
        f"{harness.names.events} does not exist.",
    }


async def test_a_wrong_cleanup_policy_and_a_wide_control_topic_are_told(harness: Harness) -> None:
    harness.delete(harness.names.status)
    harness.create(harness.names.status, 1, cleanup_policy="delete")
    harness.delete(harness.names.control)
    harness.create(harness.names.control, 2)
    with pytest.raises(OwnTopicProblem) as caught:
        await harness.clusters().check_own_topics()
    assert caught.value.code is Code.OWN_TOPIC_WRONG
    assert set(caught.value.problems) == {
        f"{harness.names.status} has cleanup.policy=delete, it must be compact.",
        f"{harness.names.control} has partitions=2, it must be 1.",
    }


async def test_the_end_of_the_control_topic_is_behind_its_last_record(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogCut.__init__, "__defaults__", (0.1, 0.01))
    clusters = harness.clusters()
    assert await clusters.control_end(0) == 0
    harness.write(harness.names.control, [MemoryRecord(None, b"x", harness.now_ms()) for _ in range(5)])
    harness.truncate(harness.names.control, 5)
    assert [await clusters.control_end(position) for position in (0, 5, 9)] == [5, 5, 5]
    with pytest.raises(ClusterProblem):
        await harness.clusters(reachable=False).control_end(0)


async def test_a_cut_is_asked_of_clients_that_learn_the_leader_anew(
    kafka: KafkaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogCut.__init__, "__defaults__", (0.1, 0.01))
    clusters, made = kafka.clusters(), []

    def make(properties: Properties) -> AdminClient:
        made.append(make_admin(properties))
        return made[-1]

    monkeypatch.setattr(kafka_clusters, "make_admin", make)
    kafka.write(kafka.names.control, [MemoryRecord(None, b"x", kafka.now_ms()) for _ in range(5)])
    assert await clusters.control_end(5) == 5
    assert made == []
    assert await clusters.control_end(9) == 5
    assert len(made) >= 2


async def test_own_topics_that_got_partitions_which_nobody_reads_are_told(harness: Harness) -> None:
    names, clusters = harness.names, harness.clusters()
    await clusters.check_width()
    for name in (names.receipts, names.canary):  # these may be wider
        harness.widen(name, 9)
    await clusters.check_width()
    single = (names.control, names.status, names.events, names.directives, names.progress, names.dlq)
    for name in single:
        harness.widen(name, 2)
    with pytest.raises(OwnTopicProblem) as caught:
        await clusters.check_width()
    assert caught.value.code is Code.OWN_TOPIC_WRONG
    assert set(caught.value.problems) == {f"{name} has partitions=2, it must be 1." for name in single}


async def test_own_topics_of_which_nothing_is_known_are_not_too_wide(harness: Harness) -> None:
    harness.delete(harness.names.events)
    await harness.clusters().check_width()
    with pytest.raises(ClusterProblem):
        await harness.clusters(reachable=False).check_width()


async def test_a_control_topic_made_again_has_another_id(harness: Harness) -> None:
    clusters = harness.clusters()
    before = await clusters.control_topic_id()
    harness.delete(harness.names.control)
    harness.create(harness.names.control)
    assert await clusters.control_topic_id() != before


@pytest.mark.broker
async def test_applying_own_topics_creates_what_is_missing_and_only_reports_what_differs(kafka: KafkaHarness) -> None:
    names, clusters = kafka.names, kafka.clusters()
    kafka.delete(names.events)
    kafka.delete(names.progress)
    kafka.create(names.progress, 1, cleanup_policy="compact")

    first = {r.topic: r for r in await clusters.apply_own_topics()}
    second = {r.topic: r for r in await clusters.apply_own_topics()}

    assert {name for name, report in first.items() if report.created} == {names.events}
    assert {name for name, report in second.items() if report.created} == set()
    assert all(report.exists for report in second.values())
    [policy] = [d for d in first[names.progress].differences if d.setting == "cleanup.policy"]
    assert (policy.wanted, policy.found, policy.fatal) == ("delete", "compact", True)
    assert first[names.events].differences == ()
    assert first[names.progress].differences == second[names.progress].differences


@pytest.mark.broker
async def test_a_write_probe_leaves_nothing_that_a_committed_reader_sees(kafka: KafkaHarness) -> None:
    found = await kafka.clusters().write_probe(kafka.scope)
    assert found == dict.fromkeys(set(kafka.names.all) - {kafka.names.control, kafka.names.canary})
    assert kafka.read(kafka.names.status) == []


@pytest.mark.broker
async def test_a_config_the_broker_refuses_makes_the_creation_fail_for_good(kafka: KafkaHarness, unique: str) -> None:
    with pytest.raises(ClusterProblem) as caught:
        await kafka.clusters().create_target(make_creation(unique + "target", 1, retention_ms="forever"))
    assert (caught.value.code, caught.value.retriable) == (Code.TARGET_CREATE_FAILED, False)
    assert "retention.ms" in caught.value.message
