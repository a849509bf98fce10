"""The follower of holds on a real broker whose status topic is made again: it never forgets what it knew before it
knows more, and reads the new topic with a new consumer, for librdkafka 2.16 may leave one deaf that is assigned once
more.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message

from recoveryd import sight
from recoveryd.client import status
from recoveryd.client.status import HoldFollower
from recoveryd.sight import SAYS_SO
from tests.builders.copying import Cluster, Row
from tests.builders.core import STATUS
from tests.client.test_book import HOLD
from tests.e2e.processes import wait_for

pytestmark = pytest.mark.broker

PARTITIONS = 2


class DeafWhenAssignedAgain:
    def __init__(self, properties: dict[str, Any]) -> None:
        self._real, self._assigned = Consumer(properties), 0

    def assign(self, where: Any) -> None:
        self._assigned += 1
        self._real.assign(where)

    def consume(self, count: int, wait_s: float) -> list[Message]:
        return [] if self._assigned > 1 else self._real.consume(count, wait_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Told:
    def error(self) -> KafkaError:
        return KafkaError(SAYS_SO)


class BlindOnce:
    """One that is told that it has no broker says so, and from then on gives nothing."""

    made = 0

    def __init__(self, properties: dict[str, Any]) -> None:
        BlindOnce.made += 1
        self._real = Consumer(properties)
        self.told: list[Any] | None = None

    def consume(self, count: int, wait_s: float) -> list[Any]:
        if self.told is None:
            return self._real.consume(count, wait_s)
        told, self.told = self.told, []
        return told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def followers() -> Iterator[list[HoldFollower]]:
    made: list[HoldFollower] = []
    yield made
    for follower in made:
        follower.close()


def written(hold_id: str, number: int) -> Row:
    key, value = STATUS.encode(replace(HOLD, id=hold_id, topics=("a",)))
    return Row(number % PARTITIONS, -1, key, value, int(time.time() * 1_000))


def test_a_status_topic_that_is_made_again_is_read_by_a_new_consumer_while_what_was_known_holds(
    bootstrap: str, unique: str, monkeypatch: pytest.MonkeyPatch, followers: list[HoldFollower]
) -> None:
    monkeypatch.setattr(status, "Consumer", DeafWhenAssignedAgain)
    cluster = Cluster(bootstrap, unique)
    topic = cluster.topic("status", PARTITIONS)
    cluster.fill(topic, [written(f"h{number}", number) for number in range(20)])
    follower = HoldFollower(cluster.client, topic, "main")
    followers.append(follower)
    follower.read(60.0)
    known = {f"h{number}" for number in range(20)}
    assert follower.book.held(["a"]) == {"a": known}

    cluster.recreate(topic, PARTITIONS)
    cluster.fill(topic, [written("new", 0)])
    seen: list[frozenset[str]] = []

    def is_new() -> bool:
        follower.follow(0.1)
        seen.append(follower.book.held(["a"]).get("a", frozenset()))
        return seen[-1] == {"new"}

    wait_for(is_new, 30.0, lambda: f"{seen[-1]}")
    assert set(seen) == {frozenset(known), frozenset({"new"})}, "never nothing, and never half of it"


def test_one_that_lost_sight_of_the_cluster_is_replaced(
    bootstrap: str, unique: str, monkeypatch: pytest.MonkeyPatch, followers: list[HoldFollower]
) -> None:
    monkeypatch.setattr(status, "Consumer", BlindOnce)
    monkeypatch.setattr(sight, "BLIND_AFTER_S", 0.5)
    cluster = Cluster(bootstrap, unique)
    topic = cluster.topic("status", PARTITIONS)
    cluster.fill(topic, [written("before", 0)])
    follower = HoldFollower(cluster.client, topic, "main")
    followers.append(follower)
    follower.read(60.0)
    blind: Any = follower._consumer
    blind.told = [Told()]
    cluster.fill(topic, [written("after", 1)])

    def is_known() -> bool:
        follower.follow(0.1)
        return follower.book.held(["a"]) == {"a": {"before", "after"}}

    wait_for(is_known, 30.0, lambda: f"{follower.book.held(['a'])}")
    assert BlindOnce.made == 2
