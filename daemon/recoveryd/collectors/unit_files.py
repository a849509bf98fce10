"""Reads the units of the config and the rules of who approves again when somebody asks for it, and tells the core, also
when this daemon begins to lead later.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from recoveryd.errors import ConfigProblem, RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.ports import Emit
from recoveryd.units.events import UnitsRead
from recoveryd.units.params import UnitParams

log = structlog.stdlib.get_logger(__name__)

_IDLE_S: Final = 1.0


class UnitFiles:
    """`read` blocks, and raises `ConfigProblem`, or what nobody expects, where anything is wrong: then the units of
    before stand.
    """

    def __init__(self, read: Callable[[], UnitParams], emit: Emit, leads: Callable[[], bool]) -> None:
        self._read = read
        self._emit = emit
        self._leads = leads
        self._asked = asyncio.Event()
        self._last: UnitsRead | None = None

    def ask(self) -> None:
        """Read them again soon. Call in the event loop."""
        self._asked.set()

    def standing(self) -> list[UnitsRead]:
        """What a new leader of this process has to know before it looks at anything: the units as read last, if they
        were read again.
        """
        return [] if self._last is None else [replace(self._last, is_told_again=True)]

    async def run(self) -> None:
        """Run until cancelled; never raises."""
        led = False
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), _IDLE_S)
            leads = self._leads()
            if self._asked.is_set():
                self._asked.clear()
                self._last = await self._read_again(self._last)
                if leads:
                    self._emit(self._last)
            elif leads and not led and self._last is not None:
                self._emit(replace(self._last, is_told_again=True))
            led = leads

    async def close(self) -> None:
        """There is nothing to close."""

    async def _read_again(self, last: UnitsRead | None) -> UnitsRead:
        try:
            read = await asyncio.to_thread(self._read)
        except ConfigProblem as problem:
            log.error("the units stay as they are", error=str(problem), code=problem.code.value, hint=problem.hint)
            return _refused(last, problem)
        except Exception as bug:  # a mistake in a file must not end who leads
            log.exception("the units stay as they are", code=Code.INVARIANT_BROKEN.value)
            return _refused(last, RecoverydError(Code.INVARIANT_BROKEN, f"to read them broke: {type(bug).__name__}"))
        log.info("has read the units again", units=len(read.units), approvals=len(read.approvals))
        return UnitsRead(read.units, approvals=read.approvals)


def _refused(last: UnitsRead | None, problem: RecoverydError) -> UnitsRead:
    before = UnitsRead() if last is None else last
    return replace(before, problem=str(problem), code=problem.code.value, hint=problem.hint, is_told_again=True)
