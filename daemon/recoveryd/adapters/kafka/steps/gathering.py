"""What the plan of a workflow has to know of the clusters. Blocking; every question has a deadline."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, TopicMetadata

from recoveryd.adapters.kafka.client import Properties, make_consumer, problem
from recoveryd.adapters.kafka.group_facts import read_committed
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, FirstAt, read_first_at, read_offsets
from recoveryd.adapters.kafka.steps.quota_steps import QuotaSteps
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S, is_before, read_log
from recoveryd.adapters.kafka.steps.sizes import sized
from recoveryd.adapters.kafka.steps.starts import with_starts
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe, read_own_configs
from recoveryd.adapters.kafka.unit_facts import read_contract, read_unit
from recoveryd.errors import ClusterProblem
from recoveryd.recovery.spec import AtTime
from recoveryd.units.contract import requires_cluster
from recoveryd.units.facts import Group, UnitFacts
from recoveryd.units.model import Unit
from recoveryd.workflows.model.actions import TopicForm
from recoveryd.workflows.model.colliding import Names, names_of
from recoveryd.workflows.model.facts import Found, GroupFound, GroupWanted, TopicFound, WantedFacts
from recoveryd.workflows.model.positions import PartitionLook
from recoveryd.workflows.model.size import TOPIC_MOST

_log = logging.getLogger("recoveryd.workflows")
_COUNT_S: Final = 10.0  # for all topics together; what takes longer is told as a bound
_COUNT_MOST: Final = 2_000_000


class Gatherer:
    """`units`: all that are in force. `now_ms`: the daemon's clock, since the time of facts is compared with others."""

    def __init__(
        self, reach: Reach, units: Callable[[], Mapping[str, Unit]], quotas: QuotaSteps, now_ms: Callable[[], int]
    ) -> None:
        self._reach = reach
        self._units = units
        self._quotas = quotas
        self._now_ms = now_ms

    async def gather(self, wanted: WantedFacts) -> Found:
        """Raises `ClusterProblem`."""
        now_ms = self._now_ms()
        known = self._units()
        asked, with_readers = [known[name] for name in wanted.units if name in known], wanted.with_readers
        units = {each.name: await self._find_unit(each, known, now_ms, with_readers=with_readers) for each in asked}
        for name in wanted.contracts:
            if (
                name in known
                and name not in units
                and (told := await self._find_contract(known[name], now_ms)) is not None
            ):
                units[name] = told
        topics = list(wanted.topics)
        if wanted.internal:
            internal = [(known[name].cluster, t) for name, unit in units.items() for t in unit.internal.certain]
            copies = [(cluster, wanted.copied_as + t) for cluster, t in internal] if wanted.copied_as else []
            topics += internal + [(cluster, t) for cluster, t in copies if len(t) <= TOPIC_MOST]
        return Found(
            groups=tuple([await self._find_group(group) for group in wanted.groups]),
            units=units,
            topics=await self._find_topics(topics, with_sizes=wanted.with_sizes),
            counts=await self._count(wanted.counted),
            at_ms=now_ms,
            quotas=await self._find_quotas(wanted.quotas),
            names=await self._find_names(wanted.names_on),
        )

    async def _find_names(self, cluster: str) -> Names:
        """Empty where no cluster is named."""
        return await self._reach.run(cluster, _list_names, self._reach.admin(cluster)) if cluster else {}

    async def _find_quotas(self, clients: Iterable[tuple[str, str]]) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        for cluster, names in _by_cluster(clients).items():
            rates = await self._quotas.read(cluster)
            found |= {name: rates.get(name) for name in names}
        return found

    async def _find_unit(self, unit: Unit, known: Mapping[str, Unit], now_ms: int, *, with_readers: bool) -> UnitFacts:
        return await self._reach.run(
            unit.cluster,
            read_unit,
            self._reach.clusters[unit.cluster],
            unit,
            known.values(),
            now_ms,
            self._reach.accesses[unit.cluster],
            with_readers=with_readers,
            for_plan=True,
        )

    async def _find_contract(self, unit: Unit, now_ms: int) -> UnitFacts | None:
        """None when the cluster does not tell: a plan says so, and needs no right that it had no need of before. A plan
        that would be refused for it is asked for again, where another try may tell.
        """
        reached = self._reach.clusters[unit.cluster], unit, now_ms, self._reach.accesses[unit.cluster]
        try:
            return await self._reach.run(unit.cluster, read_contract, *reached)
        except ClusterProblem as reason:
            if reason.retriable and requires_cluster(unit):
                raise
            _log.info("What the contract of %s needs is not told: %s", unit.name, reason.message)
            return None

    async def _find_group(self, wanted: GroupWanted) -> GroupFound:
        properties, admin = self._reach.clusters[wanted.cluster], self._reach.admin(wanted.cluster)
        names = wanted.topics
        if names is None:
            names = dict.fromkeys(
                await self._reach.run(wanted.cluster, _topics_of, properties, admin, wanted.group), ()
            )
        shapes = await self._reach.run(wanted.cluster, describe, admin, names, TIMEOUT_S)
        present = {name: shape for name, shape in shapes.items() if shape is not None}
        group = await self._reach.group(wanted.cluster, wanted.group, present)
        looks: list[PartitionLook] = []
        for name, shape in present.items():
            partitions = names.get(name) or tuple(shape.leaders)
            looks += await self._reach.run(wanted.cluster, _look_at, admin, shape, partitions, wanted.to, group)
        looks = await with_starts(self._reach, wanted, looks, present)
        missing = tuple(name for name in names if name not in present)
        return GroupFound(group, tuple(looks), missing, {n: s.topic_id for n, s in present.items()})

    async def _find_topics(
        self, topics: Iterable[tuple[str, str]], *, with_sizes: bool = False
    ) -> dict[str, TopicFound | None]:
        found: dict[str, TopicFound | None] = {}
        for cluster, names in _by_cluster(topics).items():
            shapes, there = await self._reach.run(cluster, _look_at_topics, self._reach.admin(cluster), names)
            found |= await sized(self._reach, cluster, shapes, there) if with_sizes else there
        return found

    async def _count(self, topics: Iterable[tuple[str, str]]) -> dict[str, int]:
        give_up_s = time.monotonic() + _COUNT_S
        found: dict[str, int] = {}
        for cluster, names in _by_cluster(topics).items():
            reached = self._reach.clusters[cluster], self._reach.admin(cluster)
            found |= await self._reach.run(cluster, _count_topics, *reached, names, give_up_s)
        return found


def _look_at_topics(
    admin: AdminClient, names: Sequence[str]
) -> tuple[dict[str, TopicShape | None], dict[str, TopicFound | None]]:
    shapes = describe(admin, names, TIMEOUT_S)
    configs = read_own_configs(admin, [n for n, shape in shapes.items() if shape is not None], TIMEOUT_S)
    found = {
        name: None if shape is None else look_at_topic(admin, shape, configs[name]) for name, shape in shapes.items()
    }
    return shapes, found


def _count_topics(properties: Properties, admin: AdminClient, names: Sequence[str], give_up_s: float) -> dict[str, int]:
    found = {}
    for name, shape in describe(admin, names, TIMEOUT_S).items():
        count = None if shape is None else _count_visible(properties, admin, shape, give_up_s)
        if count is not None:
            found[name] = count
    return found


def look_at_topic(admin: AdminClient, shape: TopicShape, configs: Mapping[str, str]) -> TopicFound:
    """`configs`: those set on the topic itself."""
    form = TopicForm(shape.topic, shape.partitions, shape.replication_factor, configs)
    return TopicFound(shape.topic_id, form, read_log(admin, shape))


def _by_cluster(topics: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for cluster, name in topics:
        found.setdefault(cluster, []).append(name)
    return found


def _count_visible(properties: Properties, admin: AdminClient, shape: TopicShape, give_up_s: float) -> int | None:
    """Records that a read_committed reader sees; None when there are too many to be read for a plan."""
    starts = read_offsets(admin, shape.keys, EARLIEST, TIMEOUT_S)
    ends = read_offsets(admin, shape.keys, LATEST, TIMEOUT_S, committed=True)
    left = {p: ends[p] for _, p in shape.keys if ends[p] > starts[p]}
    if sum(ends[p] - starts[p] for p in left) > _COUNT_MOST:
        return None
    consumer = make_consumer(properties, isolation_level="read_committed")
    seen = 0
    try:
        consumer.assign([TopicPartition(shape.topic, p, starts[p]) for p in left])
        while left:
            if time.monotonic() >= give_up_s:
                return None
            batch = consumer.consume(10_000, 0.2)
            seen += sum(r.error() is None and is_before(r, {shape.topic: ends}) for r in batch)
            where = consumer.position([TopicPartition(shape.topic, p) for p in left])
            left = {w.partition: ends[w.partition] for w in where if w.offset < ends[w.partition]}
    except KafkaException as error:
        raise problem(error, f"count the records of {shape.topic}", "Read", shape.topic) from error
    finally:
        consumer.close()
    return seen


def _list_topics(admin: AdminClient) -> Mapping[str, TopicMetadata]:
    try:
        return admin.list_topics(timeout=TIMEOUT_S).topics
    except KafkaException as error:
        raise problem(error, "list the topics") from error


def _list_names(admin: AdminClient) -> Names:
    return names_of(_list_topics(admin))


def _topics_of(properties: Properties, admin: AdminClient, group: str) -> tuple[str, ...]:
    """Every topic on which the group has a commit."""
    known = _list_topics(admin)
    keys = [(name, p) for name, topic in known.items() if not name.startswith("__") for p in topic.partitions]
    return tuple(sorted(read_committed(properties, group, keys)))


def _look_at(
    admin: AdminClient, shape: TopicShape, partitions: Collection[int], to: object, group: Group | None
) -> list[PartitionLook]:
    """Ends are asked for last, so that no answer lies behind them; what comes meanwhile is not passed over."""
    keys = [(shape.topic, p) for p in partitions if p in shape.leaders]
    first = read_first_at(admin, keys, to.time_ms, TIMEOUT_S) if isinstance(to, AtTime) else FirstAt({}, {})
    starts = read_offsets(admin, keys, EARLIEST, TIMEOUT_S)
    ends = read_offsets(admin, keys, LATEST, TIMEOUT_S)
    times = first.by(ends)
    committed = group.committed.get(shape.topic, {}) if group is not None else {}
    return [
        PartitionLook(
            topic=shape.topic,
            partition=p,
            log_start=starts[p],
            high_watermark=ends[p],
            committed=committed[p].offset if p in committed else None,
            at_time=times[p] if times.get(p, -1) >= 0 else None,
        )
        for _, p in keys
    ]
