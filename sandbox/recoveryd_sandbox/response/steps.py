"""Runs the steps of a measurement on a stack whose traffic flows. What was seen is folded by `folding`.

Each step is a recovery of its own at a fixed rate, stopped when its time is over; it copies from a topic that is large
enough for the longest step, to a topic that is deleted after it.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from recoveryd.simulation.response import ResponseStep
from recoveryd_sandbox.control import ENDED
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.flights import FLIGHTS_TOTAL
from recoveryd_sandbox.gameday.judge import within
from recoveryd_sandbox.gameday.scenario import PARTITIONS
from recoveryd_sandbox.gameday.stack import GamedayStack
from recoveryd_sandbox.process import process_cpu_s
from recoveryd_sandbox.response.folding import Copied, Window, fold, rate, steady
from recoveryd_sandbox.response.scenario import ResponseScenario
from recoveryd_sandbox.seed import seed
from recoveryd_sandbox.topics import Topics

BACKLOG = "flights.backlog"
_POLL_S = 0.5
_TRIES_MOST = 5
_START_DEADLINE_S = 300.0
_END_DEADLINE_S = 300.0
_COPY_DEADLINE_S = 1_800.0


class _OverTooSoon(Exception):  # noqa: N818  (named for what happened)
    """The replay ended before its step."""


class Steps:
    """One object per measurement."""

    def __init__(self, stack: GamedayStack, scenario: ResponseScenario, say: Callable[[str], None]) -> None:
        self._stack, self._scenario, self._say = stack, scenario, say
        self._unlimited = 0.0

    def fill(self, records: int) -> None:
        """Bring the backlog to so many records at least, and rest if something was written."""
        missing = records - self._backlog()
        while missing > 0:
            part = min(missing, FLIGHTS_TOTAL)
            seed(self._stack.broker.bootstrap, BACKLOG, PARTITIONS, limit=part, append=True)
            missing -= part
            self._stack.check()
            if missing <= 0:
                self._wait_s(self._scenario.rest / 1000)

    def unlimited(self) -> tuple[float, float]:
        """Bytes and records per second of a replay that nothing limits; of a larger backlog if it was over too soon."""
        for number in range(_TRIES_MOST):
            if number:
                self._double("the unlimited replay was over before its rate could be measured")
            found = self._steady(f"response-unlimited-{number}")
            if len(found) >= 2:
                self._unlimited = rate(found, lambda look: look.bytes)
                return self._unlimited, rate(found, lambda look: look.records)
        raise SandboxError(
            f"the unlimited replay was over too soon {_TRIES_MOST} times",
            f"Give it more backlog_records than {self._backlog():,}.",
        )

    def _steady(self, name: str) -> Sequence[Copied]:
        """Copy the whole backlog, and look at what is copied until it ended."""
        self._begin(name, {"mode": "unlimited"})
        copied, give_up_s = [self._copied(name)[0]], time.monotonic() + _COPY_DEADLINE_S
        state = ""
        while state not in ENDED:
            if time.monotonic() > give_up_s:
                raise SandboxError(f"{name} did not end within {_COPY_DEADLINE_S:.0f} s", "Take a smaller backlog.")
            self._wait_s(_POLL_S)
            look, state = self._copied(name)
            copied.append(look)
        if state != "completed":
            raise SandboxError(f"{name} ended {state}", f"the daemon's log is in {self._stack.folder}")
        self._delete(name)
        return steady(copied)

    def step(self, order: int, repeat: int, share: float) -> ResponseStep:
        """Hold one share of the unlimited rate, and measure; again with a larger backlog if it was too small."""
        for number in range(_TRIES_MOST):
            if number:
                self._double("the backlog was over before the step")
            name = f"response-{order}-{number}"
            try:
                return self._measured(name, order, repeat, share)
            except _OverTooSoon:
                self._delete(name)
        raise SandboxError(
            f"step {order} ({share:.0%}) was over too soon {_TRIES_MOST} times",
            f"Give it more backlog_records than {self._backlog():,}, or fewer seconds.",
        )

    def _double(self, why: str) -> None:
        """For the next try: to fill it takes long, and room on the disk."""
        records = 2 * self._backlog()
        self._say(f"  {why}; the backlog is filled to {records:,} records")
        self.fill(records)

    def _backlog(self) -> int:
        return sum(Topics(self._stack.broker.bootstrap).end_offsets(BACKLOG))

    def _measured(self, name: str, order: int, repeat: int, share: float) -> ResponseStep:
        if share:
            self._begin(name, self._limits(share))
        self._wait_s(self._scenario.warm_up / 1000)
        start_s, before_s = time.time(), process_cpu_s(self._stack.broker.pid)
        copied = []
        while (left_s := start_s + self._scenario.seconds - time.time()) > 0:
            if share:
                look, state = self._copied(name)
                copied.append(look)
                if state in ENDED:
                    raise _OverTooSoon
            self._wait_s(min(_POLL_S, left_s))
        stop_s, cpu_s = time.time(), process_cpu_s(self._stack.broker.pid) - before_s
        if share:
            self._end(name)
        self._wait_s(self._scenario.rest / 1000)
        self._stack.await_observer(stop_s)
        seconds = within(self._stack.seconds, start_s, stop_s)
        live = [second for second in tuple(self._stack.live) if start_s <= second.at_s < stop_s]
        window = Window(order, repeat, share, start_s, stop_s, cpu_s, copied)
        return fold(window, seconds, live, self._scenario.seen_least)

    def _limits(self, share: float) -> dict[str, Any]:
        if share == 1:
            return {"mode": "unlimited"}
        return {"mode": "fixed", "max_bytes_per_s": max(1, int(share * self._unlimited))}

    def _begin(self, name: str, limits: dict[str, Any]) -> None:
        """Returns when something was copied."""
        data = {
            "source": {"topic": BACKLOG, "from": "earliest", "to": "latest"},
            "target": self._stack.target(name, self._scenario.target_compression),
            "verify": "none",
            "limits": {**limits, "override_live_slo": True},
        }
        self._stack.command("replay", name, data)
        self._await(name, lambda look, state: look.bytes > 0 or state in ENDED, "copy anything", _START_DEADLINE_S)

    def _end(self, name: str) -> None:
        self._stack.command("stop", name, {})
        self._await(name, lambda _look, state: state in ENDED, "stop", _END_DEADLINE_S)
        self._delete(name)

    def _delete(self, name: str) -> None:
        Topics(self._stack.broker.bootstrap).delete(name)

    def _await(self, name: str, done: Callable[[Copied, str], bool], what: str, deadline_s: float) -> None:
        give_up_s = time.monotonic() + deadline_s
        while not done(*self._copied(name)):
            if time.monotonic() > give_up_s:
                raise SandboxError(
                    f"{name} did not {what} within {deadline_s:.0f} s", f"the daemon's log is in {self._stack.folder}"
                )
            self._wait_s(_POLL_S)

    def _copied(self, name: str) -> tuple[Copied, str]:
        """What was copied by now, and the state; nothing, and none, while the daemon does not know the recovery."""
        status = self._stack.daemon.status(name)
        if status is None:
            return Copied(time.time(), 0.0, 0.0), ""
        progress = status.get("progress") or {}
        state: str = status["state"]
        if state in ENDED - {"completed", "stopped"}:
            raise SandboxError(f"{name} ended {state}: {status.get('why')}", "")
        return Copied(time.time(), progress.get("bytes") or 0.0, progress.get("records") or 0.0), state

    def _wait_s(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))
        self._stack.check()
