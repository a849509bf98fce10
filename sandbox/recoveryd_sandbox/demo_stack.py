"""What the demo runs: a Kafka of its own, live traffic and the daemon, all in one temporary folder that is removed at
the end.

Everything is ended by process id; the daemon's drivers are found by the demo's own folder.
"""

import contextlib
import shutil
import signal
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.daemon_process import PATIENT, DaemonProcess, run_tool
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.live import LiveProducer, LiveReader
from recoveryd_sandbox.standstill import Standstill

LIVE_TOPIC = "flights.live"
LIVE_GROUP = "flights-board"
CONFIG = {
    **PATIENT,
    "chunk": {"max_interval": "2s"},
    "profiles": {"default": {"master": "local[2,4]", "warm": 1}},
    "monitor": {
        "interval": "1s",
        "topics": [{"topic": LIVE_TOPIC, "group": LIVE_GROUP, "slo": "15s"}],
        "canary": {"latency_slo": "1s"},
    },
    "control": {"period": "1s", "loop_delay": "4s", "max_bytes_per_s": "40MB", "min_bytes_per_s": "250KB"},
}


class DemoStack:
    """Broker, live producer and daemon. Use it as a context manager: it ends what it started, after Ctrl-C too."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recoveryd-demo-"))
        self.broker = Broker(self.folder / "kafka")
        self.live: LiveProducer | None = None
        self.board: LiveReader | None = None
        self.daemon: DaemonProcess | None = None
        self.standstill = Standstill()

    def __enter__(self) -> Self:
        self.standstill.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def http(self) -> str:
        assert self.daemon is not None
        return self.daemon.http

    def start_live(self, records_per_s: float) -> tuple[LiveProducer, LiveReader]:
        """A producer, and the protected group that reads its records."""
        self.live = LiveProducer(self.bootstrap, LIVE_TOPIC, records_per_s)
        self.live.start()
        self.board = LiveReader(self.bootstrap, LIVE_TOPIC, LIVE_GROUP)
        self.board.start()
        return self.live, self.board

    def start_daemon(self) -> None:
        """`recoveryctl topics apply`, then `recoveryd run`; returns when it leads."""
        run_tool("recoveryctl", "topics", "apply", "--bootstrap", self.bootstrap)
        self.daemon = DaemonProcess(self.folder)
        self.daemon.configure({"clusters": {"main": {"bootstrap.servers": self.bootstrap}}, **CONFIG})
        self.daemon.start()
        self.daemon.await_leader()

    def status(self, recovery: str) -> dict[str, Any] | None:
        """The status record as the daemon serves it, None before it exists."""
        return self.daemon.status(recovery) if self.daemon is not None else None

    def close(self) -> None:
        """End the daemon, its drivers, the traffic and the broker; remove the folder. Safe to call twice."""
        with patient():
            if self.daemon is not None:
                self.daemon.close()
            if self.board is not None:
                self.board.stop()
            if self.live is not None:
                self.live.stop()
            with contextlib.suppress(SandboxError):
                self.broker.stop()
            self.standstill.stop()
            shutil.rmtree(self.folder, ignore_errors=True)


class patient:  # noqa: N801  (used like a keyword: `with patient():`)
    """Note and ignore a second Ctrl-C until the end of the block, so that it leaves no processes behind."""

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
