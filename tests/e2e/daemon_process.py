"""One `recoveryd run` as a real process: started, asked over HTTP, frozen, killed, ended. Its children carry a mark in their environment, so that all are found."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.processes import Process, await_gone, is_alive, snapshot, wait_for
from tests.patience import patient_s

MARK = "E2E_TEST_MARK"
_HTTP_TIMEOUT_S = 20.0
_READY_DEADLINE_S = 60.0
_TERM_DEADLINE_S = 15.0
_LOG_TAIL_CHARS = 4_000
_ROOT = Path(__file__).resolve().parents[2]


class DaemonProcess:
    """`port` is where its HTTP listens, `log` the file with all it printed."""

    def __init__(self, name: str, config: Path, port: int, log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.port = port
        self.log = log
        self._config = config
        self._environment = {**os.environ, **environment, "PYTHONUNBUFFERED": "1"}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        command = [sys.executable, "-m", "recoveryd", "run", "--config", str(self._config)]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=_ROOT,
                env=self._environment,
                start_new_session=True,
            )

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def get(self, path: str) -> tuple[int, str]:
        """HTTP status and body; status 0 when nothing answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=_HTTP_TIMEOUT_S) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()
        except OSError:
            return 0, ""

    def recovery(self, recovery: str) -> Mapping[str, Any]:
        status, body = self.get(f"/api/v1/recoveries/{recovery}")
        assert status == 200, (status, body)
        found: Mapping[str, Any] = json.loads(body)
        return found

    def is_leader(self) -> bool:
        return self.get("/readyz")[0] == 200

    def await_leader(self, deadline_s: float = _READY_DEADLINE_S) -> None:
        def look() -> bool:
            if not self.is_running():
                raise AssertionError(f"daemon {self.name} left with {self.exit_code()}: {self.tail()}")
            return self.is_leader()

        wait_for(look, deadline_s, lambda: f"daemon {self.name} is not ready: {self.get('/readyz')} {self.tail()}")

    def await_alive(self, deadline_s: float = _READY_DEADLINE_S) -> None:
        wait_for(lambda: self.get("/livez")[0] == 200, deadline_s, lambda: f"daemon {self.name}: {self.tail()}")

    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def await_exit(self, deadline_s: float = 60.0) -> int:
        """The exit code; negative = the signal that ended it."""
        assert self._process is not None
        try:
            return self._process.wait(patient_s(deadline_s))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"daemon {self.name} still runs after {deadline_s:.0f} s: {self.tail()}") from None

    def kill(self) -> None:
        """SIGKILL, and the process is gone when this returns."""
        if self._process is not None and self.is_running():
            self._process.kill()
            self._process.wait(patient_s(_TERM_DEADLINE_S))

    def reap(self) -> None:
        """For one that was killed by others: takes its exit code, so that nothing is left of it."""
        if self._process is not None:
            self._process.wait(patient_s(_TERM_DEADLINE_S))

    def terminate(self, deadline_s: float = _TERM_DEADLINE_S) -> int:
        """SIGTERM; the exit code. A daemon that does not leave in time fails the test."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.await_exit(deadline_s)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def tail(self) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return f"{self.log} ends with:\n{text[-_LOG_TAIL_CHARS:]}"


def marked(mark: str) -> list[Process]:
    """All processes that were started, by whatever way, under this mark."""
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
    """SIGKILL to all of them, again until none is left."""

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
