"""Notices that the process stood still, and says whether effects may begin.

A daemon that was frozen, as in a container that was paused, may have been replaced meanwhile. That it could write
before says nothing: the freeze may lie between the journal's answer and what follows from it. So after each one nothing
begins before a write to the journal, begun after it, was answered.
"""

import asyncio
from typing import Final

from recoveryd.ports import Clock

LOOK_EVERY_S: Final = 0.25
# A turn of an idle loop takes a second, so that less than two is no sign of anything, whatever the config says.
LEAST_GAP_S: Final = 2.0
# Of a process that stands still during each write the last of so many counts, or nothing would ever be done. Another
# daemon that took over before it has ended this one by then.
FROZEN_WRITES: Final = 3


class FreezeGuard:
    """A gap of `freeze_s` between two looks, or a wall clock that jumped as it does when the machine slept, is a
    freeze. `run` looks often; whoever is about to act looks once more. Of one event loop.
    """

    def __init__(self, clock: Clock, freeze_s: float = 5.0) -> None:
        self.for_s = 0.0  # how long the last one took, as far as the monotonic clock knows
        self._clock = clock
        self._freeze_s = max(freeze_s, LEAST_GAP_S)
        self._looked_s = clock.monotonic_s()
        self._differed = False
        self._freezes = 0
        self._frozen_writes = 0
        self._may_act = asyncio.Event()
        self._may_act.set()

    async def run(self) -> None:
        """Look until cancelled: what waits for a slow broker did not stand still."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self) -> int:
        """How many freezes there were so far."""
        now_s = self._clock.monotonic_s()
        gap_s, self._looked_s = now_s - self._looked_s, now_s
        # Asked once for each jump, and at once: whether the clock was set is known only when it has stood for a while.
        differs = self._clock.differs()
        has_jumped, self._differed = differs and not self._differed, differs
        if gap_s > self._freeze_s or has_jumped:
            self._freezes += 1
            self.for_s = gap_s
            self._may_act.clear()
        return self._freezes

    def wrote(self, freezes: int) -> None:
        """The journal answered a write that began after so many freezes. It says who led only if there was none since,
        which may have been behind the answer.
        """
        self._frozen_writes = 0 if self.look() == freezes else self._frozen_writes + 1
        if self._frozen_writes in {0, FROZEN_WRITES}:
            self._frozen_writes = 0
            self._may_act.set()

    def may_act(self) -> bool:
        self.look()
        return self._may_act.is_set()

    async def until_may_act(self) -> None:
        """Ends when the journal was written to, or with the daemon."""
        while not self.may_act():
            await self._may_act.wait()
