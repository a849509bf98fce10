"""What it costs the daemon to sample ten thousand partitions and their groups every five seconds, compared with asking
for each by a future of its own.

The collector runs as in the daemon, at its real period; refreshing topic ids and waiting for brokers are part of the
time. Folding its events is measured by `policies`.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, TopicPartition

from bench.bed import Bed
from bench.result import Report, Row, Sample
from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.kafka import offsets
from recoveryd.adapters.kafka.clusters import KafkaClusters
from recoveryd.adapters.kafka.control_log import KafkaControlLog
from recoveryd.adapters.kafka.fact_gathering import Expectations
from recoveryd.adapters.kafka.group_offsets import KafkaGroupOffsets
from recoveryd.collectors.control_topic import ControlTopicWatch
from recoveryd.collectors.offsets import Monitored, OffsetCollector
from recoveryd.kernel.events import Event
from recoveryd.kernel.state import CoreState
from recoveryd.live.events import OffsetsSampled, ReaderSampled
from recoveryd.runtime import ControlIntake, Inbox
from recoveryd.wire.topics import TopicNames

NAME = "polling"
_TOPICS, _WIDTH, _GROUPS = 100, 100, 10
_PERIOD_S, _LOOKS = 5.0, 3  # topic ids are refreshed every three looks
_CORE_PERCENT = 5.0
_TIMEOUT_S = 30.0
_CONFIG = {"retention.ms": "-1", "segment.index.bytes": "4096"}  # else each partition maps 20 MB


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    topics = [bed.unique("polled") for _ in range(_TOPICS // 10 if quick else _TOPICS)]
    for topic in topics:
        bed.create(topic, _WIDTH, _CONFIG)
    groups = _commit(bed, topics)
    try:
        shares, seconds = asyncio.run(_polled(bed, groups, repeat))
        plain = _plain(bed, groups, min(repeat, 3))
    finally:
        for topic in topics:
            bed.delete(topic)
    count = f"{len(topics) * _WIDTH:,} partitions, {len(groups)} groups"
    what = f"looking at {count} every {_PERIOD_S:.0f} s"
    rows = (
        Row(what, Sample(shares, "% of a core"), "one future per partition", plain, at_most=_CORE_PERCENT),
        Row("one look, from the first question to the last answer", Sample(seconds, "s")),
    )
    note = (
        "processor time of the whole process; positions, log starts, ends, last stable offsets, members and topic ids"
    )
    return [Report("Polling offsets", rows, (note,))]


def _commit(bed: Bed, topics: Sequence[str]) -> dict[str, list[str]]:
    """Topics by group, each read by one group; the group's position is the start of every partition."""
    groups: dict[str, list[str]] = {}
    for number, topic in enumerate(topics):
        groups.setdefault(f"readers-{number % _GROUPS}", []).append(topic)
    for group, read in groups.items():
        consumer = Consumer({"bootstrap.servers": bed.bootstrap, "group.id": group})
        for topic in read:
            consumer.commit(offsets=[TopicPartition(topic, p, 0) for p in range(_WIDTH)], asynchronous=False)
        consumer.close()
    return groups


@dataclass(slots=True)
class _Told:
    """The events of the collector, and how long its looks took."""

    planned: int
    began_s: float = 0.0
    partitions: int = 0
    looks: list[float] = field(default_factory=list)

    def state(self) -> CoreState:
        """Called at the beginning of each look."""
        self.began_s, self.partitions = time.monotonic(), 0
        return CoreState()

    def emit(self, event: Event) -> None:
        if isinstance(event, ReaderSampled):
            self.partitions += sum(1 for _, s in event.samples if s.position is not None and s.last_stable is not None)
            if self.partitions == self.planned:
                self.looks.append(time.monotonic() - self.began_s)
        elif not isinstance(event, OffsetsSampled) or event.missing:
            raise TypeError(f"not expected: {event}")


async def _polled(bed: Bed, groups: dict[str, list[str]], repeat: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Per cent of one core in each repetition, and the seconds of each look. Raises RuntimeError when a look was
    incomplete.
    """
    clients, clock = {"main": {"bootstrap.servers": bed.bootstrap}}, SystemClock()
    told = _Told(sum(len(read) for read in groups.values()) * _WIDTH)
    names = TopicNames("none.")
    clusters = KafkaClusters(clients, names, Expectations({}), clock.now_ms)
    intake = ControlIntake(Inbox(), KafkaControlLog(clients["main"], names.control), lambda record: record)
    collector = OffsetCollector(
        clusters,
        KafkaGroupOffsets(clients),
        told.emit,
        told.state,
        clock,
        control=ControlTopicWatch(clusters, intake, told.emit),
        period_s=_PERIOD_S,
        monitored=[Monitored("main", topic, group) for group, read in groups.items() for topic in read],
    )
    running = asyncio.create_task(collector.run())
    await asyncio.sleep(2 * _PERIOD_S)  # connecting, and first looks without known partition counts
    told.looks.clear()
    shares = []
    for _ in range(repeat):
        cpu_s, wall_s = time.process_time(), time.monotonic()
        await asyncio.sleep(_LOOKS * _PERIOD_S)
        shares.append(100 * (time.process_time() - cpu_s) / (time.monotonic() - wall_s))
    running.cancel()
    await collector.close()
    if len(told.looks) < repeat * _LOOKS - 1:
        raise RuntimeError(f"only {len(told.looks)} looks of {repeat * _LOOKS} saw every partition")
    return tuple(shares), tuple(told.looks)


def _plain(bed: Bed, groups: dict[str, list[str]], repeat: int) -> Sample:
    """The same offsets by the plain admin client: one query for all partitions, with a future for each."""
    keys = [(topic, p) for read in groups.values() for topic in read for p in range(_WIDTH)]
    shares = []
    for _ in range(repeat):
        cpu_s, give_up_s = time.process_time(), time.monotonic() + _TIMEOUT_S
        for group in groups:
            asked = bed.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
            asked[group].result(_TIMEOUT_S)
        for spec, level in (
            (offsets.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
            (offsets.LATEST, IsolationLevel.READ_UNCOMMITTED),
            (offsets.LATEST, IsolationLevel.READ_COMMITTED),
        ):
            wanted = {TopicPartition(*key): spec for key in keys}
            ends = bed.admin.list_offsets(wanted, isolation_level=level, request_timeout=_TIMEOUT_S)
            for answer in ends.values():
                answer.result(max(give_up_s - time.monotonic(), 0.01))
        shares.append(100 * (time.process_time() - cpu_s) / _PERIOD_S)
    return Sample(tuple(shares), "% of a core")
