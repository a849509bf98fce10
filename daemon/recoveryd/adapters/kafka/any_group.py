"""A consumer group of whatever protocol, as the cluster tells of it: also those that librdkafka cannot describe."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.adapters.kafka.unit_facts import read_group
from recoveryd.adapters.workers import Workers
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import Group, GroupType, Member

_TIMEOUT_S: Final = 15.0
_TYPES: Final = {"share": GroupType.SHARE, "streams": GroupType.STREAMS}


async def read_any_group(
    workers: Workers,
    properties: Properties,
    admin: AdminClient,
    access: ClientAccess,
    group: str,
    shapes: Mapping[str, TopicShape],
) -> Group | None:
    """With its commits on these topics; None when the cluster has no such group. Raises `ClusterProblem`."""
    found = await workers.run(read_group, properties, admin, group, shapes, access, is_listed=True)
    if found is None or found.type is not GroupType.UNKNOWN:
        return found
    return await _of_another_kind(access, found)


async def _of_another_kind(access: ClientAccess, group: Group) -> Group | None:
    """Older clusters, which cannot say the type of a group, have none of these types."""
    async with connected(access, "recoveryd-groups", f"ask what kind of group {group.id} is", _TIMEOUT_S) as client:
        listed = await client.listed_group(group.id)
        if listed is None:
            return None
        kind, protocol = listed
        if protocol == "connect":
            return replace(group, type=GroupType.CONNECT, state=protocol)
        if kind != "streams":
            return replace(group, type=_TYPES.get(kind, GroupType.UNKNOWN), state=protocol or kind)
        state, found = await client.streams_members(group.id)
        members = tuple(Member(m.id, m.client_id, m.host.lstrip("/"), m.instance_id) for m in found)
        return replace(group, type=GroupType.STREAMS, state=state.lower(), members=members, is_streams=True)
