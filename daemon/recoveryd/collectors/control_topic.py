"""recoveryd's own topics under a running leader: whether they are still those that it began with.

If the control topic were deleted and created again, its offsets would restart, and records would be taken for old ones.
If somebody gave it, or another one whose order counts, more partitions, other programs would write where nobody reads.
Only what a cluster says ends a daemon, never that it says nothing. The look also tells whether the main cluster answers
at all, which an idle leader would not notice.
"""

import asyncio
from typing import Final

from recoveryd.errors import OwnTopicProblem, RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.ports import Clusters

DEADLINE_S: Final = 20.0


class ControlTopicWatch:
    """`is_main_reachable`: as of the last look."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
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

    async def _check_width(self) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._clusters.check_width()
        except OwnTopicProblem:
            raise
        except (RecoverydError, TimeoutError):
            return
