"""Sixty small recoveries one after the other through one living daemon with a spare driver: how long each takes, and
what the daemon keeps of each.

Each waits for a spare that is ready, as one that comes now and then does. The daemon knows all of them to the end, so
its memory grows by what it keeps of a recovery; a straight line through the sizes after the twentieth says by how much.
"""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from bench.bed import Bed
from bench.control import ControlWriter, encoded, replay
from bench.cpu import children, resident_bytes
from bench.daemon_process import DaemonProcess, Home, leading
from bench.result import Report, Row, Sample
from recoveryd_sandbox.seed import seed

NAME = "many-small"
_SOURCE, _PARTITIONS, _RECORDS = "bench.small", 2, 10_000
_RECOVERIES, _QUICK_RECOVERIES = 60, 12
_WARM_SHARE = 3  # after a third of them pools are full, all clients are made and caches are warm
_EACH_S, _EACH_MB = 3.0, 0.05
_MORE_CHILDREN, _MORE_FILES = 0, 12  # connections come and go
_DEADLINE_S = 600.0
_POLL_S = 0.02
_ENDED = {"completed", "stopped", "failed", "rejected", "expired"}


@dataclass(frozen=True, slots=True)
class _Size:
    """Of a daemon with a ready spare driver and nothing to do."""

    mb: float
    children: int
    files: int

    @classmethod
    def of(cls, daemon: DaemonProcess) -> "_Size":
        files = len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))
        return cls(resident_bytes(daemon.pid) / 1e6, len(children(daemon.pid)), files)


def measure(bed: Bed, *, quick: bool) -> list[Report]:
    count = _QUICK_RECOVERIES if quick else _RECOVERIES
    seed(bed.bootstrap, _SOURCE, _PARTITIONS, limit=_RECORDS)
    seconds: list[float] = []
    sizes: list[_Size] = []
    with leading(Home(bed, "small"), {"profiles": {"default": {"warm": 1}}}) as daemon:
        writer = ControlWriter(bed.bootstrap, daemon.home.names.control)
        _await_spare(daemon)
        began_s = time.monotonic()
        for _ in range(count):
            seconds.append(_recover(bed, daemon, writer))
            _await_spare(daemon)
            sizes.append(_Size.of(daemon))
        all_s = time.monotonic() - began_s
    warm = sizes[count // _WARM_SHARE :]
    early, end, first = warm[0], warm[-1], f"after {count - len(warm) + 1}"
    rows = (
        Row("command to completed and verified", Sample(tuple(seconds), "s"), at_most=_EACH_S),
        Row("the same and until a spare driver is ready again", Sample((all_s / count,), "s")),
        Row(f"growth of the daemon, each after number {count - len(warm)}",
            Sample((_slope([size.mb for size in warm]),), "MB"), at_most=_EACH_MB),
        Row(f"memory of the daemon after {count}", _one(end.mb, "MB"), first, _one(early.mb, "MB")),
        Row(f"child processes of the daemon after {count}", _one(end.children), first, _one(early.children),
            at_most=early.children + _MORE_CHILDREN),
        Row(f"open files of the daemon after {count}", _one(end.files), first, _one(early.files),
            at_most=early.files + _MORE_FILES),
    )  # fmt: skip
    note = f"{count} replays of {_RECORDS:,} records in {_PARTITIONS} partitions, each verified, one daemon, one spare driver"
    return [Report("Many small recoveries", rows, (note,))]


def _one(value: float, unit: str = "") -> Sample:
    return Sample((value,), unit)


def _slope(values: list[float]) -> float:
    """Of the straight line through values that are one step apart."""
    return statistics.linear_regression(range(len(values)), values).slope


def _recover(bed: Bed, daemon: DaemonProcess, writer: ControlWriter) -> float:
    recovery = bed.unique("small")
    target = f"bench.out.{recovery}"
    value = encoded(replay(recovery, _SOURCE, target))
    began_s = time.monotonic()
    writer.send([value])
    while (state := _state(daemon, recovery)) not in _ENDED:
        if time.monotonic() - began_s > _DEADLINE_S:
            raise RuntimeError(f"{recovery} did not end: {daemon.status(recovery)}")
        time.sleep(_POLL_S)
    took_s = time.monotonic() - began_s
    if state != "completed":
        raise RuntimeError(f"{recovery} is not verified: {daemon.status(recovery)}")
    bed.delete(target)
    return took_s


def _state(daemon: DaemonProcess, recovery: str) -> str:
    status = daemon.status(recovery)
    return "" if status is None else str(status["state"])


def _await_spare(daemon: DaemonProcess) -> None:
    """Returns when a spare driver is ready that was given nothing yet, and no other application is left."""
    daemon.wait_for(lambda: _is_alone(daemon), "have a spare driver and nothing else", _DEADLINE_S, 0.2)


def _is_alone(daemon: DaemonProcess) -> bool:
    ready = [found.parent for found in daemon.work.glob("_spares/*/ready") if not (found.parent / "spec.json").exists()]
    return len(ready) == 1 == len(children(daemon.pid))
