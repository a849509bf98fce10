"""recoveryd's own topics under a running leader: whether they are still those that it began with.

If the control topic were deleted and created again, its offsets would restart, and records would be taken for old ones;
and so they would where its log lost its last records. If somebody gave it, or another one whose order counts, more
partitions, other programs would write where nobody reads. And a group that delivers nothing any more looks like one
that has nothing to deliver. Only what a cluster says ends a daemon, never that it says nothing. The look also tells
whether the main cluster answers at all, which an idle leader would not notice.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from recoveryd.errors import OwnTopicProblem, RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import ControlCutBack
from recoveryd.ports import Clusters, Emit

log = structlog.stdlib.get_logger(__name__)

DEADLINE_S: Final = 25.0  # an end that may be a cut is asked for through twelve seconds
STALLED_AFTER_S: Final = 180.0  # two requests of the group that time out, and a session: it may be back by itself


class Intake(Protocol):
    """See `recoveryd.runtime.intake`."""

    deliveries: int
    missed: int

    @property
    def position(self) -> int: ...

    @property
    def is_idle(self) -> bool: ...

    def look_for_missed(self, end: int) -> None: ...


class DeliveryWatch:
    """Tells a group that is silent although records lie on the topic. Offsets alone do not show that, since markers of
    transactions have some too: so what it leaves there from one look to the next is read directly, which loses no time
    either. Only records that are found then count against it, until it delivers again, and a restart waits long: where
    the group's broker is slow, a new process could not join.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._stood: tuple[int, int] | None = None  # at the last look, if there may have been more
        self._missed_s: float | None = None  # since when

    def look(self, end: int, now_s: float) -> None:
        """Call it every ten seconds or so. Raises `RecoverydError` when only a restart helps."""
        intake = self._intake
        self._check_missed(now_s)
        stands = intake.position, intake.deliveries
        was, self._stood = self._stood, None
        if not intake.is_idle or intake.position >= end:
            return
        if was == stands:
            intake.look_for_missed(end)
        else:
            self._stood = stands

    def forget(self) -> None:
        """For now nothing can be told, and what comes late is no silence."""
        self._stood = self._missed_s = None

    def _check_missed(self, now_s: float) -> None:
        missed = self._intake.missed
        if not missed:
            self._missed_s = None
        elif self._missed_s is None:
            self._missed_s = now_s
        elif now_s - self._missed_s >= STALLED_AFTER_S:
            text = f"The group delivers no control records any more; {missed} were read directly since the last one."
            raise RecoverydError(Code.COMMITS_STALLED, text)


class ControlTopicWatch:
    """`is_main_reachable`, and how many offsets are `unread` (None = not known): as of the last look.
    `waits_for_journal`: the broker is slow to answer anything.
    """

    def __init__(
        self, clusters: Clusters, intake: Intake, emit: Emit, waits_for_journal: Callable[[], bool] = lambda: False
    ) -> None:
        self._clusters = clusters
        self._intake = intake
        self._emit = emit
        self._waits_for_journal = waits_for_journal
        self._delivery = DeliveryWatch(intake)
        self._has_told = False
        self.is_main_reachable = True
        self.unread: int | None = None

    async def look(self, known_id: str, now_s: float) -> None:
        """`known_id`: the control topic that the journal describes. Raises `RecoverydError` where only a restart helps,
        or a person does.
        """
        await self._check_width()
        self.unread = None
        try:
            async with asyncio.timeout(DEADLINE_S):
                found_id = await self._clusters.control_topic_id()
        except (RecoverydError, TimeoutError):
            self.is_main_reachable = False
            self._delivery.forget()
            return
        self.is_main_reachable = True
        if known_id and found_id != known_id:
            message = "The control topic was deleted and made anew; a new start reads it from its beginning."
            raise RecoverydError(Code.INVARIANT_BROKEN, message)
        await self._look_at_end(now_s)

    async def _look_at_end(self, now_s: float) -> None:
        position = self._intake.position  # before its end is asked for: records come meanwhile
        try:
            async with asyncio.timeout(DEADLINE_S):
                end = await self._clusters.control_end(position)
        except (RecoverydError, TimeoutError):
            self._delivery.forget()
            return
        self.unread = max(0, end - self._intake.position)
        if end < position and not self._has_told:
            self._has_told = True  # the leader journals it and ends
            log.error("the control topic was cut back", end=end, position=position)
            self._emit(ControlCutBack(end, position))
        if self._waits_for_journal():
            self._delivery.forget()
        else:
            self._delivery.look(end, now_s)

    async def _check_width(self) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._clusters.check_width()
        except OwnTopicProblem:
            raise
        except (RecoverydError, TimeoutError):
            return
