"""The plan of a workflow tells of what it copies as many bytes as the plan of the copy itself would."""

import random
from collections.abc import AsyncIterator

import pytest

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.control.controls import ManualApplications
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.workflows.model.effects import GatherForWorkflow
from recoveryd.workflows.model.facts import WantedFacts
from tests.builders.copying import Cluster, Row, put

pytestmark = pytest.mark.broker

COUNT, RANDOM, SIZE = 500, 400, 1_000


@pytest.fixture
async def steps(bootstrap: str) -> AsyncIterator[KafkaSteps]:
    clusters = {"main": {"bootstrap.servers": bootstrap}}
    made = KafkaSteps(clusters, {"main": ClientAccess(bootstrap)}, dict, ManualApplications(), SystemClock().now_ms)
    yield made
    await made.close()


async def test_bytes_of_a_compressed_topic_are_told_as_they_are_copied(
    steps: KafkaSteps, bootstrap: str, unique: str
) -> None:
    cluster = Cluster(bootstrap, unique)
    packed, empty = cluster.topic("packed", 2), cluster.topic("empty", 2)
    producer, bytes_of = cluster.producer(**{"compression.type": "zstd", "linger.ms": 100}), random.Random(7).randbytes
    for number in range(COUNT):
        value = bytes_of(RANDOM) + bytes(SIZE - RANDOM - 1)
        put(producer, packed, Row(number % 2, 0, b"k", value, 1_357_000_000_000))
    assert producer.flush(60) == 0
    missing = unique + "missing"
    wanted = WantedFacts(topics=tuple(("main", name) for name in (packed, empty, missing)), with_sizes=True)
    found = (await steps.gather(GatherForWorkflow("w", wanted))).found.topics
    sizes = {name: None if topic is None else topic.bytes_at_most for name, topic in found.items()}
    assert sizes == {packed: COUNT * SIZE, empty: 0, missing: None}
