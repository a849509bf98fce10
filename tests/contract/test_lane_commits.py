"""What a daemon reads before it commits what a dead lane left open, where the lane wrote to very many partitions or
there are very many receipts; and that such a reading is waited for while it gets on.
"""

import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from recoveryd.adapters.kafka import lane_commits, ledger, reading
from recoveryd.adapters.kafka.lane_commits import LaneCommits
from recoveryd.adapters.kafka.ledger import KafkaLedger
from recoveryd.errors import ClusterProblem
from recoveryd.recovery.effects import ReadLedger
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd_jobs.contract import Receipt, ReceiptsHome, TargetRun, encode
from tests.builders.records import make_ledger_question, make_plan
from tests.patience import patient_s

PARTITIONS = 300
MANY = 5_000
HOME = ReceiptsHome("receipts", "id", 0, 0)
Place = tuple[str, int]
RECEIPTS: Place = (HOME.topic, HOME.partition)


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
    """The records of each place lie from offset 0 on; `stable`: where something without a marker begins."""

    def __init__(self, records: Mapping[Place, Sequence[Found]], stable: Mapping[Place, int]) -> None:
        self.records, self.stable = records, stable
        self.consumers, self.read = 0, Counter[Place]()
        self.is_silent = False
        self.before_more: Callable[[], object] = lambda: None  # called by who reads, before it gets anything

    def end(self, place: Place, *, committed: bool) -> int:
        high = len(self.records[place])
        return self.stable.get(place, high) if committed else high

    def offsets(self, _admin: object, asked: Sequence[Place], *_: object, committed: bool = False) -> dict[int, int]:
        return {place[1]: self.end(place, committed=committed) for place in asked}

    def make_consumer(self, _properties: object, isolation_level: str = "read_committed") -> "Reader":
        self.consumers += 1
        return Reader(self, committed=isolation_level == "read_committed")


class Reader:
    def __init__(self, logs: Logs, *, committed: bool) -> None:
        self._logs, self._committed = logs, committed
        self._left: list[Found] = []

    def list_topics(self, _topic: str, timeout: float) -> None:
        """Nothing."""

    def assign(self, partitions: list[TopicPartition]) -> None:
        for place, start in [((p.topic, p.partition), p.offset) for p in partitions]:
            end = self._logs.end(place, committed=self._committed)
            self._left += [*self._logs.records[place][start:end], Found(place, end, failed=KafkaError._PARTITION_EOF)]

    def consume(self, count: int, _wait_s: float) -> list[Found]:
        self._logs.before_more()
        if self._logs.is_silent:
            return []
        found, self._left = self._left[:count], self._left[count:]
        self._logs.read.update(each.where for each in found if each.failed is None)
        return found

    def poll(self, _wait_s: float) -> None:
        return None

    def close(self) -> None:
        """Nothing."""


def make_question(partitions: int, **more: Any) -> ReadLedger:
    plan = make_plan((0, 0, partitions))
    target: Any = replace(plan.target, topic="out", partitions=partitions)
    return make_ledger_question(replace(plan, target=target, **more), fence=True)


def in_partitions() -> dict[Place, Sequence[Found]]:
    """A chunk of one record in each."""
    runs = tuple(TargetRun(p, 1, ((0, 1),)) for p in range(PARTITIONS))
    receipt = Receipt("s", "r1", 0, 1, 0, 0, 0, PARTITIONS, PARTITIONS, 0, 0, 0, 1, runs)
    told = (("recoveryd-chunk", b"chunk.1"),)
    targets = {("out", p): [Found(("out", p), 0)] for p in range(PARTITIONS)}
    return {RECEIPTS: [Found(RECEIPTS, 0, (receipt.key.encode(), encode(receipt)), told)], **targets}


def with_receipts() -> dict[Place, Sequence[Found]]:
    """As many chunks of one record each as there are, all in the same partition."""
    receipts = []
    for at in range(MANY):
        run = TargetRun(0, 1, ((at, 1),))
        receipt = Receipt("s", "r1", 0, 1, at, 0, at, at + 1, 1, 0, 0, 0, 1, (run,), "source-id", "target-id")
        receipts.append(Found(RECEIPTS, at, (receipt.key.encode(), encode(receipt))))
    return {RECEIPTS: receipts, ("out", 0): [Found(("out", 0), at) for at in range(MANY)]}


class Coordinator:
    """Notes what is to be committed; `refusal` is raised instead."""

    def __init__(self) -> None:
        self.chosen: list[Sequence[Place]] = []
        self.refusal: ClusterProblem | None = None

    @asynccontextmanager
    async def connected(self, *_: object) -> AsyncIterator["Coordinator"]:
        yield self

    async def commit_open(self, _name: str, _ms: int, choose: Callable[[], Awaitable[Sequence[Place]]]) -> None:
        self.chosen.append(await choose())
        if self.refusal is not None:
            raise self.refusal


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Logs], Coordinator]:
    """Let these logs, and the coordinator that is returned, be the cluster."""

    def put(logs: Logs) -> Coordinator:
        coordinator = Coordinator()
        monkeypatch.setattr(reading, "make_consumer", logs.make_consumer)
        for name, instead in {
            "connected": coordinator.connected,
            "make_admin": lambda _properties: None,
            "read_offsets": logs.offsets,
            "headers_of": lambda message: message.told,
        }.items():
            monkeypatch.setattr(lane_commits, name, instead)
        for name, instead in {
            "fence": lambda *_: None,
            "make_admin": lambda _properties: None,
            "describe": lambda _admin, topics, _s: {t: SimpleNamespace(topic_id=HOME.topic_id) for t in topics},
            "log_range": lambda *_: (0, logs.end(RECEIPTS, committed=False)),
            "shut_out": lambda *_: None,
            "_TELL_S": 0.02,
        }.items():
            monkeypatch.setattr(ledger, name, instead)
        return coordinator

    return put


StandIn = Callable[[Logs], Coordinator]


@pytest.mark.parametrize("lost", ["the ledger's", "all"])
def test_a_chunk_in_very_many_partitions_is_looked_at_by_few_clients(stand_in: StandIn, lost: str) -> None:
    records = in_partitions()
    logs = Logs(records, {place: 0 for place in records if lost == "all" or place == RECEIPTS})
    coordinator = stand_in(logs)
    LaneCommits({}, ClientAccess("nowhere:1"), "s", HOME, make_question(PARTITIONS)).write_missing(60_000)
    assert coordinator.chosen == [sorted(records) if lost == "all" else [RECEIPTS]]
    assert logs.consumers < 10


def test_very_many_receipts_are_looked_through_once(stand_in: StandIn) -> None:
    """The second look, under the deadline of what is committed, goes on where the first one ended."""
    logs = Logs(with_receipts(), {("out", 0): MANY - 3})
    coordinator, steps = stand_in(logs), Counter[str]()

    def moved() -> None:
        steps["records"] += 1

    LaneCommits({}, ClientAccess("nowhere:1"), "s", HOME, make_question(1), moved).write_missing(60_000)
    assert coordinator.chosen == [[("out", 0)]]
    assert logs.read == {RECEIPTS: MANY, ("out", 0): 6}
    assert steps["records"] == MANY + 6


def make_ledger() -> KafkaLedger:
    return KafkaLedger({"main": {}}, HOME.topic, "s", accesses={"main": ClientAccess("nowhere:1")})


class Told:
    """Where the reading of the receipts was when it was told to get on. With `gate`, each batch but the first comes
    once the one before was told.
    """

    def __init__(self, logs: Logs) -> None:
        self._logs, self._changed = logs, threading.Condition()
        self.at: list[int] = []

    def __call__(self) -> None:
        with self._changed:
            self.at.append(self._logs.read[RECEIPTS])
            self._changed.notify_all()

    def gate(self) -> None:
        with self._changed:
            count = self._logs.read[RECEIPTS]
            if 0 < count < MANY:
                assert self._changed.wait_for(lambda: count in self.at, patient_s(30))


async def test_a_long_look_through_the_receipts_is_told_to_get_on(stand_in: StandIn) -> None:
    logs = Logs(with_receipts(), {("out", 0): MANY - 3})
    stand_in(logs)
    told = Told(logs)
    logs.before_more = told.gate
    found = await make_ledger().read(make_question(1, lanes=((0,),), receipts=HOME), told)
    assert found.fenced
    assert {2_000, 4_000} <= set(told.at)


async def test_a_look_that_stands_still_is_given_up_and_is_no_progress(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker says where the logs end, and gives nothing of what lies there."""
    logs = Logs(with_receipts(), {("out", 0): MANY - 3})
    stand_in(logs)
    monkeypatch.setattr(lane_commits, "_READ_S", 0.1)
    monkeypatch.setattr(ledger, "_PATIENCE_S", 0.1)
    told, home = Told(logs), replace(HOME, start=1)
    logs.is_silent = True
    with pytest.raises(ClusterProblem, match="nothing came") as caught:
        await make_ledger().read(make_question(1, lanes=((0,),), receipts=home), told)
    assert (caught.value.retriable, told.at) == (True, [])
    assert logs.consumers == 2, "of the look and of the ledger"


async def test_looks_that_lead_to_nothing_are_progress_a_few_times_only(stand_in: StandIn) -> None:
    """The receipts can be read, again and again, but the markers not be written."""
    logs = Logs(with_receipts(), {("out", 0): MANY - 3})
    coordinator, receipts = stand_in(logs), make_ledger()
    coordinator.refusal = ClusterProblem("the coordinator does not answer")
    question, was_told = make_question(1, lanes=((0,),), receipts=HOME), []
    for attempt in range(5):
        logs.read.clear()
        told = Told(logs)
        logs.before_more = told.gate if attempt < 3 else lambda: None
        with pytest.raises(ClusterProblem, match="coordinator"):
            await receipts.read(question, told)
        was_told.append(bool(told.at))
    assert was_told == [True, True, True, False, False]
