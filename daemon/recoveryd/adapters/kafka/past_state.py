"""How much of the changelogs of a unit is left from before a moment, and what lies behind it that is older. Blocking,
read-only, bounded in records and time.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from confluent_kafka import KafkaException, Message, TopicPartition

from recoveryd.adapters.kafka.client import Properties, make_admin, make_consumer, problem
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, at_time, read_offsets
from recoveryd.adapters.kafka.topic_admin import describe
from recoveryd.units.past_state import ChangelogLook

_TIMEOUT_S: Final = 15.0
_COUNT_S: Final = 120.0
_COUNT_MOST: Final = 5_000_000


class _ChangelogLook(NamedTuple):
    """One partition; `until` is its first record that is as new as the moment, or its end."""

    topic: str
    partition: int
    start: int
    until: int
    end: int


def look_at_changelogs(properties: Properties, topics: Iterable[str], at_ms: int) -> list[ChangelogLook]:
    """One look for each partition. Raises `ClusterProblem`."""
    logs = list(_find_logs(properties, topics, at_ms))
    counter, whole = _Counter(properties), [log for log in logs if log.start == 0]  # the others have lost something
    # First what is needed in any case.
    records = {log: counter.count(log, 0, log.until, lambda _: True) for log in whole}
    late = {log: counter.count(log, log.until, log.end, lambda message: _time_of(message) < at_ms) for log in whole}
    return [
        ChangelogLook(
            log.topic, log.partition, log.start, max(log.start, log.until), records.get(log, 0), late.get(log, 0)
        )
        for log in logs
    ]


def _find_logs(properties: Properties, topics: Iterable[str], at_ms: int) -> Iterator[_ChangelogLook]:
    admin = make_admin(properties)
    for topic, shape in describe(admin, topics, _TIMEOUT_S).items():
        if shape is None:
            continue
        reached = read_offsets(admin, shape.keys, at_time(at_ms), _TIMEOUT_S)
        starts = read_offsets(admin, shape.keys, EARLIEST, _TIMEOUT_S)
        ends = read_offsets(admin, shape.keys, LATEST, _TIMEOUT_S)
        for _, partition in shape.keys:
            until = reached[partition] if reached.get(partition, -1) >= 0 else ends[partition]
            yield _ChangelogLook(topic, partition, starts[partition], until, ends[partition])


def _time_of(message: Message) -> int:
    """One without a time is older than any moment."""
    return int(message.timestamp()[1])


class _Counter:
    """Reads at most so much, and for so long, for all that it is asked."""

    def __init__(self, properties: Properties) -> None:
        self._properties = properties
        self._give_up_s = time.monotonic() + _COUNT_S
        self._left = _COUNT_MOST

    def count(self, log: _ChangelogLook, begin: int, stop: int, wanted: Callable[[Message], bool]) -> int | None:
        """How many records in [begin, stop) are wanted, aborted ones too, since what is gone cannot be told from them;
        None when it is too much.
        """
        if stop - begin > self._left:
            return None
        self._left -= stop - begin
        consumer = make_consumer(self._properties, isolation_level="read_uncommitted")
        where, seen, position = TopicPartition(log.topic, log.partition, begin), 0, begin
        try:
            consumer.assign([where])
            while position < stop and time.monotonic() < self._give_up_s:
                batch = consumer.consume(10_000, 0.2)
                seen += sum(m.error() is None and (m.offset() or 0) < stop and wanted(m) for m in batch)
                [now] = consumer.position([where])
                position = max(position, now.offset)
        except KafkaException as error:
            raise problem(error, f"read {log.topic}", "Read", log.topic) from error
        finally:
            consumer.close()
        return seen if position >= stop else None
