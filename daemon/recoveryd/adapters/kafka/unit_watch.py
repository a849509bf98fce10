"""Watches a unit for a while, for a diagnosis: its group again and again, offsets and ends at the start and at the end,
replicas, quotas on its clients, and the records before which it stands.

Blocking. What the group and the topics cannot be asked is an error, once they were asked again for as long as the watch
may last; what else cannot be asked becomes a sentence in `problems`.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from recoveryd.adapters.kafka.bulk_offsets import Bound, BulkOffsets
from recoveryd.adapters.kafka.client import Properties, ask_again, make_admin, make_consumer, problem
from recoveryd.adapters.kafka.group_facts import read_group
from recoveryd.adapters.kafka.leader_answers import LeaderAnswers
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.reading import assign, assign_all, unreadable
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe
from recoveryd.adapters.kafka.unit_facts import read_unit
from recoveryd.errors import ClusterProblem
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.diagnosis.forms import Form, form_of
from recoveryd.units.diagnosis.movement import PartitionMove, is_clear, moves_of
from recoveryd.units.diagnosis.seen import NextRecord, Quota, Replicas, UnitLook, Watched
from recoveryd.units.facts import Group, PartitionEnds, UnitFacts, UnitTopic
from recoveryd.units.internal_topics import is_changelog
from recoveryd.units.model import Unit

_TIMEOUT_S: Final = 15.0
_BETWEEN_S: Final = 1.0
_QUOTAS_S: Final = 10.0
_LOOKED_AT_MOST: Final = 8  # stuck partitions of which the next record is looked at
_EARLIER: Final = 20
_RECORD_S: Final = 5.0
_POLL_S: Final = 0.05
_BY_CLIENT: Final = "client-id"
_MIN_ISR: Final = "min.insync.replicas"
_Place = tuple[str, int]  # topic and partition


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to watch: `most_s` at most, and no longer than `least_s` once everything moved that
    has something to do. A cluster that does not answer is asked again for `most_s` before the watch, and after it.
    """

    least_s: float
    most_s: float


class UnitWatch:
    """Of one unit on one cluster; used once."""

    def __init__(self, properties: Properties, access: ClientAccess | None, unit: Unit) -> None:
        self._properties = properties
        self._access = access
        self._unit = unit
        self._admin = make_admin(properties)
        self._offsets = BulkOffsets(unit.cluster, properties, _TIMEOUT_S)
        self._problems: list[str] = []
        self._group, self._is_listed = unit.consumer_group, False

    def watch(self, units: Iterable[Unit], patience: Patience, now_ms: Callable[[], int]) -> Watched:
        """Raises `ClusterProblem` when the cluster refuses, or does not answer for as long as the watch may last."""
        give_up_s, known = time.monotonic() + patience.most_s, list(units)
        facts = ask_again(lambda: self._read_unit(known, now_ms()), give_up_s, _BETWEEN_S)
        described = ask_again(lambda: describe(self._admin, facts.topics, _TIMEOUT_S), give_up_s, _BETWEEN_S)
        shapes = {name: shape for name, shape in described.items() if shape is not None}
        read = {n: s for n, s in shapes.items() if not is_changelog(n) and n not in self._unit.outputs}
        if facts.group is not None:
            self._group, self._is_listed = facts.group.id, True
        first = ask_again(lambda: self._look(shapes, read, now_ms), give_up_s, _BETWEEN_S)
        groups = self._watch_group(first, read, patience)
        give_up_s = time.monotonic() + patience.most_s  # anew: what was watched so far is of no use without an end
        last = ask_again(lambda: self._look(shapes, read, now_ms), give_up_s, _BETWEEN_S)
        replicas = ask_again(lambda: self._replicas(facts.topics), give_up_s, _BETWEEN_S)
        return self._add(facts, shapes, Watched(first, last, (*groups, last.group), replicas=replicas))

    def _read_unit(self, known: Sequence[Unit], now_ms: int) -> UnitFacts:
        """Without the ends, which the looks have: a partition that no broker leads is a cause, and no silence."""
        return read_unit(
            self._properties,
            self._unit,
            known,
            now_ms,
            self._access,
            with_readers=False,
            with_guarantee=False,
            with_ends=False,
        )

    def _watch_group(self, first: UnitLook, read: Mapping[str, TopicShape], patience: Patience) -> list[Group | None]:
        """The looks at the group from the first one on. One that was not answered is left out, and told."""
        groups = [first.group]
        silent: list[ClusterProblem] = []
        began_s = time.monotonic()
        while (gone_s := time.monotonic() - began_s) < patience.most_s:
            time.sleep(min(_BETWEEN_S, patience.most_s - gone_s))
            try:
                groups.append(self._read_group(read))
            except ClusterProblem as reason:
                if not reason.retriable:
                    raise
                silent.append(reason)
                continue
            if gone_s >= patience.least_s and is_clear(first, groups):
                break
        if silent:
            told = f"{len(silent)} looks at the group were not answered, the last one: {silent[-1].message}"
            self._problems.append(told)
        return groups

    def _look(
        self, shapes: Mapping[str, TopicShape], read: Mapping[str, TopicShape], now_ms: Callable[[], int]
    ) -> UnitLook:
        group = self._read_group(read)
        at_ms = now_ms()
        bounds = self._offsets.ask(shapes.values())
        if bounds.failure is not None:
            raise bounds.failure
        starts, ends = bounds.found[Bound.START], bounds.found[Bound.END]
        known_ends = {
            name: {p: PartitionEnds(starts[name][p], end) for p, end in found.items() if p in starts.get(name, {})}
            for name, found in ends.items()
        }
        return UnitLook(at_ms, group, known_ends, bounds.found[Bound.STABLE])

    def _read_group(self, read: Mapping[str, TopicShape]) -> Group | None:
        return read_group(self._properties, self._admin, self._group, read, is_listed=self._is_listed)

    def _add(self, facts: UnitFacts, shapes: Mapping[str, TopicShape], watched: Watched) -> Watched:
        """What the offsets alone do not show."""
        read_out, next_records = self._behind(moves_of(self._unit, watched.first, watched.last))
        inputs = [shapes[name] for name in self._unit.inputs if name in shapes]
        return replace(
            watched,
            topics=facts.topics,
            internal=facts.internal,
            next_records=next_records,
            read_out=read_out,
            quotas=asyncio.run(self._quotas(watched.groups)),
            brokers=max(len({leader for shape in inputs for leader in shape.leaders.values() if leader >= 0}), 1),
            bytes_per_record=asyncio.run(self._bytes_per_record(inputs, watched.last)),
            problems=tuple(self._problems),
        )

    def _replicas(self, topics: Mapping[str, UnitTopic]) -> dict[str, Replicas]:
        try:
            known = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        except KafkaException as error:
            raise problem(error, "ask for the replicas") from error
        found: dict[str, Replicas] = {}
        for name, topic in topics.items():
            parts = sorted(known[name].partitions.items()) if name in known else []
            least = int(topic.configs.get(_MIN_ISR, "1"))
            found[name] = Replicas(
                leaderless=tuple(p for p, at in parts if at.leader < 0),
                not_writable=tuple(p for p, at in parts if at.leader >= 0 and len(at.isrs) < least),
                behind=tuple(p for p, at in parts if len(at.isrs) < len(at.replicas)),
            )
        return found

    async def _quotas(self, groups: Sequence[Group | None]) -> tuple[Quota, ...] | None:
        """Those of exactly one client id, and else the default of all."""
        ids = {member.client_id for group in groups if group is not None for member in group.members}
        if self._access is None or not ids:
            return None if self._access is None else ()
        try:
            async with connected(self._access, "recoveryd-quotas", "read the quotas", _QUOTAS_S) as client:
                told = list(await client.client_quotas(_BY_CLIENT))
        except ClusterProblem as reason:
            self._problems.append(f"whether a quota slows it is not known: {reason.message}")
            return None
        return tuple(quotas_on(sorted(ids), {name: dict(values) for entity, values in told for _type, name in entity}))

    async def _bytes_per_record(self, shapes: Sequence[TopicShape], last: UnitLook) -> float | None:
        if self._access is None:
            return None
        leaders = LeaderAnswers({self._unit.cluster: self._access})
        size, records = 0, 0
        for shape in shapes:
            found = await leaders.log_sizes(self._unit.cluster, shape.topic, shape.leaders)
            size += sum((found or {}).values())
            records += sum(last.ends[shape.topic][p].records_most for p in found or () if p in last.ends[shape.topic])
        return size / records if size and records else None

    def _behind(self, moves: Sequence[PartitionMove]) -> tuple[frozenset[_Place], tuple[NextRecord, ...]]:
        """What lies behind the offsets that did not move: of which nothing that could be read, and of some the next
        record.
        """
        stuck = [move for move in moves if move.is_stuck and (move.after or 0) >= move.log_start]
        if not stuck:
            return frozenset(), ()
        read_out: frozenset[_Place] = frozenset()
        consumer = make_consumer(self._properties, fetch_message_max_bytes=262_144)
        try:
            read_out = _read_out(consumer, stuck)
            before_some = [move for move in stuck if (move.topic, move.partition) not in read_out]
            found = [_next_record(consumer, move) for move in before_some[:_LOOKED_AT_MOST]]
        except ClusterProblem as reason:
            self._problems.append(f"whether records changed is not known: {reason.message}")
            return read_out, ()
        finally:
            consumer.close()
        return read_out, tuple(record for record in found if record is not None)


def quotas_on(ids: Iterable[str], known: Mapping[str | None, Mapping[str, float]]) -> Iterator[Quota]:
    """The quotas on these client ids. That of None is the default of those that have none of this kind of their own."""
    default = known.get(None, {})
    clients = Counter(
        (f"client id {each}" if name in known.get(each, {}) else "each client id", name, value)
        for each in ids
        for name, value in {**default, **known.get(each, {})}.items()
    )
    of_kind = Counter((name, value) for _on, name, value in clients.elements())
    return (Quota(on, name, value, of_kind[name, value]) for on, name, value in clients)


def _read_out(consumer: Consumer, stuck: Sequence[PartitionMove]) -> frozenset[_Place]:
    """Those that stand before nothing but markers of transactions, and what was aborted or compacted away. A client
    that commits the offset behind its last record, as librdkafka does, stands there as long as nothing else comes.
    """
    open_ = {(move.topic, move.partition): move for move in stuck}
    found, paused = set(), []
    give_up_s = time.monotonic() + _RECORD_S
    assign_all(consumer, {place: move.after or 0 for place, move in open_.items()}, _RECORD_S)
    while open_ and time.monotonic() < give_up_s:
        message = consumer.poll(_POLL_S)
        topic, partition = (None, None) if message is None else (message.topic(), message.partition())
        if message is None or topic is None or partition is None or (topic, partition) not in open_:
            continue
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            if (final := unreadable(message, topic)) is not None:
                raise final
            continue
        move = open_.pop((topic, partition))
        paused.append(TopicPartition(topic, partition))
        consumer.pause(paused[-1:])
        if error is not None and (message.offset() or 0) >= move.end_after:
            found.add((topic, partition))
    consumer.resume(paused)
    return frozenset(found)


def _next_record(consumer: Consumer, move: PartitionMove) -> NextRecord | None:
    """The first record at or behind the offset, with some from before; None when it does not come in time."""
    at = move.after or 0
    earlier: list[Form] = []
    give_up_s = time.monotonic() + _RECORD_S
    assign(consumer, move.topic, {move.partition: max(move.log_start, at - _EARLIER)}, _RECORD_S)
    while time.monotonic() < give_up_s:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        error, offset = message.error(), message.offset()
        if error is not None:
            if (final := unreadable(message, move.topic)) is not None:
                raise final
            continue
        if offset is None or (message.topic(), message.partition()) != (move.topic, move.partition):
            continue
        if offset >= at:
            return NextRecord(move.topic, move.partition, offset, form_of(message.value()), tuple(earlier))
        earlier.append(form_of(message.value()))
    return None
