"""Log starts, ends and last stable offsets of very many partitions at once, cheaply enough to ask every few seconds.

The admin client would make one future per partition and question, and the library searches its lists from the start for
each partition: ten thousand partitions cost half a second of CPU per question. Here a consumer that never reads asks in
pieces, which costs a twentieth of that. It answers for a piece or not at all, so pieces never mix leaders: a broker
that hangs costs only its own partitions.
"""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import Enum

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from recoveryd.adapters.kafka.client import Properties, is_no_such_topic, make_consumer, problem
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.errors import ClusterProblem

_PIECE = 250  # partitions: more make the library's searches longer, fewer make more requests
_LEADERS_AT_ONCE = 3
_GRACE_S = 0.5
_NO_ANSWER = frozenset({
    KafkaError._TIMED_OUT,  # noqa: SLF001  (librdkafka's local codes have this form)
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
})  # fmt: skip


class Bound(Enum):
    """What is asked of a partition. `STABLE`: the end as a read_committed reader sees it."""

    START = "log start"
    END = "high watermark"
    STABLE = "last stable offset"


@dataclass(slots=True)
class OffsetBounds:
    """`found` by bound, topic and partition; what has no answer is absent. Of `doubtful` topics the broker did not know
    a partition or its leader.
    """

    found: dict[Bound, dict[str, dict[int, int]]] = field(default_factory=lambda: {bound: {} for bound in Bound})
    doubtful: set[str] = field(default_factory=set)
    failure: ClusterProblem | None = None

    def add(self, other: "OffsetBounds") -> None:
        for bound, topics in other.found.items():
            for topic, offsets in topics.items():
                self.found[bound].setdefault(topic, {}).update(offsets)
        self.doubtful |= other.doubtful
        self.failure = self.failure or other.failure


class BulkOffsets:
    """Of one cluster; used by one thread at a time. The clients are made anew after a failure: librdkafka may go on
    with an old leader for ever.
    """

    def __init__(self, cluster: str, properties: Properties, timeout_s: float) -> None:
        self._cluster = cluster
        self._properties = properties
        self._timeout_s = timeout_s
        self._plain: Consumer | None = None
        self._committed: Consumer | None = None
        self._pool = ThreadPoolExecutor(len(Bound) * _LEADERS_AT_ONCE, thread_name_prefix=f"offsets-{cluster}")

    def ask(self, shapes: Iterable[TopicShape]) -> OffsetBounds:
        """All bounds of all partitions that have a leader. Never raises for a broker's silence: `failure` tells one."""
        deadline_s = time.monotonic() + self._timeout_s
        plain, committed = self._clients()
        asked = []
        for keys in _by_leader(shapes):
            for bound in Bound:
                client = committed if bound is Bound.STABLE else plain
                asked.append(self._pool.submit(self._ask_leader, client, bound, keys, deadline_s))
        done, late = wait(asked, max(deadline_s - time.monotonic(), 0.0) + _GRACE_S)
        bounds = OffsetBounds()
        for answer in done:
            bounds.add(answer.result())
        if late:
            for answer in late:
                answer.cancel()
            silence = ClusterProblem(f"Could not read offsets of {self._cluster} within {self._timeout_s:.0f} s")
            bounds.failure = bounds.failure or silence
        if bounds.failure is not None or bounds.doubtful:  # what a client knows of a topic that grew may be minutes old
            self._plain = self._committed = None
        return bounds

    def _ask_leader(
        self, client: Consumer, bound: Bound, keys: list[tuple[str, int]], deadline_s: float
    ) -> OffsetBounds:
        """Piece by piece; the first one without an answer ends it, for the next would have none either."""
        code = OFFSET_BEGINNING if bound is Bound.START else OFFSET_END
        bounds = OffsetBounds()
        for at in range(0, len(keys), _PIECE):
            piece = [TopicPartition(topic, partition, code) for topic, partition in keys[at : at + _PIECE]]
            try:
                answers = client.offsets_for_times(piece, timeout=max(deadline_s - time.monotonic(), 0.01))
            except KafkaException as error:
                if not is_no_such_topic(error):
                    bounds.failure = problem(error, f"read offsets of {self._cluster}")
                if error.args[0].code() in _NO_ANSWER:
                    break
                bounds.doubtful |= {where.topic for where in piece}
                continue
            _take(bounds, bound, answers)
        return bounds

    def _clients(self) -> tuple[Consumer, Consumer]:
        if self._plain is None or self._committed is None:
            self._plain = make_consumer(self._properties, isolation_level="read_uncommitted")
            self._committed = make_consumer(self._properties, isolation_level="read_committed")
        for client in (self._plain, self._committed):
            client.poll(0)  # lets waiting log lines out; nothing is assigned
        return self._plain, self._committed


def _take(bounds: OffsetBounds, bound: Bound, answers: Iterable[TopicPartition]) -> None:
    found = bounds.found[bound]
    for answer in answers:
        error = answer.error
        if error is None and answer.offset >= 0:
            found.setdefault(answer.topic, {})[answer.partition] = answer.offset
        elif error is not None and is_no_such_topic(KafkaException(error)):
            bounds.doubtful.add(answer.topic)


def _by_leader(shapes: Iterable[TopicShape]) -> list[list[tuple[str, int]]]:
    """(topic, partition) by leader, in order; partitions that have none now cannot be asked for."""
    leaders: dict[int, list[tuple[str, int]]] = {}
    for shape in shapes:
        for partition, leader in shape.leaders.items():
            if leader >= 0:
                leaders.setdefault(leader, []).append((shape.topic, partition))
    return list(leaders.values())
