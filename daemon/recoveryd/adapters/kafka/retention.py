"""How long topics keep their records, of many topics at once."""

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from recoveryd.adapters.kafka.client import Properties
from recoveryd.adapters.kafka.living_clients import AdminClients
from recoveryd.adapters.workers import ClusterWorkers
from recoveryd.errors import ClusterProblem
from recoveryd.units.facts import retention_of

_TIMEOUT_S = 15.0
_AT_ONCE = 500

_log = logging.getLogger("recoveryd.kafka")


class KafkaRetention:
    """`clusters`: librdkafka properties by name. Clients are made when first needed."""

    def __init__(self, clusters: Mapping[str, Properties]) -> None:
        self._admins = AdminClients(clusters)
        self._workers = ClusterWorkers("retention", 2)
        self._unusable: set[str] = set()  # clusters of which the log says so already

    async def kept_ms(self, cluster: str, topics: Collection[str]) -> Mapping[str, int | None]:
        """By topic; None = for ever. One that gave no answer is absent. Raises nothing."""
        return await self._workers.of(cluster).run(self._read, cluster, sorted(set(topics)))

    async def close(self) -> None:
        """Calls under way end at their own deadlines."""
        self._workers.close()
        self._admins.clear()

    def _read(self, cluster: str, topics: list[str]) -> dict[str, int | None]:
        admin = self._admin(cluster)
        if admin is None:
            return {}
        found: dict[str, int | None] = {}
        for at in range(0, len(topics), _AT_ONCE):
            resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics[at : at + _AT_ONCE]]
            asked = admin.describe_configs(resources, request_timeout=_TIMEOUT_S)
            for resource, answer in asked.items():
                try:
                    entries = answer.result(_TIMEOUT_S + 1.0)
                except (KafkaException, FutureTimeoutError):
                    continue
                configs = {name: str(entry.value) for name, entry in entries.items() if entry.value is not None}
                found[resource.name] = retention_of(configs)
        if topics and not found:
            self._admins.drop(cluster)
        return found

    def _admin(self, cluster: str) -> AdminClient | None:
        """None while its properties cannot be used, as when a certificate is not there."""
        try:
            admin = self._admins.of(cluster)
        except ClusterProblem as reason:
            if cluster not in self._unusable:
                _log.warning("How long topics of %s are kept is not known: %s", cluster, reason.message)
            self._unusable.add(cluster)
            return None
        self._unusable.discard(cluster)
        return admin
