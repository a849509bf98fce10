"""What looks at a real broker tell of a group that reads committed records, while somebody's transaction is open."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer

from recoveryd.live.lag.book import LagBook, evaluate_reader, lag_reading, with_samples
from recoveryd.live.lag.verdicts import GroupLag
from recoveryd.live.lag.window import LagParams
from tests.integration.test_group_offsets import DEADLINE_S, Live, Looking

pytestmark = pytest.mark.broker

PARAMS = LagParams(period_ms=1_000, commit_interval_ms=1_000, is_read_committed=True, slo_ms=5_000)


@pytest.fixture
def live(bootstrap: str, unique: str) -> Live:
    return Live(bootstrap, unique)


@contextmanager
def traffic(live: Live) -> Iterator[None]:
    """Some 100 records a second come to each partition, and the group reads what it can."""
    over = threading.Event()

    def write() -> None:
        producer = Producer(live.properties | {"linger.ms": 0})
        while not over.wait(0.01):
            for partition in range(3):
                producer.produce(live.live, value=b"live", partition=partition)
            producer.poll(0)
        producer.flush(DEADLINE_S)

    def read() -> None:
        how = {"group.id": live.group, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 200}
        consumer = Consumer(live.properties | how | {"isolation.level": "read_committed"})
        consumer.subscribe([live.live])
        while not over.is_set():
            consumer.consume(500, 0.05)
        consumer.close()

    threads = [threading.Thread(target=work) for work in (write, read)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(DEADLINE_S)


class Looks:
    def __init__(self, live: Live) -> None:
        self._looking, self._book = Looking(live), LagBook()

    async def next(self) -> GroupLag | None:
        """A second later."""
        await asyncio.sleep(1.0)
        seen = await self._looking.look()
        if seen is None:
            return None
        now_ms = time.time_ns() // 1_000_000
        self._book = with_samples(self._book, seen.reader, seen.samples, now_ms, PARAMS, frozenset({seen.reader}))
        group = evaluate_reader(self._book, seen.reader, seen.planned, now_ms, PARAMS)
        return group if lag_reading("lag", group, now_ms) is not None else None

    async def until_within(self, seconds: float) -> None:
        give_up_s = time.monotonic() + DEADLINE_S
        while (group := await self.next()) is None or (group.steady_s or 0.0) > seconds:
            assert time.monotonic() < give_up_s, group


async def test_a_real_transaction_that_stays_open_is_a_lag_that_grows_and_short_ones_are_none(live: Live) -> None:
    writer = Producer(live.properties | {"transactional.id": live.group, "linger.ms": 0})
    writer.init_transactions(DEADLINE_S)
    with traffic(live):
        looks = Looks(live)
        await looks.until_within(1.5)
        short, longest_s = [], 0.0
        for _ in range(8):
            begun_s = time.monotonic()
            writer.begin_transaction()
            writer.produce(live.live, value=b"copy", partition=1)
            writer.flush(DEADLINE_S)
            short.append(await looks.next())
            writer.commit_transaction(DEADLINE_S)
            longest_s = max(longest_s, time.monotonic() - begun_s)
        assert max(group.steady_s or 0.0 for group in short if group is not None) < longest_s + 1.5
        writer.begin_transaction()
        writer.produce(live.live, value=b"copy", partition=1)
        writer.flush(DEADLINE_S)
        begun_s = looked_s = time.monotonic()
        while time.monotonic() - begun_s < 8.0:
            group = await looks.next()
            now_s = time.monotonic()
            stood_s, look_s, looked_s = now_s - begun_s, now_s - looked_s, now_s
            if stood_s > 3.0 and group is not None:
                assert group.steady_s == pytest.approx(stood_s, abs=0.5 + look_s)
        assert group is not None
        assert (group.partitions[1].offset_lag or 0) <= 1, "it has read all that it can"
        writer.abort_transaction(DEADLINE_S)
        await looks.until_within(1.5)
