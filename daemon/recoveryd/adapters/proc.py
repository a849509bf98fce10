"""Where /proc is, and how what it says of a process is read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
STATE, GROUP, STARTED_TICKS = 0, 2, 19  # places of what `stat_fields` gives
GONE: Final = frozenset("ZX")  # states of one that ended; a zombie is only waited for


def stat_fields(pid: int | str) -> list[str] | None:
    """What stands behind the name of the process, from its state on; None: there is none, or it is not shown."""
    try:
        # The name stands in parentheses and may hold anything, so what follows begins behind the last one.
        fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > STARTED_TICKS else None


def numbers() -> Iterator[int]:
    """Of the processes that are shown."""
    return (int(entry.name) for entry in PROC.glob("[0-9]*"))
