"""The named clusters of the config: the facade that puts the parts of this folder together behind the port `Clusters`.

One lazily made admin client per cluster, calls in threads, every wait bounded. What is asked lives in
`fact_gathering`, `sampling`, `topic_admin`, `own_topics`; what the answers mean lives in the core.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka import own_topics
from recoveryd.adapters.kafka.bulk_offsets import BulkOffsets
from recoveryd.adapters.kafka.client import Properties, make_admin, shut_out
from recoveryd.adapters.kafka.fact_gathering import AskSinks, Expectations, FactGatherer
from recoveryd.adapters.kafka.leader_answers import LeaderAnswers
from recoveryd.adapters.kafka.living_clients import AdminClients
from recoveryd.adapters.kafka.log_cut import LogCut
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, LogEnd, read_end, read_offsets
from recoveryd.adapters.kafka.own_topics import TopicReport
from recoveryd.adapters.kafka.sampling import OffsetSampler
from recoveryd.adapters.kafka.topic_admin import TopicShape, await_topic, create, describe
from recoveryd.adapters.workers import ClusterWorkers
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.live.events import OffsetsSampled, TopicSample
from recoveryd.recovery.effects import CreateTarget, GatherFacts
from recoveryd.recovery.events import TargetReady
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.wire.topics import ONLY_PARTITION, OwnTopic, TopicNames
from recoveryd.wire.topics import own_topics as wanted_topics

MAIN = "main"

_log = logging.getLogger("recoveryd.kafka")

_TIMEOUT_S = 10.0
_SAMPLE_TIMEOUT_S = 4.0
_NO_ANSWERS = LeaderAnswers({})
_NO_ACCESSES: Mapping[str, ClientAccess] = {}


async def _no_sinks(_cluster: str, _topic: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (), ()


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
        self._clusters = clusters
        self._names = names
        self._now_ms = now_ms
        self._wanted = wanted_topics(names, receipts_partitions)
        self._canary_on = frozenset(canary_on)
        self._admins = AdminClients(clusters)
        self._questions = ClusterWorkers("questions", 8)
        self._facts = FactGatherer(
            self._admins, self._questions, names.receipts, expectations, now_ms, leader_answers, accesses, sinks
        )
        self._samples = ClusterWorkers("samples", 2)  # of their own: sampling goes on while many plans are made
        self._control = LogCut(self._control_end, self._control_end_anew)
        self._samplers: dict[str, tuple[int, OffsetSampler, asyncio.Lock]] = {}  # with the version of the login

    async def gather_facts(self, effect: GatherFacts) -> PlanFacts:
        """Raises `ClusterProblem`. A topic that does not exist is None in the facts."""
        async with self._let_in(effect.spec.source.cluster, effect.spec.target.cluster):
            return await self._facts.gather(effect)

    async def create_target(self, effect: CreateTarget) -> TargetReady:
        """Make the topic, or accept the one of the right width that an earlier run of this effect made: an empty one,
        unless the effect appends. Raises `ClusterProblem`.
        """
        async with self._let_in(effect.cluster):
            return await self._questions.of(effect.cluster).run(self._create_target, effect)

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
                return await self._samples.of(cluster).run(sampler.sample, names)

    async def control_topic_id(self) -> str:
        """Raises `ClusterProblem`, also when the control topic does not exist."""
        name = self._names.control
        with self._asking(MAIN):
            shape = (await self._questions.of(MAIN).run(describe, self._admins.of(MAIN), [name], _TIMEOUT_S))[name]
        if shape is None:
            raise ClusterProblem(f"{name} does not exist.", code=Code.OWN_TOPIC_MISSING, retriable=False)
        return shape.topic_id

    async def control_end(self, position: int) -> int:
        """See the port."""
        return await self._control.end(position)

    async def _control_end(self) -> LogEnd:
        with self._asking(MAIN):
            return await self._read_control_end(self._admins.of(MAIN))

    async def _control_end_anew(self) -> LogEnd:
        return await self._read_control_end(make_admin(self._admins.properties(MAIN)))

    async def _read_control_end(self, admin: AdminClient) -> LogEnd:
        return await self._questions.of(MAIN).run(
            read_end, admin, self._names.control, ONLY_PARTITION, _SAMPLE_TIMEOUT_S
        )

    async def check_own_topics(self) -> None:
        """Raises `OwnTopicProblem`, or `ClusterProblem` when `main` does not answer. Another cluster that does not
        answer is left for later, and so is one without its topics: it may be one from which is only copied, and a plan
        for a copy to it is refused.
        """
        await self._questions.of(MAIN).run(own_topics.check, self._admins.of(MAIN), self._wanted)
        for cluster in self._clusters.keys() - {MAIN}:
            try:
                missing = await self._questions.of(cluster).run(
                    own_topics.check, self._admins.of(cluster), self._wanted_on(cluster), may_miss=True
                )
            except ClusterProblem as error:
                _log.warning("The own topics on %s could not be checked: %s", cluster, error)
                continue
            for told in missing:
                _log.warning("On cluster %s %s Until it is made, nothing can be copied to that cluster.", cluster, told)

    async def check_width(self) -> None:
        """Raises `OwnTopicProblem`, or `ClusterProblem` when `main` does not answer."""
        with self._asking(MAIN):
            await self._questions.of(MAIN).run(own_topics.check_width, self._admins.of(MAIN), self._wanted, _TIMEOUT_S)

    async def inspect_own_topics(self, cluster: str = MAIN) -> tuple[TopicReport, ...]:
        """What exists and what differs of the topics that the daemon uses there, for `doctor`."""
        return await self._questions.of(cluster).run(
            own_topics.inspect_leaders, self._admins.of(cluster), self._used_on(cluster)
        )

    async def apply_own_topics(self, cluster: str = MAIN, replication_factor: int = -1) -> tuple[TopicReport, ...]:
        """Create what is missing on one cluster; -1 = the broker's default replication."""
        return await self._questions.of(cluster).run(
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
        return await self._questions.of(cluster).run(
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
                    why = await self._questions.of(cluster).run(shut_out, self._clusters[cluster], cluster)
                    if why is not None:
                        raise why from silence
                raise


def _refuse_foreign(admin: AdminClient, shape: TopicShape, effect: CreateTarget) -> None:
    """A topic that exists is ours to use only if it is as wide as wanted, and holds nothing or may hold something."""
    if shape.partitions != effect.partitions:
        text = f"{effect.topic} exists with {shape.partitions} partitions, {effect.partitions} were to be created."
        raise ClusterProblem(text, code=Code.TARGET_CREATE_FAILED, retriable=False)
    if effect.appends:
        return
    starts = read_offsets(admin, shape.keys, EARLIEST, _TIMEOUT_S)
    ends = read_offsets(admin, shape.keys, LATEST, _TIMEOUT_S)
    if starts != ends:
        text = f"{effect.topic} exists and holds records already."
        raise ClusterProblem(text, code=Code.TARGET_NOT_EMPTY, retriable=False)
