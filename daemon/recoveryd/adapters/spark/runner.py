"""Spark applications as child processes: started by `spark-submit`, watched, and left alone when the daemon goes.

A child leads its own session, writes its own log file and reports through Kafka, so a daemon's end does not touch it.
The next daemon does not know it as a child, but finds its process by the attempt's folder when it must be ended.
"""

import asyncio
import logging
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from recoveryd.adapters.spark.attempt_folders import AttemptFolder, WorkDir
from recoveryd.adapters.spark.command import SparkProfile, submit_command, submit_environment
from recoveryd.adapters.spark.processes import TERM_WAIT_S, end_group, stand_back, start_session
from recoveryd.adapters.spark.spare_drivers import Spare, SparePool
from recoveryd.adapters.workers import Workers
from recoveryd.errors import LaunchError
from recoveryd.ports import Emit
from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.events import AttemptExited
from recoveryd_jobs.contract import JobSpec

_POLL_S = 0.2
_KEPT_LAUNCHES = 1_000
_HOUSEKEEPING_S = 5.0

_log = logging.getLogger("recoveryd.jobs")

Key = tuple[str, int]  # recovery, attempt
Command = Callable[[SparkProfile, str, Path, Sequence[str]], list[str]]  # as submit_command


class SparkJobs:
    """Call `start` once for spare drivers; everything else works without it."""

    def __init__(
        self,
        profiles: Mapping[str, SparkProfile],
        make_job: Callable[[LaunchAttempt], JobSpec],
        work_dir: Path,
        emit: Emit,
        command: Command = submit_command,
        withheld: Collection[str] = (),
    ) -> None:
        """`withheld`: variables of ours that no application gets."""
        self._profiles = dict(profiles)
        self._make_job = make_job
        self._work_dir = WorkDir(work_dir)
        self._emit = emit
        self._command = command
        self._withheld = frozenset(withheld)
        self._spares = SparePool(profiles, self._work_dir, self._spawn)
        self._children: dict[Key, tuple[subprocess.Popen[bytes], AttemptFolder]] = {}
        # Every launch of this daemon, the oldest forgotten, with the time of its plan: an id may be used again.
        self._launched: dict[Key, int] = {}
        self._workers = Workers("jobs", 8)
        self._one_at_a_time = asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Begin to keep spare drivers."""
        self._watch()

    async def launch(self, effect: LaunchAttempt) -> None:
        """Raises `LaunchError`. The same attempt of the same recovery again does nothing."""
        key = (effect.recovery, effect.attempt)
        async with self._one_at_a_time:
            if self._launched.get(key) == effect.plan.pinned_at_ms:
                return
            self._children[key] = await self._workers.run(self._launch, effect)
            self._launched[key] = effect.plan.pinned_at_ms
            if len(self._launched) > _KEPT_LAUNCHES:
                del self._launched[next(iter(self._launched))]
        self._watch()

    async def kill(self, recovery: str, attempt: int) -> None:
        """SIGTERM, five seconds later SIGKILL. Returns when it is done; not knowing the application is fine."""
        child = self._children.get((recovery, attempt))
        if child is not None:
            await self._workers.run(end_group, child[0].pid)
            return
        folder = self._work_dir.attempt(recovery, attempt)
        pid = folder.process()
        if pid is not None:
            await self._workers.run(end_group, pid)
        elif (hidden := folder.hidden_process()) is not None:
            _log.warning("%s", _not_ended(hidden, folder))

    async def kill_all(self) -> None:
        """The same for each application that was launched here, several at a time."""
        await asyncio.gather(*(self.kill(*key) for key in self._children))

    async def forget(self, recoveries: Collection[str]) -> None:
        """Remove the folders of their attempts, and know of none any more; one that still has a process stays."""
        async with self._one_at_a_time:
            gone = frozenset(recoveries) - {recovery for recovery, _attempt in self._children}
            self._launched = {key: at_ms for key, at_ms in self._launched.items() if key[0] not in gone}
            await self._workers.run(self._work_dir.forget, gone)

    async def close(self) -> None:
        """End the spares and leave the attempts. Nothing can be launched any more; closing again is fine."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._watcher is not None:
            self._watcher.cancel()
            with suppress(asyncio.CancelledError):
                await self._watcher
        async with self._one_at_a_time:
            await self._workers.run(self._spares.close)
        self._workers.close()

    def _launch(self, effect: LaunchAttempt) -> tuple["subprocess.Popen[bytes]", AttemptFolder]:
        profile = self._profiles.get(effect.spec.profile)
        if profile is None:
            raise LaunchError(f"There is no profile named {effect.spec.profile}.", retriable=False)
        try:
            spec = self._make_job(effect)
            self._end_earlier(effect.recovery, effect.attempt)
            spare = self._spares.take(effect.spec.profile)
            if spare is not None:
                return spare.process, self._hand_over(spare, effect, spec)
            folder = self._work_dir.make_attempt(effect.recovery, effect.attempt)
            folder.write_spec(spec)
            name = f"recoveryd-{effect.recovery}-{effect.attempt}"
            return self._spawn(profile, folder, name, ["--spec", str(folder.spec_file)]), folder
        except KeyError as error:
            raise LaunchError(f"The config has no cluster named {error}.", retriable=False) from error
        except OSError as error:
            raise LaunchError(f"Could not prepare the attempt's folder: {error}") from error

    def _end_earlier(self, recovery: str, attempt: int) -> None:
        """End what still runs for a recovery that had the id before: without its folder nobody could. Raises
        `LaunchError` where it can be neither seen nor ended.
        """
        child = self._children.pop((recovery, attempt), None)
        folder = self._work_dir.attempt(recovery, attempt)
        if child is not None:
            _end(child[0])
        elif (pid := folder.process()) is not None:
            end_group(pid)
        elif (hidden := folder.hidden_process()) is not None:
            raise LaunchError(_not_ended(hidden, folder))

    def _hand_over(self, spare: Spare, effect: LaunchAttempt, spec: JobSpec) -> AttemptFolder:
        """Give the spare its specification, with which it begins. One that cannot get it is ended, or it would wait for
        ever.
        """
        try:
            folder = self._work_dir.adopt_spare(spare.folder, effect.recovery, effect.attempt)
            folder.write_spec(spec)
        except OSError:
            _end(spare.process)
            self._work_dir.drop_spare(spare.folder)
            raise
        return folder

    def _spawn(
        self, profile: SparkProfile, folder: AttemptFolder, name: str, job: list[str]
    ) -> "subprocess.Popen[bytes]":
        command = self._command(profile, name, folder.path, job)
        process = start_session(command, submit_environment(withheld=self._withheld), folder.path, folder.log_file)
        try:
            folder.write_note("pid", process.pid)
        except OSError:  # without the note no later daemon would find it
            _end(process)
            raise
        stand_back(process.pid, profile.nice)
        return process

    def _watch(self) -> None:
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.get_running_loop().create_task(self._watch_children(), name="spark children")

    async def _watch_children(self) -> None:
        """Tell of exits soon, tidy up now and then."""
        rounds_per_housekeeping = int(_HOUSEKEEPING_S / _POLL_S)
        round_number, has_time = 0, False
        while True:
            for key, child in list(self._children.items()):
                process, folder = child
                if self._children.get(key) is child and process.poll() is not None:
                    del self._children[key]
                    await self._workers.run(_finish, folder, process.returncode)
                    round_number, has_time = 0, True
                    self._emit(AttemptExited(*key, process.returncode, _last_words(folder)))
            if round_number % rounds_per_housekeeping == 0:
                async with self._one_at_a_time:
                    await self._workers.run(self._keep_house, has_time)
                has_time = False
            round_number += 1
            await asyncio.sleep(_POLL_S)

    def _keep_house(self, has_time: bool) -> None:
        folders = [folder for _process, folder in list(self._children.values())]
        try:
            self._work_dir.cut_logs()
            self._work_dir.prune({f.path for f in (*folders, *self._spares.in_use())})
        except OSError as error:
            _log.warning("Could not prune old attempts: %s", error)
        if has_time:
            self._spares.hurry()
        self._spares.refill()


def _not_ended(pid: int, folder: AttemptFolder) -> str:
    return (
        f"Process {pid}, which may be of the attempt in {folder.path}, cannot be seen from here and was not ended: end it, "
        "or delete the folder if it is another one."
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    end_group(process.pid)
    process.wait(TERM_WAIT_S)


def _finish(folder: AttemptFolder, exit_code: int) -> None:
    with suppress(OSError):
        folder.write_note("exit_code", exit_code)
    folder.cut_log()
    folder.drop_scratch()


def _last_words(folder: AttemptFolder) -> str:
    tail = folder.log_tail()
    return f"{tail}\n(log: {folder.log_file})" if tail else f"its log {folder.log_file} is empty"
