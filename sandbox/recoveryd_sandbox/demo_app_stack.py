"""What `make demo-app` runs: a Kafka of its own, an application with a bug and the daemon, all in one temporary folder
that is removed at the end.
"""

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.daemon_process import DaemonProcess, run_tool
from recoveryd_sandbox.demo_stack import patient
from recoveryd_sandbox.shop import BUG, Shop, sums

_START_S = 300.0  # enough for a busy machine; it usually takes seconds


class AppStack:
    """Broker, shop and daemon. Use it as a context manager: it ends what it started, after Ctrl-C too."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recoveryd-demo-app-"))
        self.broker = Broker(self.folder / "kafka")
        self.daemon = DaemonProcess(self.folder)
        self.shop: Shop | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with patient():
            self.daemon.close()
            if self.shop is not None:
                self.shop.app.kill()
            self.broker.stop()
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> Shop:
        """Kafka, and the application with its bug, which has read all orders when this returns."""
        self.broker.start(_START_S)
        self.shop = Shop(self.folder, self.broker.bootstrap)
        self.shop.fill()
        self.shop.app.start()
        self.shop.await_totals(sums(BUG))
        return self.shop

    def start_daemon(self, shop: Shop) -> None:
        run_tool("recoveryctl", "topics", "apply", "--bootstrap", shop.bootstrap)
        self.daemon.configure(yaml.safe_load(shop.write_config().read_text(encoding="utf-8")))
        self.daemon.start()
        self.daemon.await_leader()
