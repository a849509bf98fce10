"""Where consumer groups stand: their committed offsets, and which of them have members. Only read, never changed.

Offsets are asked for by a consumer per group that never joins it: librdkafka's admin client can ask about any group,
but ends the whole process when a broker says that it is not the coordinator, as brokers do whenever one restarts (2.16:
the answer is handled as a consumer's, and there is none).

Partitions are asked for in pieces: the library's lists are searched from the start for each partition, so ten thousand
at once cost ten times as much.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties, brokers_errors, committed, make_consumer, problem
from recoveryd.adapters.kafka.living_clients import AdminClients
from recoveryd.adapters.workers import ClusterWorkers
from recoveryd.errors import ClusterProblem
from recoveryd.holds.events import SeenMember

_TIMEOUT_S = 3.0
_PIECE = 500
# Of groups that are not asked about any more; of those that are, each has a client (about 1 MB, and a thread for each
# broker), as many as the config, the watches and the workflows name: to make one anew at each look costs more.
_SPARE_MOST = 128
_ASKED_S = 60.0  # and at least so many looks
_ASKED_LOOKS = 3
_UNUSED_S = 600.0  # a group that nobody asks about any more needs no client, which would connect for ever
_WITHOUT_MEMBERS = frozenset({ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD})
# Brokers list members of a classic group then, and tell of none what it has.
_REBALANCING = frozenset({ConsumerGroupState.PREPARING_REBALANCING, ConsumerGroupState.COMPLETING_REBALANCING})
_NOT_DESCRIBED = frozenset({KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNSUPPORTED_VERSION})
_UNTOLD = frozenset({ConsumerGroupState.UNKNOWN, None})  # also the states of newer protocols


@dataclass(slots=True)
class _Asker:
    """`version` of the login that it was made with."""

    consumer: Consumer
    version: int
    asked_s: float


class KafkaGroupOffsets:
    """`clusters`: librdkafka properties by name. Clients are made when first needed, and anew after no answer or when
    their login changed; one that was not used for `unused_s` goes, and where there are many, after a minute. Where
    groups are looked at each `period_s`, it stays for some looks at least.
    """

    def __init__(self, clusters: Mapping[str, Properties], unused_s: float = _UNUSED_S, period_s: float = 0.0) -> None:
        self._admins = AdminClients(clusters)
        looks_s = _ASKED_LOOKS * period_s
        self._unused_s = max(unused_s, looks_s)
        self._unused_of_many_s = max(min(_ASKED_S, unused_s), looks_s)
        self._askers: OrderedDict[tuple[str, str], _Asker] = OrderedDict()  # that asked longest ago first
        self._workers = ClusterWorkers("groups", 8)

    async def committed(
        self, cluster: str, group: str, topics: Mapping[str, int | None]
    ) -> Mapping[str, Mapping[int, int]]:
        """Next offset to read, by topic and partition; `topics` gives their partition counts, None = not known.

        A partition without a commit is absent; a topic of which some partition got no answer is absent altogether.
        Raises `ClusterProblem`.
        """
        consumer, gone = self._consumer(cluster, group)
        if gone:
            await self._workers.of(cluster).run(
                gone.clear
            )  # a client ends with its last reference, and waits for its threads
        try:
            return await self._workers.of(cluster).run(lambda asked: _committed(asked, group, topics), consumer)
        except ClusterProblem as reason:
            # librdkafka may have lost sight of a coordinator that came back. Closing waits for the client's threads, so
            # it has one of ours.
            if reason.retriable and self._forget(consumer):
                await self._workers.of(cluster).run(consumer.close)
            raise

    async def have_members(self, cluster: str) -> Mapping[str, bool]:
        """By group, of those the cluster lists to us; for others nothing is known. Raises `ClusterProblem`."""
        try:
            return await self._workers.of(cluster).run(_have_members, self._admins.of(cluster))
        except ClusterProblem as reason:
            if reason.retriable:
                self._admins.drop(cluster)
            raise

    async def members(self, cluster: str, group: str) -> tuple[SeenMember, ...] | None:
        """None of a group that there is not, that rebalances, or that the library cannot describe, as those of Streams'
        own protocol. Raises `ClusterProblem`.
        """
        try:
            return await self._workers.of(cluster).run(_members, self._admins.of(cluster), group)
        except ClusterProblem as reason:
            if reason.retriable:
                self._admins.drop(cluster)
            raise

    async def close(self) -> None:
        """Calls under way end at their own deadlines."""
        self._workers.close()
        self._admins.clear()
        self._askers.clear()

    def _forget(self, consumer: Consumer) -> bool:
        """False = somebody did already."""
        found = next((key for key, kept in self._askers.items() if kept.consumer is consumer), None)
        if found is not None:
            del self._askers[found]
        return found is not None

    def _consumer(self, cluster: str, group: str) -> tuple[Consumer, list[_Asker]]:
        """And what is not needed any more."""
        properties, version, now_s = self._admins.properties(cluster), self._admins.version(cluster), time.monotonic()
        gone: list[_Asker] = []
        asker = self._askers.pop((cluster, group), None)
        if asker is not None and asker.version != version:
            gone.append(asker)
            asker = None
        if asker is None:
            consumer = make_consumer(properties, group_id=group, isolation_level="read_uncommitted")
            asker = _Asker(consumer, version, now_s)
        asker.asked_s = now_s
        self._askers[cluster, group] = asker
        while self._is_oldest_unused(now_s):
            gone.append(self._askers.popitem(last=False)[1])
        return asker.consumer, gone

    def _is_oldest_unused(self, now_s: float) -> bool:
        kept_s = self._unused_of_many_s if len(self._askers) > _SPARE_MOST else self._unused_s
        return next(iter(self._askers.values())).asked_s < now_s - kept_s


def _committed(consumer: Consumer, group: str, topics: Mapping[str, int | None]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    untold: set[str] = set()
    deadline_s = time.monotonic() + _TIMEOUT_S
    doing = f"read the offsets of group {group}"
    try:
        keys = [
            (topic, partition)
            for topic, width in topics.items()
            for partition in range(_width(consumer, topic, deadline_s) if width is None else width)
        ]
        for piece in _pieces(keys):
            for where in committed(consumer, piece, _left_s(deadline_s)):
                if where.error is not None:
                    untold.add(where.topic)
                elif where.offset >= 0:
                    found[where.topic][where.partition] = where.offset
    except KafkaException as error:
        raise problem(error, doing, "Describe", other=group) from error
    return {topic: offsets for topic, offsets in found.items() if topic not in untold}


def _width(consumer: Consumer, topic: str, deadline_s: float) -> int:
    """0 for a topic that does not exist."""
    return len(consumer.list_topics(topic, timeout=_left_s(deadline_s)).topics[topic].partitions)


def _pieces(keys: list[tuple[str, int]]) -> Iterator[list[TopicPartition]]:
    for at in range(0, len(keys), _PIECE):
        yield [TopicPartition(topic, partition) for topic, partition in keys[at : at + _PIECE]]


def _left_s(deadline_s: float) -> float:
    return max(deadline_s - time.monotonic(), 0.1)


def _have_members(admin: AdminClient) -> dict[str, bool]:
    doing = "list the consumer groups"
    try:
        answer = admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S + 1)
    except KafkaException as error:
        raise problem(error, doing) from error
    except TimeoutError as error:
        raise ClusterProblem(f"Could not {doing} within {_TIMEOUT_S:.0f} s") from error
    errors = brokers_errors(answer)
    if errors and not answer.valid:
        raise problem(errors[0], doing)
    return {g.group_id: g.state not in _WITHOUT_MEMBERS for g in answer.valid if g.state not in _UNTOLD}


def _members(admin: AdminClient, group: str) -> tuple[SeenMember, ...] | None:
    doing = f"see the members of the group {group}"
    try:
        found = admin.describe_consumer_groups([group], request_timeout=_TIMEOUT_S)[group].result(_TIMEOUT_S + 1)
    except KafkaException as error:
        if error.args[0].code() in _NOT_DESCRIBED:
            return None
        raise problem(error, doing, "Describe", other=group) from error
    except TimeoutError as error:
        raise ClusterProblem(f"Could not {doing} within {_TIMEOUT_S:.0f} s") from error
    if found.state is ConsumerGroupState.DEAD or found.state in _REBALANCING:
        return None
    return tuple(
        SeenMember(
            member.member_id,
            member.client_id,
            frozenset(p.topic for p in member.assignment.topic_partitions) if member.assignment else frozenset(),
        )
        for member in found.members
    )
