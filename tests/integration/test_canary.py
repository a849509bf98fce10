"""The canary against the real broker: what it measures, how it reports a broker that hangs, and what it does without
its topic.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from recoveryd.adapters.kafka import own_topics
from recoveryd.adapters.kafka.canary import KafkaCanary
from recoveryd.adapters.kafka.topic_admin import delete
from recoveryd.ports import Fate, Probe
from recoveryd.wire.topics import TopicNames
from recoveryd.wire.topics import own_topics as wanted_topics
from recoveryd_sandbox.broker import Broker

pytestmark = pytest.mark.broker

DEADLINE_S = 120.0
ATTEMPT_S = 10.0
WAIT_S = 1.0


@pytest.fixture
def names(bootstrap: str, unique: str) -> Iterator[TopicNames]:
    """With the canary's topic, made as `topics apply` makes it."""
    names, admin = TopicNames(unique), AdminClient({"bootstrap.servers": bootstrap})
    canary = [topic for topic in wanted_topics(names) if topic.name == names.canary]
    [report] = own_topics.apply(admin, canary, 1)
    assert (report.created, report.differences) == (True, ())
    yield names
    delete(admin, names.canary, DEADLINE_S)


def make_canary(bootstrap: str, names: TopicNames, give_up_s: float = 30.0) -> KafkaCanary:
    return KafkaCanary("main", {"bootstrap.servers": bootstrap}, names.canary, give_up_s)


def written(bootstrap: str, topic: str, partition: int = 0) -> int:
    """The end of the topic, however long its broker does not lead it again after a pause.

    A client that was told right after the pause that nobody leads the partition was seen to go on saying so for its
    whole time, so each attempt is a new client.
    """
    give_up_s = time.monotonic() + DEADLINE_S
    while True:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ATTEMPT_S)[1]
        except KafkaException:
            if time.monotonic() >= give_up_s:
                raise
        finally:
            consumer.close()
        time.sleep(0.1)


async def until(canary: KafkaCanary, condition: Callable[[Probe], bool]) -> Probe:
    give_up_s = time.monotonic() + DEADLINE_S
    while not condition(probe := await canary.probe(WAIT_S)):
        assert time.monotonic() < give_up_s, f"never came, last seen: {probe}"
    return probe


async def test_each_probe_writes_one_record_and_tells_its_time_but_for_the_first_that_connects(
    bootstrap: str, names: TopicNames
) -> None:
    canary = make_canary(bootstrap, names)
    began_s = time.monotonic()
    probes = [await canary.probe(DEADLINE_S) for _ in range(5)]
    took_s = time.monotonic() - began_s
    await canary.close()
    assert [p.fate for p in probes] == [Fate.DELIVERED] * 5
    assert probes[0].seconds is None
    measured = [p.seconds for p in probes[1:] if p.seconds is not None]
    assert len(measured) == 4
    assert all(0 < seconds < took_s for seconds in measured)
    assert written(bootstrap, names.canary) == 5


async def test_records_go_to_every_partition_in_turn_so_to_every_broker(bootstrap: str, unique: str) -> None:
    names, admin = TopicNames(unique), AdminClient({"bootstrap.servers": bootstrap})
    [canary_topic] = [topic for topic in wanted_topics(names) if topic.name == names.canary]
    own_topics.apply(admin, [replace(canary_topic, partitions=3)], 1)
    canary = make_canary(bootstrap, names)
    probes = [await canary.probe(DEADLINE_S) for _ in range(9)]
    await canary.close()
    assert [p.seconds is None for p in probes] == [True] * 3 + [False] * 6, "the first one to each pays for connecting"
    assert [written(bootstrap, names.canary, partition) for partition in range(3)] == [3, 3, 3]
    admin.delete_topics([names.canary])[names.canary].result(DEADLINE_S)


async def test_partitions_that_are_added_while_it_runs_get_records_too(
    bootstrap: str, names: TopicNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recoveryd.adapters.kafka.canary._LEADERS_EVERY_S", 0.1)
    canary, admin = make_canary(bootstrap, names), AdminClient({"bootstrap.servers": bootstrap})
    await until(canary, lambda p: p.seconds is not None)
    admin.create_partitions([NewPartitions(names.canary, 3)])[names.canary].result(DEADLINE_S)
    firsts = 0  # the first record to each is no measurement
    give_up_s = time.monotonic() + DEADLINE_S
    while firsts < 2:
        assert time.monotonic() < give_up_s, "records never went to the new partitions"
        probe = await canary.probe(DEADLINE_S)
        assert probe.fate is Fate.DELIVERED, probe
        firsts += probe.seconds is None
    await canary.close()
    assert all(written(bootstrap, names.canary, partition) > 0 for partition in range(3))


async def test_a_missing_topic_is_no_measurement_and_is_not_created_and_is_found_once_it_is_there(
    bootstrap: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, admin = TopicNames(unique), AdminClient({"bootstrap.servers": bootstrap})
    monkeypatch.setattr("recoveryd.adapters.kafka.canary._LOOK_AGAIN_S", 0.1)
    canary = make_canary(bootstrap, names)
    probe = await canary.probe(WAIT_S)
    assert (probe.fate, probe.seconds) == (Fate.UNUSABLE, None)
    assert f"{names.canary} does not exist on main" in probe.why
    assert names.canary not in admin.list_topics(timeout=DEADLINE_S).topics
    own_topics.apply(admin, [t for t in wanted_topics(names) if t.name == names.canary], 1)
    probe = await until(canary, lambda p: p.seconds is not None)
    assert probe.fate is Fate.DELIVERED
    admin.delete_topics([names.canary])[names.canary].result(DEADLINE_S)
    probe = await until(canary, lambda p: p.fate is Fate.UNUSABLE)
    assert "does not exist" in probe.why
    await canary.close()


async def test_of_a_hanging_broker_the_age_of_one_record_grows_over_clients_until_it_answers(
    broker: Broker | None, bootstrap: str, names: TopicNames
) -> None:
    if broker is None:
        pytest.skip("the broker of this run is not ours to pause")
    canary = make_canary(bootstrap, names, give_up_s=1.5)
    await until(canary, lambda p: p.seconds is not None)
    before = written(bootstrap, names.canary)
    broker.pause()
    try:
        hung_s = time.monotonic()
        probes = [await canary.probe(0.5) for _ in range(5)]
        passed_s = time.monotonic() - hung_s
    finally:
        broker.cont()
    ages = [p.seconds for p in probes if p.seconds is not None]
    assert ages == sorted(ages)
    assert len(ages) == 5
    assert {p.fate for p in probes} == {Fate.WAITING, Fate.GIVEN_UP}
    assert 2.0 < ages[-1] <= passed_s
    await until(canary, lambda p: p.fate is Fate.DELIVERED and p.seconds is not None and p.seconds < ages[-1])
    await canary.close()
    # One at a time: while the broker hung, it got at most one record per client.
    assert written(bootstrap, names.canary) - before <= 5


async def test_a_late_answer_counts_with_its_whole_time(
    broker: Broker | None, bootstrap: str, names: TopicNames
) -> None:
    if broker is None:
        pytest.skip("the broker of this run is not ours to pause")
    canary = make_canary(bootstrap, names)
    await until(canary, lambda p: p.seconds is not None)
    broker.pause()
    try:
        waiting = await canary.probe(WAIT_S)
    finally:
        broker.cont()
    late = await canary.probe(DEADLINE_S)
    assert waiting.fate is Fate.WAITING
    assert late.fate is Fate.DELIVERED
    assert waiting.seconds is not None
    assert late.seconds is not None
    assert waiting.seconds >= WAIT_S
    assert late.seconds >= 0.8 * WAIT_S, (
        "counted from the moment at which the client took it, a little after the probe began"
    )
    await canary.close()


async def test_nobody_there_is_silence_that_grows(unique: str) -> None:
    canary = KafkaCanary("away", {"bootstrap.servers": "127.0.0.1:1"}, TopicNames(unique).canary)
    first, second = [await canary.probe(0.1) for _ in range(2)]
    assert (first.fate, second.fate) == (Fate.GIVEN_UP, Fate.GIVEN_UP)
    assert first.seconds is not None
    assert second.seconds is not None
    assert second.seconds > first.seconds > 0
    await canary.close()
