"""What a cluster says of a unit: its group, its topics and their offsets, whose the internal topics are, and who else
reads its outputs.

Blocking; every question has a deadline. What the unit's own group and topics cannot be asked is an error; what others
cannot be asked becomes a sentence in `problems`, and never an empty answer.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.any_group import internal_topics_of, newer_groups, tell_kind
from recoveryd.adapters.kafka.client import ELSEWHERE_SOON, Properties, committed, make_admin, make_consumer, problem
from recoveryd.adapters.kafka.guarantees import read_guarantee
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe, read_configs
from recoveryd.errors import ClusterProblem
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import Committed, Group, GroupType, Member, PartitionEnds, UnitFacts, UnitTopic
from recoveryd.units.internal_topics import Owner, find_internal_topics
from recoveryd.units.model import Unit

_TIMEOUT_S: Final = 15.0
_AGAIN_S: Final = 0.2
_ASSIGNOR_OF_STREAMS: Final = "stream"
_READERS_MOST: Final = 500  # groups asked about the outputs; each costs a client for a moment
_READERS_S: Final = 120.0  # for all of them together: a cluster that fell silent would cost each its own deadline
_GROUPS_AT_ONCE: Final = 100
_PARTITIONS_AT_ONCE: Final = 500
_TYPES: Final = {ConsumerGroupType.CLASSIC: GroupType.CLASSIC, ConsumerGroupType.CONSUMER: GroupType.CONSUMER}
_OTHER_KINDS: Final = frozenset({
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError.INVALID_GROUP_ID,
    KafkaError._INVALID_ARG,  # noqa: SLF001  (its name; what librdkafka calls a group that is not of consumers, as that of Connect workers)
})  # fmt: skip
_GONE: Final = frozenset({ConsumerGroupState.DEAD})


def read_unit(
    properties: Properties,
    unit: Unit,
    units: Iterable[Unit],
    now_ms: int,
    access: ClientAccess | None = None,
    *,
    with_readers: bool = True,
) -> UnitFacts:
    """Facts about `unit` on the cluster of these client properties; `units` are all that the config names. Raises
    `ClusterProblem`.

    Without readers only the unit's own group is asked. `access`, the same properties for other clients, is needed for
    the metadata of commits.
    """
    admin = make_admin(properties)
    names, (groups, problems) = _list_topics(admin), list_groups(admin)
    newer, untold_newer = _list_newer(access)
    groups |= newer.keys()
    beside = [other for other in units if other.name != unit.name and other.cluster == unit.cluster]
    own = unit.group if unit.group in groups else unit.consumer_group
    told, untold_owners = _told_owners(access, newer, own, unit)
    others = [*map(_owner_of, beside), *_owners(groups, unit, beside, told)]
    internal = find_internal_topics(_owner_of(unit), names, others, told.get(own, frozenset()))
    # Also those that are not listed: a cluster leaves out what the user has no right to.
    wanted = sorted({*unit.own_topics, *internal.certain})
    shapes = {name: shape for name, shape in describe(admin, wanted, _TIMEOUT_S).items() if shape is not None}
    # Before the ends: an application at work commits on, and must not look as if it were beyond them.
    group = read_group(properties, admin, own, shapes, access, is_listed=own in groups)
    topics = {name: _read_topic(admin, shape) for name, shape in shapes.items()}
    asked = groups - {own} if with_readers else frozenset()
    readers, untold = _readers(properties, admin, unit, shapes, asked, access)
    guarantee = read_guarantee(access, unit, {name: shapes[name] for name in internal.certain if name in shapes})
    return UnitFacts(
        at_ms=now_ms,
        topics=topics,
        group=group,
        internal=internal,
        readers=readers,
        containing_ids=tuple(sorted(g for g in groups if g.startswith(f"{unit.group}-"))),
        is_exactly_once=guarantee.is_exactly_once,
        guarantee_why=guarantee.why,
        problems=(*problems, *untold_newer, *untold_owners, *untold),
    )


def read_contract(properties: Properties, unit: Unit, now_ms: int, access: ClientAccess | None = None) -> UnitFacts:
    """Only what its contract needs: its inputs, and where its group stands on them. Raises `ClusterProblem`."""
    admin = make_admin(properties)
    found = describe(admin, unit.inputs, _TIMEOUT_S) if unit.inputs else {}
    shapes = {name: shape for name, shape in found.items() if shape is not None}
    group = read_group(
        properties, admin, unit.consumer_group, shapes, access, is_listed=True
    )  # before the ends, as above
    return UnitFacts(now_ms, {name: _read_topic(admin, shape) for name, shape in shapes.items()}, group)


def _list_topics(admin: AdminClient) -> frozenset[str]:
    try:
        return frozenset(admin.list_topics(timeout=_TIMEOUT_S).topics)
    except KafkaException as error:
        raise problem(error, "list the topics") from error


def list_groups(admin: AdminClient) -> tuple[frozenset[str], tuple[str, ...]]:
    """Those that the user may describe, and what is missing: each broker lists its own."""
    doing = "list the consumer groups"
    answer = _wait(admin.list_consumer_groups(request_timeout=_TIMEOUT_S), doing)
    if answer.errors and not answer.valid:
        raise problem(answer.errors[0], doing) from answer.errors[0]
    untold = tuple(f"some groups are not listed: {problem(error, doing).message}" for error in answer.errors[:1])
    return frozenset(group.group_id for group in answer.valid), untold


def _owner_of(unit: Unit) -> Owner:
    return Owner(
        unit.group,
        frozenset(unit.inputs),
        unit.topology,
        frozenset(unit.internal_topics or ()),
        frozenset((*unit.outputs, *unit.intermediate)),
    )


def _owners(
    groups: Iterable[str], unit: Unit, units: Sequence[Unit], told: Mapping[str, frozenset[str]]
) -> list[Owner]:
    """Groups that may be of Streams, with what brokers say is theirs."""
    known = {unit.group, *(other.group for other in units)}
    named = [Owner(group, listed=topics) for group, topics in told.items() if group != unit.group and topics]
    return [*named, *(Owner(group) for group in _near(groups, unit) if group not in known and not told.get(group))]


def _near(groups: Iterable[str], unit: Unit) -> list[str]:
    """Only one whose id begins like the unit's, or the other way round, can own a topic that is in question."""
    return sorted(g for g in groups if g.startswith(f"{unit.group}-") or unit.group.startswith(f"{g}-"))


def _list_newer(access: ClientAccess | None) -> tuple[dict[str, GroupType], tuple[str, ...]]:
    """Groups that librdkafka does not list, and a sentence when they are not known."""
    if access is None:
        return {}, ()
    try:
        return asyncio.run(newer_groups(access)), ()
    except ClusterProblem as reason:
        return {}, (f"share groups and those of the streams protocol are not listed: {reason.message}",)


def _told_owners(
    access: ClientAccess | None, newer: Mapping[str, GroupType], own: str, unit: Unit
) -> tuple[dict[str, frozenset[str]], tuple[str, ...]]:
    """Internal topics by group, where the broker knows them, and a sentence when it could not be asked."""
    asked = [name for name in sorted({own, *_near(newer, unit)}) if newer.get(name) is GroupType.STREAMS]
    if access is None or not asked:
        return {}, ()
    try:
        return asyncio.run(internal_topics_of(access, asked)), ()
    except ClusterProblem as reason:
        return {}, (f"whether the broker knows its internal topics is not told: {reason.message}",)


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


def read_group(
    properties: Properties,
    admin: AdminClient,
    group: str,
    shapes: Mapping[str, TopicShape],
    access: ClientAccess | None = None,
    *,
    is_listed: bool,
) -> Group | None:
    """None when there is none. A group that is not listed is asked for as well: it may be one that the user has no
    right to. `access` is needed for groups that librdkafka cannot describe, and for the metadata of commits. Raises
    `ClusterProblem`.
    """
    found = describe_groups(admin, [group])[group]
    if isinstance(found, ClusterProblem):
        raise found
    if found is None and not is_listed:
        return None
    commits = read_committed(properties, group, _keys(shapes), access=access)
    if found is None:
        unknown = Group(group, GroupType.UNKNOWN, "unknown", committed=commits)
        counts = {name: len(shape.leaders) for name, shape in shapes.items()}
        return unknown if access is None else asyncio.run(tell_kind(access, unknown, counts))
    members = tuple(member_of(member) for member in found.members)
    is_streams = found.partition_assignor == _ASSIGNOR_OF_STREAMS if members else None
    kind = _TYPES.get(found.type, GroupType.UNKNOWN)
    return Group(group, kind, found.state.name.lower(), members, commits, is_streams)


def describe_groups(admin: AdminClient, groups: Sequence[str]) -> dict[str, Any]:
    """The library's descriptions; None for a group that it cannot describe, as those of newer protocols, and the
    `ClusterProblem` of one that did not answer.

    The library does not ask again while a coordinator is being made or moves.
    """
    found: dict[str, Any] = {}
    give_up_s = time.monotonic() + _TIMEOUT_S
    while left := [group for group in groups if group not in found]:
        asked = admin.describe_consumer_groups(left, request_timeout=_TIMEOUT_S)
        for group, answer in asked.items():
            try:
                described = _wait(answer, f"describe the group {group}", group)
            except ClusterProblem as reason:
                if _code_of(reason) not in ELSEWHERE_SOON or time.monotonic() >= give_up_s:
                    found[group] = None if _code_of(reason) in _OTHER_KINDS else reason
            else:
                found[group] = None if described.state in _GONE else described
        if len(found) < len(groups):
            time.sleep(_AGAIN_S)
    return found


def _code_of(reason: ClusterProblem) -> int | None:
    """Kafka's own; None where something else went wrong."""
    cause = reason.__cause__
    return cause.args[0].code() if isinstance(cause, KafkaException) else None


def member_of(member: Any) -> Member:
    held: dict[str, set[int]] = {}
    for where in member.assignment.topic_partitions if member.assignment else ():
        held.setdefault(where.topic, set()).add(where.partition)
    return Member(
        member.member_id,
        member.client_id,
        member.host.lstrip("/"),
        member.group_instance_id or None,
        frozenset(held),
        {topic: frozenset(partitions) for topic, partitions in held.items()},
    )


def read_committed(
    properties: Properties,
    group: str,
    keys: Iterable[tuple[str, int]],
    timeout_s: float = _TIMEOUT_S,
    access: ClientAccess | None = None,
    *,
    stable: bool = False,
) -> dict[str, dict[int, Committed]]:
    """What the group committed on these partitions; one without a commit is absent. Raises `ClusterProblem`, also when
    one has no answer. With `stable` that is so as long as a transaction is about to commit there.

    By a consumer that never joins: see `group_offsets` for the reason. Metadata come only with `access`, the same
    properties for other clients: librdkafka 2.16 gives them out together with what lies behind them in its memory.
    """
    if access is not None and not stable:
        return asyncio.run(_commits(access, group, keys, timeout_s))
    wanted = [TopicPartition(topic, partition) for topic, partition in keys]
    found: dict[str, dict[int, Committed]] = {}
    doing = f"read the offsets of group {group}"
    level = "read_committed" if stable else "read_uncommitted"
    consumer = make_consumer(properties, group_id=group, isolation_level=level)
    try:
        for at in range(0, len(wanted), _PARTITIONS_AT_ONCE):
            for where in committed(consumer, wanted[at : at + _PARTITIONS_AT_ONCE], timeout_s):
                if where.error is not None:
                    raise problem(where.error, doing, "Describe", where.topic, group)
                if where.offset >= 0:
                    epoch = where.leader_epoch
                    entry = Committed(where.offset, "", epoch if epoch is not None and epoch >= 0 else None)
                    found.setdefault(where.topic, {})[where.partition] = entry
    except KafkaException as error:
        raise problem(error, doing, "Describe", other=group) from error
    finally:
        consumer.close()
    return found


async def _commits(
    access: ClientAccess, group: str, keys: Iterable[tuple[str, int]], timeout_s: float
) -> dict[str, dict[int, Committed]]:
    wanted: dict[str, list[int]] = {}
    for topic, partition in keys:
        wanted.setdefault(topic, []).append(partition)
    found: dict[str, dict[int, Committed]] = {}
    if wanted:
        doing = f"read the offsets of group {group}"
        async with connected(access, "recoveryd-commits", doing, timeout_s) as client:
            for topic, partition, offset, epoch, metadata in await client.committed(group, wanted):
                entry = Committed(offset, metadata, epoch if epoch >= 0 else None)
                found.setdefault(topic, {})[partition] = entry
    return found


def _keys(shapes: Mapping[str, TopicShape]) -> list[tuple[str, int]]:
    return [key for shape in shapes.values() for key in shape.keys]


def _readers(
    properties: Properties,
    admin: AdminClient,
    unit: Unit,
    shapes: Mapping[str, TopicShape],
    groups: frozenset[str],
    access: ClientAccess | None,
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Of `groups`, the other ones, those with members or offsets on an output, and sentences about those that were not
    asked or did not answer.
    """
    outputs = {name: shapes[name] for name in unit.outputs if name in shapes}
    others = sorted(groups) if outputs else []
    give_up_s = time.monotonic() + _READERS_S
    found: dict[str, set[str]] = {}
    silent: dict[str, ClusterProblem] = {}
    asked = 0
    for at in range(0, min(len(others), _READERS_MOST), _GROUPS_AT_ONCE):
        some = others[at : min(at + _GROUPS_AT_ONCE, _READERS_MOST)]
        for group, told in describe_groups(admin, some).items():
            left_s = give_up_s - time.monotonic()
            if left_s <= 0:
                break
            asked += 1
            try:
                for topic in _read_by(properties, group, told, outputs, min(left_s, _TIMEOUT_S), access):
                    found.setdefault(topic, set()).add(group)
            except ClusterProblem as reason:
                silent[group] = reason
        if time.monotonic() >= give_up_s:
            break
    return {topic: tuple(sorted(names)) for topic, names in found.items()}, _untold(len(others), asked, silent)


def _read_by(
    properties: Properties,
    group: str,
    told: Any,
    outputs: Mapping[str, TopicShape],
    timeout_s: float,
    access: ClientAccess | None,
) -> set[str]:
    """Which of `outputs` the group reads, by its description and its offsets. Raises `ClusterProblem` when it cannot be
    known.
    """
    if isinstance(told, ClusterProblem):
        raise told
    commits = read_committed(properties, group, _keys(outputs), timeout_s)
    if told is not None:
        return set(outputs) & {*commits, *(topic for member in told.members for topic in member_of(member).topics)}
    unknown = Group(group, GroupType.UNKNOWN, "unknown", committed=commits)
    found = unknown if access is None else asyncio.run(tell_kind(access, unknown))
    if found is None:
        return set()
    if found.type is GroupType.UNKNOWN and not commits:
        raise ClusterProblem(f"{group} cannot be described, it may be of another kind", retriable=False)
    return set(outputs) & {*found.committed, *found.sources, *(t for member in found.members for t in member.topics)}


def _untold(groups: int, asked: int, silent: Mapping[str, ClusterProblem]) -> tuple[str, ...]:
    what = "whether they read its outputs"
    limits = (f"of {groups} groups only {asked} were asked {what}",) if asked < groups else ()
    if not silent:
        return limits
    first, reason = next(iter(silent.items()))
    return (*limits, f"{len(silent)} groups did not tell {what}, the first is {first}: {reason.message}")


def _wait(answer: Any, doing: str, group: str = "") -> Any:
    try:
        return answer.result(_TIMEOUT_S + 1.0)
    except KafkaException as error:
        raise problem(error, doing, "Describe", other=group) from error
    except FutureTimeoutError as error:
        raise ClusterProblem(f"Could not {doing} within {_TIMEOUT_S:.0f} s") from error
