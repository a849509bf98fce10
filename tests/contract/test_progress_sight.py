"""The progress feed goes on with a new consumer when its own has lost sight of the cluster."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from recoveryd import sight
from recoveryd.adapters.kafka import progress
from recoveryd.adapters.kafka.client import make_consumer
from recoveryd.adapters.kafka.reading import next_messages
from recoveryd.kernel.events import Event
from tests.contract.harness import KafkaHarness
from tests.contract.test_progress import arrives, lane_event, lane_record

pytestmark = pytest.mark.broker


class Told:
    def key(self) -> bytes | None:
        return None

    def error(self) -> KafkaError:
        return KafkaError(sight.SAYS_SO)


async def test_what_was_said_while_the_consumer_was_blind_is_heard_by_the_next_one(
    bootstrap: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = KafkaHarness(bootstrap, unique)
    made: list[Any] = []
    told: list[Any] = []
    is_blind = False

    def make(*given: Any, **more: Any) -> Any:
        made.append(make_consumer(*given, **more))
        return made[-1]

    def messages(consumer: Any, wait_s: float) -> list[Any]:
        if not is_blind or consumer is not made[0]:
            return next_messages(consumer, wait_s)
        return [told.pop()] if told else []

    monkeypatch.setattr(progress, "make_consumer", make)
    monkeypatch.setattr(progress, "next_messages", messages)
    monkeypatch.setattr(sight, "BLIND_AFTER_S", 0.5)
    heard: list[Event] = []
    feed = harness.progress()
    await feed.start(heard.append)
    harness.write(harness.names.progress, [lane_record(harness, 1)])
    await arrives(harness, lambda: len(heard) == 1)
    told.append(Told())
    is_blind = True
    await arrives(harness, lambda: not told)
    harness.write(harness.names.progress, [lane_record(harness, 2)])
    await arrives(harness, lambda: len(heard) == 2)
    await feed.close()
    assert heard == [lane_event(1), lane_event(2)]
    assert len(made) == 2
