"""Ends what a run of tests or a demo has started, when the run is gone: also after SIGKILL, when nothing of its own
can.

Brokers, daemons and applications lead sessions of their own, and some outlive who started them, as they should. So each
run puts a mark into its environment, which all that it starts inherits, directly or not, and a keeper beside it waits
for its end and then ends whatever has the mark. That is one place for all of them, and nobody has to be told of the
keeper.

Linux only: elsewhere a process does not tell its environment, and nothing is kept.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Final

MARK: Final = "SANDBOX_RUN"  # tests take variables of the product out of environments
_TERM_S, _KILL_S, _POLL_S = 10.0, 30.0, 0.1
_kept: list[int] = []  # the process that has a keeper: this one, unless it is a fork of it


def end_with_this() -> None:
    """From now on, what this process starts ends with it. Does nothing when that is so already, or cannot be."""
    started = _start_of(os.getpid())
    if started is None or os.getpid() in _kept or not hasattr(os, "pidfd_open"):
        return
    _kept[:] = [os.getpid()]
    mark = uuid.uuid4().hex
    # A plain file without imports of ours, so that it costs a test run next to nothing.
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), started, mark]
    with contextlib.suppress(OSError):
        keeper = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={},  # no mark either: the keeper of a run within a run outlives that
        )
        keeper.returncode = 0  # it outlives this process, and nobody waits for it
        os.environ[MARK] = mark


def keep(pid: int, started: str, mark: str) -> None:
    """Returns when that process is gone and nothing with its mark is left, or cannot be ended."""
    with contextlib.suppress(ProcessLookupError):
        watched = os.pidfd_open(pid)
        if _start_of(pid) == started:
            select.select([watched], [], [])
        os.close(watched)
    _send(mark, signal.SIGTERM, _TERM_S)
    _send(mark, signal.SIGKILL, _KILL_S)


def _send(mark: str, number: signal.Signals, patience_s: float) -> None:
    """Once to each, also to those that come meanwhile."""
    told: set[int] = set()
    give_up_at_s = time.monotonic() + patience_s
    while (left := _marked(mark)) and time.monotonic() < give_up_at_s:
        for pid in left - told:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)  # a stopped process would keep the other signal for later
        told |= left
        time.sleep(_POLL_S)


def _marked(mark: str) -> set[int]:
    needle, found = f"{MARK}={mark}".encode(), set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # somebody else's, or gone
                if needle in (entry / "environ").read_bytes().split(b"\0") and _start_of(int(entry.name)):
                    found.add(int(entry.name))
    return found


def _start_of(pid: int) -> str | None:
    """What tells it from a later one with the same number; None when it is gone, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


if __name__ == "__main__":
    keep(int(sys.argv[1]), sys.argv[2], sys.argv[3])
