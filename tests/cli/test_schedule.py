"""`schedule add|list|show|remove`, and how the other verbs show a schedule."""

import json
from pathlib import Path
from typing import Any

import pytest

from recoveryd.kernel.catalogue import Code
from tests.builders.core import to_document
from tests.cli.recoveries import make_notice
from tests.cli.scripted import ScriptedBackend, refuse_with, run
from tests.schedules.world import CONTINUED, REPLAY, ScheduleWorld

ENV: dict[str, str | None] = {"RECOVERYD_BOOTSTRAP_SERVERS": "a:1", "COLUMNS": "220"}
ID = "nightly"


def document(*, runs: bool = False) -> dict[str, Any]:
    world = ScheduleWorld(ends=(10_000, 0), speed=20_000 if runs else 1)
    world.add("0 2 * * *", data=CONTINUED, max_runtime="4h", time_zone="Europe/Berlin")
    world.now_ms = world.schedule().next_run_ms or 0
    world.second(40 if runs else 5)
    return to_document(world.schedule())


@pytest.fixture
def command(tmp_path: Path) -> Path:
    path = tmp_path / "command.yaml"
    path.write_text(json.dumps({"verb": "replay", "data": REPLAY}))
    return path


def add(command: Path, *flags: str, backend: ScriptedBackend | None = None) -> Any:
    words = ("schedule", "add", ID, "--cron", "0 2 * * *", "-f", str(command), "--reason", "r")
    return run(backend, *words, *flags, env=ENV)


def test_the_shortest_line_has_every_default(command: Path) -> None:
    printed = add(command, "--print-record", "-o", "json")
    assert printed.exit_code == 0, printed.stderr
    record = json.loads(json.loads(printed.stdout)["value"])
    assert (record["type"], record["subject"]) == ("io.recoveryd.command.schedule.v1", ID)
    assert record["data"] == {
        "reason": "r", "cron": "0 2 * * *", "time_zone": "UTC", "overrun": "skip",
        "command": {"verb": "replay", "data": REPLAY},
    }  # fmt: skip


def test_each_flag_has_its_field(command: Path) -> None:
    flags = ("--time-zone", "Europe/Berlin", "--overrun", "queue", "--max-runtime", "4h")
    printed = add(command, *flags, "--print-record", "-o", "json")
    data = json.loads(json.loads(printed.stdout)["value"])["data"]
    assert (data["time_zone"], data["overrun"], data["max_runtime"]) == ("Europe/Berlin", "queue", "4h")


@pytest.mark.parametrize(
    ("content", "flags", "says"),
    [
        ("verb: replay", (), "command.data.source"),
        ("verb: replai\ndata: {}", (), "replai"),
        ("- a", (), "is no mapping"),
        ("verb: [", (), "is no YAML"),
        (json.dumps({"verb": "replay", "data": REPLAY}), ("--time-zone", "Mars"), "data.time_zone"),
        (json.dumps({"verb": "replay", "data": REPLAY}), ("--max-runtime", "soon"), "data.max_runtime"),
        (json.dumps({"verb": "replay", "data": REPLAY}), ("--cron", "daily"), "data.cron"),
        (json.dumps({"verb": "replay", "data": REPLAY}), ("--overrun", "alert"), "alert"),
    ],
)
def test_a_line_that_says_nothing_good_sends_nothing(
    tmp_path: Path, content: str, flags: tuple[str, ...], says: str
) -> None:
    backend, path = ScriptedBackend(), tmp_path / "c.yaml"
    path.write_text(content)
    result = add(path, *flags, backend=backend)
    assert (result.exit_code, backend.sent) == (2, []), result.stderr
    assert says in result.stderr


def test_without_a_file_it_says_what_it_would_hold() -> None:
    result = run(None, "schedule", "add", ID, "--cron", "0 2 * * *", "--reason", "r", env=ENV)
    assert result.exit_code == 2
    assert "--file is missing" in result.stderr


def test_it_sends_one_command_and_shows_the_schedule(command: Path) -> None:
    backend = ScriptedBackend(becomes=[document()])
    result = add(command, backend=backend)
    assert (result.exit_code, [c["type"] for c in backend.sent]) == (0, ["io.recoveryd.command.schedule.v1"])
    assert ID in result.stdout
    assert f"recoveryctl schedule show {ID}" in result.stderr


def test_an_id_that_is_in_use_is_exit_code_4(command: Path) -> None:
    result = add(command, backend=ScriptedBackend(answer=refuse_with(Code.ID_IN_USE)))
    assert result.exit_code == 4


def test_list_shows_schedules_only_the_next_one_first() -> None:
    late = document() | {"recovery": "later"}
    late["schedule"] = late["schedule"] | {"next_run": "2030-01-01T00:00:00.000Z"}
    other = {"recovery": "r1", "kind": "replay", "state": "running", "created": "2026-01-01T00:00:00Z"}
    backend = ScriptedBackend({"later": late, "r1": other, ID: document()})
    listed = run(backend, "schedule", "list", "-o", "name", env=ENV)
    assert listed.stdout.split() == [ID, "later"]
    table = run(backend, "schedule", "list", env=ENV).stdout
    for part in ("0 2 * * *", "Europe/Berlin", "replay", "2030-01-01 00:00", "running"):
        assert part in table, table
    done = run(ScriptedBackend({ID: document(runs=True)}), "schedule", "list", "-o", "wide", env=ENV).stdout
    for part in ("COMPLETED", f"{ID}.2026", "skip", "//ops/alice"):
        assert part in done, done
    empty = run(ScriptedBackend(), "schedule", "list", env=ENV)
    assert "There is no schedule yet" in empty.stderr


def test_show_has_everything_of_it() -> None:
    backend = ScriptedBackend({ID: document(runs=True)}, timeline=[make_notice("schedule_fired", {"why": "due"}, ID)])
    shown = run(backend, "schedule", "show", ID, env=ENV).stdout
    for part in (
        "0 2 * * * in Europe/Berlin", "at most 4h", "fired 1, completed 1", "Sends replay", "last_end", "Last run",
        "accepted: planned", "completed", "Where the next run starts", "10,000", "schedule_fired",
    ):  # fmt: skip
        assert part in shown, shown
    assert "no limit" not in shown
    found = json.loads(run(backend, "schedule", "show", ID, "-o", "json", env=ENV).stdout)
    assert (found["kind"], "internal" in found) == ("schedule", False)


def test_show_of_something_else_is_exit_code_3() -> None:
    backend = ScriptedBackend({"r1": {"recovery": "r1", "kind": "replay", "state": "running"}})
    assert run(backend, "schedule", "show", "r1", env=ENV).exit_code == 3
    assert run(backend, "schedule", "show", "r2", env=ENV).exit_code == 3


def test_remove_sends_its_end() -> None:
    ended = document() | {"state": "stopped"}
    backend = ScriptedBackend({ID: ended}, becomes=[ended])
    result = run(backend, "schedule", "remove", ID, "--reason", "over", env=ENV)
    assert result.exit_code == 0, result.stderr
    assert [c["type"] for c in backend.sent] == ["io.recoveryd.command.unschedule.v1"]


def test_the_other_verbs_show_a_schedule_too() -> None:
    backend = ScriptedBackend({ID: document()})
    assert ID in run(backend, "list", env=ENV).stdout
    assert "Sends replay" in run(backend, "describe", ID, env=ENV).stdout
    assert json.loads(run(backend, "get", ID, "-o", "json", env=ENV).stdout)["schedule"]["cron"] == "0 2 * * *"
