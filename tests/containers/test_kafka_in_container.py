"""The end-to-end test of the sandbox broker, against Kafka in a container: the daemon is a process of the host."""

import pytest

from tests.containers.kafka_container import KafkaContainer
from tests.e2e import test_replay as sandbox_tests
from tests.e2e.stack import Stack
from tests.e2e.test_replay import Names

pytestmark = [
    pytest.mark.containers,
    pytest.mark.spark,
    pytest.mark.e2e,
]  # the first test waits for the images


@pytest.mark.usefixtures("daemon")
def test_a_replay_to_latest_copies_the_nastiest_topic_bit_for_bit(
    kafka: KafkaContainer, stack: Stack, nasty: str
) -> None:
    assert stack.bootstrap == kafka.bootstrap
    names = Names("in-container", f"{stack.mark}-in-container")
    sandbox_tests.test_a_replay_to_latest_copies_the_nastiest_topic_bit_for_bit(stack, nasty, names)
