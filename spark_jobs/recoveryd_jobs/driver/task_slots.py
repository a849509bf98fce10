"""How many tasks of an application can run at once, and whether that is enough for its lanes.

Executors of a cluster register one after the other and may be lost again, so the number is asked for and never computed
from the configuration. Lanes that follow the live head never end, so each of them needs a slot; lanes of a pinned range
may run one after the other.
"""

import time
from typing import Any

from recoveryd_jobs.errors import JobError

WAIT = "120s"
_LOOK_S = 1.0


def count(context: Any) -> int:
    """Slots of the executors that are there now: the cores of each divided by `spark.task.cpus`;
    `spark.default.parallelism` does not matter.
    """
    scala = context._jsc.sc()  # noqa: SLF001  (what Spark asks for barrier stages; Python has no call for it)
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def wait_s(context: Any) -> float:
    """How long executors may take to register, in seconds, by Spark's own property."""
    conf = context._jsc.sc().conf()  # noqa: SLF001
    return float(conf.getTimeAsSeconds("spark.scheduler.maxRegisteredResourcesWaitingTime", WAIT))


class SlotWatch:
    """Counts slots at most once a second. `lanes` = how many run at the start; `is_following` = they never end, so each
    needs a slot of its own.
    """

    def __init__(self, context: Any, lanes: int, *, is_following: bool) -> None:
        self._context = context
        self._lanes = lanes
        self._is_following = is_following
        self._wait_s = 0.0 if context.master == "local" or context.master.startswith("local[") else wait_s(context)
        self._slots = 0
        self._looked_s: float | None = None
        self._short_since_s: float | None = None

    def is_ready(self) -> bool:
        """Whether lanes can start: with one slot per lane that follows, else with at least one slot. Raises JobError
        `slots_missing` when they do not come in time.
        """
        needed = max(1, self._needed(self._lanes))  # a verification without lanes needs a slot too
        if self._is_short_for_too_long(needed):
            raise JobError("slots_missing", self._told(needed))
        return self._short_since_s is None

    def check(self, running: int) -> None:
        """Raises JobError `internal` when `running` lanes lacked slots for too long, as after the loss of a machine;
        another attempt may find more.
        """
        needed = self._needed(running)
        if self._is_short_for_too_long(needed):
            raise JobError("internal", f"Executors were lost and not replaced: {self._told(needed)}")

    def _needed(self, lanes: int) -> int:
        """How many slots are needed: lanes of a pinned range can run one after the other, so one is enough."""
        return lanes if self._is_following else min(lanes, 1)

    def _is_short_for_too_long(self, needed: int) -> bool:
        now_s = time.monotonic()
        if self._looked_s is None or now_s - self._looked_s >= _LOOK_S:
            self._looked_s, self._slots = now_s, count(self._context)
        if self._slots >= needed:
            self._short_since_s = None
        elif self._short_since_s is None:
            self._short_since_s = now_s
        return self._short_since_s is not None and now_s - self._short_since_s >= self._wait_s

    def _told(self, needed: int) -> str:
        wanted = (
            f"{needed} lanes follow the live head and all have to run at once" if self._is_following else "Lanes wait"
        )
        waited = f" after {self._wait_s:.0f} s" if self._wait_s else ""
        return f"{wanted}, and {self._context.master} has {self._slots} task slots{waited}."
