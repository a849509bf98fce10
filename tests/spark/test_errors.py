"""Errors survive the way from a task through Spark to the driver, and the client library's errors get recoveryd's
codes.
"""

import pickle

import pytest
from confluent_kafka import KafkaError, Message

from recoveryd_jobs import errors
from recoveryd_jobs.contract import ERROR_CODES
from recoveryd_jobs.errors import Doubt, JobError, Redo


def test_a_job_error_is_found_in_the_text_of_a_stack_trace() -> None:
    text = (
        f"org.apache.spark.SparkException: Task failed\n  {JobError('data_lost', 'Offsets [1, 2) are gone.')}\n\tat x.y"
    )
    found = errors.from_text(text)
    assert found is not None
    assert (found.code, found.message) == ("data_lost", "Offsets [1, 2) are gone.")
    assert errors.from_text("java.lang.OutOfMemoryError") is None
    assert errors.from_text("[recoveryd:nonsense] x") is None


def test_a_job_error_can_be_pickled() -> None:
    found = pickle.loads(pickle.dumps(JobError("stop_blocked", "why")))
    assert (found.code, found.message, str(found)) == ("stop_blocked", "why", "[recoveryd:stop_blocked] why")


@pytest.mark.parametrize(
    ("code", "final"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "target_not_authorised"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "target_not_authorised"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "target_not_authorised"),
        (KafkaError.MSG_SIZE_TOO_LARGE, "record_too_large"),
        (KafkaError.INVALID_TIMESTAMP, "record_refused"),
        (KafkaError._TRANSPORT, None),
        (KafkaError._TIMED_OUT, None),
        (KafkaError.NOT_LEADER_FOR_PARTITION, None),
    ],
)
def test_only_what_cannot_get_better_is_final(code: int, final: str | None) -> None:
    assert errors.final_code(KafkaError(code)) == final
    assert final is None or final in ERROR_CODES


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (
            KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED),
            "target_not_authorised",
            "the user lacks Read on Topic out.",
        ),
        (KafkaError(KafkaError._AUTHENTICATION, "no such user"), "target_not_authorised", "no such user."),
        (KafkaError(KafkaError._FATAL, "broken", True), "target_unavailable", "out cannot be read any more: broken."),
    ],
)
def test_what_ends_a_reading_is_named_with_its_side_and_the_right_that_is_missing(
    error: KafkaError, code: str, told: str
) -> None:
    found = errors.unreadable(error, "target", Message("out"))
    assert found is not None
    assert found.code == code
    assert found.message.endswith(told)


@pytest.mark.parametrize(
    "code", [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.UNKNOWN_TOPIC_OR_PART]
)
def test_what_the_client_goes_on_trying_ends_no_reading(code: int) -> None:
    assert errors.unreadable(KafkaError(code), "source", Message("in")) is None


def test_a_failed_transaction_is_done_again_or_in_doubt() -> None:
    with pytest.raises(Redo) as refused:
        errors.raise_failed(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large", False, False, True))
    assert (refused.value.dense, refused.value.reopen, refused.value.code) == (True, True, "record_too_large")
    with pytest.raises(Redo) as unlucky:
        errors.raise_failed(KafkaError(KafkaError._MSG_TIMED_OUT, "late", False, False, True))
    assert (unlucky.value.dense, unlucky.value.code) == (False, None)
    with pytest.raises(Doubt) as fenced:
        errors.raise_failed(KafkaError(KafkaError._FENCED, "fenced", True))
    assert fenced.value.fenced
