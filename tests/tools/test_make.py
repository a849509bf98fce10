"""`make test` passes over what ARGS left out, and not over containers that were asked for."""

import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_NOTHING_CHOSEN = 5  # pytest's exit code


@pytest.mark.parametrize(("asked", "passes"), [(None, True), ("", True), ("0", True), ("1", False)])
def test_a_run_that_chose_no_container_test_fails_where_containers_are_asked_for(
    asked: str | None, passes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncase "$*" in *"-m containers"*) exit {_NOTHING_CHOSEN};; esac\n')
    python.chmod(0o755)
    monkeypatch.delenv("RECOVERYD_CONTAINERS", raising=False)
    if asked is not None:
        monkeypatch.setenv("RECOVERYD_CONTAINERS", asked)
    line = ["make", "--silent", "--old-file=setup", "--old-file=lint", "test", f"PY={python}"]
    done = subprocess.run(line, cwd=_ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode == 0) is passes, done.stderr
