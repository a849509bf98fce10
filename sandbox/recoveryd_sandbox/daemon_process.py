"""One `recoveryd run` on a sandbox broker, for the demo and the game day: started with a config, asked over HTTP, ended
with everything it started.

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
from pathlib import Path
from typing import Any

from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.ports import free_ports

READY_DEADLINE_S = 60.0
STOP_DEADLINE_S = 12.0
_ANSWER_DEADLINE_S = 5.0


class DaemonProcess:
    """`folder` gets config and log; the command line of every process that the daemon starts names `work` below it."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.work = folder / "work"
        self.log = folder / "daemon.log"
        self.http = f"127.0.0.1:{free_ports(1)[0]}"
        self._bootstrap = bootstrap
        self._config = folder / "recoveryd.yaml"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, config: str) -> None:
        """`recoveryctl topics apply`, then `recoveryd run`; returns when it leads. Raises `SandboxError`."""
        self._config.write_text(config, encoding="utf-8")
        run_tool("recoveryctl", "topics", "apply", "--bootstrap", self._bootstrap)
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "recoveryd", "run", "--config", str(self._config), "--http", self.http],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + READY_DEADLINE_S
        while self.get("/readyz") is None:
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise SandboxError("the daemon did not become ready", f"its log ends with:\n{tail(self.log)}")
            time.sleep(0.1)

    def status(self, recovery: str) -> dict[str, Any] | None:
        """The status record as the daemon serves it, None before it exists."""
        return self.get(f"/api/v1/recoveries/{recovery}")

    def get(self, path: str) -> dict[str, Any] | None:
        """A JSON answer; None for anything else."""
        text = self._text(path)
        try:
            found: dict[str, Any] | None = None if text is None else json.loads(text)
        except ValueError:
            return None
        return found

    def metrics(self, name: str) -> dict[str, float]:
        """The series of one metric by its labels as text, for instance `{domain="main",signal="produce_latency"}`."""
        found = {}
        for line in (self._text("/metrics") or "").splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name:
                found[series.removeprefix(name)] = float(value)
        return found

    def close(self) -> None:
        """End the daemon and its drivers. Safe to call twice."""
        if self._process is not None:
            end(self._process)
        end_processes_naming(str(self.work))

    def _text(self, path: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=_ANSWER_DEADLINE_S) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, OSError):
            return None


def run_tool(tool: str, *arguments: str) -> None:
    """Run a command of this project. Raises `SandboxError` with its output."""
    command = [str(Path(sys.executable).with_name(tool)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_DEADLINE_S, check=False)
    if done.returncode != 0:
        raise SandboxError(f"`{' '.join((tool, *arguments))}` failed", (done.stderr or done.stdout).strip())


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
            time.sleep(0.1)


def tail(path: Path, lines: int = 15) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""


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
