"""The proof compared with the copy that it proves: `verify: source` rereads both sides, so it may take as long as the
copy, and its tasks must stay small.
"""

import contextlib
import threading
from dataclasses import replace
from typing import Self

from bench.application import Application
from bench.bed import KEEP, Bed
from bench.cpu import resident_bytes
from bench.loops import Timing
from bench.records import SMALL_INDEX, DataSet, make_flights, make_kilobyte, make_many, make_small, make_wide, settle
from bench.result import Report, Row, Sample, Series

NAME = "proof"
_COPY, _PROOF, _MEMORY = "copy, lanes with digests", "proof by the source", "memory of a task of the proof, at most"
_RATIO = 1.0
_TASK_MB = 200.0
_LOOK_S = 0.05


def measure(bed: Bed, application: Application, repeat: int, *, quick: bool) -> list[Report]:
    """One report per data set; copy and proof alternate. In the last one keys choose the partition, so that each pair
    of partitions has a digest of its own.
    """
    same = [
        _measure(bed, application, make(bed, quick=quick), repeat)
        for make in (make_flights, make_kilobyte, make_small, make_many)
    ]
    return [*same, _measure(bed, application, make_wide(bed, quick=quick), repeat, "key_hash")]


def _measure(bed: Bed, application: Application, data: DataSet, repeat: int, mapping: str = "same") -> Report:
    walls, cpu, memory = Series("s"), Series("s"), Series("MB")
    for turn in range(-1, repeat):  # the first turn warms workers, broker and page cache, and is not counted
        copied, proved, peak = _turn(bed, application, data, mapping)
        if turn >= 0:
            walls.add(_COPY, copied.wall_s)
            walls.add(_PROOF, proved.wall_s)
            cpu.add(_COPY, copied.client_cpu_s + copied.broker_cpu_s)
            cpu.add(_PROOF, proved.client_cpu_s + proved.broker_cpu_s)
            memory.add(_MEMORY, peak / 1e6)
    bed.delete(data.topic)
    copy, proof = walls.sample(_COPY), walls.sample(_PROOF)
    rows = (
        Row(f"{_COPY}, wall", copy),
        Row(f"{_PROOF}, wall", proof, _COPY, copy, ratio_at_most=_RATIO if mapping == "same" else None),
        Row(f"{_PROOF}, CPU of clients and broker", cpu.sample(_PROOF), _COPY, cpu.sample(_COPY)),
        Row(_MEMORY, memory.sample(_MEMORY), at_most=_TASK_MB),
    )
    note = (
        f"the proof reads {2 * data.records / Sample(proof.values, 's').median:,.0f} records/s, both sides "
        "together; memory is the resident set of the largest Python worker"
    )
    where = f"{len(data.ends)} partitions" + ("" if mapping == "same" else ", repartitioned by key")
    return Report(f"Proof by the source: {data.name}, {where}, 2 tasks", rows, (note,))


def _turn(bed: Bed, application: Application, data: DataSet, mapping: str) -> tuple[Timing, Timing, int]:
    target = bed.unique("bench.proof")
    try:
        spec = application.spec(
            data, target, "source", configs={**KEEP, **(SMALL_INDEX if len(data.ends) > 100 else {})}
        )
        spec = replace(spec, target=replace(spec.target, mapping=mapping))
        copied = application.copy(spec)
        with _Peak(application) as peak:
            proved, report = application.verify(spec)
        if (report.result, report.scope, report.target_records) != ("match", "source", data.records):
            raise RuntimeError(f"the copy does not verify: {report}")
        return copied, proved, peak.bytes
    finally:
        bed.delete(target)
        settle()


class _Peak:
    """The largest resident set of a Python worker, sampled twenty times a second."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            for pid in self._application.workers():
                with contextlib.suppress(OSError):
                    self.bytes = max(self.bytes, resident_bytes(pid))
