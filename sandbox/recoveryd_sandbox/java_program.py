"""A program in Java that is started, awaited, stopped, killed and started again on the same folder: what an application
of Kafka Streams and a worker of Kafka Connect have in common.
"""

import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.jvm import log_text, out_file, start

_START_S = 300.0
_STOP_S = 300.0  # longer than an application of the sandbox takes to close
_KILL_S = 60.0
_POLL_S = 0.05


class ProgramFailed(SandboxError):  # noqa: N818  (named for what happened, as its family is)
    """It ended by itself, or was not ready or not gone in time; the message has the end of its log."""


class JavaProgram:
    """A program that works in `folder` and logs there as `<name>.log`. Stopped, or killed, at the end of its
    context.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:  # Ctrl-C too: no half-started program may stay behind
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if not self.is_running():
            return
        try:
            self.stop()
        finally:
            self.kill()

    def command(self) -> list[str]:
        """The whole command line, for whoever starts it by himself."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """Whether the running program does its work."""
        raise NotImplementedError

    @property
    def log_file(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """Raises `ProgramFailed` when it does not run."""
        if self._process is None or not self.is_running():
            raise ProgramFailed(f"{self.name} does not run.")
        return self._process.pid

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, deadline_s: float = _START_S) -> None:
        """Returns once it is ready. Raises `ProgramFailed`."""
        self.launch()
        self.await_ready(deadline_s)

    def launch(self) -> None:
        """Starts it and waits for nothing."""
        if self.is_running():
            raise ProgramFailed(f"{self.name} runs already.")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = start(self.command(), self.log_file)

    def await_ready(self, deadline_s: float = _START_S) -> None:
        """Raises `ProgramFailed` when it ends instead, or is not ready in time."""
        give_up_at_s = time.monotonic() + deadline_s
        while not self.is_ready():
            if not self.is_running():
                raise ProgramFailed(f"{self.name} ended while it started.", self.log_tail())
            if time.monotonic() >= give_up_at_s:
                raise ProgramFailed(f"{self.name} is not ready after {deadline_s:.0f} s.", self.log_tail())
            time.sleep(_POLL_S)

    def stop(self, deadline_s: float = _STOP_S) -> int:
        """SIGTERM, and its exit code. Raises `ProgramFailed` when it does not end in time."""
        self.signal(signal.SIGTERM)
        return self.await_end(deadline_s)

    def await_end(self, deadline_s: float = _STOP_S) -> int:
        """Its exit code, once it has ended. Raises `ProgramFailed` when it does not in time."""
        if self._process is None:
            raise ProgramFailed(f"{self.name} was not started.")
        try:
            return self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise ProgramFailed(f"{self.name} did not end within {deadline_s:.0f} s.", self.log_tail()) from None

    def leave_running(self) -> None:
        """Let go of the process without ending it."""
        if self._process is not None:
            self._process.returncode = 0  # otherwise Popen warns, when collected, of a child that nobody waited for
            self._process = None

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self._process is not None and self.is_running():
            self._process.kill()
            self._process.wait(_KILL_S)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def output(self) -> list[str]:
        """The lines that it printed since it was last started."""
        out = out_file(self.log_file)
        return out.read_text(encoding="utf-8", errors="replace").splitlines() if out.exists() else []

    def log_tail(self, characters: int = 3_000) -> str:
        """The end of its output and of its log, for the message of a test that waited in vain."""
        return log_text(self.log_file, characters)
