"""What a run of tests or a demo started ends when the run is gone, however it ended, and nothing else does."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recoveryd_sandbox.process import ProcessId, identify, is_alive
from tests.e2e.processes import wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes tell their environment")

# A run that starts another, which starts another in a session of its own; both may be deaf for SIGTERM.
RUN = """
import subprocess, sys, time
from recoveryd_sandbox.keeper import end_with_this
deaf = "import signal, time; " + ("signal.signal(signal.SIGTERM, signal.SIG_IGN); " if sys.argv[1] == "kill" else "")
waits = "os.write(1, str(os.getpid()).encode() + bytes([10])); time.sleep(3600)"  # in one piece: three write to one pipe
inner = f"import os; {deaf}{waits}"
outer = (
    f"import os, subprocess, sys; from recoveryd_sandbox.keeper import end_with_this; end_with_this(); {deaf}"
    f"subprocess.Popen([sys.executable, '-c', {inner!r}], start_new_session=True); {waits}"
)
before = subprocess.Popen([sys.executable, "-c", f"import os, time; {waits}"])
end_with_this()
end_with_this()
subprocess.Popen([sys.executable, "-c", outer], start_new_session=True)
sys.stdin.readline()
"""
_GONE_S = 60.0


def known(pid: int) -> ProcessId:
    found = identify(pid)
    assert found is not None
    return found


@pytest.fixture
def run(how: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", RUN, how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("how", ["kill", "term", "leave"])
def test_what_a_run_started_ends_with_it_and_nothing_else(run: subprocess.Popen[str], how: str) -> None:
    assert run.stdout is not None
    assert run.stdin is not None
    started = [known(int(run.stdout.readline())) for _ in range(3)]
    before = next(p for p in started if not _is_marked(p.pid))
    marked = [p for p in started if p != before]
    assert len(marked) == 2
    if how == "leave":
        run.stdin.write("go\n")
        run.stdin.flush()
    else:
        run.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
    try:
        wait_for(lambda: not any(map(is_alive, marked)), _GONE_S)
        assert is_alive(before), "it was started before"
    finally:
        os.kill(before.pid, signal.SIGKILL)


def test_this_very_run_of_tests_is_kept() -> None:
    """The mark is in the environment of what tests start."""
    told = subprocess.run(
        [sys.executable, "-c", "import os; print(os.environ['SANDBOX_RUN'])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == os.environ["SANDBOX_RUN"]


BROKER = """
import sys
from pathlib import Path
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.foreground import run
def body():
    broker = Broker(Path(sys.argv[1]))
    broker.start(600.0)
    print(broker.pid, flush=True)
    sys.stdin.readline()
    return True
run(body, print)
"""


@pytest.mark.broker
def test_a_broker_ends_with_a_demo_that_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BROKER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        broker = known(int(demo.stdout.readline()))
        demo.kill()
    wait_for(lambda: not is_alive(broker), _GONE_S)


def _is_marked(pid: int) -> bool:
    """With a mark of its own, not that of this run of tests."""
    mine = f"SANDBOX_RUN={os.environ['SANDBOX_RUN']}".encode()
    marks = [
        part for part in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if part.startswith(b"SANDBOX_RUN=")
    ]
    return marks != [mine]
