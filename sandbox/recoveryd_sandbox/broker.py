"""One real Apache Kafka node (KRaft, its own JVM, bound to 127.0.0.1), started and ended from Python.

Everything the node knows is in one folder: properties, data, logs. A `Broker` on the same folder is the same node
again, with the same data and, if no other process took it meanwhile, the same port. The node runs in its own session,
so Ctrl-C in the terminal reaches this process and not the node: this process decides when it ends. Its layout says how
it is configured (`recoveryd_sandbox.properties`, or `recoveryd_sandbox.cluster_nodes` for one node of several). Leaving
a broker running and finding it again later is done by `recoveryd_sandbox.handle`, not here.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Protocol, Self

from recoveryd_sandbox.errors import BrokerFailed
from recoveryd_sandbox.formatted import META, Formatted
from recoveryd_sandbox.jars import kafka_jars
from recoveryd_sandbox.java import find_java
from recoveryd_sandbox.jvm import SHORT_LIVED, Jvm, log_text, start
from recoveryd_sandbox.ports import free_ports, is_free
from recoveryd_sandbox.process import freeze, identify
from recoveryd_sandbox.properties import HOST, SingleNode, ports_in
from recoveryd_sandbox.state import NodeState, forget_state, running_state, write_state

_START_DEADLINE_S = 180.0
_FORMAT_TIMEOUT_S = 180.0
_STOP_DEADLINE_S = 120.0
_KILL_DEADLINE_S = 60.0
_PAUSE_DEADLINE_S = 60.0
_POLL_S = 0.05
_PORT_TRIES_MAX = 3
_LOG_TAIL_LINES = 8
_LOG_TAIL_CHARS_MAX = 100_000
_NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})


class Layout(Protocol):
    """How a node is configured. `port` is for its clients, `inner_port` for its second listener."""

    def properties(self, data_dir: Path, port: int, inner_port: int) -> str:
        """Text of `server.properties`. `listeners` names `port` first."""
        ...

    def format_options(self) -> list[str]:
        """Options of Kafka's `format`, used once for a new folder."""
        ...

    def format_settings(self) -> str | None:
        """The same text for all nodes whose new folders differ in their ids only; None when this one is to be formatted
        in any case.
        """
        ...

    def is_ready(self, port: int, inner_port: int) -> bool:
        """Whether the started node serves clients now. Answers within seconds."""
        ...


class Broker:
    """A Kafka node in `folder`. Without `port` it takes the one the folder had before, else a free one.

    `overrides` are Kafka's own broker properties; they win over the sandbox's, except for the addresses. They are for a
    node that stands alone; a `layout` brings its own. `flags` are those of its JVM.
    As a context manager it starts on entry and stops on exit. Not thread-safe.
    """

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        overrides: Mapping[str, str] = _NO_OVERRIDES,
        heap: str = "768m",
        layout: Layout | None = None,
        flags: tuple[str, ...] = SHORT_LIVED,
    ) -> None:
        self._folder = folder.absolute()
        self._wanted_port = port
        self._layout = SingleNode(overrides) if layout is None else layout
        self._heap, self._flags = heap, flags
        self._ports: tuple[int, int] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:PORT`. Raises `BrokerFailed` before the first start."""
        if self._ports is None:
            raise BrokerFailed("The sandbox broker has not been started.")
        return f"{HOST}:{self._ports[0]}"

    @property
    def pid(self) -> int:
        """Raises `BrokerFailed` when the broker does not run."""
        if self._process is None or not self.is_running():
            raise BrokerFailed("The sandbox broker does not run.", f"Its log is {self.log_file}.")
        return self._process.pid

    @property
    def inner(self) -> str:
        """`127.0.0.1:PORT` of the second listener. Raises `BrokerFailed` before the first start."""
        if self._ports is None:
            raise BrokerFailed("The sandbox broker has not been started.")
        return f"{HOST}:{self._ports[1]}"

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def log_file(self) -> Path:
        return self._folder / "broker.log"

    def is_running(self) -> bool:
        """True while the process lives; a paused one lives too."""
        return self._process is not None and self._process.poll() is None

    def start(self, deadline_s: float = _START_DEADLINE_S) -> None:
        """Returns once the broker answers a metadata request. Does nothing when it runs already.

        Fetches Kafka's jars the first time, which does not count against `deadline_s`.
        Raises `BrokerFailed` with the end of the broker's log, `JavaMissing` or `JarsUnavailable`.
        """
        if self.is_running():
            return
        other = running_state(self._folder)
        if other is not None:
            raise BrokerFailed(
                f"{self._folder} is in use by a broker with pid {other.process.pid}.", "End that one first."
            )
        jvm = Jvm(find_java(), kafka_jars(), flags=self._flags)
        give_up_at_s = time.monotonic() + deadline_s
        self._folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, _PORT_TRIES_MAX + 1):
            self._ports = self._choose_ports()
            self._write_config(*self._ports)
            self._format_once(jvm)
            self._launch(jvm)
            try:
                self._await_answer(give_up_at_s)
            except BaseException as error:  # Ctrl-C too: no half-started broker may stay behind
                self.kill()
                if isinstance(error, BrokerFailed) and attempt < _PORT_TRIES_MAX and self._lost_port_race():
                    self._ports = None
                    continue
                raise
            return

    def stop(self, deadline_s: float = _STOP_DEADLINE_S) -> None:
        """Clean end: SIGTERM, and SIGKILL when it still lives after `deadline_s`."""
        if self._process is None:
            return
        if self.is_running():
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)  # a paused process would keep the SIGTERM for later
            try:
                self._process.wait(deadline_s)
            except subprocess.TimeoutExpired:
                self.kill()
        self._forget()

    def kill(self) -> None:
        """SIGKILL: like a power cut, except that the disk cache survives."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_KILL_DEADLINE_S)
            self._forget()

    def restart(self, deadline_s: float = _START_DEADLINE_S) -> None:
        """Stop, then start on the same data and the same port."""
        self.stop()
        self.start(deadline_s)

    def leave_running(self) -> None:
        """Let go of the process without ending it. It is found again by the note in the folder."""
        if self._process is not None:
            self._process.returncode = 0  # otherwise Popen warns, when collected, of a child that nobody waited for
            self._process = None

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, as when a machine hangs. It returns when nothing does,
        since threads of a busy JVM go on for a moment.
        """
        freeze(self.pid, _PAUSE_DEADLINE_S)

    def cont(self) -> None:
        """SIGCONT: go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def _choose_ports(self) -> tuple[int, int]:
        """The ports of this object's last start, or of the folder's last start when free, or new ones."""
        if self._ports is not None:
            return self._ports
        before = ports_in(self._folder / "server.properties")
        port = self._wanted_port or (before[0] if before and is_free(before[0]) else free_ports(1)[0])
        return port, next(candidate for candidate in free_ports(2) if candidate != port)

    def _lost_port_race(self) -> bool:
        return self._wanted_port is None and "Address already in use" in self._log_tail(400)

    def _write_config(self, port: int, inner_port: int) -> None:
        text = self._layout.properties(self._folder / "data", port, inner_port)
        (self._folder / "server.properties").write_text(text, encoding="utf-8")

    def _format_once(self, jvm: Jvm) -> None:
        if (self._folder / "data" / META).exists():
            return
        shutil.rmtree(self._folder / "data", ignore_errors=True)  # left by an interrupted format
        settings = self._layout.format_settings()
        formatted = None if settings is None else Formatted.by(jvm.jars.name, settings)
        if formatted is not None and formatted.copy_to(self._folder / "data"):
            return
        options = *self._layout.format_options(), "-c", str(self._folder / "server.properties")
        command = jvm.command("kafka.tools.StorageTool", "format", *options)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise BrokerFailed(f"Formatting {self._folder} took longer than {_FORMAT_TIMEOUT_S:.0f} s.") from None
        if done.returncode != 0:
            raise BrokerFailed(f"Kafka could not format {self._folder}: {_telling_lines(done.stdout + done.stderr, 3)}")
        if formatted is not None:
            formatted.keep(self._folder / "data")

    def _launch(self, jvm: Jvm) -> None:
        properties = str(self._folder / "server.properties")
        command = jvm.logged("kafka.Kafka", properties, log_file=self.log_file, heap=self._heap)
        self._process = start(command, self.log_file)
        process = identify(self._process.pid)
        if process is not None:
            write_state(self._folder, NodeState(process, self.bootstrap))

    def _await_answer(self, give_up_at_s: float) -> None:
        assert self._ports is not None
        while not self._layout.is_ready(*self._ports):
            if not self.is_running():
                raise BrokerFailed("The sandbox broker ended while it started.", self._log_tail())
            if time.monotonic() >= give_up_at_s:
                raise BrokerFailed("The sandbox broker did not answer in time.", self._log_tail())
            time.sleep(_POLL_S)

    def _forget(self) -> None:
        self._process = None
        forget_state(self._folder)

    def _log_tail(self, lines: int = _LOG_TAIL_LINES) -> str:
        text = log_text(self.log_file, _LOG_TAIL_CHARS_MAX)
        return f"{self.log_file} says:\n{_telling_lines(text, lines)}"


def _telling_lines(text: str, count: int) -> str:
    """The last lines about errors, or simply the last lines if there are none; stack traces stay in the file."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("\tat ", "\t..."))]
    errors = [line for line in lines if "ERROR" in line or "FATAL" in line or "Exception" in line]
    return "\n".join((errors or lines)[-count:])
