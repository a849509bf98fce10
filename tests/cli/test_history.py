"""`recoveryctl history`: the decisions of a daemon, repeated from its file of events."""

import json
from pathlib import Path

import pytest

from recoveryd.cli.failure import ExitCode
from recoveryd.kernel.states import State
from tests.builders.core import command
from tests.builders.world import World
from tests.cli.scripted import run
from tests.runtime.test_history import recorded


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "h"
    world = World()
    with recorded(world, path):
        world.feed(command("replay"))
        world.feed(command("replay", subject="r2"))
        world.run_until(State.COMPLETED)
    return path


def test_each_decision_stands_with_what_led_to_it_and_why(file: Path) -> None:
    rows = json.loads(run(None, "history", str(file), "-o", "json").stdout)
    assert rows[0]["event"] == "BecameLeader"
    assert (rows[1]["event"], rows[1]["about"], rows[1]["effects"]) == ("CommandReceived", ["r1"], ["GatherFacts"])
    assert next(row["why"] for row in rows if "recovery_completed" in row["told"]).startswith("zero_lag")


def test_one_recovery_can_be_asked_for(file: Path) -> None:
    rows = json.loads(run(None, "history", str(file), "r2", "-o", "json").stdout)
    assert rows
    assert all("r2" in row["about"] for row in rows)


def test_the_table_has_a_line_each(file: Path) -> None:
    shown = run(None, "history", str(file), "r2", env={"COLUMNS": "200"}).stdout
    assert "CommandReceived" in shown
    assert "GatherFacts" in shown


@pytest.mark.parametrize("text", [None, "{}", "{"])
def test_what_is_no_history_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "h"
    if text is not None:
        path.write_text(text)
    found = run(None, "history", str(path))
    assert found.exit_code == ExitCode.USAGE
    assert "is no history" in found.stderr
    assert "log.events" in found.stderr
