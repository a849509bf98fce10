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
# Positions in /proc/PID/stat after the name in brackets: fields 3, 14, 15 and 22.
_STAT_STATE, _STAT_USER, _STAT_SYSTEM, _STAT_START = 0, 11, 12, 19


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


def process_cpu_s(pid: int) -> float:
    """User and system time of one process with all its threads, in s; 0 when it is gone. From /proc, so on
    Linux only.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[_STAT_USER]) + int(fields[_STAT_SYSTEM])) / os.sysconf("SC_CLK_TCK")


def end(process: ProcessId, deadline_s: float) -> bool:
    """SIGTERM, then SIGKILL when it still lives after `deadline_s`. True when SIGTERM was enough (or it was gone)."""
    if _ended_after(process, signal.SIGTERM, deadline_s):
        return True
    _ended_after(process, signal.SIGKILL, deadline_s)
    return False


def freeze(pid: int, deadline_s: float) -> None:
    """SIGSTOP, and wait until every thread stands still, where the system tells (Linux)."""
    os.kill(pid, signal.SIGSTOP)
    give_up_at_s = time.monotonic() + deadline_s
    while not all(map(_is_frozen, Path(f"/proc/{pid}/task").glob("*/stat"))) and time.monotonic() < give_up_at_s:
        time.sleep(_POLL_S)


def _is_frozen(stat: Path) -> bool:
    """Whether the thread is stopped, or gone."""
    try:
        text = stat.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return text.rpartition(")")[2].split()[_STAT_STATE] in {"T", "t", "Z", "X"}


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
