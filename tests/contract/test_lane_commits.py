"""What a daemon reads before it commits what a dead lane left open, where the lane wrote to very many partitions."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from recoveryd.adapters.kafka import lane_commits, reading
from recoveryd.adapters.kafka.lane_commits import LaneCommits
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd_jobs.contract import Receipt, ReceiptsHome, TargetRun, encode
from tests.builders.records import make_ledger_question, make_plan

PARTITIONS = 300
HOME = ReceiptsHome("receipts", "id", 0, 0)
Place = tuple[str, int]


@dataclass
class Found:
    """A message."""

    where: Place
    at: int
    raw: tuple[bytes | None, bytes | None] = (None, None)
    told: tuple[tuple[str, bytes], ...] = ()
    failed: int | None = None

    def topic(self) -> str:
        return self.where[0]

    def partition(self) -> int:
        return self.where[1]

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.raw[0]

    def value(self) -> bytes | None:
        return self.raw[1]

    def error(self) -> KafkaError | None:
        return None if self.failed is None else KafkaError(self.failed)


class Logs:
    """Everything lies at offset 0 of its partition, and `open` are those without a marker behind it."""

    def __init__(self, records: dict[Place, Found], is_open: Callable[[Place], bool]) -> None:
        self.records, self.is_open = records, is_open
        self.consumers = 0

    def offsets(self, _admin: object, asked: Sequence[Place], *_: object, committed: bool = False) -> dict[int, int]:
        return {place[1]: 0 if committed and self.is_open(place) else 1 for place in asked}

    def make_consumer(self, _properties: object, isolation_level: str) -> "Reader":
        self.consumers += 1
        return Reader(self, isolation_level)


class Reader:
    def __init__(self, logs: Logs, isolation: str) -> None:
        self._logs, self._isolation = logs, isolation
        self._left: list[Found] = []

    def list_topics(self, _topic: str, timeout: float) -> None:
        """Nothing."""

    def assign(self, partitions: list[TopicPartition]) -> None:
        for place in [(p.topic, p.partition) for p in partitions]:
            if self._isolation == "read_uncommitted" or not self._logs.is_open(place):
                self._left.append(self._logs.records[place])
            self._left.append(Found(place, 1, failed=KafkaError._PARTITION_EOF))

    def consume(self, _count: int, _wait_s: float) -> list[Found]:
        found, self._left = self._left, []
        return found

    def poll(self, _wait_s: float) -> None:
        return None

    def close(self) -> None:
        """Nothing."""


def written() -> dict[Place, Found]:
    runs = tuple(TargetRun(p, 1, ((0, 1),)) for p in range(PARTITIONS))
    receipt = Receipt("s", "r1", 0, 1, 0, 0, 0, PARTITIONS, PARTITIONS, 0, 0, 0, 1, runs)
    told = (("recoveryd-chunk", b"chunk.1"),)
    home = HOME.topic, HOME.partition
    targets: dict[Place, Found] = {("out", p): Found(("out", p), 0) for p in range(PARTITIONS)}
    return {home: Found(home, 0, (receipt.key.encode(), encode(receipt)), told), **targets}


@pytest.mark.parametrize("lost", ["the ledger's", "all"])
def test_a_chunk_in_very_many_partitions_is_looked_at_by_few_clients(
    monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    logs = Logs(written(), lambda place: lost == "all" or place[0] == HOME.topic)
    chosen: list[Sequence[Place]] = []

    class Client:
        async def commit_open(self, _name: str, _ms: int, choose: Callable[[], Awaitable[Sequence[Place]]]) -> None:
            chosen.append(await choose())

    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[Client]:
        yield Client()

    monkeypatch.setattr(reading, "make_consumer", logs.make_consumer)
    for name, stand_in in {
        "connected": connected,
        "make_admin": lambda _properties: None,
        "read_offsets": logs.offsets,
        "headers_of": lambda message: message.told,
    }.items():
        monkeypatch.setattr(lane_commits, name, stand_in)
    plan = make_plan((0, 0, PARTITIONS))
    target: Any = replace(plan.target, topic="out", partitions=PARTITIONS)
    question = replace(make_ledger_question(replace(plan, target=target), fence=True))
    LaneCommits({}, ClientAccess("nowhere:1"), "s", HOME, question).write_missing(60_000)
    wanted = [(HOME.topic, HOME.partition)]
    assert chosen == [sorted([*wanted, *(p for p in logs.records if p[0] == "out")] if lost == "all" else wanted)]
    assert logs.consumers < 10
