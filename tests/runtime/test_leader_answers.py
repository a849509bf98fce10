"""What leaders are asked for a plan, when one of them is silent or refuses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from recoveryd.adapters.kafka import leader_answers
from recoveryd.adapters.kafka.leader_answers import LeaderAnswers
from recoveryd.adapters.kafka.raw_requests import RawClient
from recoveryd.settings.kafka_properties import ClientAccess

LEADERS = {0: 1, 1: 2, 2: 3, 3: -1}
SILENT, REFUSING = 1, 2


class Brokers:
    """Broker 1 says nothing, 2 breaks off, and the others tell a size of each partition."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def send(self, broker: int, _question: object) -> Any:
        self.asked.append(broker)
        if broker == SILENT:
            await asyncio.Event().wait()
        if broker == REFUSING or broker < 0:
            raise ConnectionError("it broke off")
        rows = [(partition, 100 + partition, 0, False) for partition, at in LEADERS.items() if at == broker]
        return SimpleNamespace(results=[(0, "/disk", [("t", rows)])])


async def test_one_silent_leader_costs_only_its_own_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers()

    @asynccontextmanager
    async def connected(_access: object, _name: str, doing: str, _deadline_s: float) -> AsyncIterator[RawClient]:
        async with asyncio.timeout(0.1):
            yield RawClient(brokers, doing)

    monkeypatch.setattr(leader_answers, "connected", connected)
    answers = LeaderAnswers({"main": ClientAccess("127.0.0.1:9")})
    assert await answers.log_sizes("main", "t", LEADERS) == {2: 102}
    assert sorted(brokers.asked) == [-1, 1, 2, 3]
    assert await answers.log_sizes("main", "t", {0: SILENT}) is None
    assert await answers.log_sizes("elsewhere", "t", LEADERS) is None
