"""How long the inputs of units are kept. Asked at once when this daemon begins to lead, and then every few minutes."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from recoveryd.ports import Clock, Emit, TopicRetention
from recoveryd.units.events import RetentionSeen
from recoveryd.units.model import Unit

log = structlog.stdlib.get_logger(__name__)

EVERY_S: Final = 300.0
_IDLE_S: Final = 1.0


class RetentionCollector:
    """Asks only for units that have an objective, all of one cluster together; when others are in force, at once."""

    def __init__(
        self,
        units: Callable[[], Iterable[Unit]],
        retention: TopicRetention,
        emit: Emit,
        leads: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._units = units
        self._retention = retention
        self._emit = emit
        self._leads = leads
        self._clock = clock

    async def run(self) -> None:
        """Run until cancelled; never raises."""
        asked_s: float | None = None
        asked: tuple[Unit, ...] = ()
        while True:
            now_s, wanted = self._clock.monotonic_s(), self._wanted()
            if not self._leads():
                asked_s = None
            elif asked_s is None or now_s - asked_s >= EVERY_S or wanted != asked:
                asked_s, asked = now_s, wanted
                await self.collect()
            await asyncio.sleep(_IDLE_S)

    async def close(self) -> None:
        await self._retention.close()

    async def collect(self) -> None:
        """Look once."""
        wanted = self._wanted()
        for cluster in sorted({unit.cluster for unit in wanted}):
            units = [unit for unit in wanted if unit.cluster == cluster]
            try:
                kept = await self._retention.kept_ms(cluster, {topic for unit in units for topic in unit.inputs})
            except Exception:  # the other clusters must still be asked
                log.exception("asking how long topics are kept broke", cluster=cluster)
                continue
            for unit in units:
                known = {topic: kept[topic] for topic in unit.inputs if topic in kept}
                self._emit(RetentionSeen(unit.name, known, tuple(t for t in unit.inputs if t not in kept)))

    def _wanted(self) -> tuple[Unit, ...]:
        return tuple(unit for unit in self._units() if unit.retention_objective_ms is not None and unit.inputs)
