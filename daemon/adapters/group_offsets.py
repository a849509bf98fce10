"""Where consumer groups stand: committed offsets of the groups that the config wants to watch. Only read, never changed."""

import asyncio
from collections.abc import Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from daemon.adapters.kafka_client import Properties, make_admin, problem
from daemon.core.catalogue import Code
from daemon.errors import ClusterProblem

_TIMEOUT_S = 5.0


class KafkaGroupOffsets:
    """`clusters`: librdkafka properties by name. One lazily made client per cluster."""

    def __init__(self, clusters: Mapping[str, Properties]) -> None:
        self._clusters = clusters
        self._admins: dict[str, AdminClient] = {}

    async def committed(self, cluster: str, group: str, topic: str) -> dict[int, int]:
        """Next offset to read, by partition; a partition without commit is absent. Raises `ClusterProblem`."""
        return await asyncio.to_thread(self._committed, cluster, group, topic)

    def _committed(self, cluster: str, group: str, topic: str) -> dict[int, int]:
        if cluster not in self._admins:
            if cluster not in self._clusters:
                raise ClusterProblem(
                    f"There is no cluster named {cluster}.", code=Code.UNKNOWN_CLUSTER, retriable=False
                )
            self._admins[cluster] = make_admin(self._clusters[cluster])
        try:
            asked = self._admins[cluster].list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=_TIMEOUT_S
            )
            answer = asked[group].result(_TIMEOUT_S + 1)
        except KafkaException as error:
            raise problem(error, f"read the offsets of group {group}") from error
        except TimeoutError as error:
            raise ClusterProblem(f"Could not read the offsets of group {group} within {_TIMEOUT_S:.0f} s") from error
        found = [p for p in answer.topic_partitions if p.topic == topic and p.error is None]
        return {p.partition: p.offset for p in found if p.offset >= 0}
