"""Looks at the clusters from time to time and tells the loop what it saw. Never raises, never decides.

Sampled are source and target of every active recovery and the topics the config wants to watch, with the lag of their groups where it names one. The control topic's id is looked at as well: a control
topic that was deleted and made anew under a running daemon would restart its offsets, and records would be taken for old ones. That look also tells
whether the main cluster answers at all, which an idle leader would not notice.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from daemon.core.catalogue import Code
from daemon.core.commands import LagSample, LagSignal
from daemon.core.decision import CoreState
from daemon.core.events import OffsetsSampled
from daemon.core.model import ACTIVE, State
from daemon.errors import RecoverydError
from daemon.ports import Clock, Clusters, Emit, GroupOffsets

log = structlog.stdlib.get_logger(__name__)

ReportLag = Callable[[LagSignal], None]

DEADLINE_S: Final = 20.0
CONTROL_TOPIC_EVERY_S: Final = 10.0
_WATCHED: Final = ACTIVE | {State.PLANNING, State.AWAITING_APPROVAL}


@dataclass(frozen=True, slots=True)
class Monitored:
    """A topic of live traffic; with a `group` its lag is told as well."""

    cluster: str
    topic: str
    group: str | None = None


class Collector:
    """`state` gives the present state, or None while this daemon does not lead: a standby asks nothing."""

    def __init__(
        self,
        clusters: Clusters,
        groups: GroupOffsets,
        emit: Emit,
        report_lag: ReportLag,
        state: Callable[[], CoreState | None],
        clock: Clock,
        *,
        period_s: float,
        monitored: Sequence[Monitored] = (),
    ) -> None:
        self._clusters = clusters
        self._groups = groups
        self._emit = emit
        self._report_lag = report_lag
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
            # Positions before ends: the other way round, a lag could look smaller than it is.
            positions = await self._positions()
            sampled = await self._sample(topics)
            if sampled is not None:
                self._emit(sampled)
                self._report_lags(positions, sampled)
        if self._clock.monotonic_s() - self._control_checked_s >= CONTROL_TOPIC_EVERY_S:
            self._control_checked_s = self._clock.monotonic_s()
            await self._check_control_topic(state.daemon.control_topic_id)

    async def _sample(self, topics: Sequence[tuple[str, str]]) -> OffsetsSampled | None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                sampled = await self._clusters.sample(topics)
        except (RecoverydError, TimeoutError) as problem:
            if not self._failing:
                log.warning("offsets cannot be sampled", error=str(problem) or "time-out")
            self._failing = True
            return None
        except Exception:
            log.exception("sampling broke")
            return None
        if self._failing:
            log.info("offsets can be sampled again")
        self._failing = False
        return sampled

    async def _positions(self) -> dict[Monitored, dict[int, int]]:
        """Of each watched group that could be asked."""
        watched = [m for m in self._monitored if m.group is not None]
        asked = (self._groups.committed(m.cluster, m.group or "", m.topic) for m in watched)
        try:
            async with asyncio.timeout(DEADLINE_S):
                answers = await asyncio.gather(*asked, return_exceptions=True)
        except TimeoutError:
            return {}
        for answer in answers:
            if isinstance(answer, Exception):
                log.debug("a group could not be asked", error=str(answer))
        return {m: a for m, a in zip(watched, answers, strict=True) if not isinstance(a, BaseException)}

    def _report_lags(self, positions: Mapping[Monitored, Mapping[int, int]], sampled: OffsetsSampled) -> None:
        """Partitions come from the topic, not from the group: one without a commit makes the lag unknown, never small."""
        samples = {(sample.cluster, sample.topic): sample for sample in sampled.topics}
        for monitored, committed in positions.items():
            sample = samples.get((monitored.cluster, monitored.topic))
            if sample is not None:
                rows = tuple(
                    LagSample(partition, committed.get(partition), end, sample.sampled_at_ms)
                    for partition, end in sorted(sample.high_watermark.items())
                )
                self._report_lag(LagSignal(monitored.cluster, monitored.group or "", monitored.topic, rows))

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


def topics_in_play(state: CoreState, monitored: Sequence[Monitored]) -> list[tuple[str, str]]:
    """(cluster, topic) of everything worth a look now, in a stable order, each once."""
    topics: dict[tuple[str, str], None] = {(m.cluster, m.topic): None for m in monitored}
    for recovery in state.recoveries.live.values():
        if recovery.state in _WATCHED:
            topics[recovery.spec.source.cluster, recovery.spec.source.topic] = None
            topics[recovery.spec.target.cluster, recovery.spec.target.topic] = None
    return list(topics)
