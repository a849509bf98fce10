"""The command line on a pseudo-terminal of its own: what it draws is read from there, keys are typed there."""

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from tests.patience import patient_s

_HOME: Final = "\x1b[H"  # a picture begins
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Use as a context manager: the program has ended on exit, whatever became of it."""

    def __init__(self, *args: str, lines: int = 40, bootstrap: str = "127.0.0.1:1") -> None:
        """`args`: the command line behind `recoveryctl`. The terminal is 160 columns wide."""
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from recoveryd.cli import main; main()", *args],
            stdin=slave, stdout=slave, stderr=slave, close_fds=True,
            env={
                **os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": str(lines),
                "RECOVERYD_BOOTSTRAP_SERVERS": bootstrap,
            },
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def screen(self) -> str:
        """The last picture that was drawn to its end, as text; "" before there is one."""
        pictures = self.seen.split(_HOME)
        return _CONTROL.sub("", pictures[-2]).replace("\r", "") if len(pictures) > 2 else ""

    def until(self, is_there: Callable[[str], bool]) -> None:
        """Reads until it is; it gets all that was seen so far."""
        give_up_s = time.monotonic() + patient_s(60)
        while not is_there(self.seen):
            assert time.monotonic() < give_up_s, self.seen[-2000:]
            if select.select([self._master], [], [], 0.2)[0]:
                with contextlib.suppress(OSError):  # the program has left
                    self.seen += os.read(self._master, 65536).decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def close(self) -> int:
        """The exit code, once the program has ended."""
        code = self.process.wait(patient_s(60))
        os.close(self._master)
        return code
