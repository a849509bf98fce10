"""The daemon's child processes: what they get, how they end, what they survive. A small program stands in for Spark."""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recoveryd.adapters.spark import attempt_folders, spare_drivers
from recoveryd.adapters.spark import command as spark_command
from recoveryd.adapters.spark.attempt_folders import AttemptFolder, WorkDir
from recoveryd.adapters.spark.attempt_logs import read_log
from recoveryd.adapters.spark.command import (
    JAVA_OPTIONS,
    SparkProfile,
    class_archive,
    submit_command,
    submit_environment,
)
from recoveryd.adapters.spark.processes import stand_back, start_session
from recoveryd.adapters.spark.runner import SparkJobs
from recoveryd.capabilities import make_job
from recoveryd.errors import LaunchError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import Event
from recoveryd.recovery.events import AttemptExited
from recoveryd.recovery.job_specs import JobDefaults
from recoveryd_jobs.contract import JobSpec, decode
from tests.builders.records import make_launch, make_plan
from tests.patience import patient_s

DEADLINE_S = 120.0
SECRET = "correct-horse"
PLAN = make_plan((0, 0, 10))

# A driver, as far as the runner can see it: with --spec it says so and runs; as a spare it waits for its spec first.
DRIVER = """
import pathlib, signal, sys, time
job = sys.argv[1:]
if {stubborn}: signal.signal(signal.SIGTERM, signal.SIG_IGN)
if job[0] == "--spare":
    folder = pathlib.Path(job[1])
    (folder / "ready").write_text("")
    while not (folder / "spec.json").exists(): time.sleep(0.02)
    print("was a spare", flush=True)
print("runs", flush=True)
{body}
"""


class Rig:
    def __init__(
        self,
        folder: Path,
        body: str,
        *,
        profile: SparkProfile,
        stubborn: bool = False,
        withheld: Collection[str] = (),
    ) -> None:
        self.folder = folder
        self.script = DRIVER.format(body=body, stubborn=stubborn)
        self.heard: list[Event] = []
        self.started: list[list[str]] = []
        clients = {"main": {"bootstrap.servers": "nowhere:1", "sasl.password": SECRET}}
        defaults = JobDefaults("scope", clients, "directives", "progress", "receipts")
        self.jobs = SparkJobs(
            {"default": profile}, make_job(defaults), folder, self.heard.append, self._command, withheld
        )

    def _command(self, _profile: SparkProfile, _name: str, _folder: Path, job: Sequence[str]) -> list[str]:
        self.started.append(list(job))
        return [sys.executable, "-c", self.script, *job]

    def attempt(self, number: int = 1) -> AttemptFolder:
        return WorkDir(self.folder).attempt("r1", number)

    def log(self, number: int = 1) -> str:
        file = self.attempt(number).log_file
        return file.read_text() if file.exists() else ""

    def exits(self) -> list[tuple[int, int]]:
        return [(e.attempt, e.exit_code) for e in self.heard if isinstance(e, AttemptExited)]


@asynccontextmanager
async def rig_of(
    folder: Path, body: str, *, warm: int = 0, nice: int = 0, stubborn: bool = False, withheld: Collection[str] = ()
) -> AsyncIterator[Rig]:
    """Ends what is still alive at the end."""
    rig = Rig(folder, body, profile=SparkProfile(warm=warm, nice=nice), stubborn=stubborn, withheld=withheld)
    try:
        yield rig
    finally:
        await rig.jobs.close()
        for pid in noted_pids(folder, "*/*/pid"):
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        for process, _folder in rig.jobs._children.values():
            process.wait(DEADLINE_S)


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def noted_pids(folder: Path, pattern: str) -> list[int]:
    return [int(note.read_text()) for note in files(folder, pattern)]


def has_ready_spare(folder: Path) -> bool:
    return len(files(folder, "_spares/*/ready")) == len(files(folder, "_spares/*/pid")) == 1


def command_line(pid: int | None) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def told_by_kernel(pid: int, name: str) -> str:
    """What `/proc` says of a process; empty where this kernel has no such file."""
    file = Path(f"/proc/{pid}/{name}")
    return file.read_text() if file.exists() else ""


async def until(condition: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < give_up_s, "it did not happen"
        await asyncio.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_an_attempt_gets_its_spec_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "time.sleep(600)") as rig:
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: "runs" in rig.log())
        folder = rig.attempt()
        spec = decode(JobSpec, folder.spec_file.read_bytes())
        assert rig.started == [["--spec", str(folder.spec_file)]]
        assert stat.S_IMODE(folder.spec_file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        assert (spec.recovery, spec.attempt, spec.source.client["sasl.password"]) == ("r1", 1, SECRET)
        assert SECRET.encode() not in command_line(folder.read_note("pid"))


async def test_launching_the_same_attempt_again_starts_nothing(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "sys.exit(0)") as rig:
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: bool(rig.exits()))
        await rig.jobs.launch(make_launch(PLAN))
        assert len(rig.started) == 1


async def test_the_first_attempt_of_an_id_that_is_used_again_starts(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "sys.exit(0)") as rig:
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: len(rig.exits()) == 1)
        await rig.jobs.forget(["r1"])
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: len(rig.exits()) == 2)
        later = replace(PLAN, pinned_at_ms=PLAN.pinned_at_ms + 1)  # another daemon forgot the one before
        await rig.jobs.launch(make_launch(later))
        assert len(rig.started) == 3


async def test_an_exit_is_told_with_its_code_and_last_words(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "print('first'); print('no such topic', file=sys.stderr); sys.exit(3)") as rig:
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: bool(rig.exits()))
        [exited] = rig.heard
        assert isinstance(exited, AttemptExited)
        assert (exited.recovery, exited.attempt, exited.exit_code) == ("r1", 1, 3)
        assert "no such topic" in exited.message
        assert str(rig.attempt().log_file) in exited.message
        assert rig.attempt().read_note("exit_code") == 3


async def test_several_attempts_live_beside_each_other(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "sys.exit(5 if job[1].endswith('/1/spec.json') else 6)") as rig:
        await asyncio.gather(*(rig.jobs.launch(make_launch(PLAN, attempt=n)) for n in (1, 2)))
        await until(lambda: len(rig.exits()) == 2)
        assert sorted(rig.exits()) == [(1, 5), (2, 6)]


async def test_kill_ends_one_that_does_not_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd.adapters.spark.processes.end_group.__defaults__", (0.5,))
    async with rig_of(tmp_path, "time.sleep(600)", stubborn=True) as rig:
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: "runs" in rig.log())
        await rig.jobs.kill("r1", 1)
        await until(lambda: rig.exits() == [(1, -signal.SIGKILL)])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_an_application_and_what_it_starts_stand_back_for_others_on_the_machine(tmp_path: Path) -> None:
    body = "import subprocess; subprocess.Popen(['sleep', '600']); print('started', flush=True); time.sleep(600)"
    async with rig_of(tmp_path, body, nice=7) as rig:
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: "started" in rig.log())
        pid = rig.attempt().read_note("pid")
        assert pid is not None
        wanted = os.getpriority(os.PRIO_PROCESS, 0) + 7
        assert os.getpriority(os.PRIO_PROCESS, pid) == wanted
        [child] = told_by_kernel(pid, f"task/{pid}/children").split()
        assert os.getpriority(os.PRIO_PROCESS, int(child)) == wanted
        # Where sessions share the processor first, niceness within one of them would make no difference to others.
        assert told_by_kernel(pid, "autogroup")[-7:] in {"", "nice 7\n"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_spare_stands_back_too(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "time.sleep(600)", warm=1, nice=7) as rig:
        await rig.jobs.start()
        await until(lambda: has_ready_spare(tmp_path))
        [pid] = noted_pids(tmp_path, "_spares/*/pid")
        assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0) + 7


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_application_is_as_nice_as_can_be_and_no_nicer(tmp_path: Path) -> None:
    session = start_session(["sleep", "600"], os.environ, tmp_path, tmp_path / "log")
    stand_back(session.pid, 19)
    plain = start_session(["sleep", "600"], os.environ, tmp_path, tmp_path / "log")
    try:
        assert os.getpriority(os.PRIO_PROCESS, session.pid) == 19
        assert os.getpriority(os.PRIO_PROCESS, plain.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    finally:
        for process in (session, plain):
            process.kill()
            process.wait(DEADLINE_S)


async def test_all_that_was_launched_can_be_ended_at_once(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "time.sleep(0 if job[1].endswith('/1/spec.json') else 600)") as rig:
        await rig.jobs.kill_all()
        await asyncio.gather(*(rig.jobs.launch(make_launch(PLAN, attempt=n)) for n in (1, 2, 3)))
        await until(lambda: rig.exits() == [(1, 0)])
        await rig.jobs.kill_all()
        await until(lambda: len(rig.exits()) == 3)
        assert sorted(rig.exits()) == [(1, 0), (2, -signal.SIGTERM), (3, -signal.SIGTERM)]


async def test_kill_takes_the_whole_group(tmp_path: Path) -> None:
    body = (
        "import subprocess; p = subprocess.Popen(['sleep', '600']); print('child', p.pid, flush=True); time.sleep(600)"
    )
    async with rig_of(tmp_path, body) as rig:
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: "child" in rig.log())
        child = int(rig.log().split()[-1])
        await rig.jobs.kill("r1", 1)
        await until(lambda: not is_running(child))
        await until(lambda: rig.exits() == [(1, -signal.SIGTERM)])


async def test_an_attempt_outlives_its_daemon_and_the_next_one_can_still_kill_it(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "time.sleep(600)") as rig:
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: "runs" in rig.log())
        await rig.jobs.close()
        pid = rig.attempt().read_note("pid")
        assert pid is not None
        assert is_running(pid)
        assert os.getsid(pid) == pid
        async with rig_of(tmp_path, "") as later:
            await later.jobs.kill("r1", 1)
        assert not is_running(pid)
        assert rig.exits() == []


async def test_a_later_daemon_does_not_kill_a_stranger_that_got_the_same_pid(tmp_path: Path) -> None:
    stranger = start_session(["sleep", "600"], os.environ, tmp_path, tmp_path / "log")
    WorkDir(tmp_path).make_attempt("r1", 1).write_note("pid", stranger.pid)
    async with rig_of(tmp_path, "") as rig:
        await rig.jobs.kill("r1", 1)
        assert stranger.poll() is None
    stranger.wait(DEADLINE_S)


async def test_a_ready_spare_becomes_the_attempt_and_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spare_drivers, "REFILL_AFTER_S", 0.0)
    monkeypatch.setattr("recoveryd.adapters.spark.runner._HOUSEKEEPING_S", 0.4)
    async with rig_of(tmp_path, "time.sleep(600)", warm=1) as rig:
        await rig.jobs.start()
        await until(lambda: has_ready_spare(tmp_path))
        [ready] = files(tmp_path, "_spares/*/ready")
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: "was a spare" in rig.log())
        assert rig.started[0] == ["--spare", str(ready.parent), "--parent", str(os.getpid()), "--slots", "2"]
        assert stat.S_IMODE(rig.attempt().spec_file.stat().st_mode) == 0o600
        await until(lambda: len(rig.started) == 2)
        await rig.jobs.kill("r1", 1)
        await until(lambda: rig.exits() == [(1, -signal.SIGTERM)])


async def test_spares_end_with_the_daemon_and_leave_nothing(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "time.sleep(600)", warm=1) as rig:
        await rig.jobs.start()
        await until(lambda: has_ready_spare(tmp_path))
        [pid] = noted_pids(tmp_path, "_spares/*/pid")
        await rig.jobs.close()
        assert not is_running(pid)
        assert files(tmp_path, "_spares/*") == []


async def test_without_a_living_spare_an_attempt_starts_cold(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "time.sleep(600)", warm=1) as rig:
        await rig.jobs.start()
        await until(lambda: has_ready_spare(tmp_path))
        [pid] = noted_pids(tmp_path, "_spares/*/pid")
        os.killpg(pid, signal.SIGKILL)
        await until(lambda: not is_running(pid))
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: "runs" in rig.log())
        assert rig.started[-1] == ["--spec", str(rig.attempt().spec_file)]


async def test_an_unknown_profile_is_refused_for_good(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "") as rig:
        with pytest.raises(LaunchError) as caught:
            await rig.jobs.launch(make_launch(PLAN, profile="huge"))
        assert not caught.value.retriable
        assert "huge" in caught.value.message


async def test_a_program_that_cannot_be_started_is_a_launch_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_of(tmp_path, "") as rig:
        monkeypatch.setattr(rig.jobs, "_command", lambda *_: [str(tmp_path / "nothing")])
        with pytest.raises(LaunchError) as caught:
            await rig.jobs.launch(make_launch(PLAN))
        assert caught.value.code is Code.LAUNCH_FAILED


def test_asking_for_a_spare_where_there_is_none_does_not_put_the_next_one_off(tmp_path: Path) -> None:
    started: list[str] = []

    def start(_profile: SparkProfile, _folder: AttemptFolder, name: str, _job: list[str]) -> "subprocess.Popen[bytes]":
        started.append(name)
        return subprocess.Popen(["sleep", "600"], start_new_session=True)

    pool = spare_drivers.SparePool({"default": SparkProfile(warm=1)}, WorkDir(tmp_path), start)
    try:
        assert pool.take("default") is None
        pool.refill()
        assert len(started) == 1
        taken = pool.take("default")
        pool.refill()
        assert len(started) == 1, "the attempt just begun needs the machine"
        pool.hurry()
        pool.refill()
        assert len(started) == 2
    finally:
        pool.close()
        if taken is not None:
            taken.process.kill()
            taken.process.wait()


def test_only_the_newest_attempts_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_folders, "KEPT_ATTEMPTS", 2)
    work = WorkDir(tmp_path)
    for age, name in enumerate(["new", "newer", "old", "busy", "ancient"]):
        folder = work.make_attempt(name, 1)
        os.utime(folder.path, (1_000_000 - age, 1_000_000 - age))
    work.prune({work.attempt("busy", 1).path})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["busy", "new", "newer"]


def test_a_folder_that_cannot_be_removed_keeps_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(attempt_folders, "KEPT_ATTEMPTS", 0)
    work = WorkDir(tmp_path)
    attempts = [work.make_attempt(name, 1).path for name in ("a", "foreign", "z")]
    stays = attempts[1]
    os.utime(stays, (2_000_000_000, 2_000_000_000))  # the newest is looked at first
    remove = shutil.rmtree

    def rmtree(path: Path, **given: Any) -> None:
        if path == stays:
            raise PermissionError(13, "Permission denied", str(path / "root.log"))
        remove(path, **given)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    for _ in range(3):
        work.prune(set())
    work.forget(["a", "foreign", "z"])
    assert [path.exists() for path in attempts] == [False, True, False]
    assert [record.getMessage().count(str(stays)) > 0 for record in caplog.records] == [True], "it is told once"
    monkeypatch.setattr(shutil, "rmtree", remove)
    work.prune(set())
    assert not stays.exists()


def test_what_others_keep_in_the_work_folder_is_not_taken_for_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_folders, "KEPT_ATTEMPTS", 0)
    monkeypatch.setattr(attempt_folders, "LOG_BYTES_MAX", 1)
    theirs = [tmp_path / name for name in ("applications/24h-totals", "applications/24", "faust/1", "r1/1.mine")]
    for folder in theirs:
        folder.mkdir(parents=True)
        (folder / "driver.log").write_text("theirs")
    work = WorkDir(tmp_path)
    ids = ("applications", "faust", "r1")
    ours = [work.make_attempt(name, 1) for name in ids]
    for attempt in ours:
        attempt.log_file.write_text("ours")
    assert [read_log(tmp_path, name, None, 1)["lines"] for name in ids] == [["ours"]] * 3
    work.cut_logs()
    work.prune(set())
    assert not any(attempt.path.exists() for attempt in ours)
    for name in ids:
        work.make_attempt(name, 1)
    work.forget(ids)
    assert not any(attempt.path.exists() for attempt in ours)
    assert [(folder / "driver.log").read_text() for folder in theirs] == ["theirs"] * 4


async def left_running(earlier: Rig, work: Path, warm: int) -> int:
    """The number of an attempt's process that a daemon, which has ended, leaves behind."""
    if warm:
        await earlier.jobs.start()
        await until(lambda: has_ready_spare(work))
    await earlier.jobs.launch(make_launch(PLAN))
    await until(lambda: "runs" in earlier.log())
    await earlier.jobs.close()
    pid = earlier.attempt().read_note("pid")
    assert pid is not None
    return pid


@pytest.mark.parametrize("warm", [0, 1])
async def test_what_an_earlier_daemon_started_keeps_its_folder_while_it_runs_and_its_log_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: int
) -> None:
    monkeypatch.setattr(attempt_folders, "KEPT_ATTEMPTS", 0)
    monkeypatch.setattr(attempt_folders, "LOG_BYTES_MAX", 1_000)
    monkeypatch.setattr(attempt_folders, "_LOG_BYTES_KEPT", 10)
    (tmp_path / "real").mkdir()
    (tmp_path / "work").symlink_to(tmp_path / "real")
    work = tmp_path / "work"
    async with rig_of(work, "time.sleep(600)", warm=warm) as earlier:
        pid, folder = await left_running(earlier, work, warm), earlier.attempt()
        folder.log_file.write_text("x" * 2_000)
        ended = WorkDir(work).make_attempt("r2", 1)
        async with rig_of(work, "") as rig:
            await rig.jobs.forget(["r1"])
            await rig.jobs.start()
            await until(lambda: not ended.path.exists())
            assert (folder.read_note("pid"), is_running(pid), folder.log_file.read_text()) == (pid, True, "")
            await rig.jobs.kill("r1", 1)
            assert not is_running(pid)
            await rig.jobs.forget(["r1"])
            assert not folder.path.exists()


async def test_a_process_that_got_the_number_of_an_ended_one_is_not_taken_for_it(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "time.sleep(600)") as rig:
        await rig.jobs.launch(make_launch(PLAN, attempt=11))
        await until(lambda: "runs" in rig.log(11))
        pid = rig.attempt(11).read_note("pid")
        assert pid is not None
        ended = WorkDir(tmp_path).make_attempt("r1", 1)
        ended.write_note("pid", pid)
        await rig.jobs.kill("r1", 1)
        assert is_running(pid)
        WorkDir(tmp_path).forget(["r1"])
        assert (ended.path.exists(), rig.attempt(11).path.exists()) == (False, True)


async def test_what_still_runs_under_an_id_that_is_used_again_ends_before_its_folder_goes(tmp_path: Path) -> None:
    async with rig_of(tmp_path, "time.sleep(600)") as rig:
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: "runs" in rig.log())
        pid = rig.attempt().read_note("pid")
        await rig.jobs.launch(make_launch(replace(PLAN, pinned_at_ms=PLAN.pinned_at_ms + 1)))
        later = rig.attempt().read_note("pid")
        assert pid is not None
        assert later is not None
        assert (is_running(pid), is_running(later)) == (False, True)
        await rig.jobs.kill("r1", 1)
        await until(lambda: rig.exits() == [(1, -signal.SIGTERM)])


@pytest.mark.parametrize("warm", [0, 1])
async def test_what_an_earlier_daemon_started_and_cannot_be_seen_keeps_its_folder_and_is_told(
    tmp_path: Path,
    see_nothing: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    warm: int,
) -> None:
    monkeypatch.setattr(attempt_folders, "KEPT_ATTEMPTS", 0)
    work = tmp_path / "work"
    async with rig_of(work, "time.sleep(600)", warm=warm) as earlier:
        pid = await left_running(earlier, work, warm)
        see_nothing()
        async with rig_of(work, "") as rig:
            await rig.jobs.kill("r1", 1)
            await rig.jobs.forget(["r1"])
            for _ in range(2):
                WorkDir(work).prune(set())
            with pytest.raises(LaunchError, match=f"Process {pid}, .* was not ended") as refused:
                await rig.jobs.launch(make_launch(replace(PLAN, pinned_at_ms=PLAN.pinned_at_ms + 1)))
            assert refused.value.retriable
            assert is_running(pid)
            assert "runs" in rig.log()
        told = [record.getMessage() for record in caplog.records if f"{pid}" in record.getMessage()]
        assert any("was not ended" in message for message in told)
        assert any("stays" in message for message in told)


@pytest.mark.parametrize(("refused", "is_kept"), [(None, True), (PermissionError, False), (ProcessLookupError, False)])
def test_a_number_that_another_user_has_now_keeps_no_folder(
    tmp_path: Path,
    see_nothing: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    refused: type[OSError] | None,
    is_kept: bool,
) -> None:
    def signal_none(*_: int) -> None:
        if refused is not None:
            raise refused

    work = WorkDir(tmp_path / "work")
    ours = work.make_attempt("r1", 1)
    ours.write_note("pid", 4_000_000)
    work.make_attempt("r1", 2).write_note("pid", -1)
    see_nothing()
    for name in ("kill", "killpg"):
        monkeypatch.setattr(os, name, signal_none)
    work.forget(["r1"])
    assert (ours.path.exists(), work.attempt("r1", 2).path.exists()) == (is_kept, False)


def test_a_forgotten_recovery_leaves_no_folder_and_no_spare_behind_it(tmp_path: Path) -> None:
    work = WorkDir(tmp_path)
    for name in ("r1", "r2"):
        work.make_attempt(name, 1)
    spare = work.make_spare()
    work.adopt_spare(spare, "r1", 2)
    work.forget(["r1", "unknown"])
    assert (sorted(p.name for p in tmp_path.iterdir() if p.name != "_spares"), spare.path.exists()) == (["r2"], False)


def test_a_log_that_grew_too_large_keeps_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_folders, "LOG_BYTES_MAX", 1_000)
    monkeypatch.setattr(attempt_folders, "_LOG_BYTES_KEPT", 10)
    folder = AttemptFolder(tmp_path)
    with folder.log_file.open("ab") as log:
        log.write(b"x" * 1_000 + b"last words")
        log.flush()
        folder.cut_log()
        log.write(b"goes on")
    assert (tmp_path / "driver.log.1").read_bytes() == b"last words"
    assert folder.log_file.read_bytes() == b"goes on"


def properties(folder: Path) -> list[str]:
    return (folder / "spark.conf").read_text(encoding="utf-8").splitlines()


def test_the_command_names_the_master_and_the_profiles_conf_wins(tmp_path: Path) -> None:
    profile = SparkProfile("local[3,4]", "700m", {"spark.ui.enabled": "true", "spark.x": "y"})
    command = submit_command(profile, "name", tmp_path, ["--spec", "file"])
    assert command[0].endswith("spark-submit")
    assert command[1:7] == ["--master", "local[3,4]", "--deploy-mode", "client", "--driver-memory", "700m"]
    wanted = {
        "spark.ui.enabled=true",
        "spark.x=y",
        "spark.speculation=false",
        "spark.driver.host=127.0.0.1",
        f"spark.pyspark.driver.python={sys.executable}",
    }
    assert wanted <= set(properties(tmp_path))
    assert command[-3].endswith("spark_jobs/recoveryd_jobs/main.py")
    assert command[-2:] == ["--spec", "file"]


def test_secrets_of_a_profile_stand_in_a_file_of_its_owner_and_not_on_the_command_line(tmp_path: Path) -> None:
    profile = SparkProfile("spark://host:7077", conf={"spark.authenticate.secret": SECRET})
    command = submit_command(profile, "name", tmp_path, [])
    assert not any(SECRET in word for word in command)
    assert f"spark.authenticate.secret={SECRET}" in properties(tmp_path)
    assert stat.S_IMODE((tmp_path / "spark.conf").stat().st_mode) == 0o600


def scratch_of(folder: Path) -> str:
    [options] = (line for line in properties(folder) if line.startswith("spark.driver.extraJavaOptions="))
    return options.partition(" -Djava.io.tmpdir=")[2]


def test_what_a_killed_jvm_leaves_lies_in_the_folder_of_its_attempt(tmp_path: Path) -> None:
    submit_command(SparkProfile(), "name", tmp_path, [])
    assert scratch_of(tmp_path) == f"{tmp_path}/spark"
    assert (tmp_path / "spark").is_dir(), "Java does not make it"
    spaced = tmp_path / "of one"
    spaced.mkdir()
    submit_command(SparkProfile(), "name", spaced, [])
    assert scratch_of(spaced) == "", "two words would be two options"


@pytest.mark.parametrize(
    ("given", "collector"),
    [("-Xss4m -Dx=y", "-XX:+UseSerialGC"), ("-XX:+UseG1GC -Xss4m", "-XX:+UseG1GC")],
)
def test_options_of_the_drivers_jvm_come_behind_ours_and_java_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, collector: str
) -> None:
    monkeypatch.setattr(spark_command, "spark_home", lambda: tmp_path)
    submit_command(SparkProfile(conf={"spark.driver.extraJavaOptions": given}), "name", tmp_path, [])
    [line] = (line for line in properties(tmp_path) if line.startswith("spark.driver.extraJavaOptions="))
    options = line.partition("=")[2].split()
    assert options[-2:] == given.split()
    assert {"-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={tmp_path}/spark"} < set(options)
    assert [o for o in options if o.endswith("GC")] == [collector]
    subprocess.run(["java", *options, "-version"], check=True, capture_output=True, timeout=patient_s(2))


def test_an_archive_of_classes_is_offered_to_java_once_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_command, "spark_home", lambda: tmp_path)
    archive = class_archive()
    assert archive is not None
    plain = f"spark.driver.extraJavaOptions={JAVA_OPTIONS}"
    scratch = f" -Djava.io.tmpdir={tmp_path}/spark"
    submit_command(SparkProfile(), "name", tmp_path, [])
    assert f"{plain}{scratch}" in properties(tmp_path)
    archive.touch()
    options = f"{plain} -XX:SharedArchiveFile={archive} -Xlog:cds*=off"
    submit_command(SparkProfile(), "name", tmp_path, [])
    assert f"{options}{scratch}" in properties(tmp_path)
    other = tmp_path / "bin" / "java"
    other.parent.mkdir()
    other.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert class_archive() not in {None, archive}, "another Java needs another archive"


def test_the_environment_of_an_application_has_our_python_and_none_of_our_settings() -> None:
    environ = {"PATH": "/bin", "RECOVERYD_CLUSTERS__MAIN__SASL_PASSWORD": SECRET, "RECOVERYD_FAILPOINT": "lane.drained"}
    made = submit_environment(environ)
    assert SECRET not in made.values()
    assert (made["PATH"], made["RECOVERYD_FAILPOINT"], made["PYSPARK_PYTHON"]) == (
        "/bin",
        "lane.drained",
        sys.executable,
    )


def test_variables_that_the_config_refers_to_stay_with_the_daemon() -> None:
    made = submit_environment(
        {"PATH": "/bin", "OTHER": "x", "KAFKA_PASSWORD": SECRET}, withheld=frozenset({"KAFKA_PASSWORD"})
    )
    assert (made.get("KAFKA_PASSWORD"), made["OTHER"], made["PATH"]) == (None, "x", "/bin")


@pytest.mark.parametrize("warm", [0, 1])
async def test_an_attempt_gets_no_variable_that_is_withheld(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: int
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    monkeypatch.setenv("OTHER", "is-there")
    body = "import os; print('has', sorted(set(os.environ) & {'KAFKA_PASSWORD', 'OTHER'}), flush=True)"
    async with rig_of(tmp_path, body, warm=warm, withheld={"KAFKA_PASSWORD"}) as rig:
        await rig.jobs.launch(make_launch(PLAN))
        await until(lambda: "has ['OTHER']" in rig.log())


def test_without_java_a_launch_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(LaunchError) as caught:
        submit_command(SparkProfile(), "name", tmp_path, [])
    assert caught.value.code is Code.JAVA_MISSING
    assert not caught.value.retriable
