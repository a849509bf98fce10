"""The CPU time of a worker of a measured application still counts after the worker has ended. No Spark: the test takes
the place of the JVM, the parent of the worker daemon.
"""

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import cpu
from bench.cpu import WORKER_DAEMON, python_workers, tree_cpu_s
from recoveryd_sandbox.process import process_cpu_s
from tests.patience import patient_s

_ROOT = Path(__file__).resolve().parents[2]
_SECRET = "said by both sides"
_WORKERS = 30  # one alone takes less time than the system can measure


def began(port: int) -> tuple[socket.socket, int]:
    """A worker that waits for its task, and its process id."""
    connection = socket.create_connection(("127.0.0.1", port))
    pid = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))[0]
    connection.sendall(struct.pack("!i", len(_SECRET)) + _SECRET.encode())
    assert connection.recv(6, socket.MSG_WAITALL)[4:] == b"ok"
    return connection, pid


def wait_for(condition: Callable[[], bool], what: str) -> None:
    give_up_s = time.monotonic() + patient_s(1)
    while not condition():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.01)


@pytest.mark.parametrize("ends", ["by itself", "killed"])
def test_the_time_of_workers_that_have_ended_is_counted(ends: str) -> None:
    daemon = subprocess.Popen(
        [sys.executable, "-m", WORKER_DAEMON, "pyspark.worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=_ROOT,
        env=os.environ | {"PYTHON_WORKER_FACTORY_SECRET": _SECRET},
    )  # fmt: skip
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    try:
        port = struct.unpack("!i", daemon.stdout.read(4))[0]
        for _ in range(_WORKERS):
            connection, pid = began(port)
            assert python_workers(os.getpid()) == [pid]
            if ends == "killed":
                daemon.stdin.write(struct.pack("!i", pid))
                daemon.stdin.flush()
            connection.close()
            wait_for(lambda: not python_workers(os.getpid()), "the worker ends")
        own_s = process_cpu_s(daemon.pid)
        assert tree_cpu_s(os.getpid()) > own_s, "workers took no time"
    finally:
        daemon.stdin.close()
        daemon.stdout.close()
        daemon.wait(patient_s(1))


def stat(parent: int, own: int, ended: int = 0) -> list[str]:
    return ["S", str(parent), *["0"] * 9, str(own), "0", str(ended), "0"]


DAEMON, WORKER = 20, 30
ALIVE = {DAEMON: stat(10, 5), WORKER: stat(DAEMON, 200)}
TAKEN = {DAEMON: stat(10, 5, 200)}


@pytest.mark.parametrize(
    "torn",
    [
        pytest.param({DAEMON: stat(10, 5)}, id="it is in neither"),
        pytest.param({DAEMON: stat(10, 5, 200), WORKER: stat(DAEMON, 200)}, id="it is in both"),
    ],
)
@pytest.mark.parametrize("before", [[], [ALIVE]])
def test_a_worker_that_is_waited_for_while_all_are_read_counts_once(
    monkeypatch: pytest.MonkeyPatch, torn: dict[int, list[str]], before: list[dict[int, list[str]]]
) -> None:
    reads = iter([*before, torn, TAKEN, TAKEN, TAKEN])
    monkeypatch.setattr(cpu, "_all_stats", lambda: next(reads))
    assert tree_cpu_s(10) == pytest.approx(205 / os.sysconf("SC_CLK_TCK"))
