"""What a controller's refusals become, and whether a topic is there that it had no time to tell of."""

from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import NewTopic

from recoveryd.adapters.kafka.client import problem
from recoveryd.adapters.kafka.topic_admin import change_configs, create, delete
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code

PASSING = (
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError.NOT_CONTROLLER,
)
FINAL = (KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION, KafkaError.TOPIC_AUTHORIZATION_FAILED)


class Controller:
    """Refuses every change with one error; `there` are the topics that it tells of, None = it tells of none."""

    def __init__(self, error: int, there: Sequence[str] | None = ()) -> None:
        self.error, self.there = error, there

    def poll(self, _timeout_s: float) -> int:
        return 0

    def create_topics(self, wanted: Sequence[NewTopic], **_: object) -> dict[str, Future[Any]]:
        return {each.topic: refused(self.error) for each in wanted}

    def delete_topics(self, topics: Sequence[str], **_: object) -> dict[str, Future[Any]]:
        return {topic: refused(self.error) for topic in topics}

    def incremental_alter_configs(self, resources: Sequence[Any], **_: object) -> dict[Any, Future[Any]]:
        return {resource: refused(self.error) for resource in resources}

    def describe_topics(self, topics: TopicCollection, **_: object) -> dict[str, Future[Any]]:
        return {name: self._told(name) for name in topics.topic_names}

    def _told(self, name: str) -> Future[Any]:
        if self.there is None or name not in self.there:
            silent = self.there is None
            return refused(KafkaError.REQUEST_TIMED_OUT if silent else KafkaError.UNKNOWN_TOPIC_OR_PART)
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(topic_id="an-id", partitions=[], authorized_operations=None))
        return answer


def refused(error: int) -> Future[Any]:
    answer: Future[Any] = Future()
    answer.set_exception(KafkaException(KafkaError(error)))
    return answer


def make(controller: Any) -> bool:
    return create(controller, "t", 1, 1, {}, 0.1)


@pytest.mark.parametrize(("codes", "may_pass"), [(PASSING, True), (FINAL, False)])
def test_what_kafkas_own_clients_try_again_is_not_final(codes: Sequence[int], may_pass: bool) -> None:
    found = {code: problem(KafkaError(code), "do it").retriable for code in codes}
    assert found == dict.fromkeys(codes, may_pass)


@pytest.mark.parametrize("there", [(), None])
def test_a_topic_that_the_controller_had_no_time_to_make_is_asked_for_again(there: Sequence[str] | None) -> None:
    with pytest.raises(ClusterProblem) as found:
        make(Controller(KafkaError.REQUEST_TIMED_OUT, there))
    assert (found.value.code, found.value.retriable) == (Code.CLUSTER_UNREACHABLE, True)


def test_a_topic_that_is_there_after_a_time_out_may_be_anybodys() -> None:
    assert make(Controller(KafkaError.REQUEST_TIMED_OUT, ["t"])) is False


def test_what_the_controller_refuses_is_final() -> None:
    with pytest.raises(ClusterProblem) as found:
        make(Controller(KafkaError.INVALID_CONFIG, ["t"]))
    assert (found.value.code, found.value.retriable) == (Code.TARGET_CREATE_FAILED, False)


def test_to_delete_and_to_change_configs_is_tried_again_after_a_time_out() -> None:
    controller: Any = Controller(KafkaError.REQUEST_TIMED_OUT)
    for ask in (lambda: delete(controller, "t", 0.1), lambda: change_configs(controller, {"t": {"a": "b"}}, 0.1)):
        with pytest.raises(ClusterProblem) as found:
            ask()
        assert found.value.retriable
