"""What a lane asks about its source, in steps, so that it can obey directives meanwhile.

An errand is a generator that yields the future it waits for; its caller may do something else between two steps, or
drop it. A cluster that does not answer ends the lane only after a while, with an error that names it. What the answers
mean is decided by the caller.
"""

import time
from collections.abc import Generator
from concurrent.futures import Future, wait
from typing import Any

from recoveryd_jobs.topics import LogBounds, NoAnswer, Topic, pause

SOURCE_PATIENCE_S = 120.0  # how long to wait for a source that does not answer
CUT_BACK_AFTER_S = 10.0  # how long a broker that restarted may report a high watermark below the planned stop
_PAUSE_S = 0.5

Errand = Generator["Future[Any]", None, None]


def go_on(errand: Errand, wait_s: float) -> bool:
    """Run the errand until it is done, or for `wait_s`; True when it is done. Raises what the errand raises."""
    until_s = time.monotonic() + wait_s
    for awaited in errand:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            return False
        wait([awaited], left_s)
    return True


class SourceQuestions:
    """Each question raises JobError: `source_unavailable` after a long silence, or what the answer itself says."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    def same_topic(self) -> Errand:
        try:
            yield from self._topic.check_in_steps(time.monotonic() + SOURCE_PATIENCE_S)
        except NoAnswer as silence:
            raise self._topic.unanswered(silence) from None

    def bounds(self, partitions: list[int]) -> Generator["Future[Any]", None, dict[int, LogBounds]]:
        deadline_s = time.monotonic() + SOURCE_PATIENCE_S
        while True:
            try:
                return (yield from self._topic.bounds_in_steps(partitions))
            except NoAnswer as silence:
                if time.monotonic() >= deadline_s:
                    raise self._topic.unanswered(silence) from None
            yield from pause(_PAUSE_S)

    def bounds_until_high(self, partition: int, wanted: int) -> Generator["Future[Any]", None, LogBounds]:
        """Ask for a while before believing that the log is shorter: a broker that just started may not know its high
        watermark yet.
        """
        deadline_s = time.monotonic() + CUT_BACK_AFTER_S
        while True:
            yield from self.same_topic()
            bounds = (yield from self.bounds([partition]))[partition]
            if bounds.high >= wanted or time.monotonic() >= deadline_s:
                return bounds
            yield from pause(_PAUSE_S)
