"""Asking a daemon again and again, for `watch` and `wait`: whoever waits gets control back twice a second, also while
nothing answers, and hears when nobody answers any more and when somebody does again.
"""

import time
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from recoveryd.cli.render.output import note
from recoveryd.cli.send.http_asking import Later
from recoveryd.errors import RecoverydError

POLL_S: Final = 0.5
SILENT_S: Final = 5.0  # a daemon that restarts is away for less; and no more words than that of one that never returns
AGAIN_S: Final = 60.0

T = TypeVar("T")


class Answered(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value


def answers(question: Callable[[], T], place: str) -> Iterator[Answered[T] | None]:
    """What `question` gives, each half second, without end; None while nothing came. Raises what it raises before the
    first answer, and what no patience mends.
    """
    silence: _AwayNotes | None = None
    while True:
        asked = Later(question)
        while not asked.wait(POLL_S):
            if silence is not None:
                silence.look("the daemon has been asked.")
            yield None
        try:
            value = asked.result()
        except RecoverydError as problem:
            if silence is None or not problem.retriable:
                raise
            silence.look(problem.message)
            yield None
        else:
            silence = silence or _AwayNotes(place)
            silence.end()
            yield Answered(value)
        time.sleep(POLL_S)


class _AwayNotes:
    """What a person is told of a daemon that answered before."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._heard_s = time.monotonic()
        self._told_s: float | None = None

    def look(self, why: str) -> None:
        now_s = time.monotonic()
        is_due = now_s - self._told_s >= AGAIN_S if self._told_s is not None else now_s - self._heard_s >= SILENT_S
        if is_due:
            note(f"No answer for {now_s - self._heard_s:.0f} s, what is shown is older: {why} ({self._place})")
            self._told_s = now_s

    def end(self) -> None:
        if self._told_s is not None:
            note(f"The daemon answers again ({self._place}).")
        self._heard_s, self._told_s = time.monotonic(), None
