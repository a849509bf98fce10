"""One real `recoveryd run` on the bed's broker, with its own topics under a unique prefix. Ended with all its drivers
by process id.
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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from bench.bed import Bed
from bench.specs import create_own
from recoveryd.wire.topics import TopicNames
from recoveryd_sandbox.daemon_process import end, pids_naming
from recoveryd_sandbox.ports import free_ports

_ROOT = Path(__file__).resolve().parents[1]
_READY_DEADLINE_S = 60.0
_STOP_DEADLINE_S = 15.0
_HTTP_TIMEOUT_S = 5.0
_POLL_S = 0.02
_TAIL_CHARS = 3_000


class Home:
    """A daemon's prefix, topics and folder. Several daemons may use them one after the other."""

    def __init__(self, bed: Bed, stem: str) -> None:
        name = bed.unique(stem)
        self.bed = bed
        self.scope = name
        self.names = TopicNames(f"{name}.")
        self.folder = bed.folder / name
        self.folder.mkdir()
        create_own(bed, self.names)

    @property
    def work_dir(self) -> Path:
        return self.folder / "work"

    def write_config(self, port: int, settings: Mapping[str, Any]) -> Path:
        own = {
            "clusters": {"main": {"bootstrap.servers": self.bed.bootstrap}},
            "scope": self.scope,
            "topics": {"prefix": self.names.prefix},
            "http": {"listen": f"127.0.0.1:{port}"},
            "work_dir": str(self.work_dir),
            "log": {"format": "json", "level": "info"},
        }
        path = self.folder / "recoveryd.yaml"
        path.write_text(yaml.safe_dump(own | dict(settings)), encoding="utf-8")
        return path


class DaemonProcess:
    """`started_s`: when the process was started. `ready_s`: when it was first seen to lead. Both monotonic."""

    def __init__(self, home: Home, settings: Mapping[str, Any]) -> None:
        self.home = home
        self._port = free_ports(1)[0]
        self._log = home.folder / "daemon.log"
        config = home.write_config(self._port, settings)
        self.started_s = time.monotonic()
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "recoveryd", "run", "--config", str(config)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=_ROOT, start_new_session=True,
            )  # fmt: skip
        self.ready_s = 0.0

    @property
    def pid(self) -> int:
        return self._process.pid

    def get(self, path: str) -> dict[str, Any] | None:
        """The JSON that the path answers with 200; None for anything else."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=_HTTP_TIMEOUT_S) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def await_ready(self) -> None:
        """Returns when the daemon leads. Raises RuntimeError with the end of its log when it does not."""
        self.wait_for(lambda: self.get("/readyz") is not None, "lead", _READY_DEADLINE_S)
        self.ready_s = time.monotonic()

    def wait_for(self, condition: Any, what: str, deadline_s: float) -> None:
        """Ask every 20 ms until `condition()` is true. Raises RuntimeError past the deadline or when the process is
        gone.
        """
        give_up_s = time.monotonic() + deadline_s
        while not condition():
            if self._process.poll() is not None or time.monotonic() > give_up_s:
                tail = self._log.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARS:]
                raise RuntimeError(f"the daemon did not {what} within {deadline_s:.0f} s; its log ends with:\n{tail}")
            time.sleep(_POLL_S)

    def stop(self, deadline_s: float = _READY_DEADLINE_S) -> tuple[int, float]:
        """Send SIGTERM; returns the exit code and the seconds until the process was gone."""
        began_s = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(deadline_s), time.monotonic() - began_s

    def end(self) -> None:
        """End the daemon, then the drivers that name its folder: they outlive the daemon on purpose."""
        end(self._process, _STOP_DEADLINE_S)
        _end_naming(str(self.home.work_dir))


@contextlib.contextmanager
def leading(home: Home, settings: Mapping[str, Any] | None = None) -> Iterator[DaemonProcess]:
    """A daemon that leads; it is ended with the block."""
    daemon = DaemonProcess(home, settings or {})
    try:
        daemon.await_ready()
        yield daemon
    finally:
        daemon.end()


def _end_naming(folder: str) -> None:
    give_up_s = time.monotonic() + _STOP_DEADLINE_S
    while (pids := pids_naming(folder)) and time.monotonic() < give_up_s:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)
