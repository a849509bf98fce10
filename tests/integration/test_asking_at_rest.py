"""Who follows a topic asks its broker a few times a second while nothing comes: hundreds of followers are no load. What
comes is there at once nevertheless.
"""

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

import pytest

from recoveryd.adapters.kafka.status_reader import StatusReader
from recoveryd_jobs.contract import PartitionRange
from recoveryd_jobs.directives import Directives
from tests.builders.copying import Cluster, Recovery
from tests.contract.harness import KafkaHarness
from tests.e2e.processes import wait_for
from tests.e2e.proxy import Api, ProxiedBroker

pytestmark = pytest.mark.broker

A_SECOND, TO_BEGIN_WITH = 3, 5  # requests; a client that holds none back makes some hundred a second
REST_S = 5.0
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    with ProxiedBroker(tmp_path_factory.mktemp("asked")) as started:
        yield started


@pytest.fixture
def kafka(broker: ProxiedBroker, unique: str) -> KafkaHarness:
    return KafkaHarness(broker.through.bootstrap, unique)


def asked_at_rest(broker: ProxiedBroker, waiting: Callable[[], object]) -> tuple[int, float]:
    """How often the broker was asked for records, and how often that may be; `waiting` is called meanwhile."""
    seen, began_s = broker.through.see(Api.FETCH, ""), time.monotonic()
    while (took_s := time.monotonic() - began_s) < REST_S:
        waiting()
    seen.release()
    return seen.met, TO_BEGIN_WITH + A_SECOND * took_s


def test_who_waits_for_a_recovery_asks_seldom(broker: ProxiedBroker, kafka: KafkaHarness) -> None:
    reader = StatusReader(kafka.properties, kafka.names)
    stream = reader.follow("r1")
    assert next(stream) is None
    asked, allowed = asked_at_rest(broker, lambda: next(stream))
    assert isinstance(stream, Generator)
    stream.close()  # else it would be counted by the next test
    reader.close()
    assert 0 < asked <= allowed


async def test_a_daemon_whose_lanes_are_silent_asks_seldom(broker: ProxiedBroker, kafka: KafkaHarness) -> None:
    feed = kafka.progress()
    await feed.start(lambda _event: None)
    wait_for(lambda: feed._positions, WITHIN_S)
    asked, allowed = asked_at_rest(broker, lambda: time.sleep(0.1))
    await feed.close()
    assert 0 < asked <= allowed


def test_a_lane_that_waits_for_word_asks_seldom_and_hears_it_soon(broker: ProxiedBroker, unique: str) -> None:
    cluster = Cluster(broker.bootstrap, unique)  # of which the proxy sees nothing
    recovery = Recovery(cluster, cluster.topic("in"), cluster.topic("out"), ranges=[[PartitionRange(0, 0, None)]])
    through = replace(recovery.spec.control, client={"bootstrap.servers": broker.through.bootstrap})
    heard = Directives(replace(recovery.spec, control=through), "directives")
    assert heard.refresh(WITHIN_S)
    asked, allowed = asked_at_rest(broker, lambda: time.sleep(0.1))
    sequence = recovery.direct("pause")
    wait_for(lambda: heard.current().directive.sequence == sequence, WITHIN_S)
    heard.close()
    assert 0 < asked <= allowed
