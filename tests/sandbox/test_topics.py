"""Topics are made, and asked for their ends, again while the answer is one that passes, and only then."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.topics import Topics, make_topics

MADE = None
THERE = KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)
UNANSWERED = KafkaError(KafkaError._TIMED_OUT)
NO_CONTROLLER = KafkaError(KafkaError.NOT_CONTROLLER)
FENCED = KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")
TOO_FEW = KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, "only 1 broker(s) are registered.")
NO_LEADER = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
REFUSED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


class Admin:
    """Answers one question after the other with what is next for the topic."""

    def __init__(self, **answers: Sequence[Any]) -> None:
        self.asked: list[list[str]] = []
        self._answers = {name: iter(each) for name, each in answers.items()}

    def create_topics(self, topics: Sequence[NewTopic], **_how: float) -> Mapping[str, Future[Any]]:
        self.asked.append([topic.topic for topic in topics])
        return {topic.topic: self._next(topic.topic) for topic in topics}

    def list_offsets(self, places: Mapping[TopicPartition, Any], **_how: float) -> Mapping[TopicPartition, Future[Any]]:
        self.asked.append([place.topic for place in places])
        return {place: self._next(place.topic) for place in places}

    def _next(self, topic: str) -> Future[Any]:
        told, found = Future[Any](), next(self._answers[topic])
        if isinstance(found, KafkaError):
            told.set_exception(KafkaException(found))
        else:
            told.set_result(found)
        return told


class End:
    offset = 7


def test_only_what_is_not_made_yet_is_asked_for_again() -> None:
    admin = Admin(a=[UNANSWERED, THERE], b=[MADE], c=[FENCED, NO_CONTROLLER, MADE])
    make_topics(admin, [NewTopic(name, 1) for name in "abc"])  # type: ignore[arg-type]
    assert admin.asked == [["a", "b", "c"], ["a", "c"], ["c"]]


@pytest.mark.parametrize("answers", [[THERE], [FENCED, THERE], [TOO_FEW], [UNANSWERED, REFUSED]])
def test_what_does_not_pass_is_raised(answers: Sequence[KafkaError]) -> None:
    admin = Admin(a=answers)
    with pytest.raises(KafkaException) as raised:
        make_topics(admin, [NewTopic("a", 1)])  # type: ignore[arg-type]
    assert (raised.value.args[0], len(admin.asked)) == (answers[-1], len(answers))


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    monkeypatch.setattr(Topics, "partitions", lambda *_: 1)
    return Topics("127.0.0.1:1")


def test_ends_are_asked_for_again_while_there_is_no_leader(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_admin", Admin(a=[NO_LEADER, UNANSWERED, End]))
    assert topics.end_offsets("a") == [7]


def test_of_a_topic_that_stays_unknown_that_is_told(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd_sandbox.topics._KNOWN_S", 0.0)
    monkeypatch.setattr(topics, "_admin", Admin(a=[KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)]))
    with pytest.raises(SandboxError, match="Unknown topic or partition"):
        topics.end_offsets("a")
