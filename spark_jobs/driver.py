"""The driver of one attempt: starts the lanes as Spark jobs, reports once a second, and does what directives say until it may leave.

    starting ─> lanes ─> drained ─> verifying ─> verified ─> exiting
                  └────────┴────────────┴─> failed

Level-based: each turn compares the newest directive with the phase. The driver moves no records and takes no decision about the recovery. It leaves
when told, when a newer attempt exists, when a lane can not go on, or when no directive came for a long time.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from spark_jobs import errors, failpoints
from spark_jobs.contract import DriverReport, JobSpec, VerificationReport
from spark_jobs.directives import Directives
from spark_jobs.errors import JobError
from spark_jobs.lanes import Outcome
from spark_jobs.progress import ProgressSender

EXIT_DONE, EXIT_FAILED, EXIT_SUPERSEDED, EXIT_FORGOTTEN = 0, 1, 3, 4
SILENCE_MAX_S = 15 * 60.0
_TURN_S = 0.2
_REPORT_TIMEOUT_S = 10.0

_log = logging.getLogger("recoveryd.driver")


class Driver:
    """Reports from construction on. `run` returns the exit code of the process."""

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self._report = DriverReport(spec.recovery, spec.attempt, "starting", host=socket.gethostname(), pid=os.getpid())
        client_id = f"recoveryd.{spec.recovery}.driver"
        self._progress = ProgressSender(spec.control, client_id, None, lambda: self._report)
        self._progress.start()
        self._directives = Directives(spec, client_id)
        self._group = f"{spec.recovery}/{spec.attempt}"
        self._is_whole = False  # every lane came to the end of its range
        failpoints.hit("driver.started")

    def fail(self, error: JobError) -> int:
        """The last word of an attempt that can not go on; waits until the broker has it."""
        _log.error("failed %s: %s", error.code, error.message)
        self._enter("failed", error_code=error.code, error_message=error.message[:2000])
        self._progress.send_now(_REPORT_TIMEOUT_S)
        return EXIT_FAILED

    def run(self, context: Any, kind: ModuleType) -> int:
        """Lanes, then verification when told, then leave."""
        failpoints.hit("driver.session_up")
        code = self._run_lanes(context, kind)
        if code is None:
            code = self._await_end(context, kind)
        if code != EXIT_FAILED:
            self._enter("exiting")
        return code

    def close(self) -> None:
        self._progress.close()
        self._directives.close()

    def _run_lanes(self, context: Any, kind: ModuleType) -> int | None:
        """None once every lane came to its end, else an exit code."""
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
        failed = _failure(lanes)
        if failed is not None:
            return self.fail(failed)
        self._is_whole = all(outcome.ended == "done" for outcome in lanes.results)
        if any(outcome.ended == "left" for outcome in lanes.results):
            self._directives.refresh(_REPORT_TIMEOUT_S)
            return self._turn() or EXIT_DONE
        self._enter("drained")
        failpoints.hit("driver.drained")
        return None

    def _await_end(self, context: Any, kind: ModuleType) -> int:
        """Everything is copied: verify once when told, and stay until told to leave."""
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
                self._enter("verified", verification=verification.results[0])
                failpoints.hit("driver.verified")

    def _verify(self, kind: ModuleType, context: Any) -> VerificationReport:
        report: VerificationReport = kind.run_verification(context, self._spec, is_whole=self._is_whole)
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
        if time.monotonic() - received.at_s > SILENCE_MAX_S:
            _log.error("no directive came for %.0f s", SILENCE_MAX_S)
            return EXIT_FORGOTTEN
        return None

    def _enter(self, phase: str, **more: Any) -> None:
        self._report = replace(self._report, phase=phase, **more)
        _log.info("phase %s", phase)
        self._progress.nudge()


class Background:
    """Spark jobs in threads, one job group, so that the driver keeps watching while they run."""

    def __init__(self, context: Any, group: str) -> None:
        self._context = context
        self._group = group
        self._threads: list[threading.Thread] = []
        self.results: list[Any] = []
        self.raised: list[Exception] = []

    @property
    def is_running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

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
        if isinstance(result, Outcome) and result.ended == "failed":
            return JobError(result.error_code, result.error_message)
    for error in jobs.raised:
        if isinstance(error, JobError):
            return error
        text = str(error)
        return errors.from_text(text) or JobError("internal", f"A Spark job failed: {text[:1000]}")
    return None
