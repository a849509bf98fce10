"""The few calls about topics that the sandbox's own tools need. Every call has a deadline, and is made again while a
broker says what it says for a moment only: one that has just started or come back.
"""

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.probe import PLAIN

_TIMEOUT_S = 120.0
_POLL_S = 0.05
_KNOWN_S = 5.0  # a broker that has just started may hear of its topics a moment later
_UNANSWERED = frozenset({
    KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT,  # noqa: SLF001
})  # fmt: skip
_NOT_LED_YET = _UNANSWERED | {KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION}
_NOT_MADE_YET = _UNANSWERED | {KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_CONTROLLER}


def make_topics(admin: AdminClient, topics: Sequence[NewTopic], timeout_s: float = _TIMEOUT_S) -> None:
    """Creates the topics. Raises `KafkaException`, also for one that was there already."""
    left, unanswered, give_up_s = {topic.topic: topic for topic in topics}, set[str](), time.monotonic() + timeout_s
    while left:
        answers = admin.create_topics(list(left.values()), operation_timeout=timeout_s, request_timeout=timeout_s)
        for name, answer in answers.items():
            try:
                answer.result(timeout_s + 10.0)
            except KafkaException as raised:
                error = raised.args[0]
                if error.code() != KafkaError.TOPIC_ALREADY_EXISTS or name not in unanswered:
                    if not _is_not_made_yet(error) or time.monotonic() > give_up_s:
                        raise
                    unanswered |= {name} if error.code() in _UNANSWERED else set()
                    continue
            del left[name]
        if left:
            time.sleep(_POLL_S)


def _is_not_made_yet(error: KafkaError) -> bool:
    """Also of a cluster whose brokers were silent: the controller gives them no replicas until it hears of them."""
    is_fenced = error.code() == KafkaError.INVALID_REPLICATION_FACTOR and "fenced" in error.str()
    return is_fenced or error.code() in _NOT_MADE_YET


class Topics:
    """Topics of the cluster at `bootstrap`. Every method raises `SandboxError` when the cluster does not answer.

    `client`: librdkafka's properties for the login; empty for plain text.
    """

    def __init__(self, bootstrap: str, client: Mapping[str, str] = PLAIN) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({**client, "bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> bool:
        """Creates the topic, with the cluster's default of replicas. False when it was there already."""
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(config))
        try:
            make_topics(self._admin, [wanted])
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise self._translated(error) from error
        return True

    def delete(self, topic: str) -> bool:
        """Deletes the topic. False when there is none."""
        try:
            self._admin.delete_topics([topic], operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S)[topic].result(
                _TIMEOUT_S
            )
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return False
            raise self._translated(error) from error
        return True

    def partitions(self, topic: str) -> int:
        """Number of partitions; 0 when there is no such topic."""
        try:
            found = self._admin.list_topics(timeout=_TIMEOUT_S).topics.get(topic)
        except KafkaException as error:
            raise self._translated(error) from error
        return 0 if found is None else len(found.partitions)

    def end_offsets(self, topic: str) -> list[int]:
        """Log end offset of each partition, by number. Empty when there is no such topic."""
        give_up_s = time.monotonic() + _TIMEOUT_S
        known_s = time.monotonic() + _KNOWN_S
        while True:
            try:
                return self._end_offsets(topic)
            except KafkaException as error:
                code, now_s = error.args[0].code(), time.monotonic()
                passes_until_s = known_s if code == KafkaError.UNKNOWN_TOPIC_OR_PART else give_up_s
                if code not in _NOT_LED_YET | {KafkaError.UNKNOWN_TOPIC_OR_PART} or now_s > passes_until_s:
                    raise self._translated(error) from error
                time.sleep(_POLL_S)

    def _end_offsets(self, topic: str) -> list[int]:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, number): latest for number in range(self.partitions(topic))}
        if not asked:
            return []
        answers = self._admin.list_offsets(asked, request_timeout=_TIMEOUT_S)
        found = {where.partition: future.result(_TIMEOUT_S).offset for where, future in answers.items()}
        return [found[number] for number in range(len(asked))]

    def _translated(self, error: KafkaException) -> SandboxError:
        return SandboxError(
            f"Kafka at {self._bootstrap} said: {error.args[0].str()}.", "Is it up? See `recoveryctl sandbox up`."
        )
