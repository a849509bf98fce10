"""A real broker to which connecting takes longer than a look at its records."""

from collections.abc import Iterator

import pytest

from recoveryd.adapters.kafka.record_samples import SAMPLE_S, sample_records
from recoveryd_sandbox.ports import free_ports
from tests.builders.copying import Cluster, Row, put
from tests.e2e.proxy import Api, Proxy

pytestmark = pytest.mark.broker

COUNT, AT_MS = 500, 1_357_000_000_000
CONNECT_S = SAMPLE_S + 1.0


@pytest.fixture
def slow(bootstrap: str) -> Iterator[Proxy]:
    """The first connection of each client, by which it learns of the brokers."""
    [port] = free_ports(1)
    with Proxy(port, int(bootstrap.rpartition(":")[2])) as proxy:
        proxy.delay(Api.API_VERSIONS, "", CONNECT_S)
        yield proxy


def test_records_of_a_cluster_that_is_slow_to_connect_to_are_looked_at(
    slow: Proxy, bootstrap: str, unique: str
) -> None:
    cluster = Cluster(bootstrap, unique)
    topic, producer = cluster.topic("orders", 1), cluster.producer()
    for number in range(COUNT):
        put(producer, topic, Row(0, 0, b"k", b"value", AT_MS + number))
    assert producer.flush(60) == 0
    found = sample_records({"bootstrap.servers": slow.bootstrap}, topic, {0: (0, COUNT)}, SAMPLE_S)
    assert (found.first_ms, found.last_ms) == ({0: AT_MS}, {0: AT_MS + COUNT - 1})
