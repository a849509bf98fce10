"""One replay under test: slow at first, so that it can be disturbed, then without a limit, and judged. Shared by the
fault tests.
"""

import contextlib
import itertools
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.asking import await_progress, lane_progress
from tests.e2e.follower import Document
from tests.e2e.log_reader import whole_log
from tests.e2e.observer import TargetObserver
from tests.e2e.processes import Process, await_gone, kill, lane_workers, wait_for
from tests.e2e.stack import Stack, completed_ranges

# A machine that stands still for half a minute must not let a copy end before the test has disturbed it.
SLOW_RECORDS_PER_S = 150

NewCase = Callable[..., "Case"]
_numbers = itertools.count(1)


@dataclass
class Case:
    """One replay under test. `ranges` are pinned when it starts, from what the test sees in the source then."""

    stack: Stack
    recovery: str
    source: str
    target: str
    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
    observer: TargetObserver | None = None

    def start(self, *, records_per_s: float | None = SLOW_RECORDS_PER_S, **fields: Any) -> str:
        """Sends the command; the target is created unless `target_create` says otherwise. Returns the command's id."""
        self.ranges = self.ranges or whole_log(self.stack.bootstrap, self.source)
        fields.setdefault("target_create", True)
        if records_per_s is not None:
            fields["limits"] = {**fields.get("limits", {}), "max_records_per_s": records_per_s}
        return self.stack.control.replay(self.recovery, self.source, self.target, **fields)

    def copying(self, records: int = 100, deadline_s: float = 90.0) -> None:
        """Waits until lanes have reported this many records as durably copied."""
        await_progress(self.stack, self.recovery, records, deadline_s)

    def going_on(self, records: int = 500, deadline_s: float = 90.0) -> None:
        """Waits until lanes have reported this many records more than until now. At the usual rate that is more than
        they may have copied without a report, so some were copied after whatever the test did before.
        """
        [*_, (_, until_now)] = [(0.0, 0), *lane_progress(self.stack, self.recovery)]
        self.copying(until_now + records, deadline_s)

    def unthrottle(self) -> None:
        self.stack.control.command("throttle", self.recovery, {"limits": {"max_records_per_s": None}})

    def finish(self, deadline_s: float = 120.0, **more: Any) -> Document:
        """Removes the limit, waits for `completed`, and lets the checker judge everything."""
        self.unthrottle()
        return self.judge(deadline_s, **more)

    def judge(self, deadline_s: float = 120.0, **more: Any) -> Document:
        done = self.stack.completed(self.recovery, deadline_s)
        assert done["verification"]["result"] == "match", done["verification"]
        self.assert_sound(self.ranges, **more)
        return done

    def judge_what_was_covered(self, **more: Any) -> None:
        """Judges a recovery that ended early: the copy must be exact as far as its completeness says, and nothing may
        lie past that.
        """
        status = self.stack.follower.status(self.recovery)
        assert status is not None
        covered = completed_ranges(status)
        assert all(self.ranges[p][0] == start and stop <= self.ranges[p][1] for p, (start, stop) in covered.items())
        self.assert_sound(covered, **more)

    def assert_sound(self, ranges: Mapping[int, tuple[int, int]], **more: Any) -> None:
        if self.observer is not None:
            more["observed"] = self.observer.observed()
        found = self.stack.violations(self.recovery, self.source, self.target, ranges, **self.asked, **more)
        assert not found, "\n".join(map(str, found))

    def failed(self, deadline_s: float = 90.0) -> Document:
        return self.stack.follower.wait_state(self.recovery, "failed", deadline_s)

    def attempt(self) -> int:
        status = self.stack.follower.status(self.recovery)
        return int(status["attempt"]) if status else 0

    def kill_driver(self, attempt: int | None = None) -> None:
        """SIGKILL to the driver's Python process."""
        number = attempt or self.attempt()
        pid = self.stack.follower.driver_pid(self.recovery, number)
        [driver] = [p for p in self.stack.application(self.recovery, number) if p.pid == pid]
        kill(driver)

    def kill_application(self, attempt: int | None = None) -> None:
        """SIGKILL to JVM, driver and workers of the attempt; none of them is left when this returns. A lane outlives
        its driver for a moment, and would go on copying.
        """
        processes = self.stack.application(self.recovery, attempt or self.attempt())
        for process in processes:
            kill(process)
        await_gone(processes)

    def freeze(self, attempt: int | None = None) -> list[Process]:
        """SIGSTOP to JVM, driver and workers of the attempt; returns them for `thaw`."""
        processes = self.stack.application(self.recovery, attempt or self.attempt())
        for process in processes:
            kill(process, signal.SIGSTOP)
        return processes

    @staticmethod
    def thaw(processes: list[Process]) -> None:
        for process in processes:
            kill(process, signal.SIGCONT)

    def workers(self, attempt: int | None = None, least: int = 1) -> list[Process]:
        """The lanes' Python workers of the attempt; waits until there are so many."""
        pid = self.stack.follower.driver_pid(self.recovery, attempt or self.attempt())

        def look() -> list[Process]:
            found = lane_workers(pid)
            return found if len(found) >= least else []

        return wait_for(look, 20, lambda: f"fewer than {least} lane workers below {pid}")


@contextlib.contextmanager
def observed_cases(stack: Stack, usual_source: str) -> Iterator[NewCase]:
    """Gives a function that makes cases with unique names and a reader on each target, of `usual_source` unless the
    test names another.
    """
    with contextlib.ExitStack() as observers:

        def make(source: str = usual_source, *, observe: bool = True) -> Case:
            number = next(_numbers)
            case = Case(stack, f"case{number}", source, f"{stack.mark}-copy{number}")
            if observe:
                case.observer = observers.enter_context(TargetObserver(stack.bootstrap, case.target))
            return case

        yield make
