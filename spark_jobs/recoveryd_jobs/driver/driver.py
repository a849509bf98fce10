"""The driver of one attempt: starts the lanes as Spark jobs, reports once a second, and does what directives say until
it may leave.

    starting ─> lanes ─> drained ─> verifying ─> verified ─> exiting
                  └────────┴────────────┴─> failed
    starting ─────────────────────> verifying                        (of a verification)

Level-based: each turn compares the newest directive with the phase. The driver moves no records and makes no decision
about the recovery. It leaves when told to, when a newer attempt exists, when a lane cannot go on, or when no directive
came for a long time.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import ModuleType
from typing import Any

from recoveryd_jobs import errors, failpoints
from recoveryd_jobs.contract import DriverHeartbeat, JobSpec, Verification
from recoveryd_jobs.directives import Directives
from recoveryd_jobs.driver import remote
from recoveryd_jobs.driver.session import is_local
from recoveryd_jobs.driver.task_slots import SlotWatch
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.life import LaneOutcome
from recoveryd_jobs.progress import ProgressSender

EXIT_DONE, EXIT_FAILED, EXIT_SUPERSEDED, EXIT_FORGOTTEN = 0, 1, 3, 4
_ORPHAN_GRACE_S = 30.0  # how long an orderly end may take before the process is ended anyway
_ORPHAN_LOOK_S = 1.0
_TURN_S = 0.05
_REPORT_TIMEOUT_S = 10.0

_log = logging.getLogger("recoveryd.driver")


class Driver:
    """Sends heartbeats from its construction on. `run` returns the exit code of the process."""

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self._report = DriverHeartbeat(
            spec.recovery, spec.attempt, "starting", host=socket.gethostname(), pid=os.getpid()
        )
        client_id = f"recoveryd.{spec.recovery}.driver"
        self._progress = ProgressSender(spec.control, client_id, None, lambda: self._report)
        self._progress.start()
        self._directives = Directives(spec, client_id)
        self._group = f"{spec.recovery}/{spec.attempt}"
        self._is_whole = False  # every lane came to the end of its range
        self._orphan_after_s = spec.orphan_after_ms / 1000.0
        self._closing = threading.Event()
        threading.Thread(target=self._watch_orphan, name="orphan-watch", daemon=True).start()
        failpoints.hit("driver.started")

    def fail(self, error: JobError) -> int:
        """Report that the attempt cannot go on, and wait until the broker has the report."""
        _log.error("failed %s: %s", error.code, error.message)
        self._enter("failed", error_code=error.code, error_message=error.message[:2000])
        self._progress.send_now(_REPORT_TIMEOUT_S)
        return EXIT_FAILED

    def run(self, context: Any, kind: ModuleType) -> int:
        """Run the lanes, then the verification when told, then leave. Raises JobError when the session cannot run the
        lanes.
        """
        failpoints.hit("driver.session_up")
        if not is_local(context.master):
            remote.check_secured(context.getConf(), self._spec)
            self._spec = remote.make_portable(self._spec)
        is_following = any(part.stop is None for lane in self._spec.lanes for part in lane.partitions)
        slots = SlotWatch(context, len(self._spec.lanes), is_following=is_following)
        code = self._await_slots(slots)
        if code is None and self._spec.kind == "verification":
            self._is_whole = True  # nothing is copied: whatever exists is verified
        elif code is None:
            code = self._run_lanes(context, kind, slots)
        if code is None:
            code = self._await_end(context, kind)
        if code != EXIT_FAILED:
            self._enter("exiting")
        return code

    def close(self) -> None:
        self._progress.close()
        self._directives.close()

    def closed(self) -> None:
        """Call it when nothing is left that could hang; `_watch_orphan` then lets the process end by itself."""
        self._closing.set()

    def _await_slots(self, slots: SlotWatch) -> int | None:
        """None once lanes can start; an exit code when told to leave before."""
        while not slots.is_ready():
            code = self._turn()
            if code is not None:
                return code
        return None

    def _run_lanes(self, context: Any, kind: ModuleType, slots: SlotWatch) -> int | None:
        """None once every lane's task returned, else an exit code."""
        lanes = Background(context, self._group)
        for lane in self._spec.lanes:
            lanes.start(kind.run_lane_job, context, self._spec, lane.lane)
        self._enter("lanes")
        failpoints.hit("driver.lanes_started")
        while lanes.is_running:
            code = self._turn()
            if code is not None:
                lanes.cancel()
                return code
            failed = _failure(lanes)
            if failed is not None:
                lanes.cancel()
                return self.fail(failed)
            slots.check(lanes.running)
        failed = _failure(lanes)
        if failed is not None:
            return self.fail(failed)
        self._is_whole = all(outcome.ended == "done" for outcome in lanes.results)
        self._spec = copied_by(self._spec, lanes.results)
        if any(outcome.ended == "left" for outcome in lanes.results):
            self._directives.refresh(_REPORT_TIMEOUT_S)
            return self._turn() or EXIT_DONE
        self._enter("drained")
        failpoints.hit("driver.drained")
        return None

    def _await_end(self, context: Any, kind: ModuleType) -> int:
        """After the lanes: verify once when told to, and stay until told to leave."""
        verification: Background | None = None
        while True:
            code = self._turn()
            if code is not None:
                if verification is not None:
                    verification.cancel()
                return code
            if verification is None and self._directives.current().directive.wanted == "verify":
                self._enter("verifying")
                failpoints.hit("driver.before_verify")
                verification = Background(context, self._group)
                verification.start(self._verify, kind, context)
            if verification is not None and not verification.is_running and self._report.phase == "verifying":
                failed = _failure(verification)
                if failed is not None:
                    return self.fail(failed)
                if verification.results[0] is None:  # told to stop, or to leave: the next directive says which
                    verification = None
                    self._enter("drained")
                    continue
                self._enter("verified", verification=verification.results[0])
                failpoints.hit("driver.verified")

    def _verify(self, kind: ModuleType, context: Any) -> Verification | None:
        report: Verification | None = kind.run_verification(context, self._spec, is_whole=self._is_whole)
        return report

    def _turn(self) -> int | None:
        """Wait a moment for directives; an exit code when it is time to leave."""
        received = self._directives.wait(self._directives.current(), _TURN_S)
        directive = received.directive
        if directive.attempt > self._spec.attempt:
            _log.info("attempt %d took over", directive.attempt)
            return EXIT_SUPERSEDED
        if directive.sequence != self._report.directive_sequence:
            self._report = replace(self._report, directive_sequence=directive.sequence)
        if directive.wanted == "exit":
            return EXIT_DONE
        if self._silence_s() > self._orphan_after_s:
            _log.error("no directive came for %.0f s: nobody leads this application any more", self._orphan_after_s)
            return EXIT_FORGOTTEN
        return None

    def _silence_s(self) -> float:
        return time.monotonic() - self._directives.current().at_s

    def _watch_orphan(self) -> None:
        """End the process, with JVM and workers, whatever the main thread hangs on (Spark, a cluster that is gone)."""
        while not self._closing.wait(_ORPHAN_LOOK_S):
            if self._silence_s() > self._orphan_after_s + _ORPHAN_GRACE_S:
                _log.error("no directive came and no orderly end was possible: leaves at once")
                os._exit(EXIT_FORGOTTEN)

    def _enter(self, phase: str, **more: Any) -> None:
        self._report = replace(self._report, phase=phase, **more)
        _log.info("phase %s", phase)
        self._progress.nudge()


def copied_by(spec: JobSpec, outcomes: Iterable[LaneOutcome]) -> JobSpec:
    """The spec for the proof, which must find receipts of all that these lanes have copied."""
    known = {partition: at for outcome in outcomes for partition, at in outcome.positions.items()}
    lanes = []
    for lane in spec.lanes:
        ranges = [replace(r, journaled=max(r.journaled, known.get(r.partition, 0))) for r in lane.partitions]
        lanes.append(replace(lane, partitions=tuple(ranges)))
    return replace(spec, lanes=tuple(lanes))


class Background:
    """Spark jobs in threads, in one job group, so that the driver can watch directives while they run."""

    def __init__(self, context: Any, group: str) -> None:
        self._context = context
        self._group = group
        self._threads: list[threading.Thread] = []
        self.results: list[Any] = []
        self.raised: list[Exception] = []

    @property
    def running(self) -> int:
        return sum(thread.is_alive() for thread in self._threads)

    @property
    def is_running(self) -> bool:
        return self.running > 0

    def start(self, work: Callable[..., Any], *args: Any) -> None:
        thread = threading.Thread(target=self._run, args=(work, args), name="spark-job", daemon=True)
        self._threads.append(thread)
        thread.start()

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)

    def _run(self, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            self._context.setJobGroup(self._group, "recoveryd", interruptOnCancel=True)
            self.results.append(work(*args))
        except Exception as error:  # noqa: BLE001  (whatever Spark raises becomes an error code of the attempt)
            self.raised.append(error)


def _failure(jobs: Background) -> JobError | None:
    """The first failure of these jobs, translated."""
    for result in jobs.results:
        if isinstance(result, LaneOutcome) and result.ended == "failed":
            return JobError(result.error_code, result.error_message)
    for error in jobs.raised:
        if isinstance(error, JobError):
            return error
        text = str(error)
        return (
            errors.from_text(text)
            or remote.explain_failure(text)
            or JobError("internal", f"A Spark job failed: {text[:1000]}")
        )
    return None
