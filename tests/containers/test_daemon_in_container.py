"""The product's image serves a replay: daemon, Spark and lanes in one container, Kafka in another, the operator on the
host.

What is judged is the target topic: by the end-to-end tests' own checker, record by record.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from testcontainers.core.network import Network

from tests.containers.daemon_container import DaemonContainer
from tests.containers.images import Images
from tests.containers.kafka_container import KafkaContainer
from tests.e2e.asking import await_progress, copied
from tests.e2e.stack import Stack

pytestmark = [
    pytest.mark.containers,
    pytest.mark.spark,
    pytest.mark.e2e,
]  # the first test waits for the images


class Deployment:
    """One set of own topics, and containers of the daemon that serve it."""

    def __init__(self, images: Images, network: Network, kafka: KafkaContainer, stack: Stack) -> None:
        self.stack = stack
        self._image, self._network = images.product, network
        self._options = {
            "RECOVERYD_BOOTSTRAP_SERVERS": kafka.network_bootstrap,
            "RECOVERYD_SCOPE": stack.prefix.rstrip("."),
            "RECOVERYD_TOPICS__PREFIX": stack.prefix,
            # So that a killed container is noticed sooner than by default.
            "RECOVERYD_FAUST__SESSION_TIMEOUT": "6s",
            "RECOVERYD_FAUST__HEARTBEAT_INTERVAL": "1500ms",
            "RECOVERYD_ATTEMPTS__ADOPT_WAIT": "4s",
            "RECOVERYD_ATTEMPTS__HEARTBEAT_TIMEOUT": "6s",
        }

    @contextmanager
    def running(self) -> Iterator[DaemonContainer]:
        """A leading daemon in a new container, which is gone at the end."""
        with DaemonContainer(self._image, self._network, self._options) as container:
            container.await_leader()
            yield container


@pytest.fixture
def deployment(suite_images: Images, network: Network, kafka: KafkaContainer, stack: Stack) -> Deployment:
    return Deployment(suite_images, network, kafka, stack)


def test_a_plain_producer_starts_a_replay_that_is_served_and_proven(deployment: Deployment, nasty: str) -> None:
    stack = deployment.stack
    target = f"{stack.mark}-served"
    with deployment.running() as container:
        container.await_healthy()
        stack.control.replay("served", nasty, target, target_create=True)
        done = stack.completed("served")
        over_http = container.recovery("served")
        assert container.end() == 0, container.tail()
    assert (done["state"], done["stop"]["reason"], done["verification"]["result"]) == ("completed", "zero_lag", "match")
    assert over_http == done
    assert stack.violations("served", nasty, target) == []


def test_a_new_container_finishes_what_a_killed_one_began(deployment: Deployment, plain: str) -> None:
    stack = deployment.stack
    target = f"{stack.mark}-taken-over"
    with deployment.running() as killed:
        stack.control.replay("taken-over", plain, target, target_create=True, limits={"max_records_per_s": 1000})
        await_progress(stack, "taken-over", 2_000)
        killed.kill()
    before = copied(stack, target)
    with deployment.running():
        stack.control.command("throttle", "taken-over", {"limits": {"max_records_per_s": None}})
        done = stack.completed("taken-over", 120)
    assert 0 < before < 20_000
    assert done["attempt"] == 2
    assert done["verification"]["result"] == "match"
    assert stack.violations("taken-over", plain, target) == []
