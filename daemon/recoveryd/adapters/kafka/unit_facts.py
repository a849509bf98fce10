"""What a cluster says of a unit: its group, its topics and their offsets, whose the internal topics are, and who else
reads its outputs.

Blocking; every question has a deadline. What the unit's own group and topics cannot be asked is an error; what others
cannot be asked becomes a sentence in `problems`, and never an empty answer.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.any_group import internal_topics_of, newer_groups, tell_kind
from recoveryd.adapters.kafka.client import Properties, make_admin, problem
from recoveryd.adapters.kafka.group_facts import (
    describe_groups,
    keys_of,
    list_groups,
    member_of,
    read_committed,
    read_group,
)
from recoveryd.adapters.kafka.guarantees import read_guarantee
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe, read_configs
from recoveryd.errors import ClusterProblem
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import Group, GroupType, PartitionEnds, UnitFacts, UnitTopic
from recoveryd.units.internal_topics import Owner, find_internal_topics
from recoveryd.units.model import Unit

_TIMEOUT_S: Final = 15.0
_READERS_MOST: Final = 500  # groups asked about the outputs; each costs a client for a moment
_READERS_S: Final = 120.0  # for all of them together: a cluster that fell silent would cost each its own deadline
_GROUPS_AT_ONCE: Final = 100


def read_unit(
    properties: Properties,
    unit: Unit,
    units: Iterable[Unit],
    now_ms: int,
    access: ClientAccess | None = None,
    *,
    with_readers: bool = True,
    with_guarantee: bool = True,
    with_ends: bool = True,
    for_plan: bool = False,
) -> UnitFacts:
    """Facts about `unit` on the cluster of these client properties; `units` are all that the config names. Raises
    `ClusterProblem`.

    Without readers only the unit's own group is asked, without the guarantee nobody who wrote its topics, and without
    ends no leader of a partition: one that has none gives no answer. `access`, the same properties for other clients,
    is needed for the metadata of commits. `for_plan`: something is to be changed by what is told, so one broker that
    does not answer is an error: what it would have told of whose the internal topics are, or of who wrote them, does
    not look as if there were none.
    """
    admin = make_admin(properties)
    names, (groups, problems) = _list_topics(admin), list_groups(admin)
    newer, untold_newer = _list_newer(access, for_plan=for_plan)
    groups |= newer.keys()
    beside = [other for other in units if other.name != unit.name and other.cluster == unit.cluster]
    own = unit.group if unit.group in groups else unit.consumer_group
    told, untold_owners = _told_owners(access, newer, own, unit, for_plan=for_plan)
    others = [*map(_owner_of, beside), *_owners(groups, unit, beside, told)]
    internal = find_internal_topics(_owner_of(unit), names, others, told.get(own, frozenset()))
    # Also those that are not listed: a cluster leaves out what the user has no right to.
    wanted = sorted({*unit.own_topics, *internal.certain})
    shapes = {name: shape for name, shape in describe(admin, wanted, _TIMEOUT_S).items() if shape is not None}
    # Before the ends: an application at work commits on, and must not look as if it were beyond them.
    group = read_group(properties, admin, own, shapes, access, is_listed=for_plan or own in groups)
    topics = {name: _read_topic(admin, shape, with_ends=with_ends) for name, shape in shapes.items()}
    asked = groups - {own} if with_readers else frozenset()
    readers, untold = _readers(properties, admin, unit, shapes, asked, access)
    own_shapes = {name: shapes[name] for name in internal.certain if name in shapes}
    guarantee = read_guarantee(access if with_guarantee else None, unit, own_shapes, for_plan=for_plan)
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


def _list_newer(access: ClientAccess | None, *, for_plan: bool) -> tuple[dict[str, GroupType], tuple[str, ...]]:
    """Groups that librdkafka does not list, and a sentence when they are not known."""
    if access is None:
        return {}, ()
    try:
        return asyncio.run(newer_groups(access)), ()
    except ClusterProblem as reason:
        if for_plan and reason.retriable:
            raise
        return {}, (f"share groups and those of the streams protocol are not listed: {reason.message}",)


def _told_owners(
    access: ClientAccess | None, newer: Mapping[str, GroupType], own: str, unit: Unit, *, for_plan: bool
) -> tuple[dict[str, frozenset[str]], tuple[str, ...]]:
    """Internal topics by group, where the broker knows them, and a sentence when it could not be asked."""
    asked = [name for name in sorted({own, *_near(newer, unit)}) if newer.get(name) is GroupType.STREAMS]
    if access is None or not asked:
        return {}, ()
    try:
        return asyncio.run(internal_topics_of(access, asked)), ()
    except ClusterProblem as reason:
        if for_plan and reason.retriable:
            raise
        return {}, (f"whether the broker knows its internal topics is not told: {reason.message}",)


def _read_topic(admin: AdminClient, shape: TopicShape, *, with_ends: bool = True) -> UnitTopic:
    keys = shape.keys if with_ends else []
    starts = read_offsets(admin, keys, EARLIEST, _TIMEOUT_S)
    ends = read_offsets(admin, keys, LATEST, _TIMEOUT_S)
    return UnitTopic(
        name=shape.topic,
        id=shape.topic_id,
        ends={partition: PartitionEnds(starts[partition], ends[partition]) for _, partition in keys},
        replication_factor=shape.replication_factor,
        configs=read_configs(admin, shape.topic, _TIMEOUT_S),
    )


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
    commits = read_committed(properties, group, keys_of(outputs), timeout_s)
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
