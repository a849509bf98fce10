"""Watches and ends processes safely: a pid may be used again by another process, a pid with its start time identifies
one.

The sandbox broker outlives the command that started it, so the next command knows it only from a file.
"""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.05
_PS_TIMEOUT_S = 10.0
_STAT_STATE, _STAT_START = 0, 19  # positions in /proc/PID/stat after the name in brackets: fields 3 and 22


@dataclass(frozen=True)
class ProcessId:
    """A process that cannot be mistaken for a later one with the same pid. `started` is opaque: compare it only."""

    pid: int
    started: str


def identify(pid: int) -> ProcessId | None:
    """The process that has `pid` now, `None` when there is none or only its zombie."""
    started = _start_from_proc(pid) if Path("/proc/self/stat").exists() else _start_from_ps(pid)
    return ProcessId(pid, started) if started else None


def is_alive(process: ProcessId) -> bool:
    return identify(process.pid) == process


def end(process: ProcessId, deadline_s: float) -> bool:
    """SIGTERM, then SIGKILL when it still lives after `deadline_s`. True when SIGTERM was enough (or it was gone)."""
    if _ended_after(process, signal.SIGTERM, deadline_s):
        return True
    _ended_after(process, signal.SIGKILL, deadline_s)
    return False


def _ended_after(process: ProcessId, signum: signal.Signals, deadline_s: float) -> bool:
    if not is_alive(process):
        return True
    try:
        os.kill(process.pid, signum)
    except ProcessLookupError:
        return True
    give_up_at_s = time.monotonic() + deadline_s
    while is_alive(process):
        if time.monotonic() >= give_up_at_s:
            return False
        time.sleep(_POLL_S)
    return True


def _start_from_proc(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[_STAT_STATE] in "ZX" else fields[_STAT_START]


def _start_from_ps(pid: int) -> str | None:
    """For systems without /proc (macOS)."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=_PS_TIMEOUT_S, check=False).stdout.split()
    return None if not shown or shown[0].startswith("Z") else " ".join(shown[1:])
