"""One-shot mode: do what can be done in a given time, come to rest, and say whether something is left.

    joined -> leads -> every waiting command decided, and what waits for people looked at once
      -> works until nothing is left, or the time is over
      -> `Leaving`: lanes drain, positions are exact, applications are let go -> ends
                    after a minute at most, with the applications that this daemon launched

All state is in Kafka, so any number of such runs, on any machines, add up to what one long run does. Commands that come
while this one ends are either decided, and begin with the next run, or not read, and wait on the control topic.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import structlog

from recoveryd.bootstrap.daemon import Daemon
from recoveryd.kernel.events import Leaving

log = structlog.stdlib.get_logger(__name__)

LOOK_EVERY_S: Final = 0.2
QUIET_S: Final = 2.0  # how long nothing may be left before that counts: what an effect found is decided a little later
REST_LIMIT_S: Final = 60.0


@dataclass(slots=True)
class OneShot:
    """`end_s` is monotonic time. `is_done` once nothing was left to do; `has_led` once this daemon led at all."""

    daemon: Daemon
    end_s: float
    is_done: bool = False
    has_led: bool = False

    async def run(self) -> None:
        """Return when nothing is left or the time is over, with everything at rest."""
        await self._work()
        if self.has_led or self._leads():
            await self._come_to_rest()

    @property
    def left(self) -> list[str]:
        """Ids of what the next run has to do."""
        return list(self.daemon.remaining()) if self.has_led else []

    async def _work(self) -> None:
        quiet_since_s: float | None = None
        while (now_s := time.monotonic()) < self.end_s:
            self.has_led = self.has_led or self._leads()
            if not self._has_nothing_left():
                quiet_since_s = None
            elif quiet_since_s is None:
                quiet_since_s = now_s
            elif now_s - quiet_since_s >= QUIET_S:
                self.is_done = True
                log.info("has nothing left to do")
                return
            await asyncio.sleep(LOOK_EVERY_S)
        log.info("has no time left", remaining=self.left)

    def _has_nothing_left(self) -> bool:
        """Not while a round is under way: what is being journaled is in no state yet."""
        daemon, vitals = self.daemon, self.daemon.runtime.vitals
        is_settled = self._leads() and not len(daemon.inbox) and vitals.round_began_s is None
        return is_settled and daemon.intake.is_caught_up and not daemon.remaining()

    async def _come_to_rest(self) -> None:
        """Also where the partition is away just now, or the journal is asked who leads: it is waited for, unless the
        group gave it to another daemon, which goes on with everything.
        """
        give_up_s = time.monotonic() + REST_LIMIT_S
        self.daemon.inbox.emit(Leaving())
        while self._is_at_work():
            if self.daemon.runtime.is_passed_over:
                log.info("leaves everything to another daemon", remaining=self.left)
                return
            if time.monotonic() >= give_up_s:
                await self._break_off()
                return
            await asyncio.sleep(LOOK_EVERY_S)
        log.info("is at rest", remaining=self.left)

    async def _break_off(self) -> None:
        """End the applications that do not come to rest, as one that was still starting: without a daemon they would
        wait for one for long. Nothing is lost: chunks that are open then are not visible, and are copied again.
        """
        untold = {name: waiting for name, waiting in self.daemon.posts.waiting.items() if waiting}
        moving = list(self.daemon.moving())
        log.warning("did not come to rest in time", moving=moving, untold=untold, limit_s=REST_LIMIT_S)
        if self._leads():  # of another leader it is not known whether it goes on with them
            await self.daemon.jobs.kill_all()

    def _is_at_work(self) -> bool:
        """Also while a webhook has not heard of a transition: the next run does not know of it."""
        daemon = self.daemon
        is_busy = len(daemon.inbox) or daemon.moving() or not daemon.interpreter.is_idle
        return bool(is_busy) or not self._leads() or any(daemon.posts.waiting.values())

    def _leads(self) -> bool:
        return self.daemon.runtime.vitals.role == "leader"
