"""Places where a test can make the process die at once, as if the machine had failed.

`RECOVERYD_FAILPOINT="journal.before_commit:2"` ends the process by SIGKILL when it passes that point for the second
time. Nothing is flushed, no handler runs: what survives is what Kafka holds. With `RECOVERYD_FAILPOINT_ONCE=FILE` the
point fires only while FILE does not exist and creates it first, so the restarted process passes. Without the variable a
point costs one comparison. Standard library only.

`step.before.NAME` and `step.after.NAME` lie around what a step of a workflow does.
"""

import os
import signal
import threading
from collections import Counter
from pathlib import Path

POINTS = frozenset({
    "journal.before_begin",
    "journal.before_commit",
    "journal.after_commit",
    "runtime.before_effects",
    "runtime.after_effects",
    "agent.before_inbox",
    "agent.after_journal",
    "watch.before_stop",
    "watch.after_stop",
})  # fmt: skip

_lock = threading.Lock()
_passes: Counter[str] = Counter()
_wanted, _, _number = os.environ.get("RECOVERYD_FAILPOINT", "").partition(":")


def hit(point: str) -> None:
    """Call where the process passes `point`. Ends the process if the environment names this pass."""
    if point != _wanted:
        return
    with _lock:
        _passes[point] += 1
        if _passes[point] == int(_number or "1") and _may_fire():
            os.kill(os.getpid(), signal.SIGKILL)


def _may_fire() -> bool:
    once = os.environ.get("RECOVERYD_FAILPOINT_ONCE")
    if not once:
        return True
    try:
        Path(once).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
