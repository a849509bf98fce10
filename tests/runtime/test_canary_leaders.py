"""That the canary sees partitions that were added, and says which brokers it does not measure, without a broker."""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from recoveryd.adapters.kafka import canary as canary_module
from recoveryd.adapters.kafka.canary import KafkaCanary
from recoveryd.adapters.kafka.canary_leaders import CanaryLeaders, SilentBrokers
from recoveryd.ports import Fate
from tests.runtime.fakes import until

TOPIC = "p.canary.v1"
ALTER = f"kafka-topics.sh --bootstrap-server b:1 --alter --topic {TOPIC} --partitions"
ELECT = f"kafka-leader-election.sh --bootstrap-server b:1 --election-type preferred --topic {TOPIC} --partition"


def seen(brokers: Sequence[int], *partitions: Sequence[int]) -> CanaryLeaders:
    """Each partition is its leader, and then its replicas."""
    return CanaryLeaders(
        TOPIC,
        frozenset(brokers),
        {number: leader for number, (leader, *_) in enumerate(partitions)},
        {number: tuple(held) for number, (_, *held) in enumerate(partitions)},
    )


@pytest.mark.parametrize(
    ("look", "silent", "mend"),
    [
        (seen([1], [1, 1]), (), ""),
        (seen([1, 2, 3], [1, 1], [2, 2], [3, 3], [1, 1]), (), ""),
        # A broker that was added.
        (seen([1, 2], [1, 1]), (2,), f"{ALTER} 2 --replica-assignment 1,2"),
        (seen([1, 2, 7, 9], [2, 2, 1], [1, 1, 2]), (7, 9), f"{ALTER} 4 --replica-assignment 2:1,1:2,7:9,9:1"),
        # As many partitions as brokers, and still one that leads none.
        (seen([1, 2, 3], [1, 1, 2], [2, 2, 3], [1, 1, 3]), (3,), f"{ALTER} 4 --replica-assignment 1:2,2:3,1:3,3:1"),
        # It was restarted, and has not got back what it leads by preference.
        (seen([1, 2], [1, 1, 2], [1, 2, 1]), (2,), f"{ELECT} 1"),
        (seen([1, 2, 3], [1, 1, 2], [1, 2, 1]), (2, 3), f"{ALTER} 3 --replica-assignment 1:2,2:1,3:1 && {ELECT} 1"),
        # Who leads next is not known.
        (seen([1, 2], [1, 1], [-1, 2]), (), ""),
    ],
)
def test_brokers_that_lead_no_partition_and_the_command_that_gives_them_one(
    look: CanaryLeaders, silent: tuple[int, ...], mend: str
) -> None:
    assert (look.silent, look.mend("b:1")) == (silent, mend)


def test_silent_brokers_are_told_once_when_sure_and_again_when_they_are_others() -> None:
    brokers, well, lacking = SilentBrokers(), seen([1, 2], [1, 1], [2, 2]), seen([1, 2], [1, 1])
    more = seen([1, 2, 3], [1, 1])
    nobody = seen([1, 2], [-1, 1])
    looks = [well, lacking, well, lacking, nobody, lacking, lacking, more, more, more, well, well]
    assert [brokers.told(look) for look in looks] == [
        None, None, None, None, None, (2,), None, None, (2, 3), None, (), None,
    ]  # fmt: skip


def test_a_broker_that_was_restarted_has_time_to_get_its_partitions_back() -> None:
    brokers, moved = SilentBrokers(), seen([1, 2], [1, 1, 2], [1, 2, 1])
    assert [brokers.told(moved) for _ in range(11)] == [*[None] * 9, (2,), None]


class Producing:
    """A producer whose records are acknowledged at once, and whose cluster is as the test says."""

    def __init__(self, answer: Callable[[], CanaryLeaders]) -> None:
        self.answer, self.partitions, self.looks = answer, list[int](), 0

    def produce(self, _topic: str, *, partition: int, on_delivery: Callable[..., None], **_: object) -> None:
        self.partitions.append(partition)
        on_delivery(None, SimpleNamespace(latency=lambda: 0.01))

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert timeout > 0
        self.looks += 1
        look = self.answer()
        partitions: Mapping[int, object] = {
            number: SimpleNamespace(leader=leader, replicas=look.replicas[number])
            for number, leader in look.leaders.items()
        }
        return SimpleNamespace(
            brokers=dict.fromkeys(look.brokers),
            topics={topic: SimpleNamespace(partitions=partitions, error=None)},
        )

    def purge(self) -> None:
        return


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], CanaryLeaders]], tuple[KafkaCanary, Producing]]:
    """A canary that looks at leaders after each record, of a topic that had one partition when it began."""
    monkeypatch.setattr(canary_module, "_LEADERS_EVERY_S", 0.0)
    monkeypatch.setattr(canary_module, "make_admin", lambda _properties: None)
    monkeypatch.setattr(canary_module, "describe", lambda *_: {TOPIC: SimpleNamespace(partitions=1)})

    def make(answer: Callable[[], CanaryLeaders]) -> tuple[KafkaCanary, Producing]:
        producer = Producing(answer)
        monkeypatch.setattr(canary_module, "make_canary_producer", lambda *_: producer)
        return KafkaCanary("main", {"bootstrap.servers": "b:1"}, TOPIC), producer

    return make


async def looked(canary: KafkaCanary, producer: Producing) -> None:
    """Two probes, of which the second comes after a look that the first began."""
    before = producer.looks
    assert (await canary.probe(1.0)).fate is Fate.DELIVERED
    await until(lambda: producer.looks > before)
    assert (await canary.probe(1.0)).fate is Fate.DELIVERED


async def test_partitions_that_were_added_get_records_and_the_first_to_each_is_no_measurement(
    watched: Callable[[Callable[[], CanaryLeaders]], tuple[KafkaCanary, Producing]],
) -> None:
    look = seen([1, 2], [1, 1])
    canary, producer = watched(lambda: look)
    for _ in range(3):
        await looked(canary, producer)
    assert set(producer.partitions) == {0}
    look = seen([1, 2], [1, 1], [-1, 2])
    for _ in range(3):
        await looked(canary, producer)
    assert set(producer.partitions) == {0}, "a record to a partition without a leader would wait for one"
    look = seen([1, 2], [1, 1], [2, 2])
    told = []
    while producer.partitions.count(1) < 2:
        assert len(told) < 1_000
        told.append((await canary.probe(1.0)).seconds)
    await canary.close()
    assert told.count(None) == 1


async def test_a_look_that_fails_stops_no_record_and_fewer_partitions_are_not_believed(
    watched: Callable[[Callable[[], CanaryLeaders]], tuple[KafkaCanary, Producing]],
) -> None:
    def fail() -> CanaryLeaders:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    canary, producer = watched(lambda: seen([1], [1, 1], [1, 1]))
    await looked(canary, producer)
    producer.answer = fail
    for _ in range(3):
        await looked(canary, producer)
    producer.answer = lambda: seen([1], [1, 1])
    for _ in range(3):
        await looked(canary, producer)
    await canary.close()
    assert set(producer.partitions[-4:]) == {0, 1}


async def test_brokers_that_are_not_measured_are_told_once_with_the_command(
    watched: Callable[[Callable[[], CanaryLeaders]], tuple[KafkaCanary, Producing]], caplog: pytest.LogCaptureFixture
) -> None:
    look = seen([1, 2], [1, 1])
    canary, producer = watched(lambda: look)
    with caplog.at_level(logging.INFO, "recoveryd.kafka"):
        for _ in range(5):
            await looked(canary, producer)
        look = seen([1, 2], [1, 1], [2, 2])
        for _ in range(2):
            await looked(canary, producer)
        await until(lambda: len(caplog.records) > 1)
    await canary.close()
    said = [(line.levelname, line.getMessage()) for line in caplog.records if line.name == "recoveryd.kafka"]
    told = f"The canary on main does not measure brokers that lead no partition of {TOPIC}: 2. To mend it: "
    assert said == [
        ("WARNING", f"{told}{ALTER} 2 --replica-assignment 1,2"),
        ("INFO", "The canary on main measures all brokers"),
    ]
