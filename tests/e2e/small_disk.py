"""A small disk that can be filled to the last byte and emptied again: a tmpfs, which only root can mount. Without that,
tests that need one are skipped; with `RECOVERYD_SMALL_DISK=1` they fail.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.e2e.processes import wait_for

SWITCH = "RECOVERYD_SMALL_DISK"
_TIMEOUT_S = 120.0
_BLOCK = bytes(64 * 1024)


class SmallDisk:
    """Mounted at `folder` while the context lasts."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        self._megabytes = megabytes
        self._ballast = folder / "ballast"

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        size = f"size={self._megabytes}m"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self.folder)],
            capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            why = f"no small disk can be mounted here: {done.stderr.strip()}"
            pytest.fail(why) if os.environ.get(SWITCH) == "1" else pytest.skip(why)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, timeout=_TIMEOUT_S, check=True)

    def fill(self) -> None:
        """Fill the disk to the last byte, and again while its users give some of it back."""

        def is_full() -> bool:
            with self._ballast.open("ab", buffering=0) as file:
                for block in (_BLOCK, bytes(4096), b"\0"):
                    while _fits(file.fileno(), block):
                        pass
            return os.statvfs(self.folder).f_bavail == 0

        wait_for(is_full, 60.0)

    def hold(self, files: Iterable[Path]) -> None:
        """Give sparse files all of their space now: who writes to one through its memory on a full disk gets a signal
        (SIGBUS) and no error.
        """
        for file in files:
            with contextlib.suppress(FileNotFoundError), file.open("r+b") as held:
                if size := os.fstat(held.fileno()).st_size:
                    os.posix_fallocate(held.fileno(), 0, size)

    def free(self) -> None:
        self._ballast.unlink()


def _fits(file: int, block: bytes) -> bool:
    try:
        return os.write(file, block) == len(block)
    except OSError:
        return False
