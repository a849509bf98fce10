"""Looks at consumer groups and sets where they stand, for workflows. What it does is harmless to do twice: it looks
first whether it is done.

Offsets are committed by a consumer that never joins the group, which Kafka takes as long as the group has no members,
and read back by another one.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.any_group import read_any_group
from recoveryd.adapters.kafka.client import Properties, make_admin, make_consumer, problem
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, at_time, read_offsets
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe
from recoveryd.adapters.kafka.unit_facts import read_committed
from recoveryd.adapters.workers import Workers
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.spec import AtTime
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import Committed, Group
from recoveryd.workflows.actions import AwaitEmpty, SetOffsets, TakeSnapshot
from recoveryd.workflows.effects import GatherGroup, TakeStep
from recoveryd.workflows.events import GroupGathered, Outcome, StepReported
from recoveryd.workflows.model import Undo, UndoState
from recoveryd.workflows.positions import PartitionLook

_TIMEOUT_S: Final = 15.0
_PIECE: Final = 500
_NAMED_MOST: Final = 5

_Found = Mapping[str, Mapping[int, Committed]]


class KafkaGroupAdmin:
    """`clusters`: librdkafka properties by name, `accesses` the same for what librdkafka cannot say."""

    def __init__(self, clusters: Mapping[str, Properties], accesses: Mapping[str, ClientAccess]) -> None:
        self._clusters = clusters
        self._accesses = accesses
        self._admins: dict[str, AdminClient] = {}
        self._workers = Workers("groups-admin", 4)

    async def gather(self, effect: GatherGroup) -> GroupGathered:
        """Raises `ClusterProblem`."""
        return await self._gather(effect)

    async def take(self, effect: TakeStep) -> StepReported:
        """Raises `ClusterProblem`."""
        match effect.action:
            case AwaitEmpty():
                return await self._look(effect, effect.action)
            case TakeSnapshot():
                return await self._workers.run(self._note, effect, effect.action)
            case SetOffsets():
                return await self._set(effect, effect.action)

    async def close(self) -> None:
        """Calls under way end at their own deadlines."""
        self._workers.close()
        self._admins.clear()

    async def _gather(self, effect: GatherGroup) -> GroupGathered:
        spec = effect.spec
        properties, admin = self._of(spec.cluster)
        names = effect.topics
        if names is None:
            names = await self._workers.run(self._topics_of, properties, admin, spec.group)
        shapes = await self._workers.run(describe, admin, names, _TIMEOUT_S)
        present = {name: shape for name, shape in shapes.items() if shape is not None}
        group = await self._read(spec.cluster, spec.group, present)
        looks: list[PartitionLook] = []
        for name, shape in present.items():
            wanted = (spec.topics or {}).get(name) or tuple(shape.leaders)
            looks += await self._workers.run(_look_at, admin, shape, wanted, spec.to, group)
        missing = tuple(name for name in names if name not in present)
        return GroupGathered(effect.workflow, group, tuple(looks), missing, {n: s.topic_id for n, s in present.items()})

    async def _read(self, cluster: str, group: str, shapes: Mapping[str, TopicShape]) -> Group | None:
        return await read_any_group(self._workers, *self._of(cluster), self._accesses[cluster], group, shapes)

    def _topics_of(self, properties: Properties, admin: AdminClient, group: str) -> tuple[str, ...]:
        """Every topic on which the group has a commit."""
        try:
            known = admin.list_topics(timeout=_TIMEOUT_S).topics
        except KafkaException as error:
            raise problem(error, "list the topics") from error
        keys = [(name, p) for name, topic in known.items() if not name.startswith("__") for p in topic.partitions]
        return tuple(sorted(read_committed(properties, group, keys)))

    async def _look(self, effect: TakeStep, action: AwaitEmpty) -> StepReported:
        group = await self._read(action.cluster, action.group, {})
        members = () if group is None else tuple(map(str, group.members))
        if not members:
            return _report(effect, Outcome.DONE, f"the group {action.group} has no members")
        more = f" and {len(members) - _NAMED_MOST} more" if len(members) > _NAMED_MOST else ""
        why = f"the group {action.group} has {len(members)} members: {', '.join(members[:_NAMED_MOST])}{more}"
        return _report(effect, Outcome.NOT_YET, why, members=members)

    def _note(self, effect: TakeStep, action: TakeSnapshot) -> StepReported:
        properties, admin = self._of(action.cluster)
        shapes = describe(admin, action.topics, _TIMEOUT_S)
        keys = [key for shape in shapes.values() if shape is not None for key in shape.keys]
        found = read_committed(properties, action.group, keys)
        rows = tuple(_undo_of(topic, partition, found.get(topic, {}).get(partition)) for topic, partition in keys)
        noted = sum(row.to is not None for row in rows)
        why = f"noted where {action.group} was: {noted} offsets in {len(rows)} partitions"
        return _report(effect, Outcome.DONE, why, evidence={"offsets": noted, "partitions": len(rows)}, undo=rows)

    async def _set(self, effect: TakeStep, action: SetOffsets) -> StepReported:
        rows = effect.rows
        keys = [(row.name, row.partition) for row in rows if row.partition is not None]
        before = await self._workers.run(read_committed, self._clusters[action.cluster], action.group, keys)
        foreign = [row for row in rows if not _is_free(row, before)]
        if foreign and not action.is_back:
            first = foreign[0]
            why = f"{first.name} {first.partition} of {action.group} is at {_at(first, before)} and was at {first.to}: somebody else set it"
            return _report(effect, Outcome.FAILED, why, code=Code.GROUP_CHANGED.value)
        left = [row for row in rows if row not in foreign and _at(row, before) != _goal(row, is_back=action.is_back)]
        gone = [row for row in left if _goal(row, is_back=action.is_back) is None]
        kept = [row for row in left if row not in gone]
        await self._workers.run(_commit, self._clusters[action.cluster], action.group, kept, is_back=action.is_back)
        if gone:
            await self._delete(action, gone)
        after = await self._workers.run(read_committed, self._clusters[action.cluster], action.group, keys)
        wrong = [row for row in rows if row not in foreign and _at(row, after) != _goal(row, is_back=action.is_back)]
        if wrong:
            first = wrong[0]
            why = f"{first.name} {first.partition} reads {_at(first, after)} after it was set to {_goal(first, is_back=action.is_back)}"
            raise ClusterProblem(why)
        return _set_report(effect, action, foreign)

    async def _delete(self, action: SetOffsets, rows: Iterable[Undo]) -> None:
        by_topic: dict[str, list[int]] = {}
        for row in rows:
            by_topic.setdefault(row.name, []).append(row.partition or 0)
        doing = f"take offsets of group {action.group} away"
        async with connected(self._accesses[action.cluster], "recoveryd-groups", doing, _TIMEOUT_S) as client:
            await client.delete_offsets(action.group, by_topic)

    def _of(self, cluster: str) -> tuple[Properties, AdminClient]:
        properties = self._clusters[cluster]
        return properties, self._admins.setdefault(cluster, make_admin(properties))


def _look_at(
    admin: AdminClient, shape: TopicShape, partitions: Collection[int], to: object, group: Group | None
) -> list[PartitionLook]:
    """Ends are asked for last, so that no answer lies behind them."""
    keys = [(shape.topic, p) for p in partitions if p in shape.leaders]
    times = read_offsets(admin, keys, at_time(to.time_ms), _TIMEOUT_S) if isinstance(to, AtTime) else {}
    starts = read_offsets(admin, keys, EARLIEST, _TIMEOUT_S)
    ends = read_offsets(admin, keys, LATEST, _TIMEOUT_S)
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


def _undo_of(topic: str, partition: int, found: Committed | None) -> Undo:
    if found is None:
        return Undo("offset", topic, partition, None)
    return Undo("offset", topic, partition, found.offset, metadata=found.metadata, leader_epoch=found.leader_epoch)


def _at(row: Undo, found: _Found) -> int | None:
    entry = found.get(row.name, {}).get(row.partition or 0)
    return None if entry is None else entry.offset


def _goal(row: Undo, *, is_back: bool) -> int | None:
    return row.to if is_back else row.was_set


def _is_free(row: Undo, found: _Found) -> bool:
    """Whether it is as it was before this step, or done already."""
    return _at(row, found) in {row.to, row.was_set}


def _commit(properties: Properties, group: str, rows: Iterable[Undo], *, is_back: bool) -> None:
    """Metadata and leader epoch belong to the position that the application committed: only that one gets them back."""
    offsets = [_place(row, is_back=is_back) for row in rows]
    if not offsets:
        return
    consumer = make_consumer(properties, group_id=group)
    try:
        for at in range(0, len(offsets), _PIECE):
            for done in consumer.commit(offsets=offsets[at : at + _PIECE], asynchronous=False) or ():
                if done.error is not None:
                    raise problem(done.error, f"set the offsets of group {group}", "Read", other=group)
    except KafkaException as error:
        raise problem(error, f"set the offsets of group {group}", "Read", other=group) from error
    finally:
        consumer.close()


def _place(row: Undo, *, is_back: bool) -> TopicPartition:
    goal, partition = _goal(row, is_back=is_back), row.partition
    assert goal is not None
    assert partition is not None
    if not is_back:
        return TopicPartition(row.name, partition, goal)
    if row.leader_epoch is None:
        return TopicPartition(row.name, partition, goal, metadata=row.metadata)
    return TopicPartition(row.name, partition, goal, metadata=row.metadata, leader_epoch=row.leader_epoch)


def _set_report(effect: TakeStep, action: SetOffsets, foreign: list[Undo]) -> StepReported:
    count = len(effect.rows) - len(foreign)
    if not action.is_back:
        why = f"{count} offsets of {action.group} are set, and were read back"
        return _report(effect, Outcome.DONE, why, evidence={"offsets": count})
    rows = tuple(replace(row, state=UndoState.KEPT if row in foreign else UndoState.DONE) for row in effect.rows)
    why = f"{count} offsets of {action.group} are as they were before"
    if foreign:
        why += f"; {len(foreign)} were changed by somebody else since, and stay"
    return _report(effect, Outcome.DONE, why, evidence={"offsets": count, "kept": len(foreign)}, undo=rows)


def _report(effect: TakeStep, outcome: Outcome, why: str, **more: object) -> StepReported:
    return StepReported(effect.workflow, effect.step, effect.try_number, outcome, why, **more)  # type: ignore[arg-type]
