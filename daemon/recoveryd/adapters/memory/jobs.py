"""Spark applications over memory: a driver and its lanes that live in virtual time.

`work` is one second of every application. They read directives and write heartbeats through the topics, as the real
ones do; a killed one says nothing more, and its exit is told.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from recoveryd.adapters.memory.kafka import MemoryBroker, MemoryFenced, MemoryRecord
from recoveryd.adapters.memory.lanes import MemoryLane
from recoveryd.adapters.memory.verification import verify
from recoveryd.errors import LaunchError
from recoveryd.ports import Emit
from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.events import AttemptExited
from recoveryd_jobs.contract import (
    ContractError,
    Directive,
    DriverHeartbeat,
    JobSpec,
    LaneHeartbeat,
    decode,
    encode,
    progress_key,
)

EXIT_DONE, EXIT_FAILED, EXIT_SUPERSEDED, EXIT_TERMINATED = 0, 1, 3, 143


class MemoryJobs:
    """`records_per_s` is what a whole application copies when nothing limits it. Rates of directives are not simulated,
    shares are.
    """

    def __init__(
        self,
        brokers: Mapping[str, MemoryBroker],
        make_job: Callable[[LaunchAttempt], JobSpec],
        emit: Emit,
        now_ms: Callable[[], int],
        records_per_s: int = 1_000,
    ) -> None:
        self._brokers = brokers
        self._make_job = make_job
        self._emit = emit
        self._now_ms = now_ms
        self._records_per_s = records_per_s
        self._launched: set[tuple[str, int]] = set()
        self._running: dict[tuple[str, int], _Application] = {}

    async def start(self) -> None:
        """Nothing to prepare: there are no spare drivers."""

    async def forget(self, recoveries: Collection[str]) -> None:
        """Nothing is left on a disk."""
        self._launched = {key for key in self._launched if key[0] not in recoveries}

    async def launch(self, effect: LaunchAttempt) -> None:
        key = (effect.recovery, effect.attempt)
        if key in self._launched:
            return
        try:
            spec = self._make_job(effect)
        except KeyError as error:
            raise LaunchError(f"The config has no cluster named {error}.", retriable=False) from error
        self._launched.add(key)
        self._running[key] = _Application(spec, self._brokers)

    async def kill(self, recovery: str, attempt: int) -> None:
        if self._running.pop((recovery, attempt), None) is not None:
            self._emit(AttemptExited(recovery, attempt, EXIT_TERMINATED, "killed"))

    async def kill_all(self) -> None:
        for key in list(self._running):
            await self.kill(*key)

    async def close(self) -> None:
        """Applications run on; nobody hears of their exits any more."""

    def work(self) -> None:
        """A second passes for every application. A manual clock calls it."""
        for key, application in list(self._running.items()):
            code = application.work(self._now_ms(), self._records_per_s)
            if code is not None:
                del self._running[key]
                self._emit(AttemptExited(*key, code, ""))


class _Application:
    """A driver's phases: starting, lanes, drained, verified; it leaves when told, fenced, or superseded."""

    def __init__(self, spec: JobSpec, brokers: Mapping[str, MemoryBroker]) -> None:
        self._spec = spec
        self._main = brokers["main"]
        self._source = brokers[spec.source.cluster]
        self._target = brokers[spec.target.cluster]
        self._lanes: list[MemoryLane] = []
        self._report = DriverHeartbeat(spec.recovery, spec.attempt, "")  # no phase yet: nothing was said

    def work(self, now_ms: int, records_per_s: int) -> int | None:
        """An exit code once it ended."""
        directive = self._directive()
        if directive.attempt > self._spec.attempt:
            return EXIT_SUPERSEDED
        try:
            phase = self._step(directive, now_ms, records_per_s)
        except MemoryFenced:
            self._tell("failed", directive, now_ms, error_code="fenced", error_message="Another holds the lane.")
            return EXIT_FAILED
        self._tell(phase, directive, now_ms)
        return EXIT_DONE if phase == "exiting" else None

    def _step(self, directive: Directive, now_ms: int, records_per_s: int) -> str:
        if directive.wanted == "exit":
            return "exiting"
        if not self._report.phase:
            return "starting"
        if self._spec.kind == "verification":
            return "verified" if directive.wanted == "verify" else "verifying"
        if self._report.phase == "starting":
            self._lanes = [MemoryLane(self._spec, lane, self._source, self._target) for lane in self._spec.lanes]
            return "lanes"
        for lane in self._lanes:
            if not lane.is_ended:
                heartbeat = lane.work(directive, now_ms, records_per_s)
                self._say(progress_key(self._spec.recovery, heartbeat.lane), heartbeat, now_ms)
        if not all(lane.is_ended for lane in self._lanes):
            return "lanes"
        return "verified" if directive.wanted == "verify" else "drained"

    def _tell(self, phase: str, directive: Directive, now_ms: int, **more: str) -> None:
        report = replace(self._report, phase=phase, directive_sequence=directive.sequence, sent_ms=now_ms)
        if phase == "verified":
            report = replace(report, verification=verify(self._spec, self._source, self._target))
        self._report = replace(report, **more)  # type: ignore[arg-type]
        self._say(progress_key(self._spec.recovery, None), self._report, now_ms)

    def _say(self, key: str, record: DriverHeartbeat | LaneHeartbeat, now_ms: int) -> None:
        self._main.append(self._spec.control.progress_topic, [MemoryRecord(key.encode(), encode(record), now_ms)])

    def _directive(self) -> Directive:
        """The newest for this recovery on the topic, else the one of the spec."""
        log = self._main.topic(self._spec.control.directives_topic).log(0)
        for record in reversed(log.read(log.start)):
            if record.key == self._spec.recovery.encode() and record.value is not None:
                try:
                    return decode(Directive, record.value)
                except ContractError:
                    continue
        return self._spec.directive
