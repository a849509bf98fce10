"""Child processes that lead their own session, so that they outlive the daemon and end as a whole group."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from recoveryd.errors import LaunchError

TERM_WAIT_S = 5.0
_POLL_S = 0.05


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
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")[:-1]
    except OSError:
        return []


def _signal(leader: int, number: signal.Signals) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
        return True
    return False


def _has_living_member(group: int) -> bool:
    """A leader that nobody waited for yet is a zombie: it counts as gone, the others of its group do not."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, _parent, members_group = entry.read_text().rpartition(")")[2].split()[:3]
            if int(members_group) == group and state not in "ZX":
                return True
    return False
