"""The application with a bug that people can try things on."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recoveryd.settings import load
from recoveryd_sandbox.shop import UNIT
from tests.cli.scripted import run_on
from tests.e2e.processes import wait_for
from tests.patience import patient_s

pytestmark = pytest.mark.broker


@pytest.mark.wide("tests/e2e/test_demo_app.py::test_an_application_is_kept_mended_processed_again_and_put_back")
def test_it_runs_with_its_bug_until_it_is_ended_and_leaves_nothing(tmp_path: Path) -> None:
    said, command = tmp_path / "said", [sys.executable, "-m", "recoveryd_sandbox.shop"]
    with said.open("wb") as out:
        shop = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        wait_for(lambda: "Ctrl-C" in said.read_text() or shop.poll() is not None, 40.0, said.read_text)
        found = re.search(r"--config (\S+)", said.read_text())
        assert found is not None, said.read_text()
        config = Path(found[1])
        assert list(load(config).units()) == [UNIT]
        for _ in range(6):  # what the application committed with its offsets is read as it is
            shown = run_on(config, "unit", "show", UNIT, "--debug")
            assert shown.exit_code == 0, shown.output
    finally:
        shop.send_signal(signal.SIGTERM)
        assert shop.wait(patient_s(20)) == 0
    assert not config.parent.exists()
