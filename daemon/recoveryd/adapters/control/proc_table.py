"""Processes of this machine as /proc shows them, each told apart from a later one with the same number.

A number alone proves nothing: it may long belong to somebody else. The time of its start, in ticks since the machine
came up, tells the two apart; signals go through a handle of the process (pidfd), which never means another one.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from recoveryd.adapters import proc
from recoveryd.adapters.proc import GONE, STARTED_TICKS, STATE, stat_fields


@dataclass(frozen=True, slots=True, order=True)
class Process:
    started_ticks: int
    pid: int
    state: str  # a letter, as in ps


def process_of(pid: int) -> Process | None:
    """None = there is no such process any more."""
    fields = stat_fields(pid)
    return None if fields is None else Process(int(fields[STARTED_TICKS]), pid, fields[STATE])


def is_alive(process: Process) -> bool:
    found = process_of(process.pid)
    return found is not None and found.started_ticks == process.started_ticks and found.state not in GONE


def marked(marks: AbstractSet[str]) -> Iterator[Process]:
    """Living processes that began with one of `marks` (NAME=value) in their environment, or whose ancestor did. Those
    that this user may not look into are left out.
    """
    wanted = {mark.encode() for mark in marks}
    own = os.getpid()
    for entry in proc.PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == own:
            continue
        with contextlib.suppress(OSError):
            environment = (entry / "environ").read_bytes().split(b"\0")
            found = None if wanted.isdisjoint(environment) else process_of(int(entry.name))
            if found is not None and found.state not in GONE:
                yield found


def send(process: Process, number: signal.Signals) -> bool:
    """Whether it got the signal; False = it was gone. Raises `PermissionError`."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    else:
        return True
    finally:
        os.close(handle)


def boot_id() -> str:
    """Another one each time the machine comes up: start times count from there. Empty where it is hidden, as systemd
    does with `ProcSubset=pid`.
    """
    try:
        return (proc.PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def ticks_per_s() -> int:
    return os.sysconf("SC_CLK_TCK")
