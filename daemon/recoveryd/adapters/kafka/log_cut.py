"""Where a topic of one partition ends, if it ends before what was read of it.

That its log was cut back is believed only where nothing speaks against it: a broker that leads no more, and does not
know that, tells an old end for as long as it is cut off, and so may a client that still holds it for the leader.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Final

from recoveryd.adapters.kafka.offsets import LogEnd
from recoveryd.errors import ClusterProblem

ASKED_FOR_S: Final = 12.0  # a lane gives a cut ten
_PAUSE_S: Final = 2.0

_log = logging.getLogger("recoveryd.kafka")


class LogCut:
    """`ask` one whom the client knows as the leader, and `ask_anew` whom another client learns as the leader."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[LogEnd]],
        ask_anew: Callable[[], Awaitable[LogEnd]],
        asked_for_s: float = ASKED_FOR_S,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._ask = ask
        self._ask_anew = ask_anew
        self._asked_for_s = asked_for_s
        self._pause_s = pause_s
        self._epoch = -1  # the newest one that answered

    async def end(self, position: int) -> int:
        """See `Clusters.control_end`. Raises `ClusterProblem`, also while the answers do not agree."""
        first = await self._ask()
        self._epoch = max(self._epoch, first.epoch)
        return first.offset if first.offset >= position else await self._end_of_cut(position)

    async def _end_of_cut(self, position: int) -> int:
        until_s = time.monotonic() + self._asked_for_s
        answers: list[LogEnd] = []
        while not answers or time.monotonic() < until_s:
            answers.append(await self._ask_anew())
            self._epoch = max(self._epoch, answers[-1].epoch)
            if answers[-1].offset >= position:
                return answers[-1].offset
            await asyncio.sleep(self._pause_s)
        if not _agree(answers, self._epoch):
            _log.warning("the end of a log before %d is not believed, is told so: %s", position, answers)
            raise ClusterProblem(f"The brokers tell different ends of a log that was read up to {position}.")
        return answers[0].offset


def _agree(answers: Sequence[LogEnd], epoch: int) -> bool:
    """All of the newest leader; of its log, which others write to meanwhile, the end moves on but never back."""
    grows = all(one.offset <= other.offset for one, other in pairwise(answers))
    return grows and all(answer.epoch == epoch for answer in answers)
