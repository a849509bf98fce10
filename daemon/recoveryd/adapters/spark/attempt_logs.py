"""Logs of attempts, for people: the last lines of what a Spark application wrote, as far as they
are on this machine.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from recoveryd.adapters.spark.attempt_folders import folder_of

_BYTES_MOST: Final = 2 * 1024 * 1024


def read_log(work_dir: Path, recovery: str, attempt: int | None, lines: int) -> Mapping[str, Any] | None:
    """The last `lines` of an attempt, the newest one when it is None; None where this machine has no log of it.

    `recovery` must be an id that is known: it becomes part of a path. Blocking.
    """
    folder = folder_of(work_dir.absolute(), recovery)
    kept = _attempts(folder)
    if not kept:
        return None
    chosen = kept[-1] if attempt is None else attempt
    text, is_cut = _tail(folder / str(chosen))
    if text is None:
        return None
    found = text.splitlines()
    return {
        "recovery": recovery,
        "attempt": chosen,
        "attempts": kept,
        "lines": found[-lines:] if lines else [],
        "is_cut": is_cut or len(found) > lines,
    }


def _attempts(folder: Path) -> list[int]:
    """Their numbers; no one where the folder cannot be read: what another user's daemon wrote is not for this one."""
    try:
        return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit())
    except OSError:
        return []


def _tail(attempt: Path) -> tuple[str | None, bool]:
    """With what was cut off before, if it is still there; and whether more came before that."""
    parts: list[bytes] = []
    left = _BYTES_MOST
    is_cut = False
    for name in ("driver.log", "driver.log.1"):
        try:
            with (attempt / name).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - left))
                parts.insert(0, file.read(left))
        except OSError:
            continue
        is_cut = is_cut or size > left
        left = max(0, left - size)
    return (b"".join(parts).decode(errors="replace"), is_cut) if parts else (None, False)
