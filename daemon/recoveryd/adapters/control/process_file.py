"""What the next daemon must know of an application that this one started: a small file beside its log.

The file is written before the process is started and replaced as a whole. It is a hint, never a proof: what it says is
compared with /proc, and without it the process is found by its mark.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from recoveryd.adapters.control.proc_table import ticks_per_s

_NAME: Final = "process.json"
_LOCK: Final = "lock"
_POLL_S: Final = 0.05


class IsBusyElsewhere(Exception):  # noqa: N818  (named for what happened)
    """Another daemon on this machine holds the folder."""


@dataclass(frozen=True, slots=True)
class Note:
    """`key` is of the wish that it was started for, `mark` what stands in its environment. Times of stopping count on
    the clock since `boot`, which no change of the wall clock moves.
    """

    key: str = ""
    mark: str = ""
    host: str = ""
    boot: str = ""
    pid: int | None = None
    started_ticks: int | None = None
    begun_ms: int | None = None
    ending_s: float | None = None  # when it was decided to end it
    told_s: float | None = None  # when all of it had got SIGTERM
    killed_s: float | None = None

    @property
    def is_ending(self) -> bool:
        return self.ending_s is not None

    def asked_s(self, now_s: float) -> float:
        """Since when it has had time to end by itself: of one whose processes belong to others, since that was
        decided.
        """
        return next((at_s for at_s in (self.told_s, self.ending_s) if at_s is not None), now_s)

    def ended(self) -> "Note":
        return replace(self, pid=None, started_ticks=None, ending_s=None, told_s=None, killed_s=None)

    def of_boot(self, boot: str, now_s: float) -> "Note":
        """Without the process and the times when the machine came up again since. Where a daemon could not see which
        boot it was, only times that are still to come tell.
        """
        began_s = (self.started_ticks or 0) / ticks_per_s()
        is_another = bool(boot and self.boot) and self.boot != boot
        is_of_it = not is_another and max(began_s, self.ending_s or 0, self.killed_s or 0) <= now_s
        return self if is_of_it else replace(self.ended(), boot=boot)


def read_note(folder: Path) -> Note:
    """An empty one when there is none, or none that can be read."""
    try:
        found: Any = json.loads((folder / _NAME).read_bytes())
        return Note(**found)
    except (OSError, ValueError, TypeError):
        return Note()


def write_note(folder: Path, note: Note) -> None:
    """Durable when it returns. Raises OSError."""
    draft = folder / f"{_NAME}.new"
    with draft.open("wb") as file:
        file.write(json.dumps(asdict(note)).encode())
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / _NAME)
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def held(folder: Path, wait_s: float) -> Iterator[None]:
    """Nobody else starts or stops this application meanwhile. A daemon that died holds nothing, and neither does a
    child. Raises `IsBusyElsewhere`, OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    give_up_s = time.monotonic() + wait_s
    with (folder / _LOCK).open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up_s:
                    raise IsBusyElsewhere from None
                time.sleep(_POLL_S)
        yield
