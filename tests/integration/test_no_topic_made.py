"""On brokers that make a topic when a client asks for it, as they do by default, nothing of ours makes one by writing
to it: a target that was deleted stays deleted.
"""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import make_canary_producer, make_producer, make_transactional_producer
from recoveryd.client.heeding import HoldAck
from recoveryd.client.telling import Teller
from recoveryd_jobs.clients import make_sender, make_writer
from recoveryd_sandbox.broker import Broker
from tests.patience import patient_s

pytestmark = pytest.mark.broker

SOON_MS = 6_000
# The library hopes for so long that a topic it does not find is only new.
HOPES = {"topic.metadata.propagation.max.ms": "1000"}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(
        tmp_path_factory.mktemp("makes"), overrides={"auto.create.topics.enable": "true"}, heap="256m"
    ) as broker:
        yield broker.bootstrap


def topics(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=patient_s(30)).topics)


def written(producer: Producer, topic: str) -> list[object]:
    errors: list[object] = []
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(patient_s(30)) == 0
    return errors


def in_transaction(producer: Producer, topic: str) -> list[object]:
    producer.init_transactions(patient_s(30))
    producer.begin_transaction()
    errors = written(producer, topic)
    with pytest.raises(KafkaException):
        producer.commit_transaction(patient_s(30))
    return errors


def test_the_broker_makes_topics_for_who_does_not_say_otherwise(bootstrap: str) -> None:
    assert written(Producer({"bootstrap.servers": bootstrap}), "made") == [None]
    assert "made" in topics(bootstrap)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("lane", lambda at: in_transaction(make_writer({**at, **HOPES}, "lane", "lane", SOON_MS, 1 << 20, "none"), "lane")),
        ("progress", lambda at: written(make_sender({**at, **HOPES}, "progress"), "progress")),
        ("command", lambda at: written(make_producer({**at, **HOPES}, SOON_MS), "command")),
        ("canary", lambda at: written(make_canary_producer(at, SOON_MS), "canary")),
        ("journal", lambda at: in_transaction(make_transactional_producer({**at, **HOPES}, "journal", SOON_MS), "journal")),
    ],
)  # fmt: skip
def test_a_producer_of_ours_makes_none(
    bootstrap: str, name: str, write: Callable[[dict[str, str]], list[object]]
) -> None:
    [error] = write({"bootstrap.servers": bootstrap})
    assert error is not None
    assert name not in topics(bootstrap)


def test_a_held_consumer_that_answers_makes_none(bootstrap: str) -> None:
    delivered: list[HoldAck] = []
    teller = Teller({"bootstrap.servers": bootstrap, **HOPES}, "hold", "app", "app")
    teller.tell(HoldAck("h", "m", "held"), delivered.append)
    teller.flush(patient_s(30))
    assert delivered == []
    assert "hold" not in topics(bootstrap)
