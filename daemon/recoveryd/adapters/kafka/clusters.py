"""The named clusters of the config: the facade that puts the parts of this folder together behind the port `Clusters`.

One lazily made admin client per cluster, calls in threads, every wait bounded. What is asked lives in `facts`,
`sampling`, `topic_admin`, `own_topics`; what the answers mean lives in the core.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka import own_topics
from recoveryd.adapters.kafka.bulk_offsets import BulkOffsets
from recoveryd.adapters.kafka.client import Properties, shut_out
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
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.adapters.kafka.own_topics import TopicReport
from recoveryd.adapters.kafka.record_samples import RecordSample, sample_records
from recoveryd.adapters.kafka.sampling import OffsetSampler
from recoveryd.adapters.kafka.target_readers import read_readers
from recoveryd.adapters.kafka.topic_admin import TopicShape, await_topic, create, describe
from recoveryd.adapters.kafka.unit_facts import read_contract
from recoveryd.adapters.workers import Workers
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.live.events import OffsetsSampled, TopicSample
from recoveryd.recovery.effects import CreateTarget, GatherFacts
from recoveryd.recovery.events import TargetReady
from recoveryd.recovery.plan_facts import PartitionFacts, PlanFacts, ReceiptsFacts, TargetReaders, TopicFacts
from recoveryd.recovery.spec import CaughtUp, From, Never, To
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import UnitFacts
from recoveryd.units.model import Unit
from recoveryd.wire.topics import OwnTopic, TopicNames
from recoveryd.wire.topics import own_topics as wanted_topics

MAIN = "main"

_log = logging.getLogger("recoveryd.kafka")

_TIMEOUT_S = 10.0
_SAMPLE_TIMEOUT_S = 4.0
_RECORDS_S = 2.0
_NOTHING_SEEN = RecordSample()
_NO_ANSWERS = LeaderAnswers({})
_NO_ACCESSES: Mapping[str, ClientAccess] = {}
# Of a cluster and a topic: the sink connectors that read it, and sentences about what was not told.
AskSinks = Callable[[str, str], Awaitable[tuple[tuple[str, ...], tuple[str, ...]]]]


async def _no_sinks(_cluster: str, _topic: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (), ()


@dataclass(frozen=True, slots=True)
class Expectations:
    """What plans need and no broker knows. `rates`: bytes/s by measurement or config, None = unknown, and which of the
    two it is.
    """

    task_slots: Mapping[str, int]  # by profile
    rates: Callable[[], tuple[float | None, str]] = lambda: (None, "configured")


class KafkaClusters:
    """`clusters`: librdkafka properties by name; own topics live on `main`, receipts also on every target, the canary's
    also on `canary_on`. `accesses`: the same for what librdkafka cannot say.
    """

    def __init__(
        self,
        clusters: Mapping[str, Properties],
        names: TopicNames,
        expectations: Expectations,
        now_ms: Callable[[], int],
        receipts_partitions: int = 8,
        canary_on: Collection[str] = (),
        leader_answers: LeaderAnswers = _NO_ANSWERS,
        accesses: Mapping[str, ClientAccess] = _NO_ACCESSES,
        sinks: AskSinks = _no_sinks,
    ) -> None:
        self._accesses = accesses
        self._sinks = sinks
        self._clusters = clusters
        self._names = names
        self._expectations = expectations
        self._now_ms = now_ms
        self._wanted = wanted_topics(names, receipts_partitions)
        self._canary_on = frozenset(canary_on)
        self._admins = AdminClients(clusters)
        self._leader_answers = leader_answers
        self._questions = Workers("questions", 8)
        self._samples = Workers("samples", 4)  # of their own: sampling goes on while many plans are made
        self._samplers: dict[str, tuple[int, OffsetSampler, asyncio.Lock]] = {}  # with the version of the login

    async def gather_facts(self, effect: GatherFacts) -> PlanFacts:
        """Raises `ClusterProblem`. A topic that does not exist is None in the facts."""
        spec = effect.spec
        async with self._let_in(spec.source.cluster, spec.target.cluster):
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
        return await self._questions.run(read_topic, admin, properties, topic, _TIMEOUT_S, rights)

    async def _contract_facts(self, units: Iterable[Unit]) -> dict[str, UnitFacts]:
        """By name. One that is not told is left out: no plan is refused for want of it, unless its unit says so."""
        now_ms = self._now_ms()

        async def look(unit: Unit) -> UnitFacts | None:
            try:
                return await self._questions.run(read_contract, self._clusters[unit.cluster], unit, now_ms)
            except ClusterProblem as reason:
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
        groups, untold = await read_readers(admin, access, self._questions, topic, partitions)
        return TargetReaders(groups, sinks, (*unanswered, *untold))

    async def _receipts_facts(self, effect: GatherFacts, admin: AdminClient) -> ReceiptsFacts | None:
        """What only reads needs no receipts topic, nor the right to look at one."""
        if not effect.spec.copies:
            return None
        topic = self._names.receipts
        return await self._questions.run(read_receipts_topic, admin, topic, effect.recovery, _TIMEOUT_S)

    async def _gather_ranges(
        self, effect: GatherFacts, source: TopicFacts, shape: TopicShape, target: TopicFacts | None
    ) -> PlanFacts:
        spec, properties = effect.spec, self._clusters[effect.spec.source.cluster]
        sizes_asked = asyncio.ensure_future(
            self._leader_answers.log_sizes(spec.source.cluster, shape.topic, shape.leaders)
        )
        try:
            admin = self._admins.of(spec.source.cluster)
            now_ms = self._now_ms()
            bounds = (spec.source.start, spec.source.stop)
            partitions = await self._questions.run(read_partitions, admin, shape, bounds, now_ms, _TIMEOUT_S)
            ranges = probable_ranges(bounds, spec.source.partitions, partitions)
            sample = await self._questions.run(sample_records, properties, shape.topic, ranges, _RECORDS_S)
            follows = isinstance(spec.source.stop, CaughtUp | Never)
            hourly = (
                await self._questions.run(read_hours, admin, shape, partitions, now_ms, _TIMEOUT_S) if follows else ()
            )
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
            found = await self._questions.run(
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

    async def create_target(self, effect: CreateTarget) -> TargetReady:
        """Make the topic, or accept the empty one of the right width that an earlier run of this effect made. Raises
        `ClusterProblem`.
        """
        async with self._let_in(effect.cluster):
            return await self._questions.run(self._create_target, effect)

    def _create_target(self, effect: CreateTarget) -> TargetReady:
        admin = self._admins.of(effect.cluster)
        made = create(
            admin, effect.topic, effect.partitions, effect.replication_factor, effect.configs, timeout_s=_TIMEOUT_S
        )
        shape = await_topic(admin, effect.topic, _TIMEOUT_S)
        if not made:
            _refuse_foreign(admin, shape, effect)
        return TargetReady(effect.recovery, shape.topic_id, shape.partitions)

    async def sample(self, topics: Iterable[tuple[str, str]]) -> OffsetsSampled:
        """One cluster that does not answer costs only its own samples; raises `ClusterProblem` when none answers."""
        by_cluster: dict[str, list[str]] = {}
        for cluster, topic in topics:
            by_cluster.setdefault(cluster, []).append(topic)
        answers = await asyncio.gather(
            *(self._sample_cluster(cluster, names) for cluster, names in by_cluster.items()), return_exceptions=True
        )
        samples: list[TopicSample] = []
        missing: list[tuple[str, str]] = []
        failures: list[BaseException] = []
        for cluster, answer in zip(by_cluster, answers, strict=True):
            if isinstance(answer, BaseException):
                failures.append(answer)
                continue
            samples += answer[0]
            missing += [(cluster, topic) for topic in answer[1]]
        unexpected = [f for f in failures if not isinstance(f, ClusterProblem)]
        if unexpected or (failures and len(failures) == len(answers)):
            raise (unexpected or failures)[0]
        for failure in failures:
            _log.warning("%s", failure)
        return OffsetsSampled(tuple(samples), tuple(missing))

    async def _sample_cluster(self, cluster: str, names: list[str]) -> tuple[tuple[TopicSample, ...], tuple[str, ...]]:
        version = self._admins.version(cluster)
        if cluster not in self._samplers or self._samplers[cluster][0] != version:
            admin = self._admins.of(cluster)
            offsets = BulkOffsets(cluster, self._clusters[cluster], _SAMPLE_TIMEOUT_S)
            sampler = OffsetSampler(cluster, admin, offsets, _SAMPLE_TIMEOUT_S, self._now_ms)
            self._samplers[cluster] = (version, sampler, asyncio.Lock())
        _version, sampler, lock = self._samplers[cluster]
        async with lock:
            with self._asking(cluster):
                return await self._samples.run(sampler.sample, names)

    async def control_topic_id(self) -> str:
        """Raises `ClusterProblem`, also when the control topic does not exist."""
        name = self._names.control
        with self._asking(MAIN):
            shape = (await self._questions.run(describe, self._admins.of(MAIN), [name], _TIMEOUT_S))[name]
        if shape is None:
            raise ClusterProblem(f"{name} does not exist.", code=Code.OWN_TOPIC_MISSING, retriable=False)
        return shape.topic_id

    async def check_own_topics(self) -> None:
        """Raises `OwnTopicProblem`, or `ClusterProblem` when `main` does not answer. A target cluster that does not
        answer is left for later.
        """
        await self._questions.run(own_topics.check, self._admins.of(MAIN), self._wanted)
        for cluster in self._clusters.keys() - {MAIN}:
            try:
                await self._questions.run(own_topics.check, self._admins.of(cluster), self._wanted_on(cluster))
            except ClusterProblem as error:
                _log.warning("The own topics on %s could not be checked: %s", cluster, error)

    async def inspect_own_topics(self, cluster: str = MAIN) -> tuple[TopicReport, ...]:
        """What exists and what differs of the topics that the daemon uses there, for `doctor`."""
        return await self._questions.run(own_topics.inspect, self._admins.of(cluster), self._used_on(cluster))

    async def apply_own_topics(self, cluster: str = MAIN, replication_factor: int = -1) -> tuple[TopicReport, ...]:
        """Create what is missing on one cluster; -1 = the broker's default replication."""
        return await self._questions.run(
            own_topics.apply, self._admins.of(cluster), self._wanted_on(cluster), replication_factor
        )

    async def write_probe(
        self, scope: str, cluster: str = MAIN, without: Collection[str] = ()
    ) -> dict[str, str | None]:
        """Try to write each own topic that the daemon or its lanes write, but those named; None = allowed, else why
        not.
        """
        kept = {self._names.control, *without}
        topics = [t.name for t in self._used_on(cluster) if t.name not in kept]
        return await self._questions.run(
            own_topics.write_probe, self._clusters[cluster], f"recoveryd.{scope}.probe", topics
        )

    async def close(self) -> None:
        """Drops the clients; calls still under way end at their own deadlines."""
        self._questions.close()
        self._samples.close()
        self._samplers.clear()
        self._admins.clear()

    def _wanted_on(self, cluster: str) -> tuple[OwnTopic, ...]:
        return self._wanted if cluster == MAIN else self._used_on(cluster)

    def _used_on(self, cluster: str) -> tuple[OwnTopic, ...]:
        has_canary = cluster in self._canary_on
        return tuple(
            topic
            for topic in self._wanted
            if (has_canary if topic.name == self._names.canary else topic.on_targets or cluster == MAIN)
        )

    @contextlib.contextmanager
    def _asking(self, *clusters: str) -> Iterator[None]:
        """A client that got no answer is not asked again.

        librdkafka can lose sight of the controller when a broker was frozen or fenced, or go on with an old leader
        epoch, and then times out for ever although the broker is back; a new client finds it at once. Calls under way
        keep the old one.
        """
        try:
            yield
        except ClusterProblem as problem:
            if problem.retriable:
                for cluster in clusters:
                    self._admins.drop(cluster)
                    self._samplers.pop(cluster, None)
            raise

    @contextlib.asynccontextmanager
    async def _let_in(self, *clusters: str) -> AsyncIterator[None]:
        """As `_asking`; a cluster that does not let us in is named, where its client only says that nobody answered."""
        with self._asking(*clusters):
            try:
                yield
            except ClusterProblem as silence:
                for cluster in dict.fromkeys(clusters if silence.retriable else ()):
                    why = await self._questions.run(shut_out, self._clusters[cluster], cluster)
                    if why is not None:
                        raise why from silence
                raise


def _refuse_foreign(admin: AdminClient, shape: TopicShape, effect: CreateTarget) -> None:
    """A topic that exists is ours to use only if it is as wide as wanted and holds nothing."""
    if shape.partitions != effect.partitions:
        text = f"{effect.topic} exists with {shape.partitions} partitions, {effect.partitions} were to be created."
        raise ClusterProblem(text, code=Code.TARGET_CREATE_FAILED, retriable=False)
    starts = read_offsets(admin, shape.keys, EARLIEST, _TIMEOUT_S)
    ends = read_offsets(admin, shape.keys, LATEST, _TIMEOUT_S)
    if starts != ends:
        text = f"{effect.topic} exists and holds records already."
        raise ClusterProblem(text, code=Code.TARGET_NOT_EMPTY, retriable=False)
