"""Everything one test file needs around a broker: recoveryd's topics under a unique prefix, daemons, a control
producer, a follower, and the checker.

Times in the config are short, so that take-overs and expiries are seen within seconds, and long enough that a busy
machine is not taken for a dead one; sizes are small, so that a copy has many chunks.
"""

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from typer.testing import Result

from tests.cli.scripted import run_on
from tests.e2e.control import Control
from tests.e2e.daemon_process import MARK, DaemonProcess, end_marked, marked
from tests.e2e.follower import Document, Follower
from tests.e2e.history import Snapshot, check_copy, snapshot
from tests.e2e.log_reader import whole_log
from tests.e2e.model import Violation
from tests.e2e.processes import Process, session_of

SHORT_TIMES: Mapping[str, Any] = {
    "chunk": {"max_records": 1000, "max_interval": "1s"},
    "lease": {"ttl": "8s", "renew_every": "2s"},
    "attempts": {
        "backoff_first": "200ms", "backoff_max": "2s", "adopt_wait": "10s", "heartbeat_timeout": "30s", "transaction_timeout": "20s",
        "stop_wait": "120s", "launch_timeout": "6m",
    },
    "monitor": {"interval": "1s"},
    "faust": {"session_timeout": "6s", "heartbeat_interval": "1500ms"},
    "profiles": {"default": {"master": "local[2,4]", "driver_memory": "512m", "warm": 0}},
}  # fmt: skip


class Stack:
    """Use as a context manager: topics exist on entry; on exit all processes started under it are gone."""

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        settings: Mapping[str, Any] | None = None,
        access: Mapping[str, str] | None = None,
    ) -> None:
        """`access`: Kafka's client properties for the cluster `main` in the product's config, if an address is not
        enough.
        """
        self.bootstrap = bootstrap
        self._access = {"bootstrap.servers": bootstrap, **(access or {})}
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.prefix = f"e{self.mark[:8]}."
        self.receipts_topic = f"{self.prefix}receipts.v1"
        self.control = Control(bootstrap, self.prefix)
        self.follower = Follower(bootstrap, self.prefix)
        self._settings = _merged(SHORT_TIMES, settings or {})
        self._daemons: list[DaemonProcess] = []
        self._unchanged: dict[str, Snapshot | None] = {}

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.apply_topics()
        self.follower.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.follower.__exit__(kind, error, tb)
        end_marked(self.mark)
        for daemon in self._daemons:
            daemon.reap()

    def kill_daemons(self) -> None:
        """Sends SIGKILL to those that still run."""
        for daemon in self._daemons:
            daemon.kill()

    def apply_topics(self) -> None:
        """Create the topics as a new user does: `recoveryctl topics apply`, which here needs no process of its own."""
        told = run_on(self.write_config("apply"), "topics", "apply")
        assert told.exit_code == 0, told.output

    def recoveryctl(self, *words: str) -> Result:
        """A command line with this stack's config, which needs no process of its own where only its output and its exit
        code count.
        """
        return run_on(self.write_config("cli"), *words)

    def write_config(self, name: str) -> Path:
        """For a command line of that name; it has the settings of the daemons."""
        return self.new_daemon(name).config

    def new_daemon(
        self, name: str, settings: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
    ) -> DaemonProcess:
        """One with its config, not started."""
        own = {
            "clusters": {"main": self._access},
            "scope": self.prefix.rstrip("."),
            "topics": {"prefix": self.prefix},
            "log": {"format": "json", "level": "info"},
        }
        made = DaemonProcess(self.folder, name, {**(environment or {}), MARK: self.mark})
        made.configure(_merged(_merged(own, self._settings), settings or {}))
        return made

    def daemon(
        self,
        name: str = "a",
        *,
        environment: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        lead: bool = True,
    ) -> DaemonProcess:
        """Starts a daemon. With `lead` it is the leader when this returns."""
        made = self.new_daemon(name, settings, environment)
        self._daemons.append(made)
        made.start()
        if lead:
            made.await_leader()
        return made

    @contextlib.contextmanager
    def running(self, **options: Any) -> Iterator[DaemonProcess]:
        """A leading daemon, which must end in time when the context does."""
        made = self.daemon(**options)
        yield made
        if made.is_running():
            made.terminate()

    def application(self, recovery: str, attempt: int = 1) -> list[Process]:
        """All processes of an attempt: JVM, driver, workers."""
        return session_of(self.follower.driver_pid(recovery, attempt))

    def processes(self) -> list[Process]:
        """All live processes that this stack started."""
        return marked(self.mark)

    def completed(self, recovery: str, deadline_s: float = 90.0) -> Document:
        return self.follower.wait_state(recovery, "completed", deadline_s)

    @contextlib.contextmanager
    def unchanged(self, topic: str) -> Iterator[str]:
        """A source of many copies that nobody changes while the context lasts: the checker reads it for the first copy
        only, and it must hold the same at the end.
        """
        self._unchanged[topic] = None
        yield topic
        was = self._unchanged.pop(topic)
        assert was is None or was == snapshot(self.bootstrap, topic), f"{topic} was changed"

    def violations(
        self, recovery: str, source: str, target: str, ranges: Mapping[int, tuple[int, int]] | None = None, **more: Any
    ) -> list[Violation]:
        """What the checker finds, with the present status record; `ranges` default to the whole source."""
        covered = whole_log(self.bootstrap, source) if ranges is None else ranges
        status = self.follower.status(recovery)
        if source in self._unchanged and "source_was" not in more:
            more["source_was"] = self._unchanged[source] = self._unchanged[source] or snapshot(self.bootstrap, source)
        return check_copy(self.bootstrap, source, target, self.receipts_topic, recovery, covered, status=status, **more)


def completed_ranges(status: Document) -> dict[int, tuple[int, int]]:
    """[from, to) per partition that was covered, by the status record; for recoveries that ended early."""
    return {row["partition"]: (row["from"], row["to"]) for row in status["completeness"]}


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for name, value in more.items():
        is_both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
        found[name] = _merged(found[name], value) if is_both else value
    return found
