"""Reads the units of the config and the rules of who approves again when somebody asks for it, and tells the core, also
when this daemon begins to lead later.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from recoveryd.errors import ConfigProblem
from recoveryd.ports import Emit
from recoveryd.units.events import UnitsRead
from recoveryd.units.params import UnitParams

log = structlog.stdlib.get_logger(__name__)

_IDLE_S: Final = 1.0


class UnitFiles:
    """`read` blocks, and raises `ConfigProblem` where anything is wrong: then the units of before stand."""

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
            told = str(problem)
            log.error("the units stay as they are", error=told, code=problem.code.value, hint=problem.hint)
            before = UnitsRead() if last is None else last
            return replace(before, problem=told, code=problem.code.value, hint=problem.hint, is_told_again=True)
        log.info("has read the units again", units=len(read.units), approvals=len(read.approvals))
        return UnitsRead(read.units, approvals=read.approvals)
