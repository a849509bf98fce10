"""What a cluster says of a unit: its group, its topics and their offsets, whose the internal topics are, and who else reads its outputs.

Blocking; every question has a deadline. What the user may not ask, or a broker does not tell, becomes a sentence in `problems` and never an empty answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties, make_admin, make_consumer, problem
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe, read_configs
from recoveryd.errors import ClusterProblem
from recoveryd.units.facts import Committed, Group, GroupType, Member, PartitionEnds, UnitFacts, UnitTopic
from recoveryd.units.internal_topics import Owner, find_internal_topics
from recoveryd.units.model import Unit

_TIMEOUT_S: Final = 15.0
_ASSIGNOR_OF_STREAMS: Final = "stream"
_READERS_MOST: Final = 500  # groups asked about the outputs; each costs a client for a moment
_GROUPS_AT_ONCE: Final = 100
_TYPES: Final = {ConsumerGroupType.CLASSIC: GroupType.CLASSIC, ConsumerGroupType.CONSUMER: GroupType.CONSUMER}
_GONE: Final = frozenset({ConsumerGroupState.DEAD})


def read_unit(properties: Properties, unit: Unit, units: Iterable[Unit], now_ms: int) -> UnitFacts:
    """Facts about `unit` on the cluster of these client properties; `units` are all that the config names. Raises `ClusterProblem`."""
    admin = make_admin(properties)
    names, groups = _list_topics(admin), _list_groups(admin)
    beside = [other for other in units if other.name != unit.name and other.cluster == unit.cluster]
    internal = find_internal_topics(_owner_of(unit), names, [*map(_owner_of, beside), *_owners(groups, unit, beside)])
    wanted = [name for name in (*unit.own_topics, *internal.certain) if name in names]
    shapes = {name: shape for name, shape in describe(admin, wanted, _TIMEOUT_S).items() if shape is not None}
    topics = {name: _read_topic(admin, shape) for name, shape in shapes.items()}
    readers, problems = _readers(properties, admin, unit, shapes, groups)
    return UnitFacts(
        at_ms=now_ms,
        topics=topics,
        group=_read_group(properties, admin, unit.group, shapes) if unit.group in groups else None,
        internal=internal,
        readers=readers,
        containing_ids=tuple(sorted(g for g in groups if g.startswith(f"{unit.group}-"))),
        problems=problems,
    )


def _list_topics(admin: AdminClient) -> frozenset[str]:
    try:
        return frozenset(admin.list_topics(timeout=_TIMEOUT_S).topics)
    except KafkaException as error:
        raise problem(error, "list the topics") from error


def _list_groups(admin: AdminClient) -> frozenset[str]:
    doing = "list the consumer groups"
    answer = _wait(admin.list_consumer_groups(request_timeout=_TIMEOUT_S), doing)
    if answer.errors and not answer.valid:
        raise problem(answer.errors[0], doing) from answer.errors[0]
    return frozenset(group.group_id for group in answer.valid)


def _owner_of(unit: Unit) -> Owner:
    return Owner(
        unit.group,
        frozenset(unit.inputs),
        unit.topology,
        frozenset(unit.internal_topics or ()),
        frozenset((*unit.outputs, *unit.intermediate)),
    )


def _owners(groups: Iterable[str], unit: Unit, units: Sequence[Unit]) -> list[Owner]:
    """Groups that may be of Streams. Only one whose id begins like the unit's, or the other way round, can own a topic that is in question."""
    known = {unit.group, *(other.group for other in units)}
    near = (g for g in groups if g.startswith(f"{unit.group}-") or unit.group.startswith(f"{g}-"))
    return [Owner(group) for group in near if group not in known]


def _read_topic(admin: AdminClient, shape: TopicShape) -> UnitTopic:
    starts = read_offsets(admin, shape.keys, EARLIEST, _TIMEOUT_S)
    ends = read_offsets(admin, shape.keys, LATEST, _TIMEOUT_S)
    return UnitTopic(
        name=shape.topic,
        id=shape.topic_id,
        ends={partition: PartitionEnds(starts[partition], ends[partition]) for _, partition in shape.keys},
        replication_factor=shape.replication_factor,
        configs=read_configs(admin, shape.topic, _TIMEOUT_S),
    )


def _read_group(properties: Properties, admin: AdminClient, group: str, shapes: Mapping[str, TopicShape]) -> Group:
    found = _describe_groups(admin, [group])[group]
    committed = _committed(properties, group, shapes)
    if found is None:
        return Group(group, GroupType.UNKNOWN, "unknown", committed=committed)
    members = tuple(_member(member) for member in found.members)
    is_streams = found.partition_assignor == _ASSIGNOR_OF_STREAMS if members else None
    kind = _TYPES.get(found.type, GroupType.UNKNOWN)
    return Group(group, kind, found.state.name.lower(), members, committed, is_streams)


def _describe_groups(admin: AdminClient, groups: Sequence[str]) -> dict[str, Any]:
    """The library's descriptions; None for a group that it cannot describe, as those of newer protocols."""
    found: dict[str, Any] = {}
    asked = admin.describe_consumer_groups(list(groups), request_timeout=_TIMEOUT_S)
    for group, answer in asked.items():
        try:
            described = _wait(answer, f"describe the group {group}", group)
        except ClusterProblem as reason:
            if not reason.retriable and isinstance(reason.__cause__, KafkaException):
                cause = reason.__cause__.args[0].code()
                if cause in {
                    KafkaError.GROUP_ID_NOT_FOUND,
                    KafkaError.UNSUPPORTED_VERSION,
                    KafkaError.INVALID_GROUP_ID,
                }:
                    found[group] = None
                    continue
            raise
        found[group] = None if described.state in _GONE else described
    return found


def _member(member: Any) -> Member:
    topics = (
        frozenset(where.topic for where in member.assignment.topic_partitions) if member.assignment else frozenset()
    )
    return Member(member.member_id, member.client_id, member.host.lstrip("/"), member.group_instance_id or None, topics)


def _committed(properties: Properties, group: str, shapes: Mapping[str, TopicShape]) -> dict[str, dict[int, Committed]]:
    """By a consumer that never joins: see `group_offsets` for the reason."""
    keys = [TopicPartition(topic, partition) for shape in shapes.values() for topic, partition in shape.keys]
    found: dict[str, dict[int, Committed]] = {}
    consumer = make_consumer(properties, group_id=group, isolation_level="read_uncommitted")
    try:
        for at in range(0, len(keys), 500):
            for where in consumer.committed(keys[at : at + 500], timeout=_TIMEOUT_S):
                if where.error is None and where.offset >= 0:
                    epoch = where.leader_epoch
                    entry = Committed(
                        where.offset, where.metadata or "", epoch if epoch is not None and epoch >= 0 else None
                    )
                    found.setdefault(where.topic, {})[where.partition] = entry
    except KafkaException as error:
        raise problem(error, f"read the offsets of group {group}", "Describe", other=group) from error
    finally:
        consumer.close()
    return found


def _readers(
    properties: Properties, admin: AdminClient, unit: Unit, shapes: Mapping[str, TopicShape], groups: frozenset[str]
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Other groups with members or offsets on an output."""
    outputs = {name: shapes[name] for name in unit.outputs if name in shapes}
    others = sorted(groups - {unit.group})
    problems: tuple[str, ...] = ()
    if not outputs or not others:
        return {}, problems
    if len(others) > _READERS_MOST:
        problems = (f"of {len(others)} groups only {_READERS_MOST} were asked whether they read its outputs",)
        others = others[:_READERS_MOST]
    found: dict[str, set[str]] = {}
    for at in range(0, len(others), _GROUPS_AT_ONCE):
        described = _describe_groups(admin, others[at : at + _GROUPS_AT_ONCE])
        for group, told in described.items():
            topics = {t for m in told.members for t in _member(m).topics} if told is not None else set()
            topics |= set(_committed(properties, group, outputs))
            for topic in topics & outputs.keys():
                found.setdefault(topic, set()).add(group)
    return {topic: tuple(sorted(names)) for topic, names in found.items()}, problems


def _wait(answer: Any, doing: str, group: str = "") -> Any:
    try:
        return answer.result(_TIMEOUT_S + 1.0)
    except KafkaException as error:
        raise problem(error, doing, "Describe", other=group) from error
    except FutureTimeoutError as error:
        raise ClusterProblem(f"Could not {doing} within {_TIMEOUT_S:.0f} s") from error
