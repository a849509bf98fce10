"""How long one try of a step may go on: it ends by itself, and tells how far it came, before it is taken for one of
which nothing is heard (`no_answer_ms`).
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeVar

from recoveryd.adapters.kafka.steps.reporting import failed, not_done
from recoveryd.errors import ClusterProblem
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.workflow import Undo

T = TypeVar("T")

BEGIN_S: Final = 60.0  # after this nothing further is begun
END_S: Final = 90.0  # after this nothing is waited for, but what was asked and has an own deadline


class OutOfTime(ClusterProblem):
    """The time of this try is over: what is left is for the next one."""


class TryTime:
    """Begins when it is made."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._is_cut = False

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """Those that may still be begun; `check` tells whether that was all."""
        for item in items:
            if time.monotonic() - self._began_s >= BEGIN_S:
                self._is_cut = True
                return
            yield item

    def check(self) -> None:
        """Raises `OutOfTime` where something was not begun any more."""
        if self._is_cut:
            raise OutOfTime(f"{BEGIN_S:.0f} s are over, another try goes on")

    def left_s(self, most_s: float) -> float:
        """How long something that was begun may be waited for."""
        return max(0.0, min(most_s, self._began_s + END_S - time.monotonic()))


def stopped(effect: TakeStep, problem: ClusterProblem, rows: Iterable[Undo]) -> StepReported:
    """For a step that came as far as `rows` tell. Where only its time was over, the next try goes on at once; one that
    had done nothing by then has failed, so that it comes to an end.
    """
    done = tuple(rows)
    if isinstance(problem, OutOfTime) and any(row not in effect.rows for row in done):
        return not_done(effect, problem.message, done)
    return replace(failed(effect, problem), undo=done)
