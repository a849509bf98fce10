"""Where consumer groups stand: their committed offsets, and which of them have members. Only read, never changed.

Partitions are named in the question when their number is known: the library's lists are searched from the start for each partition, so an answer about ten thousand at
once costs ten times as much as the same in pieces. It also keeps a group's other topics out.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from daemon.adapters.kafka_client import Properties, make_admin, problem
from daemon.adapters.workers import Workers
from daemon.core.catalogue import Code
from daemon.errors import ClusterProblem

_TIMEOUT_S = 3.0
_PIECE = 500
_WITHOUT_MEMBERS = frozenset({ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD})
_UNTOLD = frozenset({ConsumerGroupState.UNKNOWN, None})  # also the states of newer protocols

T = TypeVar("T")


class KafkaGroupOffsets:
    """`clusters`: librdkafka properties by name. One lazily made client per cluster, made anew when it got no answer."""

    def __init__(self, clusters: Mapping[str, Properties]) -> None:
        self._clusters = clusters
        self._admins: dict[str, AdminClient] = {}
        self._workers = Workers("groups", 8)

    async def committed(
        self, cluster: str, group: str, topics: Mapping[str, int | None]
    ) -> Mapping[str, Mapping[int, int]]:
        """Next offset to read, by topic and partition; `topics` gives their partition counts, None = not known.

        A partition without a commit is absent; a topic of which some partition got no answer is absent altogether. Raises `ClusterProblem`.
        """
        return await self._asked(cluster, lambda admin: _committed(admin, group, topics))

    async def have_members(self, cluster: str) -> Mapping[str, bool]:
        """By group, of those the cluster lists to us; for others nothing is known. Raises `ClusterProblem`."""
        return await self._asked(cluster, _have_members)

    async def close(self) -> None:
        """Calls under way end at their own deadlines."""
        self._workers.close()
        self._admins.clear()

    async def _asked(self, cluster: str, question: Callable[[AdminClient], T]) -> T:
        try:
            return await self._workers.run(question, self._admin(cluster))
        except ClusterProblem as reason:
            if reason.retriable:  # librdkafka may have lost sight of a coordinator that came back
                self._admins.pop(cluster, None)
            raise

    def _admin(self, cluster: str) -> AdminClient:
        if cluster not in self._admins:
            if cluster not in self._clusters:
                raise ClusterProblem(
                    f"There is no cluster named {cluster}.", code=Code.UNKNOWN_CLUSTER, retriable=False
                )
            self._admins[cluster] = make_admin(self._clusters[cluster])
        return self._admins[cluster]


def _committed(admin: AdminClient, group: str, topics: Mapping[str, int | None]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    untold: set[str] = set()
    deadline_s = time.monotonic() + _TIMEOUT_S
    for piece in _pieces(topics):
        for where in _ask(admin, ConsumerGroupTopicPartitions(group, piece), max(deadline_s - time.monotonic(), 0.1)):
            if where.error is not None:
                untold.add(where.topic)
            elif where.offset >= 0 and where.topic in found:
                found[where.topic][where.partition] = where.offset
    return {topic: offsets for topic, offsets in found.items() if topic not in untold}


def _pieces(topics: Mapping[str, int | None]) -> Iterator[list[TopicPartition] | None]:
    """What to name in each question; None = everything the group has."""
    widths = [(topic, width) for topic, width in topics.items() if width is not None]
    if len(widths) < len(topics):
        yield None
        return
    keys = [(topic, partition) for topic, width in widths for partition in range(width)]
    for at in range(0, len(keys), _PIECE):
        yield [TopicPartition(topic, partition) for topic, partition in keys[at : at + _PIECE]]


def _ask(admin: AdminClient, question: ConsumerGroupTopicPartitions, timeout_s: float) -> list[TopicPartition]:
    doing = f"read the offsets of group {question.group_id}"
    admin.poll(0)  # lets waiting log lines out
    try:
        answer = admin.list_consumer_group_offsets([question], request_timeout=timeout_s)[question.group_id]
        return list(answer.result(timeout_s + 1).topic_partitions)
    except KafkaException as error:
        raise problem(error, doing) from error
    except TimeoutError as error:
        raise ClusterProblem(f"Could not {doing} within {_TIMEOUT_S:.0f} s") from error


def _have_members(admin: AdminClient) -> dict[str, bool]:
    doing = "list the consumer groups"
    try:
        answer = admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S + 1)
    except KafkaException as error:
        raise problem(error, doing) from error
    except TimeoutError as error:
        raise ClusterProblem(f"Could not {doing} within {_TIMEOUT_S:.0f} s") from error
    if answer.errors and not answer.valid:
        raise problem(answer.errors[0], doing) from answer.errors[0]
    return {g.group_id: g.state not in _WITHOUT_MEMBERS for g in answer.valid if g.state not in _UNTOLD}
