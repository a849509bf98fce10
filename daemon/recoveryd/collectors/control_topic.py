"""recoveryd's own topics under a running leader: whether they are still those that it began with.

If the control topic were deleted and created again, its offsets would restart, and records would be taken for old ones;
and so they would where its log lost its last records. If somebody gave it, or another one whose order counts, more
partitions, other programs would write where nobody reads. Only what a cluster says ends a daemon, never that it says nothing. The look also tells whether the main cluster answers
at all, which an idle leader would not notice.
"""

import asyncio
from typing import Final, Protocol

import structlog

from recoveryd.errors import OwnTopicProblem, RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import ControlCutBack
from recoveryd.ports import Clusters, Emit

log = structlog.stdlib.get_logger(__name__)

DEADLINE_S: Final = 20.0


class Intake(Protocol):
    @property
    def position(self) -> int:
        """What lies before it on the topic was taken."""
        ...


class ControlTopicWatch:
    """`is_main_reachable`: as of the last look."""

    def __init__(self, clusters: Clusters, intake: Intake, emit: Emit) -> None:
        self._clusters = clusters
        self._intake = intake
        self._emit = emit
        self._has_told = False
        self.is_main_reachable = True

    async def look(self, known_id: str) -> None:
        """`known_id`: the control topic that the journal describes. Raises `RecoverydError` where only a restart helps,
        or a person does.
        """
        await self._check_width()
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
        await self._look_at_end()

    async def _look_at_end(self) -> None:
        position = self._intake.position  # before its end is asked for: records come meanwhile
        try:
            async with asyncio.timeout(DEADLINE_S):
                end = await self._clusters.control_end(position)
        except (RecoverydError, TimeoutError):
            return
        if end < position and not self._has_told:
            self._has_told = True  # the leader journals it and ends
            log.error("the control topic was cut back", end=end, position=position)
            self._emit(ControlCutBack(end, position))

    async def _check_width(self) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._clusters.check_width()
        except OwnTopicProblem:
            raise
        except (RecoverydError, TimeoutError):
            return
