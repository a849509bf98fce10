"""The progress feed: heartbeats of lanes and drivers reach the inbox; other records do not."""

import asyncio
import time
from collections.abc import Callable

import pytest

from recoveryd.adapters.memory import MemoryRecord
from recoveryd.kernel.events import Event
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat, LanePosition, encode, progress_key
from tests.contract.harness import Harness

DEADLINE_S = 120.0


def lane_record(harness: Harness, sequence: int, age_ms: int = 0) -> MemoryRecord:
    said = LaneHeartbeat(
        "r1", 1, 0, sequence, "copying", True, 10.0, 1000.0, (LanePosition(0, 7, 9, "copying", copied=7),)
    )
    return MemoryRecord(progress_key("r1", 0).encode(), encode(said), harness.now_ms() - age_ms)


def driver_record(harness: Harness, phase: str) -> MemoryRecord:
    return MemoryRecord(progress_key("r1", None).encode(), encode(DriverHeartbeat("r1", 1, phase, 3)), harness.now_ms())


def lane_event(sequence: int) -> LaneHeartbeat:
    positions = (LanePosition(0, 7, 9, "copying", 7, 0, 0, 0, 0),)
    return LaneHeartbeat(
        "r1",
        1,
        0,
        sequence,
        "copying",
        chunk_open=True,
        records_per_s=10.0,
        bytes_per_s=1000.0,
        positions=positions,
        why="",
    )


@pytest.fixture
def look_back_ms(monkeypatch: pytest.MonkeyPatch) -> int:
    """Longer than a busy machine takes to write what shall be heard."""
    for adapter in ("kafka", "memory"):
        monkeypatch.setattr(f"recoveryd.adapters.{adapter}.progress.LOOK_BACK_MS", 300_000)
    return 300_000


async def arrives(harness: Harness, condition: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < give_up_s, "it did not arrive"
        harness.deliver()
        await asyncio.sleep(0.01)


async def test_heartbeats_are_heard_in_order_also_those_of_a_few_seconds_ago(
    harness: Harness, look_back_ms: int
) -> None:
    heard: list[Event] = []
    feed, topic = harness.progress(), harness.names.progress
    harness.write(topic, [lane_record(harness, 1, age_ms=2 * look_back_ms), lane_record(harness, 2, age_ms=500)])
    await feed.start(heard.append)
    await arrives(harness, lambda: len(heard) == 1)
    harness.write(topic, [lane_record(harness, 3), driver_record(harness, "lanes")])
    await arrives(harness, lambda: len(heard) == 3)
    await feed.close()
    assert heard == [lane_event(2), lane_event(3), DriverHeartbeat("r1", 1, "lanes", 3)]


async def test_on_an_idle_topic_old_heartbeats_stay_unheard(harness: Harness) -> None:
    heard: list[Event] = []
    feed, topic = harness.progress(), harness.names.progress
    harness.write(topic, [lane_record(harness, 1, age_ms=60_000)])
    await feed.start(heard.append)
    harness.write(topic, [lane_record(harness, 2)])
    await arrives(harness, lambda: bool(heard))
    await feed.close()
    assert heard == [lane_event(2)]


@pytest.mark.usefixtures("look_back_ms")
async def test_a_record_that_is_no_heartbeat_is_counted_and_passed_over(harness: Harness) -> None:
    heard: list[Event] = []
    feed, topic = harness.progress(), harness.names.progress
    bad = [b"", b"\xff", b"[]", b'{"lane": 1}', encode(LaneHeartbeat("r", 1, 0, 1, "copying", True, 0, 0, ()))[:-2]]
    harness.write(topic, [MemoryRecord(b"k", value, harness.now_ms()) for value in bad])
    harness.write(topic, [MemoryRecord(b"k", None, harness.now_ms()), lane_record(harness, 5)])
    await feed.start(heard.append)
    await arrives(harness, lambda: bool(heard))
    await feed.close()
    assert heard == [lane_event(5)]
    assert feed.unreadable == len(bad) + 1  # type: ignore[attr-defined]


async def test_nothing_is_heard_after_close(harness: Harness) -> None:
    heard: list[Event] = []
    feed = harness.progress()
    await feed.start(heard.append)
    harness.write(harness.names.progress, [lane_record(harness, 1)])
    await arrives(harness, lambda: bool(heard))
    await feed.close()
    harness.write(harness.names.progress, [lane_record(harness, 2)])
    harness.deliver()
    assert heard == [lane_event(1)]


def many(sequence: int, moved: int) -> LaneHeartbeat:
    rows = tuple(LanePosition(p, 7 + (p < moved), 9, "copying", copied=7) for p in range(200))
    return LaneHeartbeat("r1", 1, 0, sequence, "copying", True, 10.0, 1000.0, rows, why='a "positions":[ in words')


async def test_a_lane_of_many_partitions_is_heard_whole_whether_they_moved_or_not(harness: Harness) -> None:
    heard: list[Event] = []
    feed, topic = harness.progress(), harness.names.progress
    await feed.start(heard.append)
    said = [many(1, 0), many(2, 0), many(3, 5), many(4, 5), many(5, 0)]
    for number, beat in enumerate(said, start=1):
        record = MemoryRecord(progress_key("r1", 0).encode(), encode(beat), harness.now_ms())
        harness.write(topic, [record])
        await arrives(harness, lambda count=number: len(heard) == count)  # type: ignore[misc]
    await feed.close()
    assert heard == said
