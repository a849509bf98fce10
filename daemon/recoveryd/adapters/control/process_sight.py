"""What can be seen of an application that the daemon started: its processes, and what a report says of them."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from recoveryd.adapters.control.proc_table import Process, boot_id, is_alive, marked, process_of, ticks_per_s
from recoveryd.adapters.control.process_file import Note, read_note
from recoveryd.adapters.control.process_log import log_path
from recoveryd.adapters.unseen import is_unseen
from recoveryd.units.control import ENDED_CLEANLY, ApplicationState, Needs, Report

MARK: Final = "STARTED_BY_RECOVERYD"
STEADY_S: Final = 2.0  # a process that lived so long counts as running
KILL_WAIT_S: Final = 10.0  # how long SIGKILL may take before a person is asked
_TOLD_MOST: Final = 20
_STATES: Final[Mapping[str, str]] = {"D": "waits in the kernel", "T": "is stopped", "t": "is held by a debugger"}


@dataclass(frozen=True, slots=True)
class ProcessApplication:
    """What the config says; arguments and environment may hold secrets."""

    unit: str
    command: tuple[str, ...] = field(repr=False)
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    stop_timeout_ms: int = 300_000
    log_most: int = 32 * 1024 * 1024
    steady_s: float = STEADY_S

    @property
    def stop_timeout_s(self) -> float:
        return self.stop_timeout_ms / 1000


class ProcessSight:
    """Of one application. `home` is the folder of its note and its output; `installation` tells two daemons apart that
    have units of one name and nothing to do with each other.
    """

    def __init__(self, application: ProcessApplication, home: Path, installation: str) -> None:
        self.application = application
        self.home = home
        self.mark = f"{application.unit} of {installation}"
        self.host = socket.gethostname()
        self.boot = boot_id()
        self.child: subprocess.Popen[bytes] | None = None  # if this daemon started it, to learn how it ended

    def note(self) -> Note:
        note = read_note(self.home)
        return note if self.is_elsewhere(note) else note.of_boot(self.boot, boot_s())

    def is_elsewhere(self, note: Note) -> bool:
        return note.pid is not None and self._is_another_machine(note.host, note.boot)

    def ran_elsewhere(self, before: Mapping[str, Any]) -> bool:
        """By what an earlier report told."""
        return "host" in before and self._is_another_machine(before["host"], before.get("boot"))

    def _is_another_machine(self, host: object, boot: object) -> bool:
        """A container that is made anew has another name, on the same machine."""
        return host != self.host and (boot != self.boot or not self.boot)

    def members(self, note: Note) -> tuple[Process, ...]:
        """All that lives of it, oldest first."""
        self._exit_code(note)  # so that none is left as a zombie
        found = set(marked({f"{MARK}={mark}" for mark in (self.mark, note.mark) if mark}))
        if note.pid is not None:
            first = process_of(note.pid)
            if first is not None and first.started_ticks == note.started_ticks and is_alive(first):
                found.add(first)
        return tuple(sorted(found))

    def is_hidden(self, note: Note) -> bool:
        """Of one of which nothing can be seen: whether it may run all the same, so that it is neither stopped nor to be
        started.
        """
        if note.pid is None or self._exit_code(note) is not None:
            return False
        found = process_of(note.pid)
        if found is not None and note.started_ticks is None:
            return is_alive(found)  # it could not be seen when it began, so nothing tells it from another one
        return is_unseen(note.pid)

    def report(self, note: Note) -> Report:
        if self.is_elsewhere(note):
            why = f"it was started on {note.host} and cannot be seen from here; delete {self.home} if that host is gone"
            return self._report(ApplicationState.UNKNOWN, why, {"host": note.host}, Needs.MENDING)
        members = self.members(note)
        evidence: dict[str, Any] = {
            "pids": [process.pid for process in members[:_TOLD_MOST]],
            "begun_ms": note.begun_ms,
            "log": str(log_path(self.home)),
        }
        if not members and self.is_hidden(note):
            why = (
                f"there is a process {note.pid}, as the one that was started had it, that cannot be seen from here; end "
                f"it, or delete {self.home} if it is another one"
            )
            return self._report(ApplicationState.UNKNOWN, why, evidence, Needs.MENDING)
        if not members and note.is_ending:
            evidence[ENDED_CLEANLY] = note.killed_s is None
        if not members:
            return self._report(ApplicationState.STOPPED, self._how_it_ended(note), evidence)
        if note.ending_s is not None:
            return self._report(ApplicationState.CHANGING, self._how_it_ends(note, members), evidence)
        lived_s = boot_s() - members[0].started_ticks / ticks_per_s()
        if lived_s < self.application.steady_s:
            why = f"{_named(members)} began {lived_s:.1f} s ago"
            return self._report(ApplicationState.CHANGING, why, evidence)
        return self._report(ApplicationState.RUNNING, f"{_named(members)} for {lived_s:.0f} s", evidence)

    def is_stuck(self, note: Note) -> bool:
        return note.killed_s is not None and boot_s() - note.killed_s > KILL_WAIT_S

    def _report(
        self, state: ApplicationState, why: str, evidence: Mapping[str, Any], needs: Needs = Needs.NOTHING
    ) -> Report:
        is_alive_here = state in {ApplicationState.RUNNING, ApplicationState.CHANGING}
        before = {"host": self.host, "boot": self.boot} if is_alive_here else {}
        return Report(self.application.unit, state, why, evidence, before, needs)

    def _how_it_ends(self, note: Note, members: tuple[Process, ...]) -> str:
        now_s, limit_s = boot_s(), self.application.stop_timeout_s
        if note.killed_s is not None:
            why = (
                f"{_named(members)} did not end within {limit_s:g} s and got SIGKILL {now_s - note.killed_s:.0f} s ago"
            )
            if self.is_stuck(note):
                states = (f"{p.pid} {_STATES.get(p.state, f'is in state {p.state}')}" for p in members[:_TOLD_MOST])
                why += f", which does not end it: {', '.join(states)}"
            return why
        asked_s = note.asked_s(now_s)
        left_s = max(0.0, asked_s + limit_s - now_s)
        return f"{_named(members)} got SIGTERM {now_s - asked_s:.0f} s ago; SIGKILL follows in {left_s:.0f} s"

    def _how_it_ended(self, note: Note) -> str:
        if note.killed_s is not None:
            return f"it did not end within {self.application.stop_timeout_s:g} s and was ended by SIGKILL"
        if note.is_ending:
            return "it ended as it was told to"
        if note.pid is None:
            return f"no process of it runs on {self.host} that a daemon started"
        code = self._exit_code(note)
        told = "how is not known, since another daemon had started it" if code is None else _ending(code)
        return f"it ended by itself, {told}; its output is in {log_path(self.home)}"

    def _exit_code(self, note: Note) -> int | None:
        """Below zero: the signal that ended it."""
        code = None if self.child is None else self.child.poll()
        return code if self.child is not None and self.child.pid == note.pid else None


def is_kept_in(home: Path) -> bool:
    """Whether a daemon of this user keeps an application there, for root one of any user. Only then does seeing nothing
    mean that nothing runs: processes of other users show no mark, and the note may be in another folder.
    """
    try:
        return os.geteuid() in {0, home.stat().st_uid}
    except OSError:
        return False


def boot_s() -> float:
    """On the clock that start times of processes count on; it does not stand still while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _named(members: tuple[Process, ...]) -> str:
    return f"process {members[0].pid}" if len(members) == 1 else f"{len(members)} processes from {members[0].pid} on"


def _ending(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
