"""A warm Spark application in this process: it runs lanes and verification exactly as a driver of the product does.

Same flags as the daemon puts on the command line, same session, same Python workers, same Spark jobs. Only the daemon
is left out: a spec is made here as the daemon makes it (lanes assigned by the same rule), and the time runs from the
submission of the jobs to the return of the last lane.
"""

import os
import shlex
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from bench.bed import KEEP, Bed
from bench.cpu import WORKER_DAEMON, python_workers, tree_cpu_s
from bench.loops import Timing
from bench.records import DataSet
from bench.specs import create_own, replay_spec
from recoveryd.adapters.spark.command import SparkProfile, submit_command, submit_environment
from recoveryd.recovery.lane_shares import assign_lanes
from recoveryd.recovery.model import PlannedPartition
from recoveryd_jobs.contract import ChunkLimits, JobSpec, PartitionRange, Verification
from recoveryd_jobs.driver.kinds import run_lane_job, run_verification
from recoveryd_jobs.driver.session import start_session, warm_workers
from recoveryd_jobs.lane.life import LaneOutcome
from recoveryd_sandbox.process import process_cpu_s

LANES = 2
_DEADLINE_S = 170.0


class Application:
    """Use it as a context manager. One per process: Spark allows no second session."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._context: Any = None

    def __enter__(self) -> Self:
        profile = SparkProfile(f"local[{LANES},4]", conf={"spark.python.daemon.module": WORKER_DAEMON})
        submit = submit_command(profile, "recoveryd-bench", self._bed.folder, ())
        os.environ |= submit_environment()
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{shlex.join(submit[1:-1])} pyspark-shell"
        create_own(self._bed)
        self._context = start_session(LANES)
        warm_workers(self._context)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._context.stop()

    def spec(
        self,
        data: DataSet,
        target: str,
        verify: str,
        chunk: ChunkLimits | None = None,
        configs: Mapping[str, str] = KEEP,
    ) -> JobSpec:
        """An identity replay of all of `data` into a new topic."""
        planned = tuple(PlannedPartition(p, 0, end, high_watermark=end) for p, end in enumerate(data.ends))
        lanes = [[PartitionRange(p, 0, data.ends[p]) for p in members] for members in assign_lanes(planned, LANES)]
        self._bed.create(target, len(data.ends), configs)
        return replay_spec(
            self._bed,
            self._bed.unique("rec"),
            data.topic,
            target,
            len(data.ends),
            lanes,
            verify=verify,
            chunk=chunk or ChunkLimits(),
        )

    def copy(self, spec: JobSpec) -> Timing:
        """Run all lanes, one Spark job each. Raises RuntimeError when one does not end as done."""
        outcomes: list[LaneOutcome] = []

        def work(lane: int) -> None:
            outcomes.append(run_lane_job(self._context, spec, lane))

        threads = [threading.Thread(target=work, args=(lane.lane,), daemon=True) for lane in spec.lanes]
        with _Stopwatch(self._bed.broker_pid) as watch:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(_DEADLINE_S)
        if sorted(o.ended for o in outcomes) != ["done"] * len(spec.lanes):
            raise RuntimeError(f"lanes ended as {outcomes}")
        return watch.timing

    def workers(self) -> list[int]:
        """The Python processes that tasks run in."""
        return python_workers(os.getpid())

    def verify(self, spec: JobSpec) -> tuple[Timing, Verification]:
        with _Stopwatch(self._bed.broker_pid) as watch:
            report = run_verification(self._context, spec, is_whole=True)
        assert report is not None, "nobody told it to stop"
        return watch.timing, report


class _Stopwatch:
    """Measures wall time, the CPU of the Spark processes (JVM, worker daemon, workers: everything below this process)
    and the broker's CPU.
    """

    def __init__(self, broker_pid: int) -> None:
        self._broker_pid = broker_pid
        self.timing = Timing(0.0, 0.0, 0.0)

    def __enter__(self) -> Self:
        clients_s, broker_s = self._clients_s(), process_cpu_s(self._broker_pid)
        self._began = time.monotonic(), clients_s, broker_s  # the clock last: to read the tree takes a while
        return self

    def __exit__(self, *_: object) -> None:
        wall_s, clients_s, broker_s = self._began
        self.timing = Timing(
            time.monotonic() - wall_s, self._clients_s() - clients_s, process_cpu_s(self._broker_pid) - broker_s
        )

    def _clients_s(self) -> float:
        """CPU of everything below this process, without the broker, which is a child of this process too."""
        return tree_cpu_s(os.getpid()) - process_cpu_s(self._broker_pid)
