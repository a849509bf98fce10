"""What librdkafka cannot tell of a group: which protocol it has, and all about those of share
consumers and of Streams.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from recoveryd.adapters.kafka.raw_groups import StreamsGroup, StreamsMember, StreamsPart
from recoveryd.adapters.kafka.raw_requests import RawClient, connected
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import Committed, Group, GroupPart, GroupType, Member

_TIMEOUT_S: Final = 15.0


async def tell_kind(access: ClientAccess, group: Group, partitions: Mapping[str, int] | None = None) -> Group | None:
    """`group`, which librdkafka could not describe, as the cluster tells of it; None when there is none. `partitions`:
    how many the topics have. Older clusters, which cannot say the type of a group, have none of these types. Raises
    `ClusterProblem`.
    """
    async with connected(access, "recoveryd-groups", f"ask what kind of group {group.id} is", _TIMEOUT_S) as client:
        listed = await client.listed_group(group.id)
        if listed is None:
            return None
        kind, protocol = listed
        if protocol == "connect":
            return replace(group, type=GroupType.CONNECT, state=protocol)
        if kind == "share":
            return await _share(client, group)
        if kind == "streams":
            return _streams(group, await client.streams_group(group.id), partitions or {})
        return replace(group, type=GroupType.UNKNOWN, state=protocol or kind)


async def newer_groups(access: ClientAccess) -> dict[str, GroupType]:
    """Groups that librdkafka does not list. Raises `ClusterProblem`."""
    async with connected(access, "recoveryd-groups", "list the groups of newer protocols", _TIMEOUT_S) as client:
        return {group: GroupType(kind) for group, kind in (await client.newer_groups()).items()}


async def internal_topics_of(access: ClientAccess, groups: Iterable[str]) -> dict[str, frozenset[str]]:
    """Of these groups of the `streams` protocol, the internal topics that the broker knows as theirs. Raises
    `ClusterProblem`.
    """
    found: dict[str, frozenset[str]] = {}
    async with connected(access, "recoveryd-groups", "ask whose internal topics are", _TIMEOUT_S) as client:
        for group in groups:
            told = await client.streams_group(group)
            found[group] = frozenset(name for part in told.parts for name in _part(part).internal)
    return found


async def _share(client: RawClient, group: Group) -> Group:
    state, found = await client.share_group(group.id)
    starts: dict[str, dict[int, Committed]] = {}
    for topic, partition, offset in await client.share_offsets(group.id):
        starts.setdefault(topic, {})[partition] = Committed(offset)
    members = tuple(
        Member(
            m.id,
            m.client_id,
            m.host.lstrip("/"),
            topics=frozenset(m.topics),
            partitions={topic: frozenset(held) for topic, held in m.held.items()},
        )
        for m in found
    )
    return replace(group, type=GroupType.SHARE, state=state.lower(), members=members, committed=starts)


def _streams(group: Group, told: StreamsGroup, partitions: Mapping[str, int]) -> Group:
    parts = {part.id: _part(part) for part in told.parts}
    members = tuple(_streams_member(member, parts, partitions) for member in told.members)
    return replace(
        group,
        type=GroupType.STREAMS,
        state=told.state.lower(),
        members=members,
        is_streams=True,
        parts=tuple(parts[name] for name in sorted(parts)),
    )


def _streams_member(member: StreamsMember, parts: Mapping[str, GroupPart], partitions: Mapping[str, int]) -> Member:
    """A task reads the partition of its number of each topic of its part that has so many."""
    held: dict[str, set[int]] = {}
    for part_id, tasks in member.active:
        part = parts.get(part_id, GroupPart(part_id))
        for topic in part.sources | part.repartitions_read:
            held.setdefault(topic, set()).update(p for p in tasks if p < partitions.get(topic, p + 1))
    known = {topic: frozenset(found) for topic, found in held.items()}
    host = member.host.lstrip("/")
    return Member(member.id, member.client_id, host, member.instance_id, frozenset(known), known)


def _part(part: StreamsPart) -> GroupPart:
    return GroupPart(
        part.id,
        frozenset(part.sources),
        frozenset(part.repartitions_written),
        frozenset(part.repartitions_read),
        frozenset(part.changelogs),
    )
