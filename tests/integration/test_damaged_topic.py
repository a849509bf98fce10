"""A damaged record in one of recoveryd's own topics: the client library goes on somewhere behind it, so that a command,
a receipt or a state would be passed over in silence.
"""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Message

from recoveryd.adapters.kafka.client import Properties
from recoveryd.adapters.kafka.reading import read_range, read_ranges
from recoveryd.errors import ClusterProblem
from recoveryd_sandbox.broker import Broker
from tests.builders.copying import Cluster, put, rows
from tests.builders.damage import damage

pytestmark = pytest.mark.broker

COUNT, DAMAGED = 20, 12
WAIT_S = 60.0


def one(properties: Properties, topic: str) -> Iterator[Message]:
    return read_range(properties, topic, 0, (0, COUNT), WAIT_S)


def many(properties: Properties, topic: str) -> Iterator[Message]:
    return read_ranges(properties, topic, {0: (0, COUNT)}, WAIT_S)


@pytest.mark.parametrize("read", [one, many])
def test_a_reading_ends_at_the_record_that_is_damaged(
    bootstrap: str, unique: str, broker: Broker | None, read: Callable[[Properties, str], Iterator[Message]]
) -> None:
    cluster = Cluster(bootstrap, unique)
    topic, written = cluster.topic("own"), rows(COUNT)
    producer = cluster.producer(**{"batch.num.messages": 1})
    for row in written:
        put(producer, topic, row)
    assert producer.flush(WAIT_S) == 0
    damage(broker, topic, written[DAMAGED].value or b"")
    offsets: list[int | None] = []
    with pytest.raises(ClusterProblem, match=f"{topic} partition 0 at offset {DAMAGED}") as ended:
        offsets.extend(message.offset() for message in read(cluster.client, topic))
    assert offsets == list(range(len(offsets)))
    assert ended.value.retriable, "another replica may lead soon"
