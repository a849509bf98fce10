"""Whoever stops reading the control topic, as at SIGTERM, closes no consumer that still polls."""

import asyncio
import threading
from typing import Any

import pytest

from recoveryd.adapters.kafka import control_log
from recoveryd.adapters.kafka.control_log import KafkaControlLog
from recoveryd.errors import ClusterProblem
from tests.patience import patient_s
from tests.runtime.fakes import until, within


class HeldConsumer:
    """Polls until it is `let`, as where no broker answers; `log` has what began and ended, in order."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.log: list[str] = []

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 0, 10

    def list_topics(self, *_: Any, **__: Any) -> None: ...

    def assign(self, _places: Any) -> None: ...

    def consume(self, *_: Any) -> list[Any]:
        return []

    def poll(self, _wait_s: float) -> None:
        self.log.append("polls")
        self.let.wait(patient_s(10))
        self.log.append("has polled")

    def close(self) -> None:
        self.log.append("closes")


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> HeldConsumer:
    held = HeldConsumer()
    monkeypatch.setattr(control_log, "make_control_consumer", lambda _properties: held)
    monkeypatch.setattr(control_log, "DEADLINE_S", 0.0)  # the first poll is the last one
    monkeypatch.setattr(control_log, "CLOSE_S", 0.05)
    return held


async def read_all() -> None:
    async for _page in KafkaControlLog({}, "control").pages(0, None):
        pass


async def test_a_consumer_is_closed_behind_what_it_does_and_whoever_stops_waits_only_so_long(
    consumer: HeldConsumer,
) -> None:
    reading = asyncio.create_task(read_all())
    await until(lambda: consumer.log)
    reading.cancel()
    await within(asyncio.wait({reading}))
    assert (reading.cancelled(), consumer.log) == (True, ["polls"])
    consumer.let.set()
    await until(lambda: len(consumer.log) == 3)
    assert consumer.log == ["polls", "has polled", "closes"]


async def test_one_that_is_being_made_is_closed_as_well(
    consumer: HeldConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def make(_properties: Any) -> HeldConsumer:
        begun.set()
        consumer.let.wait(patient_s(10))
        return consumer

    monkeypatch.setattr(control_log, "make_control_consumer", make)
    reading = asyncio.create_task(read_all())
    await until(begun.is_set)
    reading.cancel()
    await within(asyncio.wait({reading}))
    assert consumer.log == []
    consumer.let.set()
    await until(lambda: consumer.log)
    assert consumer.log == ["closes"]


async def test_a_log_that_cannot_be_read_costs_no_thread(consumer: HeldConsumer) -> None:
    consumer.let.set()
    for _ in range(3):
        with pytest.raises(ClusterProblem):
            await within(read_all())
    assert consumer.log == ["polls", "has polled", "closes"] * 3
    await until(lambda: not [t for t in threading.enumerate() if t.name.startswith("control-log")])
