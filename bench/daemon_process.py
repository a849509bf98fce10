"""One real `recoveryd run` on the bed's broker, with its own topics under a unique prefix. Ended with all its drivers
by process id.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from bench.bed import Bed
from bench.specs import create_own
from recoveryd.wire.topics import TopicNames
from recoveryd_sandbox import daemon_process


class Home:
    """A daemon's prefix, topics and folder. Several daemons may use them one after the other."""

    def __init__(self, bed: Bed, stem: str) -> None:
        name = bed.unique(stem)
        self.bed = bed
        self.scope = name
        self.names = TopicNames(f"{name}.")
        self.folder = bed.folder / name
        self.folder.mkdir()
        create_own(bed, self.names)


class DaemonProcess(daemon_process.DaemonProcess):
    """`started_s`: when the process was started. `ready_s`: when it was first seen to lead. Both monotonic."""

    def __init__(self, home: Home, settings: Mapping[str, Any]) -> None:
        super().__init__(home.folder)
        self.home = home
        own = {
            "clusters": {"main": {"bootstrap.servers": home.bed.bootstrap}},
            "scope": home.scope,
            "topics": {"prefix": home.names.prefix},
            "log": {"format": "json", "level": "info"},
        }
        self.configure(own | dict(settings))
        self.started_s = time.monotonic()
        self.start()
        self.ready_s = 0.0


@contextlib.contextmanager
def leading(home: Home, settings: Mapping[str, Any] | None = None) -> Iterator[DaemonProcess]:
    """A daemon that leads; it is ended with the block."""
    daemon = DaemonProcess(home, settings or {})
    try:
        daemon.await_leader()
        daemon.ready_s = time.monotonic()
        yield daemon
    finally:
        daemon.close()
