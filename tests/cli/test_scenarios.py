"""`recoveryctl scenarios` as users start it: offline, for people and for programs."""

import json
import os
import subprocess
import sys

import pytest


def run(*args: str) -> subprocess.CompletedProcess[str]:
    """Without an address, so that nothing can be asked."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERYD_")}
    command = [sys.executable, "-c", "from recoveryd.cli import main; main()", "scenarios", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def test_without_an_id_every_row_has_its_line() -> None:
    result = run()
    lines = result.stdout.splitlines()
    assert (result.returncode, lines[0].split()) == (0, ["ID", "STATUS", "SCENARIO"])
    assert [line.split()[0] for line in lines[1:4]] == ["S-WIKI-0a", "S-WIKI-0b", "S-WIKI-0c"]
    assert len(run("-o", "name").stdout.splitlines()) == len(lines) - 1


@pytest.mark.scenario("S-WIKI-0c")
@pytest.mark.parametrize("written", ["S-WIKI-1c", "s-wiki-1C"])
def test_a_row_has_its_headings_and_commands_that_can_be_copied(written: str) -> None:
    result = run(written)
    lines = result.stdout.splitlines()
    assert (result.returncode, lines[0]) == (0, "S-WIKI-1c  Internal topics are empty or gone")
    headings = [line for line in lines[1:] if line and not line.startswith(" ")]
    assert headings == ["Use", "Behaviour", "Steps", "Status", "Tests", "See"]
    assert "  recoveryctl unit show order-processor" in lines


def test_programs_get_the_whole_row() -> None:
    row = json.loads(run("S-WIKI-7", "-o", "json").stdout)
    assert row.keys() == {
        "id", "title", "use", "behaviour", "status", "steps", "limits", "missing", "see", "tests",
    }  # fmt: skip
    assert all(row["tests"] for row in json.loads(run("-o", "json").stdout) if row["status"] == "works")


def test_what_is_not_yet_says_why() -> None:
    [status] = [line for line in run("S-OSO-2").stdout.splitlines() if "not yet" in line]
    assert status.strip().startswith("not yet: ")


def test_an_id_that_is_not_there_is_told_with_the_nearest() -> None:
    result = run("S-WIKI-1z")
    assert (result.returncode, result.stdout) == (3, "")
    assert "There is no scenario `S-WIKI-1z`." in result.stderr
    assert "Did you mean S-WIKI-1" in result.stderr
