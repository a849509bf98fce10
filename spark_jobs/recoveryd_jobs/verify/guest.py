"""Makes a task of the proof behave next to live traffic like a lane: it keeps to its rate, pauses, stops and leaves as
directives say, and reports progress.

It reads both sides and the receipts under the `client.id` of the copy, so that one broker quota limits their sum, and
takes its share of the directive's rates: an equal one until the daemon has heard of all tasks that read at the same
time.
"""

import time
from dataclasses import replace

from recoveryd_jobs.clients import lane_client_id
from recoveryd_jobs.contract import Directive, JobSpec, LaneHeartbeat, copy_client_id
from recoveryd_jobs.directives import Directives, Received
from recoveryd_jobs.errors import Superseded
from recoveryd_jobs.pacing import Lease, Pacer, RateMeter, Standstill
from recoveryd_jobs.progress import ProgressSender

WORD_WAIT_S = 120.0
_WAIT_S = 0.1
_REST_S = 0.5
_FIRST_GUESS_BYTES = 1024.0
SLICE_RECORDS = 4_000


class Stopped(Exception):  # noqa: N818  (not an error: a directive said so)
    """A directive ended the proof before it had a verdict."""


class Guest:
    """One task of the proof, with the number `task`; those from `first` up to `tasks` read at the same time. Reports
    from `begin` to `close`.
    """

    def __init__(self, spec: JobSpec, task: int, tasks: int, offsets: int, first: int = 0) -> None:
        client_id = lane_client_id(spec.recovery, task)
        self.client_id = copy_client_id(spec.scope, spec.recovery)
        self._spec, self._task, self._beside, self._offsets_to_verify = spec, task, range(first, tasks), offsets
        self._state, self._why = "starting", ""
        self._records = self._bytes = self._offsets = self._steps = self._aside_bytes = 0
        now_s = time.monotonic()
        self._meter, self._pacer, self._standstill = RateMeter(), Pacer(now_s), Standstill()
        self._directives = Directives(spec, f"{client_id}.directives")
        self._received: Received | None = None
        self._lease = self._take_lease(spec.directive, now_s)
        self._progress = ProgressSender(spec.control, f"{client_id}.progress", task, self._heartbeat)

    def begin(self) -> None:
        """Raises Superseded or Stopped when a directive says not to begin, JobError without word of what is wanted."""
        self._progress.start()
        self.wait_for("waits for word of what is wanted")
        self._directives.await_word(time.monotonic() + WORD_WAIT_S, self._obey)
        self.wait_for("")
        self.turn()

    def close(self) -> None:
        """Call it also after an error: the driver reports that once all tasks have ended, and until then only who is
        done may be silent.
        """
        self._feel("done")
        self._progress.close()
        self._directives.close()

    def turn(self) -> int:
        """How many records may be read now, at least 1. Waits while it is paused, has no lease, or is ahead of its
        rate. Raises Superseded or Stopped.
        """
        while True:
            received = self._obey()
            now_s = time.monotonic()
            rates = self._lease.rates(now_s, self._meter.per_s()[1])
            if received.directive.wanted == "pause" or rates.leaseless:
                self._feel("paused" if received.directive.wanted == "pause" else "leaseless")
                self._directives.wait(received, _REST_S)
                continue
            self._feel("verifying")
            self._pacer.set_rates(rates, now_s)
            wait_s = self._pacer.wait_s(now_s)
            if wait_s <= 0:
                each = self._bytes / self._records if self._records else _FIRST_GUESS_BYTES
                return min(SLICE_RECORDS, self._pacer.slice_records(each) or SLICE_RECORDS)
            self._standstill.note(wait_s, now_s)
            self._directives.wait(received, min(wait_s, _WAIT_S))

    def took(self, records: int, size: int, offsets: int) -> None:
        """Count what was read on either side; `offsets` were passed, with or without a record."""
        self._records += records
        self._bytes += size
        self._offsets += offsets
        self._pacer.took(records, size, time.monotonic())

    def took_aside(self, size: int) -> None:
        """Count bytes that have to be read and are on neither side. They count for the rate, and as a step of work."""
        self._aside_bytes += size
        self._steps += 1
        self._pacer.took(0, size, time.monotonic())

    def step(self) -> None:
        """Obey between two steps of work that reads nothing, and report that it goes on. Raises as `turn` does."""
        self.turn()
        self._steps += 1

    def wait_for(self, why: str) -> None:
        """Report what else the task waits for."""
        self._why = why

    def done(self) -> None:
        self._offsets = self._offsets_to_verify
        self._feel("done")

    def _obey(self) -> Received:
        received = self._directives.current()
        if time.monotonic() - received.at_s > self._spec.orphan_after_ms / 1000.0:
            # No daemon leads this recovery any more, and on a Spark cluster the driver may be gone as well.
            raise Superseded
        if received is not self._received:
            if received.directive.attempt > self._spec.attempt or received.directive.wanted == "exit":
                raise Superseded
            self._received = received
            self._lease = self._take_lease(received.directive, received.at_s)
            if received.directive.wanted == "stop":
                self._feel("done")
                raise Stopped
            self._progress.nudge()
        return received

    def _take_lease(self, directive: Directive, at_s: float) -> Lease:
        """Shares are those of tasks only once lanes are done, and add up only where each of these tasks has one."""
        is_shared = directive.wanted == "verify" and all(task in directive.shares for task in self._beside)
        shares = directive.shares if is_shared else {}
        return Lease(replace(directive, shares=shares), self._task, len(self._beside), at_s)

    def _feel(self, state: str) -> None:
        if state != self._state:
            self._state = state
            self._progress.nudge()

    def _heartbeat(self) -> LaneHeartbeat:
        now_s = time.monotonic()
        self._meter.add(self._records, self._bytes + self._aside_bytes, now_s)
        records_per_s, bytes_per_s = self._meter.per_s()
        received = self._received
        return LaneHeartbeat(
            recovery=self._spec.recovery,
            attempt=self._spec.attempt,
            lane=self._task,
            directive_sequence=received.directive.sequence if received is not None else 0,
            state=self._state,
            chunk_open=False,
            records_per_s=round(records_per_s, 1),
            bytes_per_s=round(bytes_per_s, 1),
            positions=(),
            why=self._why,
            phase="verify",
            verified_records=self._records,
            verified_bytes=self._bytes,
            verified_offsets=min(self._offsets, self._offsets_to_verify),
            offsets_to_verify=self._offsets_to_verify,
            verified_steps=self._steps,
            throttled=self._standstill.is_held_back(now_s),
        )
