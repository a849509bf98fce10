"""A look at a few records of a range, for what brokers do not tell: how old the data is, how large records are.

A sample, not a scan: bounded in records, partitions and time, and whatever is not learnt within its time stays None.
Reads committed records only.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Message, TopicPartition

from recoveryd.adapters.kafka.client import Properties, make_consumer
from recoveryd.adapters.kafka.reading import assign, headers_of
from recoveryd.errors import ClusterProblem

_log = logging.getLogger("recoveryd.kafka")

SAMPLE_S: Final = 2.0  # of one topic; two plans that look for as long tell the same size
_RECORDS_EACH = 100
_PARTITIONS_MAX = 64
_POLL_S = 0.05
_METADATA_S = 10.0  # connecting, with TLS and a login, may take longer than a look, and must not eat up its time


@dataclass(frozen=True, slots=True)
class RecordSample:
    """`oldest_ms`: smallest timestamp seen at the starts. By partition, where records were seen: `bytes_per_offset`
    (key, value and headers, as lanes count them; offsets without a record count as 0; the larger of start and end, for
    compaction leaves more at the end), `first_ms` (smallest timestamp at the start) and `last_ms` (largest at the end).
    """

    oldest_ms: int | None = None
    largest_bytes: int | None = None
    bytes_per_offset: Mapping[int, float] = field(default_factory=dict)
    first_ms: Mapping[int, int] = field(default_factory=dict)
    last_ms: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Tally:
    start: int
    count: int = 0
    offsets: int = 0  # from the start to behind the last record that was seen
    bytes: int = 0
    largest: int = 0
    oldest_ms: int | None = None
    newest_ms: int | None = None


def sample_records(
    properties: Properties, topic: str, ranges: Mapping[int, tuple[int, int]], deadline_s: float
) -> RecordSample:
    """Look at the start and the end of each range [start, stop) of `topic`, for `deadline_s` seconds at most once the
    client is connected. Raises `ClusterProblem` where the cluster refuses; one that does not answer tells nothing.
    """
    wanted = {p: r for p, r in sorted(ranges.items()) if r[1] > r[0]}
    chosen = dict(list(wanted.items())[:_PARTITIONS_MAX])
    if not chosen:
        return RecordSample()
    tails = {p: (max(start, stop - _RECORDS_EACH), stop) for p, (start, stop) in chosen.items()}
    far = {p: r for p, r in tails.items() if r[0] >= chosen[p][0] + _RECORDS_EACH}
    starts, ends = _unseen(chosen), _unseen(far)
    consumer = make_consumer(properties, fetch_message_max_bytes=262_144)
    try:
        _look(consumer, topic, chosen, starts, deadline_s / 2)
        _look(consumer, topic, far, ends, deadline_s / 2)
    except ClusterProblem as reason:
        if not reason.retriable:
            raise
        _log.info("Not all is known of the records of %s: %s", topic, reason.message)
    finally:
        consumer.close()
    return _summary(starts, ends)


def _unseen(ranges: Mapping[int, tuple[int, int]]) -> dict[int, _Tally]:
    return {partition: _Tally(start) for partition, (start, _stop) in ranges.items()}


def _look(
    consumer: Consumer, topic: str, ranges: Mapping[int, tuple[int, int]], seen: Mapping[int, _Tally], deadline_s: float
) -> None:
    """Up to so many records from the start of each range, added to `seen`; a partition is done at its stop or when the
    broker says that was all.
    """
    if not ranges:
        return
    assign(consumer, topic, {p: start for p, (start, _stop) in ranges.items()}, _METADATA_S)
    waiting = set(ranges)
    give_up_s = time.monotonic() + deadline_s
    while waiting and time.monotonic() < give_up_s:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        partition = message.partition()
        if partition is None or partition not in waiting:
            continue
        if message.error() is not None or (message.offset() or 0) >= ranges[partition][1]:
            waiting.discard(partition)  # the end of what can be read, or an error that another way of asking will tell
            continue
        _add(seen[partition], message)
        if seen[partition].count >= _RECORDS_EACH:
            waiting.discard(partition)
            consumer.pause([TopicPartition(topic, partition)])  # leaves the line to the others
    consumer.resume([TopicPartition(topic, partition) for partition in ranges])  # pausing outlives an assignment


def _add(seen: _Tally, message: Message) -> None:
    size = len(message.key() or b"") + len(message.value() or b"")
    size += sum(len(name) + len(value or b"") for name, value in headers_of(message))
    seen.count += 1
    seen.offsets = (message.offset() or 0) + 1 - seen.start
    seen.bytes += size
    seen.largest = max(seen.largest, size)
    kind, time_ms = message.timestamp()
    if kind != TIMESTAMP_NOT_AVAILABLE:
        seen.oldest_ms = time_ms if seen.oldest_ms is None else min(seen.oldest_ms, time_ms)
        seen.newest_ms = time_ms if seen.newest_ms is None else max(seen.newest_ms, time_ms)


def _summary(starts: Mapping[int, _Tally], ends: Mapping[int, _Tally]) -> RecordSample:
    both: Iterable[_Tally] = [*starts.values(), *ends.values()]
    times = [s.oldest_ms for s in starts.values() if s.oldest_ms is not None]
    sizes = {}
    for partition, start in starts.items():
        looks = [look for look in (start, ends.get(partition)) if look is not None and look.count]
        if looks:
            sizes[partition] = max(look.bytes / max(1, look.offsets) for look in looks)
    largest = max((s.largest for s in both), default=0)
    first_ms = {p: s.oldest_ms for p, s in starts.items() if s.oldest_ms is not None}
    # Of a range that a look at its start saw whole, the end was not looked at again.
    tails = {p: ends.get(p, start) for p, start in starts.items()}
    last_ms = {p: s.newest_ms for p, s in tails.items() if s.newest_ms is not None}
    return RecordSample(min(times, default=None), largest or None, sizes, first_ms, last_ms)
