"""Failpoints kill the process that passes them, at the named pass, and cost nothing otherwise."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recoveryd.failpoints import POINTS

PROGRAM = """
from recoveryd import failpoints
for number in range(1, 4):
    failpoints.hit("journal.before_begin")
    failpoints.hit("journal.before_commit")
    print(number, flush=True)
"""


def run(**environment: str) -> tuple[int, str]:
    """Exit code (negative: the signal) and the number of completed rounds."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    return done.returncode, done.stdout.replace("\n", "")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("", (0, "123")),
        ("journal.after_commit", (0, "123")),
        ("journal.before_begin", (-signal.SIGKILL, "")),
        ("journal.before_commit:1", (-signal.SIGKILL, "")),
        ("journal.before_commit:3", (-signal.SIGKILL, "12")),
        ("journal.before_commit:4", (0, "123")),
    ],
)
def test_the_named_pass_of_the_named_point_is_the_last(wanted: str, expected: tuple[int, str]) -> None:
    assert run(RECOVERYD_FAILPOINT=wanted) == expected


def test_with_a_once_file_only_the_first_process_dies(tmp_path: Path) -> None:
    environment = {"RECOVERYD_FAILPOINT": "journal.before_begin:2", "RECOVERYD_FAILPOINT_ONCE": str(tmp_path / "fired")}
    assert run(**environment) == (-signal.SIGKILL, "1")
    assert run(**environment) == (0, "123")


def test_every_point_that_the_daemon_passes_is_listed() -> None:
    passed = set()
    for file in (Path(__file__).parents[2] / "daemon").rglob("*.py"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if "hit(" in line and '"' in line and "def hit" not in line:
                passed.add(line.partition('hit("')[2].partition('"')[0])
    assert passed - {""} == POINTS
