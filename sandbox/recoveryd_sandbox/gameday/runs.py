"""The runs of a game day: stretches without a replay, and the same recovery again and again. They record what happened
when; `judge` says what it means.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from recoveryd_sandbox.control import ENDED
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.gameday.judge import Second, is_violated, within
from recoveryd_sandbox.gameday.scenario import TOPIC, Scenario
from recoveryd_sandbox.gameday.stack import GamedayStack, SlowBroker
from recoveryd_sandbox.topics import Topics

QUIET, UNLIMITED, FIXED, CONTROLLER = "no replay", "unlimited", "best fixed", "controller"
CUT, DEATH = "telemetry cut", "daemon killed"
_POLL_S = 0.5
_LANDED_S = 2.0
_REPORT_S = 5.0
_CALM_S = 5
_CALM_DEADLINE_S = 120.0
_START_DEADLINE_S = 120.0
_SETTLE_S = 8.0  # after a slow broker

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
    """One stretch of time; `name` says what kind of run it is, `fixed` its rate if it had one. `slow`, `cut` and
    `dead`: when the broker was slow, telemetry was cut, and no daemon ran. `landed`: (wall-clock time, records in the
    target) while no daemon ran. `is_given_up`: it was stopped, since it did too much harm already.
    """

    name: str
    start_s: float
    fixed: int | None = None
    stop_s: float = 0.0
    slow: Span | None = None
    cut: Span | None = None
    dead: Span | None = None
    landed: list[tuple[float, int]] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    seconds: list[Second] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    is_given_up: bool = False

    @property
    def lasted_s(self) -> float:
        return self.stop_s - self.start_s

    @property
    def copying_s(self) -> float:
        """Without the start of the application and the proof: from the first record seen to the last."""
        grown = [poll.at_s for before, poll in pairwise(self.polls) if poll.copied > before.copied]
        return grown[-1] - grown[0] if len(grown) > 1 and grown[-1] > grown[0] else self.lasted_s

    @property
    def proof_from_s(self) -> float | None:
        """When the proof was first seen to run; None where it never was."""
        return next((poll.at_s for poll in self.polls if poll.state == "verifying"), None)

    @property
    def proving_s(self) -> float:
        return 0.0 if self.proof_from_s is None else self.stop_s - self.proof_from_s

    @property
    def copied_bytes(self) -> float:
        return float((self.status.get("progress") or {}).get("bytes", 0))


class Runs:
    """Runs the phases on a stack whose traffic is flowing."""

    def __init__(self, stack: GamedayStack, scenario: Scenario, say: Say) -> None:
        self._stack, self._scenario, self._say = stack, scenario, say
        self._ends: list[int] = []
        self._number = 0

    def without_replay(self, seconds: float) -> Phase:
        """A stretch of so many seconds without a replay, in which the broker is slowed as in each run."""
        phase = Phase(QUIET, time.time())
        slow = self._slow() if self._scenario.slow_broker is not None else None
        if slow is not None:
            slow.join()
            phase.slow = slow.span
            self._wait_s(_SETTLE_S)
        self._wait_s(max(0.0, phase.start_s + seconds - time.time()))
        return self._closed(phase)

    def settle(self) -> None:
        """Wait until live traffic has been well for a few seconds, and at least `idle`, in which the daemon measures
        its baseline.
        """
        self._wait_s(self._scenario.idle / 1000)
        give_up_s, slos = time.monotonic() + _CALM_DEADLINE_S, self._scenario.slos
        while time.monotonic() < give_up_s:
            newest = self._stack.seconds[-_CALM_S:]
            if len(newest) == _CALM_S and not any(is_violated(s, slos) for s in newest):
                return
            self._wait_s(1.0)
        raise SandboxError(
            f"live traffic did not become calm within {_CALM_DEADLINE_S:.0f} s: p99 below {slos.p99_s * 1000:.0f} ms and lag "
            f"below {slos.lag_s:.1f} s for {_CALM_S} s",
            "Is the machine busy with something else? If not, the SLOs of the scenario are below what it can do.",
        )

    def pin_backlog(self) -> None:
        """All runs copy what the topic holds now."""
        self._ends = Topics(self._stack.broker.bootstrap).end_offsets(TOPIC)

    def run(self, kind: str, fixed: int | None = None, bad_most_s: float = math.inf) -> Phase:
        """One run of the recovery, from the command to its end, with verification; it is given up after more than so
        many bad seconds. Raises `SandboxError` when it does not complete otherwise.
        """
        self._number += 1
        recovery = f"gameday-{self._number}"
        stop = {str(number): end for number, end in enumerate(self._ends)}
        phase = Phase(kind, time.time(), fixed)
        data = {
            "source": {"topic": TOPIC, "from": "earliest", "to": {"offsets": stop}},
            "target": self._stack.target(f"flights.{recovery}", self._scenario.target_compression),
            "verify": self._scenario.verify,
            "limits": {"override_live_slo": True, **_limits(kind, fixed)},
        }
        self._stack.command("replay", recovery, data)
        slow = self._follow(phase, recovery, bad_most_s)
        if slow is not None:
            slow.join()
        wanted = {"completed", "stopped"} if phase.is_given_up else {"completed"}
        if phase.status.get("state") not in wanted:
            raise SandboxError(f"{recovery} ended {phase.status.get('state')}: {phase.status.get('why')}", "")
        Topics(self._stack.broker.bootstrap).delete(f"flights.{recovery}")
        return self._closed(phase)

    def _follow(self, phase: Phase, recovery: str, bad_most_s: float) -> SlowBroker | None:
        """Poll to the end, disturb the run when its time has come, and stop one that has had too many bad seconds."""
        total, slow, told_s = sum(self._ends), None, 0.0
        give_up_s = phase.start_s + self._scenario.run_deadline / 1000
        while time.time() < give_up_s:
            poll = self._poll(phase, recovery)
            if poll is not None:
                share = poll.copied / total
                slow = self._disturb(phase, share) or slow
                if poll.at_s - told_s >= _REPORT_S:
                    told_s = poll.at_s
                    self._say(_line(poll, share))
                if poll.state in ENDED:
                    phase.stop_s = time.time()
                    break
            if phase.cut is not None and time.time() >= phase.cut[1]:
                self._stack.mute.unlink(missing_ok=True)
            if phase.dead is not None and phase.dead[1] == math.inf:
                self._without_a_daemon(phase, phase.dead[0], f"flights.{recovery}")
            if not phase.is_given_up and self._bad_s(phase) > bad_most_s:
                phase.is_given_up = True
                self._stack.command("stop", recovery, {})
                self._say(f"  over {bad_most_s:.0f} bad seconds, more than a whole run at this rate may have: stopped")
            self._wait_s(_POLL_S)
        self._stack.mute.unlink(missing_ok=True)
        return slow

    def _disturb(self, phase: Phase, share: float) -> SlowBroker | None:
        """Cut telemetry, kill the daemon and slow the broker once the copy has reached their shares. The slow broker,
        if it begins to be slow now.
        """
        slowing = self._scenario.slow_broker
        cutting = self._scenario.cut if phase.name == CUT else None
        killing = self._scenario.death if phase.name == DEATH else None
        if cutting is not None and phase.cut is None and share >= cutting.at:
            phase.cut = (time.time(), time.time() + cutting.lasts / 1000)
            self._stack.mute.touch()
            self._say(f"  telemetry of the live application is cut for {cutting.lasts / 1000:.0f} s")
        if killing is not None and phase.dead is None and share >= killing.at:
            phase.dead = (time.time(), math.inf)
            self._stack.daemon.kill()
            self._say(f"  the daemon is killed, and started again in {killing.lasts / 1000:.0f} s")
        if slowing is None or phase.slow is not None or share < slowing.at:
            return None
        slow = self._slow()
        phase.slow = slow.span
        return slow

    def _without_a_daemon(self, phase: Phase, since_s: float, target: str) -> None:
        """See what lands in the target, and start the daemon again when it is time."""
        assert self._scenario.death is not None
        if not phase.landed or time.time() - phase.landed[-1][0] >= _LANDED_S:
            landed = sum(Topics(self._stack.broker.bootstrap).end_offsets(target))
            phase.landed.append((time.time(), landed))
        if time.time() >= since_s + self._scenario.death.lasts / 1000:
            phase.dead = (since_s, time.time())
            self._stack.start_daemon_again()

    def _bad_s(self, phase: Phase) -> int:
        since = within(self._stack.seconds, phase.start_s, math.inf)
        return sum(is_violated(second, self._scenario.slos) for second in since)

    def _poll(self, phase: Phase, recovery: str) -> Poll | None:
        status = self._stack.daemon.status(recovery)
        if status is None:
            if not phase.polls and time.time() - phase.start_s > _START_DEADLINE_S:
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
        how = self._scenario.slow_broker
        assert how is not None
        slow = SlowBroker(self._stack.broker, how.stop / 1000, how.cycle / 1000, how.lasts / 1000)
        slow.start()
        self._say(f"  the broker stands still for {how.stop} of every {how.cycle} ms, for {how.lasts / 1000:.0f} s")
        return slow

    def _closed(self, phase: Phase) -> Phase:
        """The phase with what the observer saw in it, once the observer has reported all of it."""
        phase.stop_s = phase.stop_s or time.time()
        self._stack.await_observer(phase.stop_s)
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


def _limits(kind: str, fixed: int | None) -> dict[str, Any]:
    if fixed is not None:
        return {"mode": "fixed", "max_bytes_per_s": fixed}
    return {"mode": "unlimited" if kind == UNLIMITED else "controller"}


def _line(poll: Poll, share: float) -> str:
    limit = "no limit" if poll.granted is None else f"granted {poll.granted / 1e6:.1f} MB/s"
    return f"  {poll.state:<9} {share:4.0%}  {poll.bytes_per_s / 1e6:5.1f} MB/s  {limit}  {poll.rule}".rstrip()
