"""`make test` passes over what ARGS left out, and not over containers that were asked for; `make test-all` leaves
nothing out.
"""

import os
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_NOTHING_CHOSEN = 5  # pytest's exit code


@pytest.mark.parametrize(("asked", "passes"), [(None, True), ("", True), ("0", True), ("1", False)])
def test_a_run_that_chose_no_container_test_fails_where_containers_are_asked_for(
    asked: str | None, passes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = _python(tmp_path, f'case "$*" in *"-m containers"*) exit {_NOTHING_CHOSEN};; esac')
    monkeypatch.delenv("RECOVERYD_CONTAINERS", raising=False)
    if asked is not None:
        monkeypatch.setenv("RECOVERYD_CONTAINERS", asked)
    done = _make("test", python)
    assert (done.returncode == 0) is passes, done.stderr


def test_make_test_leaves_out_what_is_wide(tmp_path: Path) -> None:
    python = _python(tmp_path, f'echo "$*" >> {tmp_path}/told')
    for target, without in (("test", " and not wide"), ("test-all", "")):
        (tmp_path / "told").write_text("")
        assert _make(target, python).returncode == 0
        runs = [line for line in (tmp_path / "told").read_text().splitlines() if line.startswith("-m pytest")]
        chosen = [line.partition(" -m ")[2].strip() for line in runs]
        slow = "broker or spark or e2e or faults or containers"
        assert chosen == [f"not ({slow}){without}", f"({slow}) and not containers{without}", f"containers{without}"]


def _python(folder: Path, does: str) -> Path:
    made = folder / "python"
    made.write_text(f"#!/bin/sh\n{does}\n")
    made.chmod(0o755)
    return made


def _make(target: str, python: Path) -> subprocess.CompletedProcess[str]:
    line = ["make", "--silent", "--old-file=setup", "--old-file=lint", target, f"PY={python}"]
    # Where make runs the tests, what it was told: make exports the variables of its command line, ARGS of .ci/run too.
    outer = {"MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "ARGS", "TIER", "SLOW", "WORKERS"}
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    return subprocess.run(
        line, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
