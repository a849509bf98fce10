"""Each command of the tutorials, as it stands, in a home of its own: what a newcomer types, and what they are told."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recoveryd_sandbox.daemon_process import end_processes_naming
from recoveryd_sandbox.jars import default_cache_dir
from recoveryd_sandbox.ports import free_ports
from tests.e2e.test_readme import PATIENT, leading, output_of

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
ALREADY_DONE = ("make setup", ". .venv/bin/activate")


def blocks_of(page: str) -> list[str]:
    text = (TUTORIALS / page).read_text(encoding="utf-8")
    return ["\n".join(line for line in block.splitlines() if line not in ALREADY_DONE) for block in
            re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]  # fmt: skip


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of somebody with an empty home; what is left running there ends."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("RECOVERYD_", "XDG_"))},
        **PATIENT,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "COLUMNS": "160",
        "RECOVERYD_CACHE_DIR": str(default_cache_dir()),
        "RECOVERYD_HTTP__LISTEN": f"127.0.0.1:{free_ports(1)[0]}",
    }
    try:
        yield environment
    finally:
        try:
            for command in ("python -m recoveryd_sandbox.shop down", "recoveryctl sandbox down"):
                subprocess.run(command.split(), env=environment, capture_output=True, timeout=600, check=False)
        finally:
            end_processes_naming(str(tmp_path))


def told_by(page: str, environment: dict[str, str]) -> str:
    script = [
        "set -eux",
        f"cd {environment['HOME']}",
        *leading(line for block in blocks_of(page) for line in block.splitlines()),
    ]
    told = output_of(["bash", "-c", "\n".join(script)], environment)
    print(told)
    return told


@pytest.mark.wide("tests/e2e/test_demo_app.py::test_an_application_is_kept_mended_processed_again_and_put_back")
def test_an_application_is_mended_and_put_back_by_the_tutorial(newcomer: dict[str, str]) -> None:
    told = told_by("reprocess-an-application.md", newcomer)
    shown = [line for line in told.splitlines() if line.startswith("customer-totals") and " sums " in line]
    assert "all 100 sums over 20,000 orders are ten times too high" in shown[0]
    assert shown[1] == "customer-totals.v2: all 100 sums over 20,000 orders are right."
    assert "all 100 sums over 20,500 orders are ten times too high" in shown[2]
    assert not (Path(newcomer["HOME"]) / ".local/state/recoveryd/shop").exists()


@pytest.mark.wide("tests/e2e/test_readme.py::test_the_readmes_commands_run_as_they_stand")
def test_the_first_recovery_is_made_broken_and_proved_by_the_tutorial(newcomer: dict[str, str]) -> None:
    told = told_by("first-recovery.md", newcomer)
    assert told.count("Verification: match") >= 2
    assert "28 min 48 s" in told
    assert "paused" in told
