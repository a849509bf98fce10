"""Events wait in order, in bounded room."""

import asyncio
import threading
from dataclasses import replace

from recoveryd.holds.events import GroupSeen
from recoveryd.kernel.events import CommandReceived, Tick
from recoveryd.live.events import OffsetsSampled, ReaderSampled, ReadingTaken
from recoveryd.live.freshness import Reading
from recoveryd.live.lag.book import Reader
from recoveryd.recovery.events import AttemptExited
from recoveryd.runtime.inbox import Inbox, Item, without_hints
from recoveryd.units.events import RetentionSeen
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat
from tests.builders.core import command
from tests.runtime.fakes import record, within

BEAT = LaneHeartbeat("r1", 1, 0, 1, "copying", True, 10.0, 1000.0, (), "")


async def take_all(inbox: Inbox) -> list[object]:
    return [item.event for item in await inbox.take(10_000, 0.01)]


async def test_events_come_out_in_the_order_of_arrival() -> None:
    inbox = Inbox()
    first, second = command("replay", offset=0), command("pause", offset=1)
    await inbox.put_control(record(0), first)
    inbox.emit(BEAT)
    await inbox.put_control(record(1), second)
    inbox.emit(AttemptExited("r1", 1, 0, ""))
    assert await take_all(inbox) == [first, BEAT, second, AttemptExited("r1", 1, 0, "")]


async def test_a_newer_heartbeat_takes_the_place_of_a_waiting_one_of_the_same_lane_only() -> None:
    inbox = Inbox()
    newer, other_lane, next_attempt = replace(BEAT, why="new"), replace(BEAT, lane=1), replace(BEAT, attempt=2)
    for event in (BEAT, other_lane, next_attempt, Tick(), newer, Tick()):
        inbox.emit(event)
    assert await take_all(inbox) == [newer, other_lane, next_attempt, Tick()]


async def test_an_old_attempts_heartbeat_never_hides_a_new_ones() -> None:
    inbox = Inbox()
    new, old = DriverHeartbeat("r1", 2, "lanes", 5), DriverHeartbeat("r1", 1, "exiting", 4)
    inbox.emit(new)
    inbox.emit(old)
    assert await take_all(inbox) == [new, old]


async def test_a_newer_look_at_a_group_takes_the_place_of_a_waiting_one_but_every_reading_is_kept() -> None:
    inbox = Inbox()
    one, other = Reader("main", "t", "one"), Reader("main", "t", "other")
    peak, calm = (ReadingTaken("main", Reading("produce_latency", v, at)) for v, at in ((9.0, 1), (0.1, 2)))
    for event in (ReaderSampled(one, (), ()), ReaderSampled(other, (), ()), peak, calm, ReaderSampled(one, (0,), ())):
        inbox.emit(event)
    assert await take_all(inbox) == [ReaderSampled(one, (0,), ()), ReaderSampled(other, (), ()), peak, calm]


async def test_what_is_seen_of_members_and_of_retention_does_not_pile_up() -> None:
    """As while the journal cannot be written, and nothing is taken out."""
    inbox = Inbox()
    others = [GroupSeen("dr", "g", 1, ()), GroupSeen("main", "other", 1, ()), RetentionSeen("other", {})]
    for at_ms in range(5):
        for event in (GroupSeen("main", "g", at_ms, ()), RetentionSeen("u", {"t": at_ms})):
            inbox.emit(event)
    for event in others:
        inbox.emit(event)
    assert await take_all(inbox) == [GroupSeen("main", "g", 4, ()), RetentionSeen("u", {"t": 4}), *others]


async def test_hints_that_come_soon_again_are_dropped_and_what_is_asked_every_few_minutes_stays() -> None:
    inbox, kept = Inbox(capacity=1), RetentionSeen("u", {"t": 1})
    inbox.emit(GroupSeen("main", "g", 1, ()))
    inbox.drop_hints()
    inbox.emit(kept)
    inbox.drop_hints()
    inbox.emit(Tick())
    assert inbox.dropped_hints == 1, "there is no room beside the one that stayed"
    items = await inbox.take(10, 0.01)
    assert [item.event for item in without_hints([*items, Item(Tick())])] == [kept]
    inbox.emit(Tick())
    assert await take_all(inbox) == [Tick()]


async def test_samples_coalesce_and_a_taken_hint_does_not_swallow_the_next() -> None:
    inbox = Inbox()
    inbox.emit(OffsetsSampled((), missing=(("main", "a"),)))
    inbox.emit(OffsetsSampled(()))
    assert await take_all(inbox) == [OffsetsSampled(())]
    inbox.emit(OffsetsSampled(()))
    assert await take_all(inbox) == [OffsetsSampled(())]


async def test_a_full_inbox_makes_control_records_wait_and_lets_them_on_after_a_take() -> None:
    inbox = Inbox(capacity=3)
    for offset in range(3):
        await inbox.put_control(record(offset), command("pause", offset=offset))
    waiting = asyncio.create_task(inbox.put_control(record(3), command("pause", offset=3)))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert len(await inbox.take(1, 0.01)) == 1
    await within(waiting)
    taken = await inbox.take(10, 0.01)
    assert [item.record.offset for item in taken if item.record] == [1, 2, 3]


async def test_large_control_records_wait_for_room_by_their_bytes_and_one_always_passes() -> None:
    inbox = Inbox(control_bytes=100)
    large = replace(record(0), key=b"k" * 100, value=b"v" * 100, headers=(("name", b"h" * 100), ("none", None)))
    assert large.size == 308
    await within(inbox.put_control(large, command("pause", offset=0)))
    waiting = asyncio.create_task(inbox.put_control(record(1), command("pause", offset=1)))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert len(await inbox.take(10, 0.01)) == 1
    await within(waiting)
    await within(inbox.put_control(record(2), command("pause", offset=2)))


async def test_a_round_ends_at_its_bytes_and_has_one_record_at_least() -> None:
    inbox = Inbox()
    for offset in range(5):
        await inbox.put_control(replace(record(offset), value=b"v" * 60), command("pause", offset=offset))
        inbox.emit(AttemptExited("r1", offset, 0, ""))
    taken = [await inbox.take(10, 0.01, bytes_at_most) for bytes_at_most in (100, 1, 10_000)]
    assert [[item.record.offset for item in items if item.record] for items in taken] == [[0, 1], [2], [3, 4]]
    assert sum(len(items) for items in taken) == 10


async def test_hints_beyond_the_room_are_dropped_and_results_never() -> None:
    inbox = Inbox(capacity=5)
    for lane in range(8):
        inbox.emit(replace(BEAT, lane=lane))
    for attempt in range(8):
        inbox.emit(AttemptExited("r1", attempt, 0, ""))
    events = await take_all(inbox)
    assert inbox.dropped_hints == 3
    assert [e.lane for e in events if isinstance(e, LaneHeartbeat)] == [0, 1, 2, 3, 4]
    assert [e.attempt for e in events if isinstance(e, AttemptExited)] == list(range(8))
    inbox.emit(BEAT)
    assert await take_all(inbox) == [BEAT]


async def test_an_event_of_another_thread_wakes_the_one_who_waits() -> None:
    inbox = Inbox()
    taking = asyncio.create_task(inbox.take(10, 600.0))
    await asyncio.sleep(0)
    thread = threading.Thread(target=inbox.emit, args=(Tick(),))
    thread.start()
    items = await within(taking)
    thread.join()
    assert [item.event for item in items] == [Tick()]


async def test_a_take_is_bounded_and_returns_nothing_after_its_wait() -> None:
    inbox = Inbox()
    assert await inbox.take(10, 0.01) == []
    for offset in range(5):
        await inbox.put_control(record(offset), command("pause", offset=offset))
    assert len(await inbox.take(2, 0.01)) == 2
    assert len(inbox) == 3
    assert all(isinstance(item.event, CommandReceived) for item in await inbox.take(10, 0.01))
