"""Offsets of topics and positions of consumer groups. They are sampled together because their order matters: positions
first, then ends.

It samples source and target of every active recovery, the configured topics, and the groups of the configuration, of
watches and of workflows, and members of groups that obey a hold. Now and then it has recoveryd's own topics looked at
(`control_topic`).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from recoveryd.collectors.control_topic import ControlTopicWatch
from recoveryd.collectors.groups import GroupLooks, Positions, make_reader_sampled
from recoveryd.errors import RecoverydError
from recoveryd.holds.draft import HOLDS
from recoveryd.holds.known import groups_heard
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import State
from recoveryd.live.events import OffsetsSampled
from recoveryd.live.lag.book import Reader
from recoveryd.ports import Clock, Clusters, Emit, GroupOffsets
from recoveryd.recovery.model import ACTIVE
from recoveryd.recovery.slice import RECOVERY
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.known import readers_in_play as readers_of_watches
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.machine.readiness import readers_in_play as readers_of_workflows

log = structlog.stdlib.get_logger(__name__)

DEADLINE_S: Final = 20.0
CONTROL_TOPIC_EVERY_S: Final = 10.0
_STANDBY_S: Final = 0.2  # a standby that begins to lead looks at once, however long the period is
_WATCHED: Final = ACTIVE | {State.PLANNING, State.AWAITING_APPROVAL}


@dataclass(frozen=True, slots=True)
class Monitored:
    """A topic of live traffic; with a `group` the group's lag is sampled as well."""

    cluster: str
    topic: str
    group: str | None = None


class OffsetCollector:
    """`state` gives the present state, or None while this daemon does not lead: a standby asks nothing."""

    def __init__(
        self,
        clusters: Clusters,
        groups: GroupOffsets,
        emit: Emit,
        state: Callable[[], CoreState | None],
        clock: Clock,
        *,
        control: ControlTopicWatch,
        period_s: float,
        monitored: Sequence[Monitored] = (),
    ) -> None:
        self._clusters = clusters
        self._groups = GroupLooks(groups, clock)
        self._emit = emit
        self._state = state
        self._clock = clock
        self._period_s = period_s
        self._monitored = tuple(monitored)
        self._widths: dict[tuple[str, str], int] = {}  # partitions of each topic at the last look
        self._control = control
        self._failing = False
        self._control_checked_s = clock.monotonic_s()

    @property
    def is_main_reachable(self) -> bool:
        return self._control.is_main_reachable

    @property
    def control_unread(self) -> int | None:
        return self._control.unread

    async def run(self) -> None:
        """Run until cancelled. Raises `RecoverydError` only for own topics that are not as they were at the start."""
        while True:
            began_s = self._clock.monotonic_s()
            await self.collect()
            period_s = self._period_s if self._state() is not None else min(self._period_s, _STANDBY_S)
            await asyncio.sleep(max(0.1, period_s - (self._clock.monotonic_s() - began_s)))

    async def close(self) -> None:
        await self._groups.close()

    async def collect(self) -> None:
        """Look at everything once."""
        state = self._state()
        if state is None:
            return
        readers = readers_in_play(state, self._monitored)
        topics = topics_in_play(state, self._monitored)
        if topics:
            # Positions before ends: the other way round, a lag could look smaller than it is.
            positions = await self._groups.look(readers, self._widths)
            sampled = await self._sample(topics)
            if not self._is_same_epoch(state):
                return  # another leader, or this one with another time: what was seen has times of before
            if sampled is not None:
                self._widths = {(s.cluster, s.topic): s.partitions for s in sampled.topics if s.partitions}
                self._emit(sampled)
                self._tell_readers(positions, sampled)
        for seen in await self._groups.members(groups_heard(state.of(HOLDS))):
            self._emit(seen)
        if self._clock.monotonic_s() - self._control_checked_s >= CONTROL_TOPIC_EVERY_S:
            self._control_checked_s = self._clock.monotonic_s()
            await self._control.look(state.daemon.control_topic_id, self._control_checked_s)

    def _is_same_epoch(self, before: CoreState) -> bool:
        state = self._state()
        return state is not None and state.daemon.epoch == before.daemon.epoch

    async def _sample(self, topics: Sequence[tuple[str, str]]) -> OffsetsSampled | None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                sampled = await self._clusters.sample(topics)
        except (RecoverydError, TimeoutError) as problem:
            if not self._failing:
                log.warning("offsets cannot be sampled", error=str(problem) or "timeout")
            self._failing = True
            return None
        except Exception:
            log.exception("sampling broke")
            return None
        if self._failing:
            log.info("offsets can be sampled again")
        self._failing = False
        return sampled

    def _tell_readers(self, positions: dict[Reader, Positions], sampled: OffsetsSampled) -> None:
        samples = {(sample.cluster, sample.topic): sample for sample in sampled.topics}
        for reader, seen in positions.items():
            sample = samples.get((reader.cluster, reader.topic))
            if sample is not None:
                self._emit(make_reader_sampled(reader, seen, sample))


def topics_in_play(state: CoreState, monitored: Sequence[Monitored]) -> list[tuple[str, str]]:
    """(cluster, topic) of every topic to sample now, in a stable order, each once."""
    topics: dict[tuple[str, str], None] = {(m.cluster, m.topic): None for m in monitored}
    for recovery in state.of(RECOVERY).recoveries.live.values():
        if recovery.state in _WATCHED:
            topics[recovery.spec.source.cluster, recovery.spec.source.topic] = None
            topics[recovery.spec.target.cluster, recovery.spec.target.topic] = None
    for reader in _waited_for(state):
        topics[reader.cluster, reader.topic] = None
    topics |= dict.fromkeys(state.of(HOLDS).held)
    return list(topics)


def readers_in_play(state: CoreState, monitored: Sequence[Monitored]) -> list[Reader]:
    """The groups to sample now, each once, those of the configuration first."""
    readers = [Reader(m.cluster, m.topic, m.group) for m in monitored if m.group is not None]
    return list(dict.fromkeys((*readers, *_waited_for(state))))


def _waited_for(state: CoreState) -> tuple[Reader, ...]:
    return (*readers_of_watches(state.of(WATCHES)), *readers_of_workflows(state.of(WORKFLOWS)))
