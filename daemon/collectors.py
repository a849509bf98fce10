"""Looks at the clusters from time to time and tells the loop what it saw. Never raises, never decides.

Sampled are source and target of every active recovery and the topics the config wants to watch. The control topic's id is looked at as well: a control
topic that was deleted and made anew under a running daemon would restart its offsets, and records would be taken for old ones. That look also tells
whether the main cluster answers at all, which an idle leader would not notice.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from daemon.core.catalogue import Code
from daemon.core.decision import CoreState
from daemon.core.model import ACTIVE, State
from daemon.errors import RecoverydError
from daemon.ports import Clock, Clusters, Emit

log = structlog.stdlib.get_logger(__name__)

DEADLINE_S: Final = 20.0
CONTROL_TOPIC_EVERY_S: Final = 10.0
_WATCHED: Final = ACTIVE | {State.PLANNING, State.AWAITING_APPROVAL}


class Collector:
    """`state` gives the present state, or None while this daemon does not lead: a standby asks nothing."""

    def __init__(
        self,
        clusters: Clusters,
        emit: Emit,
        state: Callable[[], CoreState | None],
        clock: Clock,
        *,
        period_s: float,
        monitored: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._clusters = clusters
        self._emit = emit
        self._state = state
        self._clock = clock
        self._period_s = period_s
        self._monitored = tuple(monitored)
        self.is_main_reachable = True  # as of the last look at the control topic
        self._failing = False
        self._control_checked_s = clock.monotonic_s()

    async def run(self) -> None:
        """Until cancelled; raises `RecoverydError` only when the control topic is not the one the journal is about."""
        while True:
            began_s = self._clock.monotonic_s()
            await self.collect()
            await asyncio.sleep(max(0.1, self._period_s - (self._clock.monotonic_s() - began_s)))

    async def collect(self) -> None:
        """One look at everything."""
        state = self._state()
        if state is None:
            return
        topics = topics_in_play(state, self._monitored)
        if topics:
            await self._sample(topics)
        if self._clock.monotonic_s() - self._control_checked_s >= CONTROL_TOPIC_EVERY_S:
            self._control_checked_s = self._clock.monotonic_s()
            await self._check_control_topic(state.daemon.control_topic_id)

    async def _sample(self, topics: Sequence[tuple[str, str]]) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                sampled = await self._clusters.sample(topics)
        except (RecoverydError, TimeoutError) as problem:
            if not self._failing:
                log.warning("offsets cannot be sampled", error=str(problem) or "time-out")
            self._failing = True
            return
        except Exception:
            log.exception("sampling broke")
            return
        if self._failing:
            log.info("offsets can be sampled again")
        self.is_main_reachable = True  # as of the last look at the control topic
        self._failing = False
        self._emit(sampled)

    async def _check_control_topic(self, known_id: str) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                found_id = await self._clusters.control_topic_id()
        except (RecoverydError, TimeoutError):
            self.is_main_reachable = False
            return
        self.is_main_reachable = True
        if known_id and found_id != known_id:
            message = "The control topic was deleted and made anew; a new start reads it from its beginning."
            raise RecoverydError(Code.INVARIANT_BROKEN, message)


def topics_in_play(state: CoreState, monitored: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """(cluster, topic) of everything worth a look now, in a stable order, each once."""
    topics = dict.fromkeys(monitored)
    for recovery in state.recoveries.values():
        if recovery.state in _WATCHED:
            topics[recovery.spec.source.cluster, recovery.spec.source.topic] = None
            topics[recovery.spec.target.cluster, recovery.spec.target.topic] = None
    return list(topics)
