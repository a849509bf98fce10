"""Runs command lines of `recoveryctl`, each in a process of its own that is forked from one which has imported the
program: to import it takes longer than most commands do. What it prints and ends with is what it would when started
anew; `test_readme.py`, `test_tutorials.py`, `test_how_to.py` and `tests/cli/test_on_broker.py` do start it.

    python -m tests.e2e.forked_cli

Each line of stdin asks for a command, as JSON: its words, the environment and the working directory, and a folder for
`out`, `err` and, when it is over, `code`. It ends when stdin does.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from recoveryd.cli import main as recoveryctl

_ROOT = Path(__file__).resolve().parents[2]
# What commands import once they know what they have to do.
_IMPORTED = (
    "confluent_kafka.admin", "recoveryd.cli.app", "recoveryd.cli.send.connect", "recoveryd.adapters.kafka.status_reader",
    "recoveryd.settings",
)  # fmt: skip
_POLL_S = 0.02
_WRITE = os.O_WRONLY | os.O_CREAT


class Told(NamedTuple):
    code: int
    out: str
    err: str


def run(words: Sequence[str], folder: Path, environment: Mapping[str, str], deadline_s: float) -> Told:
    """`words` without `recoveryctl`. Raises AssertionError when it does not end in time. Thread-safe."""
    with tempfile.TemporaryDirectory(prefix="forked-") as made:
        answer = Path(made)
        asked = {"words": list(words), "folder": str(folder), "environment": dict(environment), "answer": made}
        _server().ask(asked)
        give_up_s = time.monotonic() + deadline_s
        while not (answer / "code").exists():
            assert time.monotonic() < give_up_s, f"{words} does not end: {_read(answer / 'err')}"
            assert _server().is_running(), "the server is gone"
            time.sleep(_POLL_S)
        return Told(int(_read(answer / "code")), _read(answer / "out"), _read(answer / "err"))


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


class _Server:
    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.e2e.forked_cli"]
        self._process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, text=True)
        self._lock = threading.Lock()

    def ask(self, asked: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with self._lock:
            print(json.dumps(asked), file=self._process.stdin, flush=True)

    def is_running(self) -> bool:
        return self._process.poll() is None


@cache
def _server() -> _Server:
    """One for the whole run. It ends with this process."""
    return _Server()


def serve() -> None:
    for name in _IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        if os.fork() == 0:
            attend(json.loads(line))
            return
        _reap()


def attend(asked: Mapping[str, Any]) -> None:
    """In a process of its own: waits for the command, which may die of a signal, and notes its code."""
    answer = Path(asked["answer"])
    command = os.fork()
    if command == 0:
        _become(asked, answer)
        return
    _, status = os.waitpid(command, 0)
    (answer / "code.new").write_text(str(os.waitstatus_to_exitcode(status)), encoding="utf-8")
    (answer / "code.new").rename(answer / "code")
    os._exit(0)


def _become(asked: Mapping[str, Any], answer: Path) -> None:
    for number, file, flags in ((0, os.devnull, os.O_RDONLY), (1, answer / "out", _WRITE), (2, answer / "err", _WRITE)):
        os.dup2(os.open(file, flags, 0o600), number)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["recoveryctl", *asked["words"]]
    recoveryctl()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    serve()
