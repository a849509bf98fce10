"""CPU seconds and memory of processes, from /proc, so on Linux only.

A tree is counted with its ended children, so the work of Python workers that are gone already is included:
`bench.worker_daemon` waits for each of them.
"""

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 11, 12, 13, 14  # after the name in brackets: fields 14 to 17
_PARENT = 1
_READS_AT_MOST = 10
WORKER_DAEMON = "bench.worker_daemon"


def tree_cpu_s(root: int) -> float:
    """CPU of all living descendants of `root` and of their ended children, without `root` itself.

    A child that is waited for while they are read is missing from both, or is in both. So they are read until nothing
    of that kind happened, for ten times at most.
    """
    before, ticks = _tree_ticks(root)
    for _ in range(_READS_AT_MOST):
        now, ticks = _tree_ticks(root)
        if now == before:
            break
        before = now
    return ticks / _TICKS_PER_S


def _tree_ticks(root: int) -> tuple[dict[int, int], int]:
    """What the ended children of each descendant took, and the time of all, in ticks."""
    stats = _all_stats()
    below = _below(root, stats)
    ended = {pid: sum(int(stats[pid][at]) for at in (_CHILDREN_USER, _CHILDREN_SYSTEM)) for pid in below}
    return ended, sum(ended.values()) + sum(int(stats[pid][at]) for pid in below for at in (_USER, _SYSTEM))


def _below(root: int, stats: Mapping[int, list[str]]) -> set[int]:
    """All descendants."""
    found = {root}
    while grown := {pid for pid, fields in stats.items() if int(fields[_PARENT]) in found and pid not in found}:
        found |= grown
    return found - {root}


def python_workers(root: int) -> list[int]:
    """Descendants of `root` that run Spark's Python workers: children of its worker daemon."""
    stats = _all_stats()
    below = _below(root, stats)
    daemons = {pid for pid in (root, *below) if WORKER_DAEMON.encode() in _command(pid)}
    return [pid for pid in below if int(stats[pid][_PARENT]) in daemons]


def children(pid: int) -> list[int]:
    """Processes that this one started and has not waited for: zombies too."""
    return [child for child, fields in _all_stats().items() if int(fields[_PARENT]) == pid]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def resident_bytes(pid: int) -> int:
    """Resident memory (VmRSS) now. Raises OSError when the process is gone."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _all_stats() -> dict[int, list[str]]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields is not None:
                found[int(entry.name)] = fields
    return found


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
