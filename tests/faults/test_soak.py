"""Row 24: many small recoveries one after the other, each with a random fault. All are exact, the daemon does not grow,
and nothing is left when it exits.

`RECOVERYD_SOAK` says how many; without it nothing runs, `make soak` asks for 200. The seed of the random numbers is
printed.
"""

import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.asking import lane_progress
from tests.e2e.case import Case
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_plain
from tests.e2e.processes import descendants, is_alive, kill, wait_for
from tests.e2e.stack import Stack
from tests.patience import patient_s

RECOVERIES = int(os.environ.get("RECOVERYD_SOAK") or 0)
pytestmark = [
    pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults,
    pytest.mark.skipif(not RECOVERIES, reason="takes its time: `make soak`, or set RECOVERYD_SOAK to the number of recoveries"),
]  # fmt: skip
SEED = int(os.environ.get("RECOVERYD_SOAK_SEED") or 24)
AT_ONCE = 2
SLOW_RECORDS_PER_S = 60  # slow enough that a fault comes during the copy
PARTITIONS, RECORDS_EACH = 2, 600
# Pools begin their threads when so many calls overlap: of questions 8, of ledgers 16. What leaks with each tenth
# recovery is more. Connections come and go.
FREE_THREADS, FREE_FILES = 14, 12
# What a daemon keeps of each recovery that it knows: its record, and for an hour after its end its series.
EACH_MB, EACH_SERIES = 0.1, 40
FREE_MB, FREE_SERIES = (
    16.0,
    100,
)  # the allocator keeps what it may need again; causes of trouble have series of their own
SETTINGS = {"profiles": {"default": {"warm": 1}}, "faust": {"instance_id": "one"}}


@dataclass(frozen=True)
class Size:
    """The size of an idle daemon. `applications` counts processes; a spare driver that is still starting has fewer than
    one that waits. `memory_mb` is resident.
    """

    threads: int
    files: int
    applications: int
    series: int
    memory_mb: float

    @classmethod
    def of(cls, daemon: DaemonProcess) -> "Size":
        folder = Path(f"/proc/{daemon.pid}")
        lines = daemon.get("/metrics")[1].splitlines()
        resident = next(s for s in (folder / "status").read_text().splitlines() if s.startswith("VmRSS"))
        return cls(
            len(list((folder / "task").iterdir())),
            len(list((folder / "fd").iterdir())),
            len({process.session for process in descendants(daemon.pid)}),
            sum(not line.startswith("#") for line in lines),
            int(resident.split()[1]) / 1000,
        )

    def fits(self, other: "Size", more: int) -> bool:
        """Whether `more` recoveries made it no larger than `other`, but for what is kept of each."""
        return (
            self.threads <= other.threads + FREE_THREADS
            and self.files <= other.files + FREE_FILES
            and self.applications <= other.applications
            and self.series <= other.series + FREE_SERIES + EACH_SERIES * more
            and self.memory_mb <= other.memory_mb + FREE_MB + EACH_MB * more
        )


class Soak:
    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.dice = random.Random(SEED)
        self.daemon: DaemonProcess = stack.daemon("soak0", settings=SETTINGS)
        self.source = f"{stack.mark}-soak"
        self.lives = self.begun = 0
        fill_plain(stack.bootstrap, self.source, PARTITIONS, RECORDS_EACH)

    def run(self, count: int, *, with_daemon: bool) -> None:
        """Run `count` recoveries, `AT_ONCE` at a time; each meets one fault and is judged."""
        faults = [self.nothing, self.lose_driver, self.lose_workers, self.freeze_workers, self.pause_and_resume]
        faults += [self.lose_daemon] if with_daemon else []
        for _ in range(0, count, AT_ONCE):
            began_s, met = time.monotonic(), []
            cases = [self.start() for _ in range(AT_ONCE)]
            waiting = list(cases)
            while waiting:
                case = self.await_copying(waiting)
                waiting.remove(case)
                fault = self.nothing if self.has_ended(case) else self.dice.choice(faults)
                fault(case)
                met.append(f"{fault.__name__} at {time.monotonic() - began_s:.1f} s")
            for case in cases:
                case.finish()
            print(
                f"{self.begun}: {', '.join(met)}; done after {time.monotonic() - began_s:.1f} s; {Size.of(self.daemon)}"
            )

    def await_copying(self, cases: list[Case]) -> Case:
        return self.stack.follower.wait(lambda: self.first_that_copies(cases), patient_s(40), "a copy under way")

    def first_that_copies(self, cases: list[Case]) -> Case | None:
        return next((c for c in cases if lane_progress(self.stack, c.recovery)[-1:] or self.has_ended(c)), None)

    def has_ended(self, case: Case) -> bool:
        return (self.stack.follower.status(case.recovery) or {}).get("state") in {"verifying", "completed"}

    def start(self) -> Case:
        self.begun += 1
        case = Case(self.stack, f"soak-{self.begun}", self.source, f"{self.source}-{self.begun}")
        case.start(records_per_s=SLOW_RECORDS_PER_S)
        return case

    def nothing(self, case: Case) -> None:
        pass

    def lose_driver(self, case: Case) -> None:
        case.kill_driver()

    def lose_workers(self, case: Case) -> None:
        for worker in case.workers():
            kill(worker)

    def freeze_workers(self, case: Case) -> None:
        workers = case.workers()
        for worker in workers:
            kill(worker, signal.SIGSTOP)
        beats = self.beats(case)
        self.stack.follower.wait(
            lambda: self.beats(case) > beats or self.has_ended(case), 20, "the driver to tell that it lives"
        )
        for worker in workers:
            kill(worker, signal.SIGCONT)

    def beats(self, case: Case) -> int:
        return len(self.stack.follower.heartbeats(case.recovery, driver=True))

    def pause_and_resume(self, case: Case) -> None:
        self.stack.control.command("pause", case.recovery)
        self.stack.follower.wait_state(case.recovery, ["paused", "verifying", "completed"])
        self.stack.control.command("resume", case.recovery)

    def lose_daemon(self, case: Case) -> None:
        self.daemon.kill()
        self.lives += 1
        self.daemon = self.stack.daemon(f"soak{self.lives}", settings=SETTINGS)

    def idle_size(self) -> Size:
        """The size once the applications of ended recoveries are gone and the spare driver is back, that is, once it
        was the same for five seconds.
        """
        seen: list[tuple[frozenset[int], float]] = []

        def settled() -> bool:
            others = [p for p in self.stack.processes() if p.pid != self.daemon.pid]
            now = frozenset(p.pid for p in others)
            if not seen or seen[-1][0] != now:
                seen.append((now, time.monotonic()))
            is_spare_only = len({p.session for p in others}) == 1 and any("--spare" in p.command for p in others)
            return is_spare_only and time.monotonic() - seen[-1][1] >= 5.0

        wait_for(settled, patient_s(20), lambda: f"it never came to rest: {self.stack.processes()}")
        return Size.of(self.daemon)


def test_row_24_many_small_recoveries_with_random_faults_are_exact_and_leave_nothing_behind(stack: Stack) -> None:
    print(f"seed {SEED}")
    soak = Soak(stack)
    early = max(AT_ONCE, RECOVERIES // 4)
    soak.run(early, with_daemon=True)
    before = soak.idle_size()
    soak.run(RECOVERIES - early, with_daemon=False)
    after = soak.idle_size()
    print(f"after {early}: {before}; after {RECOVERIES}: {after}")
    wait_for(
        lambda: Size.of(soak.daemon).fits(before, RECOVERIES - early), 60, lambda: f"it grew from {before} to {after}"
    )
    assert soak.daemon.terminate() == 0
    wait_for(lambda: not [p for p in stack.processes() if is_alive(p)], 60, lambda: f"orphans: {stack.processes()}")
