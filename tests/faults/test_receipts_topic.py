"""Row 25: the receipts topic gets more partitions, is created again or emptied, while a recovery runs or is paused. The
copy is exact, or the recovery fails and names the reason; no record is copied twice.
"""

import time

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.e2e.case import Case
from tests.e2e.follower import Document
from tests.e2e.log_reader import read_log
from tests.e2e.stack import Stack

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.e2e,
    pytest.mark.faults,
    pytest.mark.usefixtures("daemon"),
]

_TIMEOUT_S = 120.0


@pytest.fixture
def disturbed(request: pytest.FixtureRequest, stack: Stack, case: Case) -> tuple[Case, bool]:
    """The case, and whether it is paused, as `param` says. If so, its application has ended too, so that `resume` reads
    the ledger.
    """
    is_paused = request.param == "paused"
    if is_paused:
        pause_and_end(stack, case)
    return case, is_paused


def pause_and_end(stack: Stack, case: Case) -> None:
    stack.control.command("pause", case.recovery)
    stack.follower.wait_state(case.recovery, "paused")
    case.kill_application()


@pytest.mark.wide(
    "tests/spark/test_receipts_home.py::test_a_topic_that_grows_under_a_lane_keeps_its_receipts_where_they_are"
)
def test_row_25_a_receipts_topic_that_grew_keeps_the_ledger_where_it_was(stack: Stack, case: Case) -> None:
    """It grows while the recovery runs, and again while it is paused: an attempt that begins after that finds the
    receipts of those before.
    """
    grow(stack)
    case.kill_driver()
    stack.follower.wait(lambda: case.attempt() == 2, 90, "the second attempt")
    case.going_on()
    pause_and_end(stack, case)
    grow(stack)
    stack.control.command("resume", case.recovery)
    done = case.finish()
    assert done["attempt"] == 3


@pytest.mark.parametrize("disturbed", [
    pytest.param("running", marks=pytest.mark.wide(
        "tests/faults/test_receipts_topic.py::test_row_25_an_emptied_receipts_topic_is_named_and_nothing_is_copied_again"
    )),
    "paused",
], indirect=True)  # fmt: skip
def test_row_25_an_emptied_receipts_topic_is_named_and_nothing_is_copied_again(
    stack: Stack, disturbed: tuple[Case, bool]
) -> None:
    case, is_paused = disturbed
    empty(stack, case)
    if is_paused:
        stack.control.command("resume", case.recovery)
    else:
        case.kill_driver()
    assert_named(stack, case, case.failed(), "Receipts were deleted from")


@pytest.mark.parametrize("disturbed", [
    "running",
    pytest.param("paused", marks=pytest.mark.wide(
        "tests/faults/test_receipts_topic.py::test_row_25_a_receipts_topic_made_again_is_named_and_nothing_is_copied_again"
    )),
], indirect=True)  # fmt: skip
def test_row_25_a_receipts_topic_made_again_is_named_and_nothing_is_copied_again(
    stack: Stack, disturbed: tuple[Case, bool]
) -> None:
    case, is_paused = disturbed
    make_again(stack)
    if is_paused:
        stack.control.command("resume", case.recovery)
    assert_named(stack, case, case.failed(), stack.receipts_topic)


def assert_named(stack: Stack, case: Case, failed: Document, why: str) -> None:
    assert failed["error_code"] == "RCV-3010"
    assert why in failed["why"]
    copied = [r.content for records in read_log(stack.bootstrap, case.target).values() for r in records]
    assert len(copied) == len(set(copied)), "nothing is there twice"
    rows = failed["completeness"]
    assert all(row["unexplained"] == 0 for row in rows)
    assert 100 <= sum(row["copied"] for row in rows) <= len(copied), "what was known as copied is not taken back"


def admin(stack: Stack) -> AdminClient:
    return AdminClient({"bootstrap.servers": stack.bootstrap})


def grow(stack: Stack) -> None:
    client, topic = admin(stack), stack.receipts_topic
    width = len(client.list_topics(topic, timeout=60).topics[topic].partitions)
    client.create_partitions([NewPartitions(topic, width + 5)])[topic].result(_TIMEOUT_S)


def make_again(stack: Stack) -> None:
    client, topic = admin(stack), stack.receipts_topic
    client.delete_topics([topic])[topic].result(_TIMEOUT_S)
    give_up_s = time.monotonic() + _TIMEOUT_S
    while True:
        new = NewTopic(topic, 8, 1, config={"cleanup.policy": "compact"})
        try:
            client.create_topics([new])[topic].result(_TIMEOUT_S)
        except KafkaException:  # the old one is not deleted completely yet
            assert time.monotonic() < give_up_s
            time.sleep(0.2)
        else:
            return


def empty(stack: Stack, case: Case) -> None:
    """Delete all records, which Kafka allows only while the topic has another cleanup policy."""
    client, topic = admin(stack), stack.receipts_topic
    status = stack.follower.status(case.recovery)
    assert status is not None
    place = TopicPartition(topic, status["plan"]["receipts"]["partition"], -1)
    set_policy(client, topic, "delete")
    give_up_s = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            client.delete_records([place])[place].result(_TIMEOUT_S)
        except KafkaException:  # the new policy is not effective yet
            assert time.monotonic() < give_up_s
            time.sleep(0.2)
        else:
            break
    set_policy(client, topic, "compact")


def set_policy(client: AdminClient, topic: str, policy: str) -> None:
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client.incremental_alter_configs([resource])[resource].result(_TIMEOUT_S)
