"""One `recoveryd run` as a real process: started, asked over HTTP, frozen, killed, ended. Its child processes have a
mark in their environment, by which all are found.
"""

import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recoveryd_sandbox import daemon_process
from recoveryd_sandbox.daemon_process import READY_DEADLINE_S, STOP_DEADLINE_S
from tests.e2e.processes import Process, await_gone, is_alive, snapshot, wait_for
from tests.patience import patient_s

MARK = "E2E_TEST_MARK"


class DaemonProcess(daemon_process.DaemonProcess):
    """Every deadline is one that a busy machine keeps too."""

    answer_deadline_s = 60.0

    def wait_for(self, condition: Callable[[], object], what: str, deadline_s: float, every_s: float = 0.05) -> None:
        super().wait_for(condition, what, patient_s(deadline_s), every_s)

    def await_exit(self, deadline_s: float = READY_DEADLINE_S) -> int:
        return super().await_exit(patient_s(deadline_s))

    def await_alive(self, deadline_s: float = READY_DEADLINE_S) -> None:
        self.wait_for(lambda: self.get("/livez")[0] == 200, "live", deadline_s)

    def recovery(self, recovery: str) -> Mapping[str, Any]:
        status, body = self.get(f"/api/v1/recoveries/{recovery}")
        assert status == 200, (status, body)
        found: Mapping[str, Any] = json.loads(body)
        return found

    def reap(self) -> None:
        """For one that was killed by others too: takes its exit code, so that nothing is left of it."""
        if self._process is not None:
            self._process.wait(patient_s(STOP_DEADLINE_S))

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


def marked(mark: str) -> list[Process]:
    """All processes that were started, directly or not, with this mark."""
    needle = f"{MARK}={mark}\0".encode()
    found = []
    for process in snapshot().values():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if needle in environment + b"\0":
            found.append(process)
    return found


def end_marked(mark: str, deadline_s: float = 20.0) -> None:
    """Sends SIGKILL to all of them, repeatedly until none is left."""

    def none_left() -> bool:
        left = [p for p in marked(mark) if is_alive(p)]
        for process in left:
            try:
                os.kill(process.pid, signal.SIGCONT)
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not left

    wait_for(none_left, deadline_s, lambda: f"left over: {marked(mark)}")
    await_gone(marked(mark))
