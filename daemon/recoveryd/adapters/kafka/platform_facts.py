"""What a cluster says of itself to whoever asks whether it is ready for recoveries: requests, racks, configs, leaders.

Blocking, read-only; every question has a deadline. What may not be read is None.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from recoveryd.adapters.kafka.client import Properties, make_admin, problem
from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.errors import ClusterProblem
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.features import Versions

_TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class PlatformFacts:
    """`apis` that every broker answers, by key; None = they did not say. `brokers`: rack by id. `leaders`: by topic,
    the brokers that lead its partitions.
    """

    apis: frozenset[int] | None
    brokers: Mapping[int, str | None]
    configs: Mapping[str, str] | None
    leaders: Mapping[str, frozenset[int]]


def read_platform(properties: Properties, access: ClientAccess) -> PlatformFacts:
    """Raises `ClusterProblem` when the cluster cannot be reached."""
    admin = make_admin(properties)
    try:
        cluster = admin.describe_cluster(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S + 1.0)
        topics = admin.list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as error:
        raise problem(error, "describe the cluster") from error
    except FutureTimeoutError as error:
        raise ClusterProblem(f"Could not describe the cluster: no answer within {_TIMEOUT_S:.0f} s") from error
    brokers = {node.id: node.rack or None for node in cluster.nodes}
    configs = None
    if brokers:
        asked = admin.describe_configs(
            [ConfigResource(ResourceType.BROKER, str(min(brokers)))], request_timeout=_TIMEOUT_S
        )
        try:
            entries = next(iter(asked.values())).result(_TIMEOUT_S + 1.0)
            configs = {name: str(entry.value) for name, entry in entries.items() if entry.value is not None}
        except (KafkaException, FutureTimeoutError):
            configs = None  # not granted
    leaders = {
        name: frozenset(p.leader for p in found.partitions.values() if p.leader >= 0) for name, found in topics.items()
    }
    try:
        apis = frozenset(read_versions(access))
    except ClusterProblem:
        return PlatformFacts(None, brokers, configs, leaders)
    return PlatformFacts(apis, brokers, configs, leaders)


def read_versions(access: ClientAccess, timeout_s: float = _TIMEOUT_S) -> Versions:
    """Of the requests that every broker answers. Raises `ClusterProblem`."""
    return asyncio.run(_read_versions(access, timeout_s))


async def _read_versions(access: ClientAccess, timeout_s: float) -> Versions:
    async with connected(access, "recoveryd-platform", "ask what brokers answer", timeout_s) as client:
        return await client.apis()
