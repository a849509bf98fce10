"""Where the library of Kubernetes puts the keys and certificates that a kubeconfig holds itself: TLS reads files only.

It makes temporary files of them, which it removes when Python ends in order. A daemon does not: its worker threads may
still wait, or it is killed. So each process has a folder of its own here, and removes those of processes that are gone.
Within a process none goes, since the library uses a file again for the same text.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from threading import Lock
from typing import Final

NAME: Final = "_logins"  # in the work folder, as no recovery is called
_TRIES: Final = 10


class LoginFiles:
    """`root` is made when it is needed. A process holds the lock of its folder for as long as it lives."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = Lock()
        self._own: Path | None = None
        self._held: int | None = None

    def folder(self) -> Path:
        """Of this process. Raises OSError."""
        with self._lock:
            if self._own is None:
                self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._remove_of_others()
                self._own = self._made()
            return self._own

    def _made(self) -> Path:
        for _ in range(_TRIES):
            made = Path(tempfile.mkdtemp(dir=self._root))
            self._held = _locked(made)
            if self._held is not None and made.is_dir():
                return made
            _let_go(self._held)  # another process took it for left over, before it was locked
        raise OSError(f"no folder stays in {self._root}")

    def _remove_of_others(self) -> None:
        for folder in self._root.iterdir():
            held = _locked(folder)
            if held is not None:
                shutil.rmtree(folder, ignore_errors=True)
                _let_go(held)


def _locked(folder: Path) -> int | None:
    """Its descriptor, which no other program gets; None: somebody has it, or it is no folder any more."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _let_go(held: int | None) -> None:
    if held is not None:
        with contextlib.suppress(OSError):
            os.close(held)
