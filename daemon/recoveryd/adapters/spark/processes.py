"""Child processes that lead their own session, so that they outlive the daemon and end as a whole group."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from recoveryd.adapters import proc
from recoveryd.adapters.proc import GONE, GROUP, STATE, numbers, stat_fields
from recoveryd.errors import LaunchError

TERM_WAIT_S = 5.0
_POLL_S = 0.05
_NICEST = 19
_AUTOGROUP_TRIES, _AUTOGROUP_PAUSE_S = 5, 0.11


def start_session(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, log_file: Path
) -> subprocess.Popen[bytes]:
    """Start `command` in `folder`, its output appended to `log_file`. Raises `LaunchError`."""
    try:
        with log_file.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
            )
    except OSError as error:
        raise LaunchError(f"Could not start {command[0]}: {error}") from error


def stand_back(leader: int, nice: int) -> None:
    """Make the session of `leader` so much nicer than this process, up to 19, as far as the system allows it: others on
    this machine get the processor first. Where the kernel shares it between sessions first (autogroup), the niceness of
    a process counts within its session only, and the session has one of its own. Call it before the session has done
    much: a thread keeps what it began with. May take half a second.
    """
    if nice <= 0:
        return
    with contextlib.suppress(OSError):
        wanted = min(_NICEST, os.getpriority(os.PRIO_PROCESS, 0) + nice)
        os.setpriority(os.PRIO_PGRP, leader, wanted)
    for _ in range(_AUTOGROUP_TRIES):
        try:
            (proc.PROC / str(leader) / "autogroup").write_text(str(min(_NICEST, nice)))
        except BlockingIOError:  # without privileges, ten of them may be changed per second on a whole machine
            time.sleep(_AUTOGROUP_PAUSE_S)
        except OSError:
            return  # there is no such thing here
        else:
            return


def end_group(leader: int, wait_s: float = TERM_WAIT_S) -> None:
    """SIGTERM to the group, SIGKILL to what is left of it `wait_s` seconds later. Blocking. A group that is gone
    already is fine.
    """
    if not _signal(leader, signal.SIGTERM):
        return
    give_up_s = time.monotonic() + wait_s
    while time.monotonic() < give_up_s:
        if not _has_living_member(leader):
            return
        time.sleep(_POLL_S)
    _signal(leader, signal.SIGKILL)


def arguments(pid: int) -> list[str]:
    """The command line of `pid`; none when there is no such process, or it is a zombie."""
    try:
        return os.fsdecode((proc.PROC / str(pid) / "cmdline").read_bytes()).split("\0")[:-1]
    except OSError:
        return []


def _signal(leader: int, number: signal.Signals) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
        return True
    return False


def _has_living_member(group: int) -> bool:
    """A leader that nobody waited for yet is a zombie: it counts as gone, the others of its group do not."""
    found = (fields for fields in map(stat_fields, numbers()) if fields)
    return any(fields[GROUP] == str(group) and fields[STATE] not in GONE for fields in found)
