"""Gathers what the plan of a recovery must know about its clusters: which questions are asked at once, and which only
after others were answered. The questions themselves are in `facts`; what the answers mean is judged by the core.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.facts import (
    probable_ranges,
    read_hours,
    read_partitions,
    read_receipts_topic,
    read_topic,
    with_sizes,
)
from recoveryd.adapters.kafka.leader_answers import LeaderAnswers
from recoveryd.adapters.kafka.living_clients import AdminClients
from recoveryd.adapters.kafka.record_samples import SAMPLE_S, RecordSample, sample_records
from recoveryd.adapters.kafka.target_readers import read_readers
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.adapters.kafka.unit_facts import read_contract
from recoveryd.adapters.workers import ClusterWorkers
from recoveryd.errors import ClusterProblem
from recoveryd.recovery.effects import GatherFacts
from recoveryd.recovery.plan_facts import PartitionFacts, PlanFacts, ReceiptsFacts, TargetReaders, TopicFacts
from recoveryd.recovery.spec import CaughtUp, From, Never, To
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.contract import requires_cluster
from recoveryd.units.facts import UnitFacts
from recoveryd.units.model import Unit

_log = logging.getLogger("recoveryd.kafka")

_TIMEOUT_S = 10.0
_NOTHING_SEEN = RecordSample()
# Of a cluster and a topic: the sink connectors that read it, and sentences about what was not told.
AskSinks = Callable[[str, str], Awaitable[tuple[tuple[str, ...], tuple[str, ...]]]]


@dataclass(frozen=True, slots=True)
class Expectations:
    """What plans need and no broker knows. `rates`: bytes/s by measurement or config, None = unknown, and which of the
    two it is.
    """

    task_slots: Mapping[str, int]  # by profile
    rates: Callable[[], tuple[float | None, str]] = lambda: (None, "configured")


class FactGatherer:
    """Asks with the clients `admins` and in the threads `questions`, which belong to whoever made them. `receipts`: the
    name of the receipts topic.
    """

    def __init__(
        self,
        admins: AdminClients,
        questions: ClusterWorkers,
        receipts: str,
        expectations: Expectations,
        now_ms: Callable[[], int],
        leader_answers: LeaderAnswers,
        accesses: Mapping[str, ClientAccess],
        sinks: AskSinks,
    ) -> None:
        self._admins = admins
        self._questions = questions
        self._receipts = receipts
        self._expectations = expectations
        self._now_ms = now_ms
        self._leader_answers = leader_answers
        self._accesses = accesses
        self._sinks = sinks

    async def gather(self, effect: GatherFacts) -> PlanFacts:
        """Raises `ClusterProblem`. A topic that does not exist is None in the facts."""
        spec = effect.spec
        into = self._admins.of(spec.target.cluster)
        rights = ("Read", "Write") if spec.copies else ("Read",)
        source, target, receipts, units = await asyncio.gather(
            self._topic_facts(spec.source.cluster, spec.source.topic),
            self._topic_facts(spec.target.cluster, spec.target.topic, rights),
            self._receipts_facts(effect, into),
            self._contract_facts(effect.units),
        )
        target_facts = target[0] if target is not None else None
        if source is None:
            return self._facts(effect, None, target_facts)
        facts, readers = await asyncio.gather(
            self._gather_ranges(effect, source[0], source[1], target_facts),
            self._readers_of(effect, target_facts),
        )
        facts = replace(facts, receipts=receipts, units=units, readers=readers)
        if spec.target_bounds is None or target is None:
            return facts
        return replace(facts, target_partitions=await self._gather_target(effect, target[1], spec.target_bounds))

    async def _topic_facts(
        self, cluster: str, topic: str, rights: tuple[str, ...] = ("Read",)
    ) -> tuple[TopicFacts, TopicShape] | None:
        admin, properties = self._admins.of(cluster), self._admins.properties(cluster)
        return await self._questions.of(cluster).run(read_topic, admin, properties, topic, _TIMEOUT_S, rights)

    async def _contract_facts(self, units: Iterable[Unit]) -> dict[str, UnitFacts]:
        """By name. One that is not told is left out: no plan is refused for want of it, unless its unit says so. Then
        what another try may tell is a `ClusterProblem`: clusters are asked again for as long as a plan may take.
        """
        now_ms = self._now_ms()

        async def look(unit: Unit) -> UnitFacts | None:
            try:
                properties = self._admins.properties(unit.cluster)
                return await self._questions.of(unit.cluster).run(read_contract, properties, unit, now_ms)
            except ClusterProblem as reason:
                if reason.retriable and requires_cluster(unit):
                    raise
                _log.info("What the contract of %s needs is not told: %s", unit.name, reason.message)
                return None

        asked = list(units)
        told = await asyncio.gather(*map(look, asked))
        return {unit.name: facts for unit, facts in zip(asked, told, strict=True) if facts is not None}

    async def _readers_of(self, effect: GatherFacts, target: TopicFacts | None) -> TargetReaders:
        """Sinks also of a topic that is not there yet: a connector may wait for it."""
        if not effect.spec.copies:
            return TargetReaders()
        cluster, topic = effect.spec.target.cluster, effect.spec.target.topic
        sinks, unanswered = await self._sinks(cluster, topic)
        access = self._accesses.get(cluster)
        if target is None or access is None:
            return TargetReaders(sinks=sinks, problems=unanswered)
        admin, partitions = self._admins.of(cluster), tuple(range(target.partitions))
        groups, untold = await read_readers(admin, access, self._questions.of(cluster), topic, partitions)
        return TargetReaders(groups, sinks, (*unanswered, *untold))

    async def _receipts_facts(self, effect: GatherFacts, admin: AdminClient) -> ReceiptsFacts | None:
        """What only reads needs no receipts topic, nor the right to look at one."""
        if not effect.spec.copies:
            return None
        questions = self._questions.of(effect.spec.target.cluster)
        return await questions.run(read_receipts_topic, admin, self._receipts, effect.recovery, _TIMEOUT_S)

    async def _gather_ranges(
        self, effect: GatherFacts, source: TopicFacts, shape: TopicShape, target: TopicFacts | None
    ) -> PlanFacts:
        spec, properties = effect.spec, self._admins.properties(effect.spec.source.cluster)
        questions = self._questions.of(spec.source.cluster)
        sizes_asked = asyncio.ensure_future(
            self._leader_answers.log_sizes(spec.source.cluster, shape.topic, shape.leaders)
        )
        try:
            admin = self._admins.of(spec.source.cluster)
            now_ms = self._now_ms()
            bounds = (spec.source.start, spec.source.stop)
            partitions = await questions.run(read_partitions, admin, shape, bounds, now_ms, _TIMEOUT_S)
            ranges = probable_ranges(bounds, spec.source.partitions, partitions)
            sample = await questions.run(sample_records, properties, shape.topic, ranges, SAMPLE_S)
            follows = isinstance(spec.source.stop, CaughtUp | Never)
            hourly = await questions.run(read_hours, admin, shape, partitions, now_ms, _TIMEOUT_S) if follows else ()
            sizes = await sizes_asked
        finally:
            sizes_asked.cancel()
        if source.is_remote:
            starts = await self._leader_answers.local_starts(spec.source.cluster, shape.topic, shape.leaders) or {}
            partitions = tuple(replace(p, local_start=starts.get(p.partition)) for p in partitions)
            sizes = None  # brokers tell what lies on their own disks
        facts = self._facts(effect, source, target, sample)
        return replace(facts, source_partitions=with_sizes(partitions, sizes, sample), hourly=hourly)

    async def _gather_target(
        self, effect: GatherFacts, shape: TopicShape, bounds: tuple[From, To]
    ) -> tuple[PartitionFacts, ...]:
        """Offsets and sizes of a target of which a range is to be read. Asked after the source, so that what is copied
        meanwhile is not missing.
        """
        cluster = effect.spec.target.cluster
        sizes_asked = asyncio.ensure_future(self._leader_answers.log_sizes(cluster, shape.topic, shape.leaders))
        try:
            now_ms = self._now_ms()
            found = await self._questions.of(cluster).run(
                read_partitions, self._admins.of(cluster), shape, bounds, now_ms, _TIMEOUT_S
            )
            return with_sizes(found, await sizes_asked, _NOTHING_SEEN)
        finally:
            sizes_asked.cancel()

    def _facts(
        self,
        effect: GatherFacts,
        source: TopicFacts | None,
        target: TopicFacts | None,
        sample: RecordSample = _NOTHING_SEEN,
    ) -> PlanFacts:
        bytes_per_s, rate_source = self._expectations.rates()
        return PlanFacts(
            source=source,
            source_partitions=(),
            target=target,
            task_slots=self._expectations.task_slots.get(effect.spec.profile, 1),
            oldest_record_ms=sample.oldest_ms,
            largest_record_bytes=sample.largest_bytes,
            bytes_per_s=bytes_per_s,
            rate_source=rate_source,
            gathered_at_ms=self._now_ms(),
        )
