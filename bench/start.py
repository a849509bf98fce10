"""From the command on the control topic to the first copied record, with a cold Spark and with a ready spare driver,
and to the end of a small recovery.

The clock starts when the command is handed to the producer and stops when the target's log end moves, asked for every
20 ms, committed or not: lanes produce a first record long before they commit a chunk. Planning creates the target, so
that is part of the time.
"""

import time
from functools import partial

from bench.bed import Bed
from bench.control import ControlWriter, encoded, replay
from bench.daemon_process import DaemonProcess, Home, leading
from bench.result import Report, Row, Sample, Series
from recoveryd_sandbox.seed import seed

NAME = "start"
_COLD_S, _WARM_S, _WHOLE_S = 12.0, 2.0, 3.0
_WHOLE = "command to completed and verified"
_PARTITIONS = 4
_RECORDS = 40_000
_DEADLINE_S = 60.0
_POLL_S = 0.02
_SPARES_MAX = 8
_ENDED = {"completed", "stopped", "failed", "rejected", "expired"}


def measure(bed: Bed, repeat: int) -> list[Report]:
    seed(bed.bootstrap, "bench.start", _PARTITIONS, limit=_RECORDS)
    with leading(Home(bed, "cold")) as daemon:
        cold = _first_records(bed, daemon, repeat)
    # As many spares as repetitions: a used spare is replaced only after a while, and starting another during the
    # measurement would take CPU time.
    spares = min(repeat, _SPARES_MAX)
    with leading(Home(bed, "warm"), {"profiles": {"default": {"warm": spares}}}) as daemon:
        daemon.wait_for(lambda: _ready_spares(daemon) >= spares, f"make {spares} spare drivers ready", 2 * _DEADLINE_S)
        warm = _first_records(bed, daemon, spares)
    with leading(Home(bed, "whole"), {"profiles": {"default": {"warm": spares}}}) as daemon:
        daemon.wait_for(lambda: _ready_spares(daemon) >= spares, f"make {spares} spare drivers ready", 2 * _DEADLINE_S)
        phases = Series("s")
        for _ in range(spares):
            _whole(bed, daemon, phases)
    whole = phases.sample(_WHOLE)
    rows = (
        Row("command to first copied record, cold", cold, at_most=_COLD_S),
        Row("command to first copied record, spare driver", warm, "cold", cold, at_most=_WARM_S),
        Row(f"{_WHOLE}, spare driver, {_RECORDS:,} records", whole, at_most=_WHOLE_S),
        *(Row(f"- of that {name}", phases.sample(name), "all", whole) for name in phases.found if name != _WHOLE),
    )
    note = (
        "creation of the target topic and the plan are included; a spare driver is an idle application with a warm "
        "session (`profiles.NAME.warm`)"
    )
    return [Report("Start of a recovery", rows, (note,))]


def _ready_spares(daemon: DaemonProcess) -> int:
    return len(list(daemon.work.glob("_spares/*/ready")))


def _first_records(bed: Bed, daemon: DaemonProcess, repeat: int) -> Sample:
    writer = ControlWriter(bed.bootstrap, daemon.home.names.control)
    found = []
    for _ in range(repeat):
        recovery = bed.unique("start")
        target = f"bench.out.{recovery}"
        bed.produced(target, _PARTITIONS)  # so that the admin client knows the broker before the clock starts
        value = encoded(replay(recovery, "bench.start", target, verify="none"))
        began_s = time.monotonic()
        writer.send([value])
        while not bed.produced(target, _PARTITIONS):
            if time.monotonic() - began_s > _DEADLINE_S:
                raise RuntimeError(f"nothing was copied: {daemon.status(recovery)}")
            time.sleep(_POLL_S)
        found.append(time.monotonic() - began_s)
        daemon.wait_for(partial(_has_ended, daemon, recovery), f"end {recovery}", _DEADLINE_S)
        bed.delete(target)
    return Sample(tuple(found), "s")


def _whole(bed: Bed, daemon: DaemonProcess, phases: Series) -> None:
    """One recovery from the command to `completed` with `verify: source`, and how long its status showed each state."""
    writer = ControlWriter(bed.bootstrap, daemon.home.names.control)
    recovery = bed.unique("whole")
    target = f"bench.out.{recovery}"
    value = encoded(replay(recovery, "bench.start", target))
    began_s = since_s = time.monotonic()
    writer.send([value])
    state = "planning"
    while state != "completed":
        status = daemon.status(recovery)
        found, now_s = "planning" if status is None else str(status["state"]), time.monotonic()
        if found in _ENDED - {"completed"} or now_s - began_s > _DEADLINE_S:
            raise RuntimeError(f"{recovery} is not verified: {status}")
        if found != state and found not in {"requested", "planned"}:
            phases.add(state, now_s - since_s)
            state, since_s = found, now_s
        time.sleep(_POLL_S)
    phases.add(_WHOLE, time.monotonic() - began_s)
    bed.delete(target)


def _has_ended(daemon: DaemonProcess, recovery: str) -> bool:
    status = daemon.status(recovery)
    if status is None or status["state"] not in _ENDED:
        return False
    if status["state"] != "completed":
        raise RuntimeError(f"{recovery} ended as {status['state']}: {status['why']}")
    return True
