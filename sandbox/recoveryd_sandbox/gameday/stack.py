"""What a game day runs: Kafka, the live application and its readers, the observer, and the daemon, all in one temporary
folder that is removed at the end.
"""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.control import make_command, send
from recoveryd_sandbox.daemon_process import DaemonProcess, end, run_tool, tail
from recoveryd_sandbox.demo_stack import patient
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.gameday import observer
from recoveryd_sandbox.gameday.judge import Second
from recoveryd_sandbox.gameday.scenario import GROUP, HEALTH_NAME, PARTITIONS, TOPIC, Scenario, Slos
from recoveryd_sandbox.topics import Topics


class GamedayStack:
    """Use it as a context manager: it ends what it started, after Ctrl-C too."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recoveryd-gameday-"))
        self.broker = Broker(self.folder / "kafka")
        self.mute = self.folder / "telemetry.cut"
        self.seconds: list[Second] = []
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

    def start_traffic(self, records_per_s: float) -> None:
        """Live producer, protected group and observer, each a process of its own."""
        Topics(self.broker.bootstrap).create(observer.TOPIC, 1, {})
        run_tool(
            "recoveryctl", "topics", "apply", "--bootstrap", self.broker.bootstrap
        )  # the application's signals need the control topic
        at = ("--bootstrap", self.broker.bootstrap)
        rate, mute = ("--records-per-s", str(records_per_s)), ("--mute", str(self.mute))
        self._start("recoveryd_sandbox.gameday.load", "consumer", *at)
        self._start("recoveryd_sandbox.gameday.load", "producer", *at, *rate, *mute)
        place = ("--group", GROUP, "--topic", TOPIC, "--partitions", str(PARTITIONS))
        watching = self._start("recoveryd_sandbox.gameday.observer", *at, *place, stdout=subprocess.PIPE)
        threading.Thread(target=self._read, args=(watching,), name="observer", daemon=True).start()

    def start_daemon(self, scenario: Scenario, slos: Slos) -> None:
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
                    "max_bytes_per_s": scenario.most_bytes_per_s,
                    "min_bytes_per_s": scenario.floor_bytes_per_s,
                },
            }
        )
        self._daemon.start()
        self._daemon.await_leader()

    def command(self, verb: str, recovery: str, data: dict[str, Any]) -> None:
        send(self.broker.bootstrap, make_command("//gameday", verb, recovery, {"reason": "game day", **data}))

    def check(self) -> None:
        """Raises `SandboxError` when one of the processes is gone."""
        for number, process in enumerate(self._processes):
            if process.poll() is not None:
                said = tail(self._log(number))
                raise SandboxError(f"part {number} of the stage ended with {process.returncode}", f"it said:\n{said}")

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

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            self.seconds.append(Second(found["at_s"], found["p99_s"], found["lag_s"]))


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
