"""What a game day runs: Kafka, the live application and its readers, the observer, and the daemon, all in one temporary
folder that is removed at the end.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.control import make_command, send
from recoveryd_sandbox.daemon_process import DaemonProcess, end, run_tool, tail
from recoveryd_sandbox.demo_stack import patient
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.gameday import observer
from recoveryd_sandbox.gameday.judge import LiveSecond, Second
from recoveryd_sandbox.gameday.scenario import GROUP, HEALTH_NAME, PARTITIONS, TOPIC, Load, Slos
from recoveryd_sandbox.jvm import AS_IN_USE
from recoveryd_sandbox.live import TOPIC_CONFIG
from recoveryd_sandbox.topics import Topics

# The target of a run is deleted after it: its files shall be gone before the next run, not in the middle of that.
_OF_BROKER = {"log.segment.delete.delay.ms": "1000"}
_POLL_S = 0.2
_OBSERVER_DEADLINE_S = 120.0


class GamedayStack:
    """Use it as a context manager: it ends what it started, after Ctrl-C too."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recoveryd-gameday-"))
        self.broker = Broker(self.folder / "kafka", overrides=_OF_BROKER, heap="1g", flags=AS_IN_USE)
        self.mute = self.folder / "telemetry.cut"
        self.seconds: list[Second] = []
        self.live: list[LiveSecond] = []
        self._cores: set[int] | None = None
        self._daemon: DaemonProcess | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close(keep_logs=isinstance(error, SandboxError))

    @property
    def daemon(self) -> DaemonProcess:
        assert self._daemon is not None
        return self._daemon

    def bind(self, cores: int | None) -> None:
        """What is started after this, except traffic and observer, gets so many cores; None = all. Linux only."""
        if cores is None:
            return
        if not hasattr(os, "sched_setaffinity"):
            raise SandboxError("cores cannot be bound on this system", "Take a scenario without `cores`, or Linux.")
        there = sorted(os.sched_getaffinity(0))
        if cores > len(there):
            raise SandboxError(f"the scenario asks for {cores} cores, and {len(there)} are there", "")
        self._cores = set(there[:cores])

    def start_broker(self) -> None:
        with self._bound():
            self.broker.start()

    def start_traffic(self, load: Load) -> None:
        """Live producer, protected group and observer, each a process of its own."""
        Topics(self.broker.bootstrap).create(observer.TOPIC, 1, {})
        run_tool(
            "recoveryctl", "topics", "apply", "--bootstrap", self.broker.bootstrap
        )  # the application's signals need the control topic
        at = ("--bootstrap", self.broker.bootstrap)
        rate, mute = ("--records-per-s", str(load.live_records_per_s)), ("--mute", str(self.mute))
        swing = ("--swing-s", str((load.swing or 0) / 1000))
        self._start("recoveryd_sandbox.gameday.load", "consumer", *at, *_reading(load))
        writing = self._start(
            "recoveryd_sandbox.gameday.load", "producer", *at, *rate, *swing, *mute, stdout=subprocess.PIPE
        )
        place = ("--group", GROUP, "--topic", TOPIC, "--partitions", str(PARTITIONS))
        watching = self._start("recoveryd_sandbox.gameday.observer", *at, *place, stdout=subprocess.PIPE)
        for process, take in ((watching, self._take_second), (writing, self._take_live)):
            threading.Thread(target=_read, args=(process, take), name="reader", daemon=True).start()

    def target(self, topic: str, compression: str) -> dict[str, Any]:
        """The target of a recovery. Where the broker is to compress what it gets, the topic is made here; else by the
        recovery.
        """
        if compression == "producer":
            return {"topic": topic, "create": True}
        config = {**TOPIC_CONFIG, "compression.type": compression}
        Topics(self.broker.bootstrap).create(topic, PARTITIONS, config)
        return {"topic": topic}

    def start_daemon(self, slos: Slos, most_bytes_per_s: int, floor_bytes_per_s: int) -> None:
        """Returns when the daemon leads."""
        p99_slo = f"{round(slos.p99_s * 1000)}ms"
        self._daemon = DaemonProcess(self.folder)
        self._daemon.configure(
            {
                "clusters": {"main": {"bootstrap.servers": self.broker.bootstrap}},
                "chunk": {"max_interval": "2s"},
                "lease": {"ttl": "15s", "renew_every": "4s"},
                "profiles": {"default": {"master": "local[2,4]", "warm": 0}},
                # Signals, canary and groups are sampled every second or two, so the loop delay is a few seconds; the
                # daemon measures it as soon as it can.
                "monitor": {
                    "interval": "2s",
                    "topics": [{"topic": TOPIC, "group": GROUP, "slo": f"{slos.lag_s}s"}],
                    "canary": {"latency_slo": p99_slo},
                    "health": [{"name": HEALTH_NAME, "slo": p99_slo}],
                },
                "control": {
                    "period": "2s",
                    "loop_delay": "8s",
                    "max_bytes_per_s": most_bytes_per_s,
                    "min_bytes_per_s": floor_bytes_per_s,
                },
            }
        )
        with self._bound():
            self._daemon.start()
        self._daemon.await_leader()

    def start_daemon_again(self) -> None:
        """After it was killed. It leads once the dead one's place on the journal is free."""
        with self._bound():
            self.daemon.start()

    def command(self, verb: str, recovery: str, data: dict[str, Any]) -> None:
        send(self.broker.bootstrap, make_command("//gameday", verb, recovery, {"reason": "game day", **data}))

    def check(self) -> None:
        """Raises `SandboxError` when one of the processes is gone."""
        for number, process in enumerate(self._processes):
            if process.poll() is not None:
                said = tail(self._log(number))
                raise SandboxError(f"part {number} of the stage ended with {process.returncode}", f"it said:\n{said}")

    def await_observer(self, until_s: float) -> None:
        """Returns when the observer has reported every whole second before this one of the wall clock. Raises
        `SandboxError`.
        """
        give_up_s = time.monotonic() + _OBSERVER_DEADLINE_S
        while not self.seconds or self.seconds[-1].at_s < int(until_s) - 1:
            if time.monotonic() > give_up_s:
                raise SandboxError(
                    f"the observer reported nothing for {_OBSERVER_DEADLINE_S:.0f} s",
                    f"its errors are in {self.folder}",
                )
            time.sleep(_POLL_S)
            self.check()

    def close(self, *, keep_logs: bool = False) -> None:
        """End everything; remove the folder, or all of it but the logs. Safe to call twice."""
        with patient():
            if self._daemon is not None:
                self._daemon.close()
            for process in self._processes:
                end(process, 15)
            with contextlib.suppress(SandboxError):
                self.broker.stop()
            shutil.rmtree(self.folder / "kafka" if keep_logs else self.folder, ignore_errors=True)

    def _start(self, module: str, *arguments: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        with self._log(len(self._processes)).open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL, stdout=stdout or errors, stderr=errors, start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return process

    def _log(self, number: int) -> Path:
        return self.folder / f"part-{number}.log"

    @contextlib.contextmanager
    def _bound(self) -> Iterator[None]:
        """Processes inherit the cores of the thread that starts them."""
        if self._cores is None:
            yield
            return
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self._cores)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def _take_second(self, found: Mapping[str, Any]) -> None:
        self.seconds.append(Second(found["at_s"], found["p99_s"], found["lag_s"], tuple(found["waits_s"])))

    def _take_live(self, found: Mapping[str, Any]) -> None:
        self.live.append(LiveSecond(found["at_s"], found["p99_s"]))


def _reading(load: Load) -> tuple[str, ...]:
    return () if load.reader_records_per_s is None else ("--records-per-s", str(load.reader_records_per_s))


def _read(process: subprocess.Popen[bytes], take: Callable[[Mapping[str, Any]], None]) -> None:
    assert process.stdout is not None
    with process.stdout as told:
        for line in told:
            take(json.loads(line))


class SlowBroker:
    """Stops the broker's process for a part of each cycle, from a thread. The process is never left stopped."""

    def __init__(self, broker: Broker, stop_s: float, cycle_s: float, slow_s: float) -> None:
        self._broker = broker
        self._times = (stop_s, cycle_s, slow_s)
        self._thread = threading.Thread(target=self._run, name="slow-broker", daemon=True)
        self.span: tuple[float, float] = (0.0, 0.0)

    def start(self) -> None:
        now_s = time.time()
        self.span = (now_s, now_s + self._times[2])
        self._thread.start()

    def join(self) -> None:
        if self._thread.is_alive():
            self._thread.join(self._times[2] + 5)

    def _run(self) -> None:
        stop_s, cycle_s, _ = self._times
        while time.time() < self.span[1] and self._broker.is_running():
            self._broker.pause()
            try:
                time.sleep(stop_s)
            finally:
                self._broker.cont()
            time.sleep(cycle_s - stop_s)
