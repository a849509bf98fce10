"""Where events wait for the loop: one queue in order of arrival, with bounded numbers of control records and of hints.

For control records there is back-pressure: `put_control` waits for room, by their number and by their bytes, since
anybody may write large ones. A hint (heartbeat, offset sample, tick) replaces a waiting one of the same lane, driver,
group or kind, because only the newest matters, and keeps its place. Results of effects are few (one per effect) and are
never dropped.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from recoveryd.holds.events import GroupSeen
from recoveryd.kernel.events import ControlRead, Event, Tick
from recoveryd.live.events import OffsetsSampled, ReaderSampled, ReadingTaken
from recoveryd.ports import ControlRecord
from recoveryd.units.events import RetentionSeen
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat

WAITING_BYTES: Final = 64 * 1024 * 1024
# A record that cannot be read is journaled whole, as a dead letter, and a round is one transaction.
ROUND_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Item:
    """A waiting event. For a control record also the record, and a future that resolves when the journal holds its
    outcome.
    """

    event: Event
    record: ControlRecord | None = None
    done: asyncio.Future[None] | None = None


class Inbox:
    """`emit` may be called from any thread, everything else from the loop only."""

    def __init__(self, capacity: int = 10_000, control_bytes: int = WAITING_BYTES) -> None:
        self.dropped_hints = 0
        self._capacity = capacity
        self._control_bytes_most = control_bytes
        self._lock = threading.Lock()
        self._items: OrderedDict[Hashable, Item] = OrderedDict()
        self._serial = 0
        self._control = 0
        self._control_bytes = 0
        self._hints = 0
        self._filled = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._items)

    def emit(self, event: Event) -> None:
        """Put an event in; never blocks. A new hint is dropped when there are too many hints: the next one tells the
        same.
        """
        key = _hint_key(event)
        with self._lock:
            if key is None:
                self._append(Item(event))
            elif key in self._items:
                self._items[key] = Item(event)
            elif self._hints < self._capacity:
                self._hints += 1
                self._items[key] = Item(event)
            else:
                self.dropped_hints += 1
        self._wake()

    async def put_control(self, record: ControlRecord, event: Event) -> asyncio.Future[None]:
        """Wait for room and put the record in, however large it is. Returns a future that resolves once its outcome is
        journaled.
        """
        while self._is_full():
            self._has_room.clear()
            await self._has_room.wait()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._control += 1
            self._control_bytes += record.size
            self._append(Item(event, record, done))
        self._wake()
        return done

    async def take(self, at_most: int, wait_s: float, bytes_at_most: int = ROUND_BYTES) -> list[Item]:
        """The oldest `at_most` items, fewer if control records among them are large, but one at least; waits up to
        `wait_s` for the first one, then returns what is there, possibly nothing.
        """
        self._loop = asyncio.get_running_loop()
        if not self._items:
            self._filled.clear()
            if not self._items:  # another thread may have emitted since the check above
                try:
                    await asyncio.wait_for(self._filled.wait(), wait_s)
                except TimeoutError:
                    return []
        items: list[Item] = []
        with self._lock:
            left_least = self._control_bytes - bytes_at_most
            while self._items and len(items) < at_most and self._control_bytes > left_least:
                items.append(self._pop())
        if not self._is_full():
            self._has_room.set()
        return items

    def drop_hints(self) -> None:
        """Drop the waiting hints of which new ones come within seconds."""
        with self._lock:
            self._items = OrderedDict((k, i) for k, i in self._items.items() if not _comes_soon_again(i.event))
            self._hints = sum(_hint_key(item.event) is not None for item in self._items.values())

    def drop_read(self) -> None:
        """Drop the word that the control topic was read, since it is read once more."""
        with self._lock:
            self._items = OrderedDict((k, i) for k, i in self._items.items() if not isinstance(i.event, ControlRead))

    def nudge(self) -> None:
        """Let a waiting `take` return at once, with nothing."""
        self._wake()

    def _is_full(self) -> bool:
        return self._control >= self._capacity or self._control_bytes >= self._control_bytes_most

    def _append(self, item: Item) -> None:
        self._serial += 1
        self._items[self._serial] = item

    def _pop(self) -> Item:
        _, item = self._items.popitem(last=False)
        if item.record is not None:
            self._control -= 1
            self._control_bytes -= item.record.size
        elif _hint_key(item.event) is not None:
            self._hints -= 1
        return item

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._filled.set)


def without_hints(items: Sequence[Item]) -> list[Item]:
    """Items that were taken already, as `drop_hints` leaves those that wait."""
    return [item for item in items if not _comes_soon_again(item.event)]


def without_read(items: Sequence[Item]) -> list[Item]:
    """Items that were taken already, as `drop_read` leaves those that wait."""
    return [item for item in items if not isinstance(item.event, ControlRead)]


def _comes_soon_again(event: Event) -> bool:
    """How long topics are kept is asked every few minutes only."""
    return _hint_key(event) is not None and not isinstance(event, RetentionSeen)


def _hint_key(event: Event) -> Hashable | None:
    """Which waiting event this one replaces; None = none, it must be handled itself. Attempts differ, so that an old
    attempt's heartbeat never hides a newer one's.
    """
    key: Hashable | None = None
    match event:
        case LaneHeartbeat():
            key = ("lane", event.recovery, event.attempt, event.lane)
        case DriverHeartbeat():
            key = ("driver", event.recovery, event.attempt)
        case OffsetsSampled():
            key = "offsets"
        case ReaderSampled():
            key = ("reader", event.reader)
        case GroupSeen():
            key = ("group", event.cluster, event.group)
        case RetentionSeen():
            key = ("retention", event.unit)
        case ReadingTaken():  # each by itself, so that a low value does not hide the peak before it
            key = ("reading", event.domain, event.reading.name, event.reading.sampled_at_ms)
        case Tick():
            key = "tick"
    return key
