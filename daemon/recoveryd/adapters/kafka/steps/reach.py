"""The clusters as steps reach them: one admin client for each, and groups of every protocol."""

from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties
from recoveryd.adapters.kafka.group_facts import read_group
from recoveryd.adapters.kafka.living_clients import AdminClients
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.adapters.workers import ClusterWorkers
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.facts import Group

P = ParamSpec("P")
R = TypeVar("R")


class Reach:
    """`clusters`: librdkafka properties by name, `accesses` the same for what librdkafka cannot say."""

    def __init__(self, clusters: Mapping[str, Properties], accesses: Mapping[str, ClientAccess]) -> None:
        self.clusters = clusters
        self.accesses = accesses
        self._admins = AdminClients(clusters)
        self._workers = ClusterWorkers("workflow-steps", 4)

    def admin(self, cluster: str) -> AdminClient:
        return self._admins.of(cluster)

    async def run(self, cluster: str, function: Callable[P, R], *args: P.args, **more: P.kwargs) -> R:
        """Run a call that waits for `cluster` in one of its threads, so that the loop goes on."""
        return await self._workers.of(cluster).run(function, *args, **more)

    async def group(self, cluster: str, group: str, shapes: Mapping[str, TopicShape]) -> Group | None:
        """With its commits on these topics. Raises `ClusterProblem`."""
        reached = (self.clusters[cluster], self.admin(cluster))
        return await self.run(cluster, read_group, *reached, group, shapes, self.accesses[cluster], is_listed=True)

    async def members(self, cluster: str, group: str) -> tuple[str, ...]:
        """In words. Empty also of a group that does not exist. Raises `ClusterProblem`."""
        found = await self.group(cluster, group, {})
        return () if found is None else tuple(map(str, found.members))

    def close(self) -> None:
        """Calls under way end at their own deadlines."""
        self._workers.close()
        self._admins.clear()
