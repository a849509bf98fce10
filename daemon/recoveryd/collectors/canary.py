"""Produce latency of each configured cluster, measured as often as configured and told once per period of the
controller.

A broker that hangs must be seen as slow, not as silent: a record without an answer counts with its age, which grows
from reading to reading.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from recoveryd.collectors.readings import LatencyWindow
from recoveryd.live.events import ReadingTaken
from recoveryd.ports import Canary, Clock, Emit, Fate, Probe

log = structlog.stdlib.get_logger(__name__)

DEADLINE_S: Final = 10.0  # of one probe, in addition to the time it may wait for its record
Observe = Callable[[str, float], None]  # cluster, seconds


class CanaryCollector:
    """`leads`: whether this daemon leads now; a standby sends nothing. `observe` is called with each measurement, so
    that it shows what the readings are made of: if only acknowledged records counted, a broker that hangs for 8 s
    would be one slow record among hundreds of quick ones, and one that is gone none at all.
    """

    def __init__(
        self,
        canaries: Mapping[str, Canary],
        emit: Emit,
        observe: Observe,
        leads: Callable[[], bool],
        clock: Clock,
        *,
        name: str,
        every_s: float,
        reading_every_s: float,
    ) -> None:
        self._canaries = dict(canaries)
        self._emit = emit
        self._observe = observe
        self._leads = leads
        self._clock = clock
        self._name = name
        self._every_s = every_s
        self._reading_every_s = reading_every_s

    async def run(self) -> None:
        """Run until cancelled; never raises. Clusters do not wait for each other."""
        await asyncio.gather(*(self._watch(cluster, canary) for cluster, canary in self._canaries.items()))

    async def close(self) -> None:
        await asyncio.gather(*(canary.close() for canary in self._canaries.values()), return_exceptions=True)

    async def _watch(self, cluster: str, canary: Canary) -> None:
        window = LatencyWindow(self._name, self._reading_every_s, self._clock)
        was_leading, said, due_s = False, "", self._clock.monotonic_s()
        while True:
            leads = self._leads()
            if leads:
                if not was_leading:
                    window.begin()
                probe = await self._probe(canary)
                said = _say(cluster, probe, said)
                self._take(cluster, probe, window)
            elif was_leading:
                await self._close(canary)
            was_leading = leads
            now_s = self._clock.monotonic_s()
            due_s = next_due_s(due_s, self._every_s, now_s)
            await asyncio.sleep(due_s - now_s)

    async def _probe(self, canary: Canary) -> Probe:
        try:
            async with asyncio.timeout(self._every_s + DEADLINE_S):
                return await canary.probe(self._every_s)
        except TimeoutError:
            return Probe(Fate.UNUSABLE, None, "the canary did not come back")
        except Exception:
            log.exception("a canary broke")
            return Probe(Fate.UNUSABLE, None, "the canary broke")

    async def _close(self, canary: Canary) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                await canary.close()
        except Exception:
            log.exception("a canary did not close well")

    def _take(self, cluster: str, probe: Probe, window: LatencyWindow) -> None:
        if probe.seconds is not None:
            window.add(probe.seconds)
            self._observe(cluster, probe.seconds)
        reading = window.take()
        if reading is not None:
            self._emit(ReadingTaken(cluster, reading))


def next_due_s(due_s: float, every_s: float, now_s: float) -> float:
    """When the next record is due after the one that was due at `due_s`: waking up late moves none of those to come,
    and what was missed meanwhile is left out.
    """
    return max(due_s + every_s, now_s)


def _say(cluster: str, probe: Probe, said: str) -> str:
    """Log when something goes wrong, and when it is well again. Returns what was said last, for the next call."""
    if probe.fate is Fate.WAITING:
        return said
    if probe.fate is Fate.DELIVERED:
        if said:
            log.info("canaries are delivered again", cluster=cluster)
        return ""
    if not said:
        log.warning("a canary was not delivered", cluster=cluster, fate=probe.fate.value, why=probe.why)
    return probe.why or probe.fate.value
