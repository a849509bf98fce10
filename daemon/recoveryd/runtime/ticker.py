"""Ticks: one a second while a recovery is active, and at the times that decisions asked for. A leader that has nothing
to do gets one now and then, because what ended is forgotten in time also where nothing else happens.
"""

import asyncio
import contextlib
import heapq
from collections.abc import Callable

from recoveryd.kernel.events import Tick
from recoveryd.ports import Clock, Emit

PERIOD_S = 1.0
IDLE_PERIOD_S = 30.0
_WAKES_AT_MOST = 4_096


class Ticker:
    """Keeps the wanted wake-up times, a bounded number: the latest are dropped, and the ticks of each second cover
    them.
    """

    def __init__(
        self, clock: Clock, emit: Emit, is_active: Callable[[], bool], leads: Callable[[], bool] = lambda: False
    ) -> None:
        self._clock = clock
        self._emit = emit
        self._is_active, self._leads = is_active, leads
        self._ticked_s = clock.monotonic_s()
        self._wakes: list[int] = []
        self._rearm = asyncio.Event()

    def wake_at(self, at_ms: int) -> None:
        """Ask for a Tick no later than `at_ms`."""
        if at_ms in self._wakes:
            return
        heapq.heappush(self._wakes, at_ms)
        if len(self._wakes) > _WAKES_AT_MOST:
            self._wakes = heapq.nsmallest(_WAKES_AT_MOST, self._wakes)
        self._rearm.set()

    def poll(self) -> None:
        """Emit a Tick if one is due now."""
        now_ms = self._clock.now_ms()
        is_due = False
        while self._wakes and self._wakes[0] <= now_ms:
            heapq.heappop(self._wakes)
            is_due = True
        now_s = self._clock.monotonic_s()
        if is_due or self._is_active() or (now_s - self._ticked_s >= IDLE_PERIOD_S and self._leads()):
            self._ticked_s = now_s
            self._emit(Tick())

    async def run(self) -> None:
        """Poll each second, and earlier when a wake-up time says so; until cancelled."""
        next_s = self._clock.monotonic_s() + PERIOD_S
        while True:
            self._rearm.clear()
            wait_s = next_s - self._clock.monotonic_s()
            if self._wakes:
                wait_s = min(wait_s, (self._wakes[0] - self._clock.now_ms()) / 1000)
            if wait_s <= 0:
                self.poll()
                next_s = self._clock.monotonic_s() + PERIOD_S
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._rearm.wait(), wait_s)
