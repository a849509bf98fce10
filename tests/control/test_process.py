"""`control: process` with real processes: started, found again, ended, and never mistaken for others."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from recoveryd.adapters.control import process as process_module
from recoveryd.adapters.control.make import make_controls
from recoveryd.adapters.control.proc_table import process_of
from recoveryd.adapters.control.process import ProcessApplications
from recoveryd.adapters.control.process_file import Note, read_note, write_note
from recoveryd.adapters.control.process_log import cut_log, log_path
from recoveryd.adapters.control.process_sight import MARK, ProcessApplication, boot_s
from recoveryd.bootstrap.outside import surroundings
from recoveryd.settings import load
from recoveryd.units.control import ENDED_CLEANLY, ApplicationState, Desired, Needs, Report
from tests.control.asking import asked, until, wish
from tests.patience import patient_s

LIVES = "import time\nprint('here', flush=True)\ntime.sleep(3600)"
DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('here', flush=True)\ntime.sleep(3600)"
# For one that ends by itself: a busy machine needs a while to start a Python that ends at once.
NEVER_STEADY_S = 600.0
# What an application outlives is its daemon, here one object of several.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
INSTALLATION = f"test on {os.getpid()}"
Make = Callable[..., ProcessApplications]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[ProcessApplications] = []

    def a_daemon(
        code: str = LIVES,
        *,
        command: tuple[str, ...] = (),
        installation: str = INSTALLATION,
        steady_s: float = 0.2,
        **options,
    ):
        environment = {"PATH": os.environ["PATH"], "RECOVERYD_CLUSTERS": "secret"}
        application = ProcessApplication(
            "app", command or (sys.executable, "-c", code), tmp_path, steady_s=steady_s, **options
        )
        made.append(ProcessApplications([application], tmp_path / "home", installation, environment, lambda: 1_000))
        return made[-1]

    yield a_daemon
    for pid in marked_pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await until(lambda: not marked_pids(), "what a test left is gone before the next begins")
    for control in made:
        await control.close()


def marked_pids() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f" of {INSTALLATION}\0".encode() in (entry / "environ").read_bytes():
                state = process_of(int(entry.name))
                found += [int(entry.name)] if state is not None and state.state != "Z" else []
    return sorted(found)


def home(tmp_path: Path) -> Path:
    return tmp_path / "home" / "app"


async def running(control: ProcessApplications, tmp_path: Path, says: str = "here") -> Report:
    report = await asked(control, wish(Desired.RUNNING))
    assert (report.state, report.needs) == (ApplicationState.RUNNING, Needs.NOTHING), report
    await until(lambda: says in log_path(home(tmp_path)).read_text(), f"says {says}")
    return report


async def test_it_is_started_as_the_config_says_and_a_second_ask_changes_nothing(make: Make, tmp_path: Path) -> None:
    code = "import json, os, sys, time\nprint(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]), flush=True)\n"
    command = (sys.executable, "-c", f"{code}time.sleep(3600)", "$HOME; *", "")
    control = make(command=command, environment={"NAME": "value"})
    assert (await control.look("app")).state is ApplicationState.STOPPED
    first = await running(control, tmp_path, "}]\n")
    arguments, folder, environment = json.loads(log_path(home(tmp_path)).read_text())
    assert arguments == ["$HOME; *", ""]
    assert folder == str(tmp_path)
    assert environment["NAME"] == "value"
    assert environment["PATH"] == os.environ["PATH"]
    assert "RECOVERYD_CLUSTERS" not in environment
    again = await asked(control, wish(Desired.RUNNING))
    assert again.evidence["pids"] == first.evidence["pids"] == marked_pids()


@pytest.mark.usefixtures("make")
async def test_a_variable_that_the_config_refers_to_comes_only_by_the_name_that_the_unit_gives_it(
    tmp_path: Path,
) -> None:
    tell = "import json, os, time; print(json.dumps(dict(os.environ)), flush=True); time.sleep(3600)"
    config = {
        "clusters": {
            "main": {
                "bootstrap.servers": "nowhere:1", "security.protocol": "SSL", "ssl.key.password": {"env": "KEY_PASSWORD"},
            }
        },
        "work_dir": str(tmp_path),
        "units": {
            "app": {
                "kind": "group", "group": "app", "inputs": ["t"],
                "control": {
                    "kind": "process", "start": [sys.executable, "-c", tell], "work_dir": str(tmp_path),
                    "environment": {"MINE": {"env": "NAMED"}},
                },
            }
        },
    }  # fmt: skip
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(config))
    variables = {"PATH": os.environ["PATH"], "KEY_PASSWORD": "secret-1", "NAMED": "secret-2", "OTHER": "x"}
    settings = load(file, env=variables)
    around = replace(surroundings(settings, {}, lambda: 1_000), installation=INSTALLATION)
    control = make_controls(settings.control_options(), around)
    try:
        log = log_path(settings.work_dir / "applications" / "app")
        await asked(control, wish(Desired.RUNNING))
        await until(lambda: log.exists() and log.read_text().endswith("}\n"), "it has told its environment")
        told = json.loads(log.read_text())
        assert {name: told.get(name) for name in ("MINE", "NAMED", "KEY_PASSWORD", "OTHER")} == {
            "MINE": "secret-2", "NAMED": None, "KEY_PASSWORD": None, "OTHER": "x",
        }  # fmt: skip
    finally:
        await control.close()


async def test_it_ends_by_sigterm_and_stopping_twice_is_harmless(make: Make, tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('told', flush=True), time.sleep(0.5), sys.exit(0)))\n"
        "print('here', flush=True)\nwhile True: time.sleep(3600)"
    )
    control = make(code)
    await running(control, tmp_path)
    report = await asked(control, wish(Desired.STOPPED))
    assert (report.state, report.why) == (ApplicationState.STOPPED, "it ended as it was told to")
    assert report.evidence[ENDED_CLEANLY] is True
    assert marked_pids() == []
    assert log_path(home(tmp_path)).read_text().count("told") == 1
    assert (await control.ask(wish(Desired.STOPPED))).state is ApplicationState.STOPPED


async def test_what_was_never_started_is_stopped(make: Make) -> None:
    report = await make().ask(wish(Desired.STOPPED))
    assert (report.state, report.why) == (
        ApplicationState.STOPPED,
        f"no process of it runs on {os.uname().nodename} that a daemon started",
    )


async def test_one_that_does_not_end_gets_sigkill_after_its_time(make: Make, tmp_path: Path) -> None:
    control = make(DEAF, stop_timeout_ms=3_000)
    await running(control, tmp_path)
    first = await control.ask(wish(Desired.STOPPED, key="stop"))
    assert (first.state, first.needs) == (ApplicationState.CHANGING, Needs.TIME)
    assert "got SIGTERM" in first.why
    assert "SIGKILL follows" in first.why
    report = await asked(control, wish(Desired.STOPPED, key="stop"))
    assert report.why == "it did not end within 3 s and was ended by SIGKILL"
    assert report.evidence[ENDED_CLEANLY] is False
    assert marked_pids() == []


async def test_one_whose_daemon_died_before_it_was_told_to_end_has_its_time_for_it(make: Make, tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "def end(*_): print('has ended well', flush=True); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\nprint('here', flush=True)\ntime.sleep(3600)"
    )
    control = make(code, stop_timeout_ms=30_000)
    await running(control, tmp_path)
    write_note(home(tmp_path), replace(read_note(home(tmp_path)), ending_s=boot_s() - 600))
    report = await asked(make(code, stop_timeout_ms=30_000), wish(Desired.STOPPED))
    assert report.why == "it ended as it was told to"
    assert "has ended well" in log_path(home(tmp_path)).read_text()


async def test_what_no_signal_ends_is_told_to_a_person(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = make(DEAF, stop_timeout_ms=0)
    await running(control, tmp_path)
    monkeypatch.setattr(process_module, "send", lambda *_: True)
    monkeypatch.setattr(process_module, "WAIT_S", 0.0)
    assert (await control.ask(wish(Desired.STOPPED))).needs is Needs.TIME
    note = read_note(home(tmp_path))
    write_note(home(tmp_path), Note(**{**{k: getattr(note, k) for k in Note.__slots__}, "killed_s": boot_s() - 60}))
    report = await control.ask(wish(Desired.STOPPED))
    assert (report.state, report.needs) == (ApplicationState.CHANGING, Needs.MENDING)
    told = re.search(r"got SIGKILL (\d+) s ago, which does not end it", report.why)
    assert told is not None, report.why
    assert int(told[1]) >= 60


async def test_one_that_belongs_to_another_user_is_told_to_a_person(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bool:
        raise PermissionError

    control = make()
    await running(control, tmp_path)
    monkeypatch.setattr(process_module, "send", refused)
    monkeypatch.setattr(process_module, "WAIT_S", 0.0)
    report = await control.ask(wish(Desired.STOPPED))
    assert (report.state, report.needs) == (ApplicationState.CHANGING, Needs.MENDING)
    assert "may not be signalled by this user" in report.why


async def test_all_that_it_started_ends_with_it(make: Make, tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'], start_new_session=True)\n"
        "print('here', flush=True)\nimport time; time.sleep(0.5)"
    )
    control = make(code)
    await running(control, tmp_path)
    await until(lambda: len(marked_pids()) == 1, "the first process ends by itself")
    assert (await control.look("app")).state is ApplicationState.RUNNING
    assert (await asked(control, wish(Desired.STOPPED))).state is ApplicationState.STOPPED
    assert marked_pids() == []


async def test_the_next_daemon_finds_it_after_the_first_was_killed(make: Make, tmp_path: Path) -> None:
    code = f"""
import asyncio, os, pathlib, signal, sys
from recoveryd.adapters.control.process import ProcessApplications
from recoveryd.adapters.control.process_sight import ProcessApplication
from recoveryd.units.control import Desired, Wish
async def main():
    application = ProcessApplication("app", (sys.executable, "-c", {LIVES!r}), pathlib.Path({str(tmp_path)!r}))
    home = pathlib.Path({str(tmp_path / "home")!r})
    control = ProcessApplications([application], home, {INSTALLATION!r}, os.environ, lambda: 1)
    await control.ask(Wish("app", Desired.RUNNING, "w0", "k0", 0))
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = await asyncio.create_subprocess_exec(sys.executable, "-c", code, env=environment)
    assert await asyncio.wait_for(first.wait(), patient_s(10)) == -signal.SIGKILL
    (pid,) = marked_pids()
    control = make()
    assert (await running(control, tmp_path)).evidence["pids"] == [pid]
    assert (await asked(control, wish(Desired.STOPPED))).state is ApplicationState.STOPPED
    assert marked_pids() == []


async def test_it_is_found_without_the_note_too(make: Make, tmp_path: Path) -> None:
    before = await running(make(), tmp_path)
    (home(tmp_path) / "process.json").write_text('{"pid": [')
    control = make()
    assert (await running(control, tmp_path)).evidence["pids"] == before.evidence["pids"]
    assert (await asked(control, wish(Desired.STOPPED))).state is ApplicationState.STOPPED
    assert marked_pids() == []


async def test_it_is_found_after_the_installation_was_renamed(make: Make, tmp_path: Path) -> None:
    await running(make(), tmp_path)
    control = make(installation="another name")
    assert (await control.look("app")).state is ApplicationState.RUNNING
    assert (await asked(control, wish(Desired.STOPPED))).state is ApplicationState.STOPPED
    assert marked_pids() == []


async def test_a_process_that_only_has_its_number_is_left_alone(make: Make, tmp_path: Path) -> None:
    foreign = await asyncio.create_subprocess_exec(sys.executable, "-c", LIVES, stdout=asyncio.subprocess.DEVNULL)
    try:
        seen = process_of(foreign.pid)
        assert seen is not None
        home(tmp_path).mkdir(parents=True)
        control = make()
        await control.ask(wish(Desired.STOPPED))
        write_note(home(tmp_path), Note("k", pid=foreign.pid, started_ticks=seen.started_ticks - 1, boot=boot()))
        assert (await control.look("app")).state is ApplicationState.STOPPED
        assert (await asked(control, wish(Desired.STOPPED))).state is ApplicationState.STOPPED
        assert foreign.returncode is None
    finally:
        foreign.kill()
        await foreign.wait()


async def test_units_of_one_name_of_two_installations_are_two_applications(make: Make, tmp_path: Path) -> None:
    environment = {**os.environ, MARK: f"app of another than {INSTALLATION}"}
    foreign = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LIVES, stdout=asyncio.subprocess.DEVNULL, env=environment
    )
    try:
        assert (await make().look("app")).state is ApplicationState.STOPPED
    finally:
        foreign.kill()
        await foreign.wait()


async def test_a_restart_of_the_machine_makes_it_stopped(make: Make, tmp_path: Path) -> None:
    home(tmp_path).mkdir(parents=True)
    write_note(home(tmp_path), Note("k", host=os.uname().nodename, boot="gone", pid=1, started_ticks=0, ending_s=9e9))
    assert (await make().look("app")).state is ApplicationState.STOPPED
    assert (await running(make(), tmp_path)).evidence["pids"] == marked_pids()


async def test_one_that_another_machine_started_is_not_started_twice(make: Make, tmp_path: Path) -> None:
    home(tmp_path).mkdir(parents=True)
    write_note(home(tmp_path), Note("k", host="elsewhere", boot="its own", pid=1, started_ticks=1))
    report = await make().ask(wish(Desired.RUNNING))
    assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.MENDING)
    assert "started on elsewhere" in report.why
    assert marked_pids() == []


@pytest.mark.parametrize("desired", list(Desired))
async def test_one_that_ran_on_another_machine_is_never_taken_for_stopped(make: Make, desired: Desired) -> None:
    control = make()
    report = await control.ask(wish(desired, before={"host": "elsewhere", "boot": "its own"}))
    assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.MENDING)
    assert report.why.startswith("it ran on elsewhere before, and this daemon is on ")
    assert marked_pids() == []


async def test_a_container_that_was_made_anew_is_on_the_same_machine(make: Make, tmp_path: Path) -> None:
    before = (await running(make(), tmp_path)).before
    assert before == {"host": os.uname().nodename, "boot": boot()}
    report = await asked(make(), wish(Desired.STOPPED, before={**before, "host": "its-name-before"}))
    assert report.state is ApplicationState.STOPPED
    report = await asked(make(), wish(Desired.RUNNING, before={**before, "host": "its-name-before"}))
    assert report.state is ApplicationState.RUNNING


async def test_two_daemons_that_ask_at_once_start_one(make: Make) -> None:
    daemons = [make() for _ in range(4)]
    reports = await asyncio.gather(*(asked(control, wish(Desired.RUNNING, key="one")) for control in daemons))
    assert {tuple(report.evidence["pids"]) for report in reports} == {tuple(marked_pids())}
    assert len(marked_pids()) == 1


async def test_a_start_after_an_unfinished_stop_waits_for_its_end(make: Make, tmp_path: Path) -> None:
    control = make(DEAF, stop_timeout_ms=3_000)
    before = await running(control, tmp_path)
    assert (await control.ask(wish(Desired.STOPPED))).state is ApplicationState.CHANGING
    after = await asked(control, wish(Desired.RUNNING))
    assert after.state is ApplicationState.RUNNING
    assert after.evidence["pids"] == marked_pids() != before.evidence["pids"]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("/no/such/program",), "it could not be started: /no/such/program: No such file or directory"),
        ((__file__,), f"it could not be started: {__file__}: Permission denied"),
        ((sys.executable, "-c", "import sys; sys.exit(3)"), "it ended by itself, with exit code 3"),
        ((sys.executable, "-c", "import os; os.abort()"), "it ended by itself, by SIGABRT"),
    ],
    ids=["missing", "no program", "exit code", "signal"],
)
async def test_one_that_does_not_start_is_told_to_a_person(make: Make, command: tuple[str, ...], says: str) -> None:
    control = make(command=command, steady_s=NEVER_STEADY_S)
    report = await asked(control, wish(Desired.RUNNING))
    assert (report.state, report.needs) == (ApplicationState.STOPPED, Needs.MENDING)
    assert report.why.startswith(says)


async def test_a_folder_that_is_not_there_is_named(make: Make, tmp_path: Path) -> None:
    control = make()
    (tmp_path / "home").touch()
    report = await control.ask(wish(Desired.RUNNING))
    assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.MENDING)
    assert f"{tmp_path / 'home' / 'app'} cannot be used: Not a directory" in report.why


async def test_a_daemon_that_leads_makes_the_folder_of_each_application_by_which_others_know_it(
    make: Make, tmp_path: Path
) -> None:
    await make().start()
    assert home(tmp_path).stat().st_mode & 0o777 == 0o700
    (tmp_path / "home" / "app").rmdir()
    (tmp_path / "home").rmdir()
    (tmp_path / "home").touch()
    await make().start()  # who asks for the application is told


async def test_one_that_ends_again_and_again_is_started_once_for_one_wish(make: Make, tmp_path: Path) -> None:
    control = make("print('here', flush=True)", steady_s=NEVER_STEADY_S)
    for _ in range(3):
        assert (await asked(control, wish(Desired.RUNNING, key="first"))).needs is Needs.MENDING
    assert log_path(home(tmp_path)).read_text() == "here\n"
    await asked(control, wish(Desired.RUNNING, key="second"))
    assert log_path(home(tmp_path)).read_text() == "here\nhere\n"


async def test_its_output_stays_bounded_while_it_writes(make: Make, tmp_path: Path) -> None:
    code = (
        "import time\nfor n in range(20_000): print(f'line {n}', flush=True)\n"
        "while True: print('end', flush=True), time.sleep(0.01)"
    )
    control = make(code, log_most=10_000)
    await control.start()
    await control.ask(wish(Desired.RUNNING))
    path = log_path(home(tmp_path))

    def is_cut() -> bool:
        cut_log(home(tmp_path), 10_000)
        return "end\n" in path.read_text()

    await until(is_cut, "all is written")
    kept = path.with_suffix(".log.1")
    assert kept.stat().st_size == 5_000
    assert path.stat().st_mode & 0o077 == 0 == kept.stat().st_mode & 0o077


async def test_nothing_that_it_is_given_is_shown(make: Make, tmp_path: Path) -> None:
    control = make(command=(sys.executable, "-c", LIVES, "argument-secret"), environment={"TOKEN": "variable-secret"})
    report = await running(control, tmp_path)
    application = control._sights["app"].application
    assert "secret" not in f"{report}{application}{read_note(home(tmp_path))}"


@pytest.mark.parametrize("desired", list(Desired))
async def test_one_that_cannot_be_seen_is_neither_taken_for_stopped_nor_started_again(
    make: Make, tmp_path: Path, see_nothing: Callable[[], None], monkeypatch: pytest.MonkeyPatch, desired: Desired
) -> None:
    await running(make(), tmp_path)
    pids, note = marked_pids(), read_note(home(tmp_path))
    see_nothing()
    control = make()
    assert (await control.look("app")).state is ApplicationState.UNKNOWN
    report = await control.ask(wish(desired))
    assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.MENDING)
    assert f"there is a process {pids[0]}" in report.why
    assert str(home(tmp_path)) in report.why
    monkeypatch.undo()
    assert (marked_pids(), read_note(home(tmp_path))) == (pids, note)
    assert (await make().look("app")).state is ApplicationState.RUNNING


@pytest.mark.parametrize("refused", [ProcessLookupError, PermissionError])
async def test_one_that_may_not_be_signalled_is_there_and_one_without_a_number_is_not(
    make: Make,
    tmp_path: Path,
    see_nothing: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    refused: type[OSError],
) -> None:
    def refuse(*_: int) -> None:
        raise refused

    home(tmp_path).mkdir(parents=True)
    write_note(home(tmp_path), Note("k", host=os.uname().nodename, pid=1_234_567, started_ticks=1))
    see_nothing()
    for name in ("kill", "killpg"):
        monkeypatch.setattr(os, name, refuse)
    state = (await make().look("app")).state
    monkeypatch.undo()
    assert state is (ApplicationState.UNKNOWN if refused is PermissionError else ApplicationState.STOPPED)


async def test_what_is_left_of_its_group_counts_as_long_as_nothing_of_it_is_seen(
    make: Make, tmp_path: Path, see_nothing: Callable[[], None]
) -> None:
    child = "import time; time.sleep(3600)"
    code = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {child!r}])\nprint('here', flush=True)\n"
    control = make(f"{code}import time; time.sleep(0.5)")
    await running(control, tmp_path)
    await until(lambda: len(marked_pids()) == 1, "the first process ends by itself")
    await control.look("app")  # and is waited for
    see_nothing()
    assert (await make().look("app")).state is ApplicationState.UNKNOWN


@pytest.mark.parametrize(("boot_of_note", "is_kept"), [("", True), ("another", False)])
async def test_a_daemon_that_could_not_see_the_boot_of_the_machine_leaves_a_note_that_stands(
    make: Make, tmp_path: Path, see_nothing: Callable[[], None], boot_of_note: str, is_kept: bool
) -> None:
    await running(make(), tmp_path)
    control = make()  # which knows the boot
    write_note(home(tmp_path), replace(read_note(home(tmp_path)), boot=boot_of_note))
    see_nothing()
    state = (await control.look("app")).state
    assert state is (ApplicationState.UNKNOWN if is_kept else ApplicationState.STOPPED)


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
