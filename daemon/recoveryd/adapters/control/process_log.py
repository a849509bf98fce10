"""The output of an application that the daemon started: a file that stays bounded while a daemon runs.

The application writes to the file itself, so that it needs no daemon to live; the price is that only a daemon cuts it.
What is cut off moves to a second file, less than one piece of it: lines that are written while it is cut are lost.
"""

import os
from pathlib import Path
from typing import BinaryIO


def log_path(folder: Path) -> Path:
    return folder / "output.log"


def open_log(folder: Path) -> BinaryIO:
    """For appending, so that cutting moves the place where the application writes. Readable by its user alone."""
    handle = os.open(log_path(folder), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.fdopen(handle, "wb")


def cut_log(folder: Path, most: int) -> bool:
    """Whether it was longer than `most` bytes and was cut: its last half is in `output.log.1` then."""
    path = log_path(folder)
    try:
        if path.stat().st_size <= most:
            return False
        with path.open("rb+") as log:
            log.seek(-(most // 2), os.SEEK_END)
            draft = path.with_suffix(".log.1.new")
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as kept:
                kept.write(log.read(most // 2))
            draft.replace(path.with_suffix(".log.1"))
            log.truncate(0)
    except OSError:
        return False
    return True
