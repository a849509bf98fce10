"""A topic is made although every broker is fenced for a moment, as one is that a busy machine kept from telling the
controller that it lives.
"""

import itertools
import re
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from recoveryd.adapters.kafka.topic_admin import create
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.topics import make_topics
from tests.e2e.log_reader import PASSING
from tests.e2e.processes import wait_for

pytestmark = pytest.mark.broker

# It tells less often that it lives than the controller wants to hear it, so it is fenced for some seconds again and
# again.
SELDOM_HEARD = {"broker.heartbeat.interval.ms": "5000", "broker.session.timeout.ms": "2000"}


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminClient]:
    with Broker(tmp_path_factory.mktemp("fenced"), overrides=SELDOM_HEARD, heap="256m") as broker:
        yield AdminClient({"bootstrap.servers": broker.bootstrap})


def is_fenced(admin: AdminClient) -> bool:
    asked = admin.create_topics([NewTopic("asked", 1, 1)], validate_only=True, request_timeout=30)["asked"]
    refused = asked.exception(40)
    if isinstance(refused, KafkaException):
        assert refused.args[0].code() in {KafkaError.INVALID_REPLICATION_FACTOR, *PASSING}, refused
        return bool(refused.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR)
    return False


def test_a_topic_is_made_once_a_broker_is_no_longer_fenced(admin: AdminClient) -> None:
    wait_for(lambda: is_fenced(admin), 60.0, lambda: "the broker was never fenced")
    assert create(admin, "made", 1, 1, {}, 60.0)
    assert not create(admin, "made", 1, 1, {}, 60.0)


def test_so_are_the_topics_of_sandbox_and_tests(admin: AdminClient) -> None:
    wait_for(lambda: is_fenced(admin), 60.0, lambda: "the broker was never fenced")
    make_topics(admin, [NewTopic("seeded", 1, 1)])
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        make_topics(admin, [NewTopic("seeded", 1, 1)])


def test_what_stays_fenced_may_be_tried_again_later(admin: AdminClient) -> None:
    numbers = itertools.count(1)

    def problem() -> ClusterProblem | None:
        """The broker may be back before the topic is asked for."""
        wait_for(lambda: is_fenced(admin), 60.0, lambda: "the broker was never fenced")
        try:
            create(admin, f"late{next(numbers)}", 1, 1, {}, 0.1)
        except ClusterProblem as found:
            return found if "fenced" in found.message else None  # else it was only late
        return None

    found = wait_for(problem, 60.0)
    assert found is not None
    assert re.match(r"Could not create late\d+: .*fenced", found.message), found
    assert (found.code, found.retriable) == (Code.CLUSTER_UNREACHABLE, True)
