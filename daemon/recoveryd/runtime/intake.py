"""Brings control records into the inbox: each offset once, in order, none left out.

The group's committed offset is not enough for that. It can be too low (a crash before a commit: records come again)
and, after rebalances, too high (records never come). So the journal's position counts: a new leader reads everything
from there to the end directly, and so does one that gets its partition back; later jumps in the offsets are read
directly as well, and records that come again are skipped. Delivery by the group is only the fast way.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import ControlRead, ControlUnreadable, Event
from recoveryd.ports import ControlLog, ControlRecord
from recoveryd.runtime.inbox import Inbox

log = structlog.stdlib.get_logger(__name__)

Decode = Callable[[ControlRecord], Event]
RETRY_S = 2.0


class ControlIntake:
    """`accept` may be called before this daemon leads; it then waits."""

    def __init__(self, inbox: Inbox, control_log: ControlLog, decode: Decode) -> None:
        self._inbox = inbox
        self._control_log = control_log
        self._decode = decode
        self._next = 0  # first offset not yet in the inbox
        self._is_behind = False
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._turn = asyncio.Lock()
        self._is_open = asyncio.Event()
        self._wants_look = asyncio.Event()
        self._is_looking = False
        self._found = 0  # by the present look
        self._silent_to: int | None = None  # the end of the topic when the group's silence made us look
        self._looked_to = 0  # what has no record before it never will
        self.deliveries = 0  # by the group, also of what was taken before
        self.missed = 0  # records that lay on the topic while the group was silent, as it has been since

    @property
    def position(self) -> int:
        """What lies before it on the topic was taken, or is no record."""
        return max(self._next, self._looked_to)

    @property
    def has_read(self) -> bool:
        """Whether everything that lay on the topic when this daemon first led has gone into the inbox."""
        return self._is_open.is_set() and not self._is_behind

    @property
    def is_idle(self) -> bool:
        """Whether no record is on its way into the inbox, nor looked for."""
        return self.has_read and not (self._is_looking or self._wants_look.is_set() or self._turn.locked())

    @property
    def is_caught_up(self) -> bool:
        """Whether every record is decided and journaled that lay on the topic when this daemon first led, or when the
        partition came back.
        """
        is_looking = self._is_looking or self._wants_look.is_set()
        return self.has_read and not is_looking and not self._waiting

    def open_at(self, offset: int) -> None:
        """Let `accept` go on, once everything from `offset` to the end was read directly. Call it once, when this
        daemon first leads.
        """
        self._next = offset
        self._is_behind = True
        self._is_open.set()

    def look_again(self) -> None:
        """The partition came back: records may lie on the topic that the group will not deliver."""
        self._note_life()
        self._wants_look.set()

    def look_for_missed(self, end: int) -> None:
        """The group is silent although the topic goes to `end`: look what lies there. It may be no record at all, but
        markers of transactions.
        """
        self._silent_to = end
        self._wants_look.set()

    async def run(self) -> None:
        """Read to the end of the topic when this daemon first leads and after each `look_again`, and tell when that is
        done; until cancelled.
        """
        await self.catch_up()
        while True:
            await self._wants_look.wait()
            self._is_looking = True
            self._wants_look.clear()
            self._found = 0
            await _until_read(self._look)
            self._is_looking = False
            self._note_missed()
            self._tell_read()

    async def _look(self) -> None:
        """Delivery goes on meanwhile, however long the topic cannot be read: what came by it is passed over here."""
        async for page in self._control_log.pages(self._next, None):
            for record in page:
                async with self._turn:
                    if record.offset >= self._next:
                        await self._feed(record)
                        self._found += 1

    def _note_missed(self) -> None:
        if self._silent_to is None:
            return
        self._looked_to, self._silent_to = max(self._looked_to, self._silent_to), None
        if self._found:
            log.warning("control records were read directly, the group did not deliver them", records=self._found)
            self.missed += self._found

    def _note_life(self) -> None:
        self._silent_to, self.missed = None, 0

    async def catch_up(self) -> None:
        """Once opened, read from the journal's position to the end of the topic; tries again until the topic can be
        read.
        """
        await self._is_open.wait()
        async with self._turn:
            await self._read_if_behind()

    async def _read_if_behind(self) -> None:
        if self._is_behind:
            await self._read(None)
            self._is_behind = False
            self._tell_read()

    def _tell_read(self) -> None:
        if not self._wants_look.is_set():  # or it is told after that look
            self._inbox.emit(ControlRead())

    async def accept(self, record: ControlRecord) -> asyncio.Future[None]:
        """Take in a delivered record; the future resolves once the journal holds its outcome."""
        await self._is_open.wait()
        self.deliveries += 1
        self._note_life()
        async with self._turn:
            await self._read_if_behind()
            if record.offset < self._next:
                return self._waiting.get(record.offset) or _resolved()
            if record.offset > self._next:
                await self._read(record.offset)
            return await self._feed(record)

    async def _read(self, stop: int | None) -> None:
        async def read() -> None:
            if stop is not None and self._next >= stop:
                return
            async for page in self._control_log.pages(self._next, stop):
                for record in page:
                    await self._feed(record)

        await _until_read(read)
        self._next = max(self._next, stop or 0)

    async def _feed(self, record: ControlRecord) -> asyncio.Future[None]:
        done = await self._inbox.put_control(record, self._event_of(record))
        self._next = record.offset + 1
        self._waiting[record.offset] = done
        done.add_done_callback(lambda _: self._waiting.pop(record.offset, None))
        return done

    def _event_of(self, record: ControlRecord) -> Event:
        if record.damage:
            message = f"the batch that begins with this record cannot be read: {record.damage}"
            return _unreadable(record, Code.NOT_A_CLOUDEVENT, message)
        try:
            return self._decode(record)
        except Exception as bug:
            log.exception("the codec broke on a control record", offset=record.offset)
            message = f"recoveryd could not read this record: {type(bug).__name__}"
            return _unreadable(record, Code.INVARIANT_BROKEN, message)


def _unreadable(record: ControlRecord, code: Code, message: str) -> ControlUnreadable:
    return ControlUnreadable(
        partition=record.partition,
        offset=record.offset,
        code=code.value,
        message=message,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


async def _until_read(read: Callable[[], Awaitable[None]]) -> None:
    """Read, again and again while the topic cannot be read at the moment."""
    while True:
        try:
            return await read()
        except RecoverydError as problem:
            if not problem.retriable:
                raise
            log.warning(
                "the control topic cannot be read, will try again", code=problem.code.value, error=problem.message
            )
            await asyncio.sleep(RETRY_S)


def _resolved() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with contextlib.suppress(asyncio.InvalidStateError):
        done.set_result(None)
    return done
