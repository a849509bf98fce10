"""No answer about the settings of a topic is not an answer: where only the lane or only the proof was told that the
target stamps its records, a correct copy would be a mismatch.
"""

import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from recoveryd_jobs.contract import JobSpec, TargetSpec
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.topics import NoAnswer, Topic, TopicSettings
from recoveryd_jobs.verify import plan
from tests.patience import patient_s
from tests.spark.test_contract import SPEC

SILENCE = KafkaException(KafkaError(KafkaError._TIMED_OUT))
STAMPED = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete", "max.message.bytes": "7"}


def answer(told: dict[str, str] | KafkaException) -> "Future[Any]":
    future: Future[Any] = Future()
    if isinstance(told, KafkaException):
        future.set_exception(told)
    else:
        future.set_result({name: SimpleNamespace(value=value) for name, value in told.items()})
    return future


def topic(*answers: dict[str, str] | KafkaException) -> Topic:
    """A topic whose cluster answers like this, and the last one for ever."""
    left = list(answers)
    admin = SimpleNamespace(
        describe_configs=lambda resources, **_: {resources[0]: answer(left.pop(0) if len(left) > 1 else left[0])}
    )
    beside = SimpleNamespace(asker=SimpleNamespace(admin=admin, renew=lambda: None, shut_out=lambda: ""))
    return Topic(TargetSpec("main", "t", "id", 1, {}), "target", "c", beside=beside)  # type: ignore[arg-type]


def test_no_answer_is_not_an_answer() -> None:
    with pytest.raises(NoAnswer, match="settings of target t"):
        topic(SILENCE).settings(0.0)


def test_settings_are_asked_for_until_there_is_an_answer() -> None:
    found = topic(SILENCE, SILENCE, STAMPED).settings(time.monotonic() + patient_s(60.0))
    assert found == TopicSettings(7, is_stamped=True, is_compacted=False)


def test_a_setting_that_an_answer_leaves_out_is_the_default_and_the_others_count() -> None:
    assert topic({"message.timestamp.type": "LogAppendTime"}).settings(0.0) == TopicSettings(is_stamped=True)


def test_the_proof_has_no_verdict_without_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = topic(SILENCE)

    def silent_topics(_spec: JobSpec) -> tuple[Topic, Topic]:
        return silent, silent

    monkeypatch.setattr(plan, "PATIENCE_S", 0.0)
    monkeypatch.setattr(plan, "make_topics", silent_topics)
    monkeypatch.setattr(plan, "check_topics", lambda _topics: None)
    monkeypatch.setattr(plan, "_width", lambda _topic: 1)
    monkeypatch.setattr(plan, "_bounds", lambda _topic, _partitions: {})
    with pytest.raises(JobError) as ended:
        plan.make_plan(SPEC, is_whole=True)
    assert ended.value.code == "target_unavailable"
