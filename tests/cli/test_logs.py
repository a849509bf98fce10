"""`logs`: from the folder of this machine, and through a daemon's HTTP API."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from recoveryd.adapters.spark.attempt_logs import read_log
from recoveryd.kernel.states import State
from recoveryd.runtime.health import Sources
from tests.builders.core import to_document
from tests.cli.recoveries import RUNNING, in_state
from tests.cli.scripted import ScriptedBackend, run
from tests.cli.served import LEADER, served

ID = RUNNING.id


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    """Two attempts, of which the first has a log that was cut."""
    for attempt, files in (("1", {"driver.log.1": "old\n", "driver.log": "new\n"}), ("2", {"driver.log": "a\nb\nc\n"})):
        folder = tmp_path / "work" / ID / attempt
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    return tmp_path / "work"


@pytest.fixture
def daemon(work_dir: Path) -> Iterator[str]:
    sources = Sources(
        lambda: LEADER, lambda: {ID: RUNNING}, lambda: b"", to_document, "text/plain", log=partial(read_log, work_dir)
    )
    with served(sources) as url:
        yield url


def known(attempt: int = 2) -> ScriptedBackend:
    return ScriptedBackend({ID: {**in_state(State.RUNNING), "attempt": attempt}})


def here(work_dir: Path) -> dict[str, str | None]:
    return {"RECOVERYD_WORK_DIR": str(work_dir), "RECOVERYD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}


def test_the_newest_attempt_is_shown_from_this_machine(work_dir: Path) -> None:
    result = run(known(), "logs", ID, "--lines", "2", env=here(work_dir))
    assert (result.exit_code, result.stdout) == (0, "b\nc\n")
    assert "The last 2 lines of attempt 2" in result.stderr


def test_an_earlier_attempt_is_shown_with_what_was_cut_off(work_dir: Path) -> None:
    result = run(known(), "logs", ID, "--attempt", "1", "-o", "json", env=here(work_dir))
    assert json.loads(result.stdout) == {
        "recovery": ID, "attempt": 1, "attempts": [1, 2], "lines": ["old", "new"], "is_cut": False,
    }  # fmt: skip


def test_what_is_not_here_is_asked_of_the_daemon(daemon: str, tmp_path: Path) -> None:
    listen = daemon.removeprefix("http://")
    env = here(tmp_path / "nothing") | {"RECOVERYD_HTTP__LISTEN": listen}
    result = run(known(), "logs", ID, "--lines", "1", env=env)
    assert (result.exit_code, result.stdout) == (0, "c\n")


def test_what_cannot_be_read_here_is_asked_of_the_daemon(daemon: str, tmp_path: Path) -> None:
    unreadable = tmp_path / ("x" * 300)  # no file system has such a name, so looking there is an error for root too
    assert read_log(unreadable, ID, None, 1) is None
    env = here(unreadable) | {"RECOVERYD_HTTP__LISTEN": daemon.removeprefix("http://")}
    result = run(known(), "logs", ID, "--lines", "1", env=env)
    assert (result.exit_code, result.stdout) == (0, "c\n"), result.stderr


def test_an_attempt_that_ran_beside_another_daemon_is_asked_of_that_one(
    daemon: str, work_dir: Path, tmp_path: Path
) -> None:
    first = work_dir / ID / "1"
    moved = tmp_path / "mine" / ID / "1"
    moved.parent.mkdir(parents=True)
    first.rename(moved)
    listen = {"RECOVERYD_HTTP__LISTEN": daemon.removeprefix("http://")}
    result = run(known(), "logs", ID, env=here(tmp_path / "mine") | listen)
    assert (result.exit_code, result.stdout) == (0, "a\nb\nc\n")


def test_an_older_attempt_is_not_shown_for_the_newest_without_a_word(daemon: str, work_dir: Path) -> None:
    listen = {"RECOVERYD_HTTP__LISTEN": daemon.removeprefix("http://")}
    for env in (here(work_dir), here(work_dir) | listen, here(work_dir / "nothing") | listen):
        result = run(known(4), "logs", ID, env=env)
        assert (result.exit_code, result.stdout) == (0, "a\nb\nc\n"), result.stderr
        assert "This is attempt 2. The newest is 4, whose log is elsewhere: " in result.stderr
        assert run(known(4), "logs", ID, "--attempt", "4", env=env).exit_code != 0


def test_with_a_context_this_machines_folder_is_not_read(daemon: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / ID / "2").mkdir(parents=True)
    (mine / ID / "2" / "driver.log").write_text("of another installation\n")
    env = {"RECOVERYD_WORK_DIR": str(mine), "XDG_CONFIG_HOME": str(tmp_path)}
    for name, more in (("far", ()), ("asked", ("--http", daemon))):
        assert run(known(), "context", "add", name, "--bootstrap", "far:9092", *more, env=env).exit_code == 0
    far = run(known(), "logs", ID, "--context", "far", env=env)
    assert (far.exit_code, far.stdout) == (2, "")
    assert "does not say where its daemon answers" in far.stderr
    asked = run(known(), "logs", ID, "--context", "asked", env=env)
    assert (asked.exit_code, asked.stdout) == (0, "a\nb\nc\n")


def test_a_daemon_that_gives_no_logs_says_so(tmp_path: Path) -> None:
    with served(Sources(lambda: LEADER, lambda: {ID: RUNNING}, lambda: b"", to_document, "text/plain")) as url:
        env = here(tmp_path / "nothing") | {"RECOVERYD_HTTP__LISTEN": url.removeprefix("http://")}
        result = run(known(), "logs", ID, env=env)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("RCV-4015 This daemon gives no logs by HTTP (`http.logs`).")


def test_through_http_alone(daemon: str) -> None:
    from recoveryd.cli.send.connect import Tools
    from tests.cli.scripted import run_with

    result = run_with(Tools(), "logs", ID, "--http", daemon)
    # The status of the daemon's own recovery says attempt 0: nothing was launched yet.
    assert (result.exit_code, result.stderr.split()[0]) == (3, "RCV-4015")


def test_a_dead_daemon_an_attempt_that_is_gone_and_an_unknown_id_are_told_apart(daemon: str, tmp_path: Path) -> None:
    nothing = here(tmp_path / "nothing")
    dead = run(known(), "logs", ID, env=nothing | {"RECOVERYD_HTTP__LISTEN": "127.0.0.1:1"})
    listen = {"RECOVERYD_HTTP__LISTEN": daemon.removeprefix("http://")}
    gone = run(known(9), "logs", ID, "--attempt", "7", env=nothing | listen)
    later = run(known(2), "logs", ID, "--attempt", "3", env=nothing)
    nobody = run(known(), "logs", "nobody", env=nothing)
    told = [(r.exit_code, r.stderr.split()[0]) for r in (dead, gone, later, nobody)]
    assert told == [(1, "RCV-2011"), (3, "RCV-4015"), (3, "RCV-4015"), (3, "RCV-1010")]
    assert "--http" in dead.stderr


def test_what_has_no_attempts_is_told() -> None:
    document = {**in_state(State.RUNNING), "kind": "watch"}
    result = run(ScriptedBackend({ID: document}), "logs", ID)
    assert (result.exit_code, result.stderr.split()[0]) == (4, "RCV-1031")


@pytest.mark.parametrize("query", ["lines=x", "lines=-1", "lines=10001", "attempt=0"])
def test_a_bad_question_is_refused_by_the_daemon(daemon: str, query: str) -> None:
    import urllib.error
    import urllib.request

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{daemon}/api/v1/recoveries/{ID}/logs?{query}", timeout=120)
    assert refused.value.code == 400
    assert json.load(refused.value)["error"]["code"] == "RCV-1005"
