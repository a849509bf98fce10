"""The phases of a game day: first without a replay, then the same recovery three times. It records what happened when;
`judge` says what it means.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from recoveryd_sandbox.control import ENDED
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.gameday.judge import Second, is_violated, within
from recoveryd_sandbox.gameday.scenario import TOPIC, Scenario, Slos, calibrated
from recoveryd_sandbox.gameday.stack import GamedayStack, SlowBroker
from recoveryd_sandbox.topics import Topics

MODES = ("unlimited", "fixed", "controller")
_POLL_S = 0.5
_REPORT_S = 5.0
_CALM_S = 5
_CALM_DEADLINE_S = 90.0
_OBSERVER_LATE_S = 4.0
_START_DEADLINE_S = 60.0

Say = Callable[[str], None]
Span = tuple[float, float]


@dataclass(frozen=True)
class Poll:
    """What the daemon reported about the run; wall-clock times, bytes/s. `granted` None = no limit."""

    at_s: float
    state: str
    copied: int
    bytes_per_s: float
    granted: float | None
    rule: str


@dataclass
class Phase:
    """One stretch of time. `slow` and `cut`: when the broker was slow, and when telemetry was cut."""

    name: str
    start_s: float
    stop_s: float = 0.0
    slow: Span | None = None
    cut: Span | None = None
    polls: list[Poll] = field(default_factory=list)
    seconds: list[Second] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def lasted_s(self) -> float:
        return self.stop_s - self.start_s

    @property
    def copied_bytes(self) -> float:
        return float((self.status.get("progress") or {}).get("bytes", 0))


class Runs:
    """Runs the phases on a stack whose traffic is flowing."""

    def __init__(self, stack: GamedayStack, scenario: Scenario, say: Say) -> None:
        self._stack, self._scenario, self._say = stack, scenario, say
        self._ends: list[int] = []

    def without_replay(self) -> Phase:
        """A quiet stretch, then the broker slowed just as in each run."""
        phase = Phase("no replay", time.time())
        self._wait_s(self._scenario.baseline_s)
        slow = self._slow()
        slow.join()
        phase.slow = slow.span
        self._wait_s(self._scenario.settle_s)
        return self._closed(phase)

    def slos(self, quiet: Phase) -> Slos:
        """SLOs from the quiet stretch: its p99 without the worst tenth of seconds, and its longest lag."""
        assert quiet.slow is not None
        calm = within(quiet.seconds, quiet.start_s, quiet.slow[0])
        p99s = sorted(s.p99_s for s in calm if s.p99_s is not None)
        lags = [s.lag_s for s in calm if s.lag_s is not None]
        if len(p99s) < len(calm) / 2 or not lags:
            raise SandboxError(
                "the observer saw too little to calibrate the SLOs", f"its errors are in {self._stack.folder}"
            )
        return calibrated(self._scenario, p99s[int(0.9 * (len(p99s) - 1))], max(lags))

    def settle(self, slos: Slos) -> None:
        """Wait until live traffic has been well for a few seconds, and at least `idle_s`, in which the daemon measures
        its baseline.
        """
        self._wait_s(self._scenario.idle_s)
        give_up_s = time.monotonic() + _CALM_DEADLINE_S
        while time.monotonic() < give_up_s:
            newest = self._stack.seconds[-_CALM_S:]
            if len(newest) == _CALM_S and not any(is_violated(s, slos) for s in newest):
                return
            self._wait_s(1.0)
        raise SandboxError("live traffic did not become calm again", "Is the machine busy with something else?")

    def pin_backlog(self) -> None:
        """All runs copy what the topic holds now."""
        self._ends = Topics(self._stack.broker.bootstrap).end_offsets(TOPIC)

    def run(self, mode: str, limits: dict[str, Any]) -> Phase:
        """One run of the recovery, from the command to its end. Raises `SandboxError` when it does not complete."""
        recovery = f"gameday-{mode}"
        stop = {str(number): end for number, end in enumerate(self._ends)}
        phase = Phase(mode, time.time())
        data = {
            "source": {"topic": TOPIC, "from": "earliest", "to": {"offsets": stop}},
            "target": {"topic": f"flights.{mode}", "create": True},
            "verify": "none",
            "limits": {"mode": mode, **limits},
        }
        self._stack.command("replay", recovery, data)
        slow = self._follow(phase, recovery)
        if slow is not None:
            slow.join()
        if phase.status.get("state") != "completed":
            raise SandboxError(f"{recovery} ended {phase.status.get('state')}: {phase.status.get('why')}", "")
        return self._closed(phase)

    def _follow(self, phase: Phase, recovery: str) -> SlowBroker | None:
        """Poll to the end; slow the broker and cut telemetry when the copy has reached their shares."""
        faults = self._scenario.faults
        total, slow, told_s = sum(self._ends), None, 0.0
        give_up_s = phase.start_s + self._scenario.run_deadline_s
        while time.time() < give_up_s:
            poll = self._poll(phase, recovery)
            if poll is not None:
                share = poll.copied / total
                if slow is None and share >= faults.slow_at:
                    slow = self._slow()
                    phase.slow = slow.span
                if phase.name == "controller" and phase.cut is None and share >= faults.cut_at:
                    phase.cut = (poll.at_s, poll.at_s + faults.cut_s)
                    self._stack.mute.touch()
                    self._say(f"  telemetry of the live application is cut for {faults.cut_s:.0f} s")
                if poll.at_s - told_s >= _REPORT_S:
                    told_s = poll.at_s
                    self._say(_line(poll, share))
                if poll.state in ENDED:
                    phase.stop_s = time.time()
                    break
            if phase.cut is not None and time.time() >= phase.cut[1]:
                self._stack.mute.unlink(missing_ok=True)
            self._wait_s(_POLL_S)
        self._stack.mute.unlink(missing_ok=True)
        return slow

    def _poll(self, phase: Phase, recovery: str) -> Poll | None:
        status = self._stack.daemon.status(recovery)
        if status is None:
            if time.time() - phase.start_s > _START_DEADLINE_S:
                raise SandboxError(f"the daemon does not know {recovery}", f"its log is in {self._stack.folder}")
            return None
        phase.status = status
        progress, limits = status.get("progress") or {}, status.get("limits") or {}
        poll = Poll(
            time.time(), status["state"], progress.get("records") or 0, progress.get("bytes_per_s") or 0.0,
            limits.get("effective_bytes_per_s"), limits.get("rule") or "",
        )  # fmt: skip
        phase.polls.append(poll)
        return poll

    def _slow(self) -> SlowBroker:
        faults = self._scenario.faults
        slow = SlowBroker(self._stack.broker, faults.stop_s, faults.cycle_s, faults.slow_s)
        slow.start()
        self._say(
            f"  the broker stands still for {faults.stop_s * 1000:.0f} of every {faults.cycle_s * 1000:.0f} ms, for "
            f"{faults.slow_s:.0f} s"
        )
        return slow

    def _closed(self, phase: Phase) -> Phase:
        """The phase with what the observer saw in it, once the observer has reported all of it."""
        phase.stop_s = phase.stop_s or time.time()
        self._wait_s(_OBSERVER_LATE_S)
        phase.seconds = within(self._stack.seconds, phase.start_s, phase.stop_s)
        missing = phase.lasted_s - len(phase.seconds)
        if missing > max(3.0, 0.02 * phase.lasted_s):
            raise SandboxError(
                f"the observer missed {missing:.0f} s of {phase.name}", f"its errors are in {self._stack.folder}"
            )
        return phase

    def _wait_s(self, seconds: float) -> None:
        time.sleep(seconds)
        self._stack.check()


def _line(poll: Poll, share: float) -> str:
    limit = "no limit" if poll.granted is None else f"granted {poll.granted / 1e6:.1f} MB/s"
    return f"  {poll.state:<9} {share:4.0%}  {poll.bytes_per_s / 1e6:5.1f} MB/s  {limit}  {poll.rule}".rstrip()
