"""What exactly-once costs by the size of a chunk: the same copy in transactions of 1 to 64 MB, compared with a plain
loop without transactions.
"""

from bench.application import Application
from bench.bed import Bed
from bench.loops import Task
from bench.loops import run as run_loop
from bench.records import DataSet, make_flights, settle
from bench.result import Report, Row, Series, rotated
from recoveryd_jobs.contract import ChunkLimits

NAME = "chunks"
_SIZES_MB = (1, 4, 16, 32, 64)
_PLAIN, _TRANSACTIONS = "loop without transactions", "loop, 32 MB transactions"
_KINDS = {_PLAIN: "copy_plain", _TRANSACTIONS: "copy"}
_REPEAT_MAX = 3


def measure(bed: Bed, application: Application, repeat: int) -> list[Report]:
    """A third of the flights is enough to show the differences; at most three turns."""
    data = make_flights(bed, quick=True)
    walls = Series("s")
    sizes = {f"lanes, chunks of {size} MB": size for size in _SIZES_MB}
    variants = (_PLAIN, _TRANSACTIONS, *sizes)
    for turn in range(min(repeat, _REPEAT_MAX)):
        for variant in rotated(variants, turn):
            walls.add(variant, _run(bed, application, data, variant, sizes.get(variant)))
    bed.delete(data.topic)
    plain = walls.sample(_PLAIN)
    rows = [Row(f"{variant}, wall", walls.sample(variant), _PLAIN, plain) for variant in variants[1:]]
    return [Report(f"Cost of exactly once by chunk size: {data.name}", tuple(rows), ("all with verify none",))]


def _run(bed: Bed, application: Application, data: DataSet, variant: str, size_mb: int | None) -> float:
    target = bed.unique("bench.out")
    try:
        if size_mb is None:
            bed.create(target, len(data.ends))
            task = Task(_KINDS[variant], bed.bootstrap, data.topic, target, data.ends, bed.unique("loop"))
            return run_loop(task, bed.broker_pid).wall_s
        limits = ChunkLimits(max_bytes=size_mb * 1024 * 1024, max_records=10_000_000)
        return application.copy(application.spec(data, target, "none", limits)).wall_s
    finally:
        bed.delete(target)
        settle(0.5)
