"""`control: process`: applications that are children of the daemon, started from a list of arguments.

A child leads its own session and writes its output to a file, so it outlives the daemon; the next daemon finds it by
the note that lies beside its log, or by the mark in its environment, which all that it starts inherits. Ending means
SIGTERM to all of these, once, and SIGKILL to what is left of them after `stop_timeout`.
"""

import asyncio
import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from recoveryd.adapters.control.proc_table import Process, is_alive, process_of, send
from recoveryd.adapters.control.process_file import IsBusyElsewhere, Note, held, write_note
from recoveryd.adapters.control.process_log import cut_log, open_log
from recoveryd.adapters.control.process_sight import MARK, ProcessApplication, ProcessSight, boot_s
from recoveryd.adapters.workers import Workers
from recoveryd.units.control import ApplicationState, Desired, Needs, Report, Wish

log = structlog.stdlib.get_logger(__name__)

WAIT_S: Final = 2.0  # how long one question waits for a process to end
CUT_EVERY_S: Final = 30.0
_LOCK_WAIT_S: Final = 3.0
_POLL_S: Final = 0.05


class ProcessApplications:
    """`home` gets a folder per unit; `installation` is the same for all daemons that may take over from each other.
    `inherited` is the environment that children get besides their own.
    """

    def __init__(
        self,
        applications: Sequence[ProcessApplication],
        home: Path,
        installation: str,
        inherited: Mapping[str, str],
        now_ms: Callable[[], int],
    ) -> None:
        self._sights = {a.unit: ProcessSight(a, home / a.unit, installation) for a in applications}
        # Options of the daemon may be secrets, and a recoveryctl that a child calls would take them for its own.
        self._inherited = {name: text for name, text in inherited.items() if not name.startswith("RECOVERYD_")}
        self._now_ms = now_ms
        self._workers = Workers("process-control", 4)
        self._tending: asyncio.Task[None] | None = None

    def renew(self, application: ProcessApplication) -> None:
        """What is started from now on gets this environment."""
        self._sights[application.unit].application = application

    async def ask(self, wish: Wish) -> Report:
        return await self._workers.run(self._ask, self._sights[wish.unit], wish)

    async def look(self, unit: str) -> Report:
        sight = self._sights[unit]
        return await self._workers.run(lambda: sight.report(sight.note()))

    async def start(self) -> None:
        """Keep outputs short from now on, and the folders, by which others find out who keeps an application."""
        if self._tending is None and self._sights:
            await self._workers.run(self._make_homes)
            self._tending = asyncio.create_task(self._tend())

    async def close(self) -> None:
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.gather(self._tending, return_exceptions=True)
            self._tending = None
        self._workers.close()

    def _make_homes(self) -> None:
        for sight in self._sights.values():
            with contextlib.suppress(OSError):  # whoever asks for the application is told
                sight.home.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def _tend(self) -> None:
        while True:
            await self._workers.run(self._cut)
            await asyncio.sleep(CUT_EVERY_S)

    def _cut(self) -> None:
        for unit, sight in self._sights.items():
            if cut_log(sight.home, sight.application.log_most):
                log.info("the output of an application was cut", unit=unit)

    def _ask(self, sight: ProcessSight, wish: Wish) -> Report:
        try:
            with held(sight.home, _LOCK_WAIT_S):
                note = sight.note()
                if sight.is_elsewhere(note):
                    return sight.report(note)
                if sight.ran_elsewhere(wish.before) and not sight.members(note):
                    why = f"it ran on {wish.before['host']} before, and this daemon is on {sight.host}"
                    return Report(wish.unit, ApplicationState.UNKNOWN, why, needs=Needs.MENDING)
                # What was told to end and has not ended yet comes first, whatever is wanted now.
                if wish.desired is Desired.STOPPED or note.is_ending:
                    note, report = self._end(sight, note)
                    if wish.desired is Desired.STOPPED or report.state is not ApplicationState.STOPPED:
                        return report
                return self._begin(sight, note, wish.key)
        except IsBusyElsewhere:
            why, needs = "another daemon is starting or stopping it just now", Needs.TIME
        except OSError as error:
            why, needs = f"its folder {sight.home} cannot be used: {error.strerror}", Needs.MENDING
        return Report(wish.unit, ApplicationState.UNKNOWN, why, needs=needs)

    def _begin(self, sight: ProcessSight, note: Note, key: str) -> Report:
        if sight.members(note):
            return self._settled(sight, note)
        if sight.is_hidden(note):
            return sight.report(note)
        if note.key == key and note.pid is not None:
            # It was started for this very wish: what ends again and again is not started for ever.
            return replace(sight.report(note), needs=Needs.MENDING)
        note = Note(key=key, mark=sight.mark, host=sight.host, boot=sight.boot, begun_ms=self._now_ms())
        write_note(sight.home, note)
        try:
            child = self._spawn(sight)
        except OSError as error:
            why = f"it could not be started: {error.filename or sight.application.command[0]}: {error.strerror}"
            return Report(sight.application.unit, ApplicationState.STOPPED, why, needs=Needs.MENDING)
        sight.child = child
        begun = process_of(child.pid)  # nobody has waited for it, so the number is its own
        note = replace(note, pid=child.pid, started_ticks=None if begun is None else begun.started_ticks)
        write_note(sight.home, note)
        log.info("an application was started", unit=sight.application.unit, pid=child.pid)
        return self._settled(sight, note)

    def _spawn(self, sight: ProcessSight) -> subprocess.Popen[bytes]:
        application = sight.application
        with open_log(sight.home) as output:
            return subprocess.Popen(
                application.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=application.folder,
                env={**self._inherited, **application.environment, MARK: sight.mark},
                start_new_session=True,
            )

    @staticmethod
    def _settled(sight: ProcessSight, note: Note) -> Report:
        """What there is once it either ended or lived long enough to count as running."""
        give_up_s = time.monotonic() + sight.application.steady_s + 1
        while True:
            report = sight.report(note)
            if report.state is ApplicationState.RUNNING:
                return report
            if report.state is ApplicationState.STOPPED:
                return replace(report, needs=Needs.MENDING)
            if report.state is ApplicationState.UNKNOWN:
                return report
            if time.monotonic() >= give_up_s:
                return replace(report, needs=Needs.TIME)
            time.sleep(_POLL_S)

    def _end(self, sight: ProcessSight, note: Note) -> tuple[Note, Report]:
        """The note afterwards: without a process if there is none any more."""
        members = sight.members(note)
        is_kept = False
        if members:
            note, is_kept = self._signal(sight, note, members)
            self._wait_for_end(sight, note, members)
        report = sight.report(note)
        if report.state is not ApplicationState.STOPPED:
            if is_kept:
                report = replace(report, why=f"{report.why}; some of them may not be signalled by this user")
            is_unknown = report.state is ApplicationState.UNKNOWN
            needs = Needs.MENDING if is_kept or is_unknown or sight.is_stuck(note) else Needs.TIME
            return note, replace(report, needs=needs)
        ended = note.ended()
        if ended != note:
            write_note(sight.home, ended)
            log.info("an application has ended", unit=sight.application.unit, how=report.why)
        return ended, report

    @staticmethod
    def _signal(sight: ProcessSight, note: Note, members: tuple[Process, ...]) -> tuple[Note, bool]:
        """What is decided is written first, so that a daemon that dies in between is followed by one that goes on.

        Also tells whether some of them belong to another user.
        """
        now_s = boot_s()
        if note.ending_s is None:
            note = replace(note, host=sight.host, boot=sight.boot, ending_s=now_s)
            write_note(sight.home, note)
        is_kept = False
        if note.told_s is None:  # to some programs a second SIGTERM means: at once
            is_kept = _send(members, signal.SIGTERM)
            if not is_kept:
                note = replace(note, told_s=now_s)
                write_note(sight.home, note)
                return note, False  # its time begins now: a daemon may have died before it told
        if now_s - note.asked_s(now_s) < sight.application.stop_timeout_s:
            return note, is_kept
        if note.killed_s is None:
            note = replace(note, killed_s=now_s)
            write_note(sight.home, note)
        return note, _send(members, signal.SIGKILL)

    @staticmethod
    def _wait_for_end(sight: ProcessSight, note: Note, members: tuple[Process, ...]) -> None:
        give_up_s = time.monotonic() + WAIT_S
        while members and time.monotonic() < give_up_s:
            time.sleep(_POLL_S)
            members = tuple(process for process in members if is_alive(process))
        sight.members(note)


def _send(members: tuple[Process, ...], number: signal.Signals) -> bool:
    """Whether some may not be signalled by this user."""
    is_kept = False
    for process in members:
        try:
            send(process, number)
        except PermissionError:
            is_kept = True
    return is_kept
