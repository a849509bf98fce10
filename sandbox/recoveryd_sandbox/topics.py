"""The few calls about topics that the sandbox's own tools need. Every call has a deadline."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.probe import PLAIN

_TIMEOUT_S = 120.0


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
            self._admin.create_topics([wanted], operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S)[topic].result(
                _TIMEOUT_S
            )
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
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, number): latest for number in range(self.partitions(topic))}
        if not asked:
            return []
        try:
            answers = self._admin.list_offsets(asked, request_timeout=_TIMEOUT_S)
            found = {where.partition: future.result(_TIMEOUT_S).offset for where, future in answers.items()}
        except KafkaException as error:
            raise self._translated(error) from error
        return [found[number] for number in range(len(asked))]

    def _translated(self, error: KafkaException) -> SandboxError:
        return SandboxError(
            f"Kafka at {self._bootstrap} said: {error.args[0].str()}.", "Is it up? See `recoveryctl sandbox up`."
        )
