"""Places where a test can make the process die at once, as if the machine had failed.

`RECOVERYD_FAILPOINT="lane.before_commit:2"` ends the process by SIGKILL when it passes that point for the second time.
Nothing is flushed and no handler runs: only what Kafka holds survives. With `RECOVERYD_FAILPOINT_ONCE=FILE` the point
fires only while FILE does not exist and creates it first, so that a process that is started again passes. Several
points may be named, separated by commas; each then has a file of its own, FILE.point.

Without the variable a point costs one look into the environment. The names of all points are in `recoveryd.failpoints`
and `recoveryd_jobs.failpoints`. It stands here because daemon and jobs both need it.
"""

import os
import signal
import threading
from collections import Counter
from pathlib import Path

_lock = threading.Lock()
_passes: Counter[str] = Counter()


def hit(point: str) -> None:
    """Pass `point`; does not return when the environment says to die at this pass."""
    named = os.environ.get("RECOVERYD_FAILPOINT", "")
    if point not in named:
        return
    wanted = dict(_split(item) for item in named.split(","))
    if point not in wanted:
        return
    with _lock:
        _passes[point] += 1
        if _passes[point] == wanted[point] and _may_fire(point if len(wanted) > 1 else ""):
            os.kill(os.getpid(), signal.SIGKILL)


def _split(item: str) -> tuple[str, int]:
    point, _, number = item.partition(":")
    return point, int(number or "1")


def _may_fire(suffix: str) -> bool:
    once = os.environ.get("RECOVERYD_FAILPOINT_ONCE")
    if not once:
        return True
    try:
        Path(f"{once}.{suffix}" if suffix else once).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
