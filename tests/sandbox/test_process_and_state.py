"""A process is identified by pid and start, so that no other process is ended by mistake."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recoveryd_sandbox import handle
from recoveryd_sandbox.process import ProcessId, end, identify, is_alive
from recoveryd_sandbox.state import NodeState, running_state, write_state
from tests.patience import patient_s

IGNORES_SIGTERM = (
    "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up',flush=True); time.sleep(60)"
)
OBEYS_SIGTERM = "import time; print('up',flush=True); time.sleep(60)"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    yield from started(OBEYS_SIGTERM)


@pytest.fixture
def deaf_sleeper() -> Iterator[subprocess.Popen[bytes]]:
    yield from started(IGNORES_SIGTERM)


def started(program: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def identity_of(process: subprocess.Popen[bytes]) -> ProcessId:
    found = identify(process.pid)
    assert found is not None
    return found


def test_a_running_process_is_alive_until_it_ends(sleeper: subprocess.Popen[bytes]) -> None:
    process = identity_of(sleeper)
    assert is_alive(process)

    sleeper.kill()
    sleeper.wait(patient_s(10))

    assert not is_alive(process)


def test_a_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    process = identity_of(sleeper)

    assert end(process, deadline_s=patient_s(10))  # returns although the child was not waited for yet

    assert sleeper.wait(patient_s(10)) == -signal.SIGTERM


def test_a_process_that_ignores_sigterm_is_killed_after_the_deadline(deaf_sleeper: subprocess.Popen[bytes]) -> None:
    was_clean = end(identity_of(deaf_sleeper), deadline_s=0.3)

    assert (was_clean, deaf_sleeper.wait(patient_s(10))) == (False, -signal.SIGKILL)


def test_a_later_process_with_the_same_pid_is_neither_found_nor_ended(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    earlier = ProcessId(sleeper.pid, started="long ago")
    write_state(tmp_path, NodeState(earlier, "127.0.0.1:19092"))

    assert running_state(tmp_path) is None
    assert handle.status(tmp_path).state == "stopped"
    assert handle.down(tmp_path) is False
    assert sleeper.poll() is None


def test_the_note_of_a_running_process_is_read_back(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    state = NodeState(identity_of(sleeper), "127.0.0.1:19092")

    write_state(tmp_path, state)

    assert running_state(tmp_path) == state


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"pid": 1}', json.dumps({"pid": "x", "started": "", "bootstrap": ""})]
)
def test_an_unreadable_note_means_no_broker(content: str, tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text(content)

    assert running_state(tmp_path) is None


def test_a_process_that_lives_but_does_not_answer_is_silent(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    write_state(tmp_path, NodeState(identity_of(sleeper), "127.0.0.1:1"))

    found = handle.status(tmp_path)

    assert found == handle.SandboxStatus("silent", tmp_path, "127.0.0.1:1", sleeper.pid)


def test_taking_a_folder_down_that_was_never_up_is_no_error_and_leaves_no_trace(tmp_path: Path) -> None:
    assert handle.down(tmp_path / "never") is False
    assert not (tmp_path / "never").exists()
