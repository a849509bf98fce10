"""Questions to clusters, answered from memory."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from recoveryd.adapters.kafka.clusters import MAIN
from recoveryd.adapters.kafka.fact_gathering import Expectations
from recoveryd.adapters.kafka.facts import probable_ranges
from recoveryd.adapters.kafka.own_topics import told
from recoveryd.adapters.memory.kafka import MemoryBroker, MemoryTopic
from recoveryd.errors import ClusterProblem, OwnTopicProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.live.events import OffsetsSampled, TopicSample
from recoveryd.recovery.effects import CreateTarget, GatherFacts
from recoveryd.recovery.events import TargetReady
from recoveryd.recovery.plan_facts import LIVE_LOOKBACK_MS, PartitionFacts, PlanFacts, ReceiptsFacts, TopicFacts
from recoveryd.recovery.spec import AtTime, From, To
from recoveryd.wire.topics import TopicNames, differences, own_topics
from recoveryd_jobs.contract import receipts_partition

_LOOKED_AT = 100  # records at the start of each range


class MemoryClusters:
    def __init__(
        self,
        brokers: Mapping[str, MemoryBroker],
        names: TopicNames,
        expectations: Expectations,
        now_ms: Callable[[], int],
    ) -> None:
        self._brokers = brokers
        self._names = names
        self._expectations = expectations
        self._now_ms = now_ms
        self._wanted = own_topics(names, receipts_partitions=8)

    async def gather_facts(self, effect: GatherFacts) -> PlanFacts:
        spec = effect.spec
        source = self._broker(spec.source.cluster).find(spec.source.topic)
        target = self._broker(spec.target.cluster).find(spec.target.topic)
        bounds, chosen, now_ms = (spec.source.start, spec.source.stop), spec.source.partitions, self._now_ms()
        partitions = () if source is None else _partition_facts(source, bounds, chosen, now_ms)
        records = [] if source is None else _first_records(source, probable_ranges(bounds, chosen, partitions))
        target_bounds = spec.target_bounds
        bytes_per_s, rate_source = self._expectations.rates()
        return PlanFacts(
            source=None if source is None else _topic_facts(source),
            source_partitions=partitions,
            target=None if target is None else _topic_facts(target),
            task_slots=self._expectations.task_slots.get(spec.profile, 1),
            oldest_record_ms=min((time_ms for time_ms, _size in records), default=None),
            largest_record_bytes=max((size for _time_ms, size in records), default=None),
            bytes_per_s=bytes_per_s,
            rate_source=rate_source,
            gathered_at_ms=self._now_ms(),
            receipts=self._receipts_facts(effect),
            target_partitions=()
            if target is None or target_bounds is None
            else _partition_facts(target, target_bounds, None, now_ms),
        )

    def _receipts_facts(self, effect: GatherFacts) -> ReceiptsFacts | None:
        topic = self._broker(effect.spec.target.cluster).find(self._names.receipts)
        if topic is None:
            return None
        width = len(topic.logs)
        partition = receipts_partition(effect.recovery, width)
        end = topic.log(partition).high_watermark
        return ReceiptsFacts(topic.name, topic.topic_id, width, topic.configs["cleanup.policy"], partition, end)

    async def create_target(self, effect: CreateTarget) -> TargetReady:
        broker = self._broker(effect.cluster)
        topic = broker.find(effect.topic) or broker.create(effect.topic, effect.partitions, effect.configs)
        if len(topic.logs) != effect.partitions:
            text = f"{effect.topic} exists with {len(topic.logs)} partitions, {effect.partitions} were to be created."
            raise ClusterProblem(text, code=Code.TARGET_CREATE_FAILED, retriable=False)
        if not effect.appends and any(log.start != log.high_watermark for log in topic.logs):
            text = f"{effect.topic} exists and holds records already."
            raise ClusterProblem(text, code=Code.TARGET_NOT_EMPTY, retriable=False)
        return TargetReady(effect.recovery, topic.topic_id, len(topic.logs))

    async def sample(self, topics: Iterable[tuple[str, str]]) -> OffsetsSampled:
        asked = list(dict.fromkeys(topics))
        names = {cluster for cluster, _topic in asked}
        silent = {name for name in names if not self._broker(name).is_reachable}
        if silent and silent == names:
            raise ClusterProblem("No cluster answered in time.")
        found = {key: self._broker(key[0]).find(key[1]) for key in asked if key[0] not in silent}
        samples = tuple(_sample(key[0], topic, self._now_ms()) for key, topic in found.items() if topic is not None)
        return OffsetsSampled(samples, tuple(key for key, topic in found.items() if topic is None))

    async def control_topic_id(self) -> str:
        return self._broker(MAIN).topic(self._names.control).topic_id

    async def control_end(self, position: int) -> int:
        del position  # no broker here tells an end of before
        return self._broker(MAIN).topic(self._names.control).log(0).high_watermark

    async def check_own_topics(self) -> None:
        broker = self._broker(MAIN)
        missing = [f"{t.name} does not exist." for t in self._wanted if t.is_required and broker.find(t.name) is None]
        wrong = []
        for wanted in self._wanted:
            topic = broker.find(wanted.name)
            if topic is not None:
                found = differences(wanted, len(topic.logs), topic.configs)
                wrong += [f"{d.topic} has {d.setting}={d.found}, it must be {d.wanted}." for d in found if d.fatal]
        if missing or wrong:
            code = Code.OWN_TOPIC_MISSING if missing else Code.OWN_TOPIC_WRONG
            raise OwnTopicProblem([*missing, *wrong], code=code)

    async def check_width(self) -> None:
        broker = self._broker(MAIN)
        found = [(t, broker.find(t.name)) for t in self._wanted if t.is_single]
        wide = [(t, len(topic.logs)) for t, topic in found if topic is not None and len(topic.logs) > 1]
        if wide:
            raise OwnTopicProblem([told(d) for t, n in wide for d in differences(t, n, {})], code=Code.OWN_TOPIC_WRONG)

    def apply_own_topics(self) -> None:
        """Create what is missing on `main`; receipts on every cluster."""
        for wanted in self._wanted:
            for name, broker in self._brokers.items():
                if name == MAIN or wanted.on_targets:
                    broker.create(wanted.name, wanted.partitions, wanted.configs)

    async def close(self) -> None:
        """Nothing is held."""

    def _broker(self, cluster: str) -> MemoryBroker:
        if cluster not in self._brokers:
            raise ClusterProblem(f"There is no cluster named {cluster}.", code=Code.UNKNOWN_CLUSTER, retriable=False)
        return self._brokers[cluster]


def _partition_facts(
    topic: MemoryTopic, bounds: tuple[From, To], chosen: tuple[int, ...] | None, now_ms: int
) -> tuple[PartitionFacts, ...]:
    def at(bound: From | To, partition: int) -> int | None:
        return topic.log(partition).first_at(bound.time_ms) if isinstance(bound, AtTime) else None

    facts = tuple(
        PartitionFacts(
            partition=p,
            log_start=log.start,
            high_watermark=log.high_watermark,
            last_stable=log.last_stable,
            start_at=at(bounds[0], p),
            stop_at=at(bounds[1], p),
            bytes_on_disk=sum(record.size_bytes for record in log.records[log.start :]),
            recent_at=log.first_at(now_ms - LIVE_LOOKBACK_MS),
        )
        for p, log in enumerate(topic.logs)
    )
    return tuple(_timed(topic, row, probable_ranges(bounds, chosen, (row,))) for row in facts)


def _timed(topic: MemoryTopic, facts: PartitionFacts, ranges: Mapping[int, tuple[int, int]]) -> PartitionFacts:
    """With the size of the records of its range, and the times of the first and last ones."""
    start, stop = ranges.get(facts.partition, (0, 0))
    records = list(topic.log(facts.partition).read(start, stop)) if stop > start else []
    times = [record.timestamp_ms for record in records]
    first_ms, last_ms = min(times[:_LOOKED_AT], default=None), max(times[-_LOOKED_AT:], default=None)
    each = sum(record.size_bytes for record in records) / (stop - start) if records else None
    return replace(facts, bytes_per_offset=each, first_ms=first_ms, last_ms=last_ms)


def _first_records(topic: MemoryTopic, ranges: Mapping[int, tuple[int, int]]) -> list[tuple[int, int]]:
    """(time in ms, bytes) of some records at the start of each wanted range."""
    read = [
        record
        for partition, (start, stop) in ranges.items()
        for record in topic.log(partition).read(start, min(stop, start + _LOOKED_AT))
    ]
    return [(record.timestamp_ms, record.size_bytes) for record in read]


def _topic_facts(topic: MemoryTopic) -> TopicFacts:
    return TopicFacts(
        topic=topic.name,
        topic_id=topic.topic_id,
        partitions=len(topic.logs),
        configs=dict(topic.configs),
        starts={p: log.start for p, log in enumerate(topic.logs)},
        ends={p: log.high_watermark for p, log in enumerate(topic.logs)},
    )


def _sample(cluster: str, topic: MemoryTopic, now_ms: int) -> TopicSample:
    return TopicSample(
        cluster=cluster,
        topic=topic.name,
        topic_id=topic.topic_id,
        log_start={p: log.start for p, log in enumerate(topic.logs)},
        high_watermark={p: log.high_watermark for p, log in enumerate(topic.logs)},
        last_stable={p: log.last_stable for p, log in enumerate(topic.logs)},
        sampled_at_ms=now_ms,
        partitions=len(topic.logs),
        leaders=dict.fromkeys(range(len(topic.logs)), 1),
    )
