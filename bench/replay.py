"""Identity replay of a million flights and of 600 thousand records of 1 kB by two lanes, compared with a plain loop and
with the client's upper bounds.
"""

from bench.application import Application
from bench.bed import Bed
from bench.loops import Task, Timing
from bench.loops import run as run_loop
from bench.records import DataSet, make_flights, make_kilobyte, settle
from bench.result import Report, Row, Sample, Series, rotated

NAME = "replay"
_NONE, _DIGEST, _LOOP, _READ, _WRITE = (
    "lanes, verify none",
    "lanes, verify digest",
    "copy loop",
    "consume only",
    "produce only",
)
_VARIANTS = (_LOOP, _NONE, _DIGEST, _READ, _WRITE)
_KINDS = {_LOOP: "copy", _READ: "consume", _WRITE: "produce"}
_VERIFY_JOB = "verify job"
_RATIO_NONE, _RATIO_DIGEST = 1.15, 1.4


def measure(bed: Bed, application: Application, repeat: int, *, quick: bool) -> list[Report]:
    """One report per data set. Each turn runs every variant once, each time beginning with another one."""
    return [_measure(bed, application, make(bed, quick=quick), repeat) for make in (make_flights, make_kilobyte)]


def _measure(bed: Bed, application: Application, data: DataSet, repeat: int) -> Report:
    walls, clients, brokers = Series("s"), Series("s/M"), Series("s/M")
    millions = data.records / 1e6
    for turn in range(
        -1, repeat
    ):  # the first turn warms the workers, the broker and the page cache, and is not counted
        for variant in rotated(_VARIANTS if turn >= 0 else (_LOOP, _DIGEST), max(turn, 0)):
            for name, timing in _run(bed, application, data, variant):
                if turn >= 0:
                    walls.add(name, timing.wall_s)
                    clients.add(name, timing.client_cpu_s / millions)
                    brokers.add(name, timing.broker_cpu_s / millions)
    bed.delete(data.topic)
    rows = (*_wall_rows(walls), *_cpu_rows(clients, "client CPU"), *_cpu_rows(brokers, "broker CPU"))
    loop, none = walls.sample(_LOOP), walls.sample(_NONE)
    note = (
        f"lanes copy {data.records / none.median:,.0f} records/s, the loop {data.records / loop.median:,.0f}; "
        "client CPU of lanes is that of JVM and Python workers together; s/M = seconds per million records"
    )
    return Report(f"Identity replay: {data.name}, 4 partitions, 2 lanes", rows, (note,))


def _run(bed: Bed, application: Application, data: DataSet, variant: str) -> list[tuple[str, Timing]]:
    target = bed.unique("bench.out")
    try:
        if variant in _KINDS:
            if variant != _READ:
                bed.create(target, len(data.ends))
            task = Task(_KINDS[variant], bed.bootstrap, data.topic, target, data.ends, bed.unique("loop"))
            return [(variant, run_loop(task, bed.broker_pid))]
        spec = application.spec(data, target, "none" if variant == _NONE else "digest")
        found = [(variant, application.copy(spec))]
        _check(bed, data, target)
        if variant == _DIGEST:
            timing, report = application.verify(spec)
            if report.result != "match" or report.target_records != data.records:
                raise RuntimeError(f"the copy does not verify: {report}")
            found.append((_VERIFY_JOB, timing))
        return found
    finally:
        if variant != _READ:
            bed.delete(target)
        settle()


def _check(bed: Bed, data: DataSet, target: str) -> None:
    """Raises when too little was copied: a fast incomplete copy is worth nothing. Transaction markers make the target's
    log longer, never shorter.
    """
    ends = bed.ends(target, len(data.ends))
    if any(end < wanted for end, wanted in zip(ends, data.ends, strict=True)):
        raise RuntimeError(f"the target ends at {ends}, the source at {data.ends}")


def _wall_rows(walls: Series) -> list[Row]:
    loop, none, digest = (walls.sample(v) for v in (_LOOP, _NONE, _DIGEST))
    return [
        Row(f"{_NONE}, wall", none, _LOOP, loop, ratio_at_most=_RATIO_NONE),
        Row(f"{_DIGEST}, wall", digest, _LOOP, loop, ratio_at_most=_RATIO_DIGEST),
        Row(f"{_NONE}, wall", none, _READ, walls.sample(_READ)),
        Row(f"{_NONE}, wall", none, _WRITE, walls.sample(_WRITE)),
        Row("cost of digests while copying, wall", digest, _NONE, none),
        Row("verify job after the copy, wall", walls.sample(_VERIFY_JOB), _DIGEST, digest),
    ]


def _cpu_rows(cpu: Series, what: str) -> list[Row]:
    loop: Sample = cpu.sample(_LOOP)
    return [
        *(Row(f"{variant}, {what}", cpu.sample(variant), _LOOP, loop) for variant in (_NONE, _DIGEST)),
        Row(f"verify job, {what}", cpu.sample(_VERIFY_JOB), _DIGEST, cpu.sample(_DIGEST)),
    ]
