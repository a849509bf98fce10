"""One `recoveryd run` as a process, for the demo, the game day, pictures, measurements and tests: started with a
config, asked over HTTP, told to leave, ended with everything it started.

Spark drivers outlive a daemon on purpose, so at the end processes that name the daemon's own work folder are ended too.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.ports import free_ports
from recoveryd_sandbox.waiting import rest_s

READY_DEADLINE_S = 300.0
STOP_DEADLINE_S = 45.0
# For daemons that shall not give anything up on a machine that is too busy, where an application starts in minutes.
PATIENT: Mapping[str, Any] = {
    "attempts": {"launch_timeout": "5m", "heartbeat_timeout": "90s"},
    "faust": {"session_timeout": "90s"},
}
_POLL_S = 0.02
_TAIL_CHARS = 4_000


class DaemonProcess:
    """`folder` gets config and log, each with the daemon's name; the command line of every process that the daemon
    starts names `work` below it.
    """

    answer_deadline_s = 5.0

    def __init__(self, folder: Path, name: str = "daemon", environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.work = folder / "work"
        self.config = folder / f"{name}.yaml"
        self.log = folder / f"{name}.log"
        self.port = free_ports(1)[0]
        self.http = f"127.0.0.1:{self.port}"
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Write the config: these settings, with the daemon's own folder and address unless they name others."""
        own = {"work_dir": str(self.work), "http": {"listen": self.http}}
        self.config.write_text(yaml.safe_dump(own | dict(settings)), encoding="utf-8")

    def start(self, *flags: str) -> None:
        """`recoveryd run` on what was configured. `await_leader` waits for it."""
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "recoveryd", "run", "--config", str(self.config), *flags],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self._environment, start_new_session=True,
            )  # fmt: skip

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def get(self, path: str) -> tuple[int, str]:
        """HTTP status and body; status 0 when nothing answers."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=self.answer_deadline_s) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()
        except OSError:
            return 0, ""

    def status(self, recovery: str) -> dict[str, Any] | None:
        """The status record as the daemon serves it; None before it exists, or when nothing answers."""
        code, body = self.get(f"/api/v1/recoveries/{recovery}")
        found: dict[str, Any] | None = json.loads(body) if code == 200 else None
        return found

    def metrics(self, name: str) -> dict[str, float]:
        """The series of one metric by its labels as text, for instance `{domain="main",signal="produce_latency"}`."""
        found = {}
        for line in self.get("/metrics")[1].splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name:
                found[series.removeprefix(name)] = float(value)
        return found

    def await_metrics(self, name: str, deadline_s: float = READY_DEADLINE_S) -> dict[str, float]:
        """The series of one metric once there is one. Raises `SandboxError` when /metrics stays silent about it."""
        found: dict[str, float] = {}

        def look() -> bool:
            found.update(self.metrics(name))
            return bool(found)

        self.wait_for(look, f"tell {name}", deadline_s)
        return found

    def is_leader(self) -> bool:
        return self.get("/readyz")[0] == 200

    def await_leader(self, deadline_s: float = READY_DEADLINE_S) -> None:
        try:
            self.wait_for(self.is_leader, "lead", deadline_s)
        except SandboxError as error:
            raise SandboxError(f"{error} (/readyz: {self.get('/readyz')})") from None

    def wait_for(self, condition: Callable[[], object], what: str, deadline_s: float, every_s: float = _POLL_S) -> None:
        """Ask until `condition()` is true-ish, and less often where an answer takes long.
        Raises `SandboxError` with the end of the log past the deadline, or when the process is gone.
        """
        give_up_s = time.monotonic() + deadline_s
        while True:
            asked_s = time.monotonic()
            if condition():
                return
            took_s = time.monotonic() - asked_s
            if not self.is_running():
                raise SandboxError(f"{self.name} left with {self.exit_code()} and did not {what}:", self.tail())
            if time.monotonic() > give_up_s:
                raise SandboxError(f"{self.name} did not {what} within {deadline_s:.0f} s:", self.tail())
            time.sleep(rest_s(took_s, every_s))

    def await_exit(self, deadline_s: float = READY_DEADLINE_S) -> int:
        """The exit code; negative = the signal that ended it. Raises `SandboxError`."""
        assert self._process is not None
        try:
            return self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise SandboxError(f"{self.name} still runs after {deadline_s:.0f} s:", self.tail()) from None

    def terminate(self, deadline_s: float = STOP_DEADLINE_S) -> int:
        """SIGTERM; the exit code. Raises `SandboxError` when it does not leave in time."""
        assert self._process is not None
        self._process.terminate()
        return self.await_exit(deadline_s)

    def kill(self) -> None:
        """SIGKILL, to the daemon alone: its drivers go on. It is gone when this returns."""
        if self._process is not None:
            self._process.kill()
            self.await_exit(STOP_DEADLINE_S)

    def close(self) -> None:
        """End the daemon and its drivers. Safe to call twice."""
        if self._process is not None:
            end(self._process)
        end_processes_naming(str(self.work))

    def tail(self) -> str:
        return f"{self.log} ends with:\n{tail(self.log)}"


def run_tool(tool: str, *arguments: str, deadline_s: float = READY_DEADLINE_S) -> str:
    """Run a command of this project, and give what it printed to stdout. Raises `SandboxError` with its output."""
    command = [str(Path(sys.executable).with_name(tool)), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=deadline_s, check=False)
    except subprocess.TimeoutExpired:
        raise SandboxError(f"`{' '.join((tool, *arguments))}` did not end within {deadline_s:.0f} s") from None
    if done.returncode != 0:
        raise SandboxError(f"`{' '.join((tool, *arguments))}` failed", (done.stderr or done.stdout).strip())
    return done.stdout


def end(process: subprocess.Popen[bytes], deadline_s: float = STOP_DEADLINE_S) -> None:
    """SIGTERM, and SIGKILL when it still lives after the deadline."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(deadline_s)


def end_processes_naming(folder: str) -> None:
    """SIGTERM, then SIGKILL, for processes whose command line names a folder that only this run has."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids_naming(folder):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, sent)
        deadline_s = time.monotonic() + STOP_DEADLINE_S / 2
        while pids_naming(folder) and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)


def tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARS:] if log.exists() else ""


def pids_naming(folder: str) -> list[int]:
    """Other processes whose command line names the folder. Linux: from /proc; elsewhere: from ps."""
    listed = (
        subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=False, timeout=10).stdout
        if not Path("/proc").is_dir()
        else ""
    )
    if listed:
        return [int(line.split(None, 1)[0]) for line in listed.splitlines() if folder in line]
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if folder.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found
