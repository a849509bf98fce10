"""Gathering what planning must know about source and target, in one go and in an order that keeps the numbers
consistent.

Judging the facts is `recoveryd.replay.plan`'s work. Blocking parts run in threads; the facade in `clusters` puts them
together.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, FirstAt, at_time, read_first_at, read_offsets
from recoveryd.adapters.kafka.record_samples import RecordSample
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe, describe_whole, read_configs
from recoveryd.recovery.plan_facts import LIVE_LOOKBACK_MS, PartitionFacts, ReceiptsFacts, TopicFacts
from recoveryd.recovery.spec import AtOffset, AtOffsets, AtTime, From, To
from recoveryd_jobs.contract import receipts_partition

_HOURS: Final = 24
_HOUR_MS: Final = 3_600_000
_HOURLY_PARTITIONS_MAX: Final = 64


def read_topic(
    admin: AdminClient, properties: Properties, topic: str, timeout_s: float, rights: tuple[str, ...] = ("Read",)
) -> tuple[TopicFacts, TopicShape] | None:
    """A topic with its configs, starts and ends; None when there is no such topic. Raises `ClusterProblem`, also for a
    right that the copy would lack.

    Nobody copies or compares a partition that is left out here.
    """
    shape = describe_whole(admin, properties, topic, timeout_s, rights)
    if shape is None:
        return None
    facts = TopicFacts(
        topic=topic,
        topic_id=shape.topic_id,
        partitions=shape.partitions,
        configs=read_configs(admin, topic, timeout_s),
        starts=read_offsets(admin, shape.keys, EARLIEST, timeout_s),
        ends=read_offsets(admin, shape.keys, LATEST, timeout_s),
        replication_factor=shape.replication_factor,
    )
    return facts, shape


def read_receipts_topic(admin: AdminClient, topic: str, recovery: str, timeout_s: float) -> ReceiptsFacts | None:
    """The receipts topic and what a new recovery gets there; None when there is no such topic."""
    shape = describe(admin, [topic], timeout_s)[topic]
    if shape is None:
        return None
    partition = receipts_partition(recovery, shape.partitions)
    policy = read_configs(admin, topic, timeout_s).get("cleanup.policy", "delete")
    end = read_offsets(admin, [(topic, partition)], LATEST, timeout_s)[partition]
    return ReceiptsFacts(topic, shape.topic_id, shape.partitions, policy, partition, end)


def read_partitions(
    admin: AdminClient, shape: TopicShape, bounds: tuple[From, To], now_ms: int, timeout_s: float
) -> tuple[PartitionFacts, ...]:
    """Offsets of every partition.

    Times are looked up first and ends last, so that no answered start, stop or recent offset lies past the end it is
    compared with. Of what comes meanwhile, a range that begins at a time has all. The last stable offset is asked for
    after the end: below an end of before, it shows a transaction that is open, and not the live traffic in between.
    """
    keys, (start, stop) = shape.keys, bounds
    first = read_first_at(admin, keys, start.time_ms, timeout_s) if isinstance(start, AtTime) else FirstAt({}, {})
    stop_at = read_offsets(admin, keys, at_time(stop.time_ms), timeout_s) if isinstance(stop, AtTime) else {}
    recent = read_offsets(admin, keys, at_time(now_ms - LIVE_LOOKBACK_MS), timeout_s)
    starts = read_offsets(admin, keys, EARLIEST, timeout_s)
    ends = read_offsets(admin, keys, LATEST, timeout_s)
    stable = {p: min(at, ends[p]) for p, at in read_offsets(admin, keys, LATEST, timeout_s, committed=True).items()}
    start_at = first.by(ends)
    return tuple(
        PartitionFacts(p, starts[p], ends[p], stable[p], start_at.get(p), stop_at.get(p), recent_at=recent.get(p))
        for _topic, p in keys
    )


def read_hours(
    admin: AdminClient, shape: TopicShape, partitions: tuple[PartitionFacts, ...], now_ms: int, timeout_s: float
) -> tuple[float, ...]:
    """Records/s of the whole topic in each of the last 24 hours, oldest first, by the log's own times.

    () for a topic of very many partitions: two dozen questions about each would cost the brokers more than the answer
    is worth.
    """
    if len(partitions) > _HOURLY_PARTITIONS_MAX:
        return ()
    ends = {p.partition: p.high_watermark for p in partitions}
    reached = []
    for hours_ago in range(_HOURS, 0, -1):
        found = read_offsets(admin, shape.keys, at_time(now_ms - hours_ago * _HOUR_MS), timeout_s)
        reached.append(sum(end if found.get(p, -1) < 0 else min(found[p], end) for p, end in ends.items()))
    reached.append(sum(ends.values()))
    return tuple(max(0, later - earlier) * 1000 / _HOUR_MS for earlier, later in pairwise(reached))


def probable_ranges(
    bounds: tuple[From, To], chosen: tuple[int, ...] | None, partitions: tuple[PartitionFacts, ...]
) -> dict[int, tuple[int, int]]:
    """Where the wanted range of the chosen partitions (None = all) lies, near enough to look at a few of its records;
    planning decides the exact one.
    """
    ranges = {}
    wanted_start, wanted_stop = bounds
    for facts in partitions:
        if chosen is not None and facts.partition not in chosen:
            continue
        start = _offset(wanted_start, facts.partition, facts.start_at)
        stop = _offset(wanted_stop, facts.partition, facts.stop_at)
        low = facts.log_start if start is None else max(start, facts.log_start)
        if facts.start_at == -1:
            continue  # no record is so new: the range is empty
        high = facts.last_stable if stop is None else min(stop, facts.last_stable)
        ranges[facts.partition] = (low, high)
    return ranges


def with_sizes(
    partitions: tuple[PartitionFacts, ...], on_disk: Mapping[int, int] | None, sample: RecordSample
) -> tuple[PartitionFacts, ...]:
    """Fill in what was sampled, and `bytes_on_disk`: the broker's number, else offsets times what was sampled of each,
    else None.
    """
    sampled = sample.bytes_per_offset
    overall = sum(sampled.values()) / len(sampled) if sampled else None
    sized = []
    for facts in partitions:
        size = on_disk.get(facts.partition) if on_disk is not None else None
        each = sampled.get(facts.partition, overall)
        offsets_held = facts.high_watermark - facts.log_start
        if size is None and offsets_held == 0:
            size = 0
        if size is None and each is not None:
            size = round(offsets_held * each)
        first_ms, last_ms = sample.first_ms.get(facts.partition), sample.last_ms.get(facts.partition)
        found = replace(facts, bytes_on_disk=size, bytes_per_offset=each, first_ms=first_ms, last_ms=last_ms)
        sized.append(found)
    return tuple(sized)


def _offset(bound: From | To, partition: int, at_time: int | None) -> int | None:
    """The offset a bound means; None when it is simply the start or end of the log."""
    match bound:
        case AtOffset(offset):
            return offset
        case AtOffsets(by_partition):
            return by_partition.get(partition)
        case AtTime():
            return at_time if at_time is not None and at_time >= 0 else None
        case _:
            return None
