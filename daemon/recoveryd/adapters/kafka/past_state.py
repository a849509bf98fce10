"""How much of the changelogs of a unit is left from before a moment. Blocking, read-only, bounded
in records and time.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Final

from confluent_kafka import KafkaException, TopicPartition

from recoveryd.adapters.kafka.client import Properties, make_admin, make_consumer, problem
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, at_time, read_offsets
from recoveryd.adapters.kafka.topic_admin import describe
from recoveryd.units.past_state import ChangelogLook

_TIMEOUT_S: Final = 15.0
_COUNT_S: Final = 120.0
_COUNT_MOST: Final = 5_000_000


def look_at_changelogs(properties: Properties, topics: Iterable[str], at_ms: int) -> Iterator[ChangelogLook]:
    """One look for each partition. Raises `ClusterProblem`."""
    admin = make_admin(properties)
    give_up_s, left = time.monotonic() + _COUNT_S, _COUNT_MOST
    for topic, shape in describe(admin, topics, _TIMEOUT_S).items():
        if shape is None:
            continue
        reached = read_offsets(admin, shape.keys, at_time(at_ms), _TIMEOUT_S)
        starts = read_offsets(admin, shape.keys, EARLIEST, _TIMEOUT_S)
        ends = read_offsets(admin, shape.keys, LATEST, _TIMEOUT_S)
        for _, partition in shape.keys:
            until = reached[partition] if reached.get(partition, -1) >= 0 else ends[partition]
            start = starts[partition]
            records: int | None = 0
            if start == 0 and until:  # what begins later has lost something anyway
                left -= until
                records = _count(properties, topic, partition, until, give_up_s) if left >= 0 else None
            yield ChangelogLook(topic, partition, start, max(start, until), records)


def _count(properties: Properties, topic: str, partition: int, until: int, give_up_s: float) -> int | None:
    """Records in [0, until), aborted ones too, since what is gone cannot be told from them; None when time is over."""
    consumer = make_consumer(properties, isolation_level="read_uncommitted")
    where, seen = TopicPartition(topic, partition, 0), 0
    try:
        consumer.assign([where])
        while time.monotonic() < give_up_s:
            batch = consumer.consume(10_000, 0.2)
            seen += sum(m.error() is None and (m.offset() or 0) < until for m in batch)
            [now] = consumer.position([where])
            if now.offset >= until:
                return seen
    except KafkaException as error:
        raise problem(error, f"read {topic}", "Read", topic) from error
    finally:
        consumer.close()
    return None
