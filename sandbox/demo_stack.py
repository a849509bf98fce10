"""What the demo runs: a Kafka of its own, live traffic and the daemon, all in one temporary folder that goes away at the end.

Everything is ended by process id. Spark drivers outlive a daemon on purpose, so the last step looks for processes that name the demo's own folder.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sandbox.broker import Broker
from sandbox.errors import SandboxError
from sandbox.live import LiveProducer

READY_DEADLINE_S = 60.0
STOP_DEADLINE_S = 12.0
CONFIG = """\
clusters: {{main: {{bootstrap.servers: "{bootstrap}"}}}}
work_dir: {work_dir}
chunk: {{max_interval: 2s}}
profiles: {{default: {{master: "local[2,4]", warm: 1}}}}
"""


class DemoStack:
    """Broker, live producer and daemon. Use it as a context manager: what was started is ended, also after Ctrl-C."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recoveryd-demo-"))
        self.broker = Broker(self.folder / "kafka")
        self.live: LiveProducer | None = None
        self.daemon: subprocess.Popen[bytes] | None = None
        self.http = f"127.0.0.1:{_free_port()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def start_live(self, records_per_s: float) -> None:
        self.live = LiveProducer(self.bootstrap, "flights.live", records_per_s)
        self.live.start()

    def start_daemon(self) -> None:
        """`recoveryctl topics apply`, then `recoveryd run`; returns when it leads."""
        config = self.folder / "recoveryd.yaml"
        config.write_text(CONFIG.format(bootstrap=self.bootstrap, work_dir=self.folder / "work"))
        log = self.folder / "daemon.log"
        _run([str(Path(sys.executable).with_name("recoveryctl")), "topics", "apply", "--bootstrap", self.bootstrap])
        with log.open("wb") as out:
            self.daemon = subprocess.Popen(
                [sys.executable, "-m", "daemon", "run", "--config", str(config), "--http", self.http],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + READY_DEADLINE_S
        while self._get("/readyz") is None:
            if self.daemon.poll() is not None or time.monotonic() > deadline_s:
                raise SandboxError("the daemon did not become ready", f"its log ends with:\n{_tail(log)}")
            time.sleep(0.1)

    def status(self, recovery: str) -> dict[str, Any] | None:
        """The status record as the daemon serves it, None before it exists."""
        return self._get(f"/api/v1/recoveries/{recovery}")

    def _get(self, path: str) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def close(self) -> None:
        """End the daemon, its drivers, the traffic and the broker; remove the folder. Safe to call twice."""
        with _patient():
            if self.daemon is not None:
                _end(self.daemon)
            _end_processes_naming(str(self.folder / "work"))
            if self.live is not None:
                self.live.stop()
            with contextlib.suppress(SandboxError):
                self.broker.stop()
            shutil.rmtree(self.folder, ignore_errors=True)


class _patient:  # noqa: N801  (reads as a word where it is used)
    """A second Ctrl-C must not leave processes behind: it is noted and ignored until the end."""

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_DEADLINE_S, check=False)
    if done.returncode != 0:
        raise SandboxError(f"`{' '.join(command[1:])}` failed", (done.stderr or done.stdout).strip())


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_DEADLINE_S)


def _end_processes_naming(folder: str) -> None:
    """SIGTERM, then SIGKILL, for processes whose command line names a folder that only this demo has."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        for pid in _pids_naming(folder):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, sent)
        deadline_s = time.monotonic() + STOP_DEADLINE_S / 2
        while _pids_naming(folder) and time.monotonic() < deadline_s:
            time.sleep(0.1)


def _pids_naming(folder: str) -> list[int]:
    """Linux: from /proc; elsewhere: from ps."""
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


def _tail(path: Path, lines: int = 15) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
