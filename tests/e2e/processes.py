"""Finds and ends processes of a test by pid: only those of a daemon or application that the test started. Linux only
(/proc).
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from recoveryd_sandbox.waiting import rest_s
from tests.patience import patient_s

_POLL_S = 0.05
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Process:
    """A process in /proc. `started` distinguishes it from a later one with the same pid."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    command: str

    @property
    def is_jvm(self) -> bool:
        return "java" in self.command.split(" ", 1)[0]

    @property
    def is_spark_worker(self) -> bool:
        """A Python worker or the server that forks them."""
        return "pyspark.daemon" in self.command or "recoveryd_jobs.worker_daemon" in self.command


def snapshot() -> dict[int, Process]:
    """All processes of the machine that are not zombies."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            process = _read(int(entry.name))
            if process is not None:
                found[process.pid] = process
    return found


def descendants(pid: int) -> list[Process]:
    """Children of children too, parents first."""
    everything = snapshot()
    found: list[Process] = []
    wanted = {pid}
    grew = True
    while grew:
        grew = False
        for process in everything.values():
            if process.parent in wanted and process.pid not in wanted:
                wanted.add(process.pid)
                found.append(process)
                grew = True
    return found


def session_of(pid: int) -> list[Process]:
    """Everything in the session of `pid`: an application is started as a session of its own; Spark's Python workers are
    a group of their own in it.
    """
    everything = snapshot()
    if pid not in everything:
        return []
    return [p for p in everything.values() if p.session == everything[pid].session]


def lane_workers(driver_pid: int) -> list[Process]:
    """The forked Python workers of an application: those whose parent is a worker server as well."""
    application = session_of(driver_pid)
    servers = {p.pid for p in application if p.is_spark_worker}
    return [p for p in application if p.is_spark_worker and p.parent in servers]


def is_alive(process: Process) -> bool:
    now = _read(process.pid)
    return now is not None and now.started == process.started


def kill(process: Process, number: signal.Signals = signal.SIGKILL) -> None:
    """Sends the signal, unless the process is gone and its pid free or used by another process."""
    if is_alive(process):
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


def await_gone(processes: list[Process], deadline_s: float = 30.0) -> None:
    wait_for(lambda: not any(is_alive(p) for p in processes), deadline_s, lambda: f"still there: {processes}")


def wait_for(
    question: Callable[[], T], deadline_s: float, told: Callable[[], str] = lambda: "", every_s: float = _POLL_S
) -> T:
    """Asks until the answer is true-ish and returns it. Raises AssertionError with `told()` when it is several times as
    late as `deadline_s`. A question that takes many requests is asked less often (`every_s`), and so is any that takes
    long.
    """
    give_up_at_s = time.monotonic() + patient_s(deadline_s)
    while True:
        asked_s = time.monotonic()
        answer = question()
        if answer:
            return answer
        if time.monotonic() > give_up_at_s:
            raise AssertionError(f"not within {deadline_s:.0f} s; {told()}")
        time.sleep(rest_s(time.monotonic() - asked_s, every_s))


def _read(pid: int) -> Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), command)
