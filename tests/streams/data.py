"""What goes into the applications and what comes out, as text: judged by a reader that shares nothing with the
product.
"""

from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.builders.history import create_topics
from tests.e2e.clients import client, writer
from tests.e2e.log_reader import offsets, read_log
from tests.e2e.murmur2 import partition_of
from tests.e2e.processes import wait_for

Pairs = list[tuple[str, str | None]]

_FLUSH_S = 120.0
_ARRIVE_S = 10.0
BASE_MS = 1_760_000_000_000


def make_topics(bootstrap: str, partitions: Mapping[str, int]) -> None:
    create_topics(bootstrap, partitions)


def write(
    bootstrap: str, topic: str, pairs: Iterable[tuple[str, str | None]], partitions: int, begin_ms: int = BASE_MS
) -> None:
    """Each pair a second after the one before, where Java's clients would put its key."""
    refused: list[str] = []

    def told(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(error.str())

    producer = writer(bootstrap)
    for number, (key, value) in enumerate(pairs):
        producer.produce(
            topic,
            None if value is None else value.encode(),
            key.encode(),
            partition=partition_of(key.encode(), partitions),
            timestamp=begin_ms + 1_000 * number,
            on_delivery=told,
        )
    assert (producer.flush(_FLUSH_S), refused) == (0, [])


def values(bootstrap: str, topic: str, *, committed: bool = True) -> Pairs:
    """All records of the topic, those of one partition in order."""
    logs = read_log(bootstrap, topic, committed=committed)
    return [
        ((record.key or b"").decode(), None if record.value is None else record.value.decode())
        for _, records in sorted(logs.items())
        for record in records
    ]


def await_values(
    bootstrap: str,
    topic: str,
    fits: Callable[[Pairs], bool],
    usual_s: float = _ARRIVE_S,
    told: Callable[[Pairs], str] = str,
    *,
    committed: bool = True,
) -> Pairs:
    """All records of `topic`, once they fit. They are read again only when its end has moved: to ask for that takes one
    small request, and to read takes a new client.
    """
    read_at: dict[int, int] = {}
    found: Pairs = []

    def look() -> bool:
        nonlocal read_at, found
        ends = offsets(bootstrap, topic, end=True, committed=committed)
        if ends == read_at:
            return False
        read_at, found = ends, values(bootstrap, topic, committed=committed)
        return fits(found)

    wait_for(look, usual_s, lambda: told(found))
    return found


def table(bootstrap: str, topic: str) -> dict[str, str]:
    """The last value of each key, without those that were deleted."""
    return _newest(values(bootstrap, topic))


def await_table(bootstrap: str, topic: str, wanted: Mapping[str, str]) -> None:
    """Until the last values of `topic` are `wanted`."""
    await_values(
        bootstrap,
        topic,
        lambda found: _newest(found) == wanted,
        told=lambda found: f"wanted {dict(wanted)}, have {_newest(found)}",
    )


def await_committed(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Until the group has committed `offset` of the only partition of `topic`: an output is written before that, and
    who dies in between counts its input twice.
    """
    consumer = Consumer({**client(bootstrap), "group.id": group})
    found: list[int] = []

    def look() -> bool:
        [place] = consumer.committed([TopicPartition(topic, 0)], timeout=60)
        found.append(place.offset)
        return place.offset == offset

    try:
        wait_for(look, _ARRIVE_S, lambda: f"wanted {offset}, was {found[-1:]}")
    finally:
        consumer.close()


def _newest(pairs: Pairs) -> dict[str, str]:
    return {key: value for key, value in dict(pairs).items() if value is not None}
