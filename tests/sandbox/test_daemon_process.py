"""What the sandbox says of tools and daemons that do not answer, and of a machine that stands still."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recoveryd_sandbox.daemon_process import DaemonProcess, run_tool
from recoveryd_sandbox.errors import SandboxError
from tests.patience import patient_s

STANDS_STILL = """
import time
from recoveryd_sandbox.standstill import Standstill
watch = Standstill()
watch.start()
while not watch.excused_s():
    print("here", flush=True)
    time.sleep(0.1)
watch.stop()
"""


class Silent(DaemonProcess):
    """Runs, and answers nothing."""

    def start(self, *flags: str) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", *flags])


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Silent]:
    daemon = Silent(tmp_path)
    daemon.start()
    yield daemon
    daemon.close()


def test_a_tool_that_takes_too_long_is_told_in_a_sentence() -> None:
    with pytest.raises(SandboxError, match="`recoveryctl --version` did not end within 0 s"):
        run_tool("recoveryctl", "--version", deadline_s=0.0)


def test_silence_about_a_metric_is_no_number(silent: Silent) -> None:
    assert silent.metrics("recoveryd_leader") == {}
    with pytest.raises(SandboxError, match="did not tell recoveryd_leader within 0 s"):
        silent.await_metrics("recoveryd_leader", deadline_s=0.1)


def test_a_machine_that_stood_still_is_noticed() -> None:
    with subprocess.Popen([sys.executable, "-c", STANDS_STILL], stdout=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        give_up_s = time.monotonic() + patient_s(10)
        while watching.poll() is None:
            os.kill(watching.pid, signal.SIGSTOP)
            time.sleep(1.0)
            os.kill(watching.pid, signal.SIGCONT)
            time.sleep(0.5)
            if time.monotonic() > give_up_s:
                watching.kill()
                raise AssertionError("nobody noticed")
        assert watching.returncode == 0
