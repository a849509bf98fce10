"""A control topic whose log was cut back: it ends before records that were taken already, because its brokers lost them
(a leader that was not in sync, or the only replica after a power cut). What others write from there on has offsets that
would be taken for those of before, so the journal has to say at once where new records begin.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

import structlog

from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import ControlCutBack
from recoveryd.runtime.inbox import Item

log = structlog.stdlib.get_logger(__name__)


async def find_cut(control_end: Callable[[int], Awaitable[int]], position: int) -> Sequence[ControlCutBack]:
    """What a new leader has to be told where everything before `position` was taken: the cut, if there is one."""
    end = await control_end(position)
    if end >= position:
        return ()
    log.error("the control topic was cut back, reads on from its new end", end=end, position=position)
    return (ControlCutBack(end, position),)


def leave_if_cut(items: Iterable[Item]) -> None:
    """Call it when these are journaled. Raises `RecoverydError` where the topic was cut back under a leader: what it
    knows of it, and what the group delivers, is of before.
    """
    for item in items:
        if isinstance(item.event, ControlCutBack):
            message = f"The control topic was cut back to {item.event.end}; a new start reads on from there."
            raise RecoverydError(Code.INVARIANT_BROKEN, message)
