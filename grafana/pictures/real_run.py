"""A real replay next to real live traffic, small enough for a laptop: a topic that is written and read while its past
is replayed, a protected consumer group, a daemon with Spark, a Prometheus that scrapes it.

Topics get names of their own, and everything that was started is ended by its process id. The broker is the caller's.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import yaml
from confluent_kafka import Consumer, Producer

from grafana.pictures.binaries import Binaries
from grafana.pictures.prometheus_server import PrometheusServer
from recoveryd_sandbox.control import ENDED
from recoveryd_sandbox.live import LiveProducer
from recoveryd_sandbox.ports import free_ports
from recoveryd_sandbox.process import ProcessId, end, identify
from recoveryd_sandbox.topics import Topics

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
_READY_DEADLINE_S = 60.0
_STOP_DEADLINE_S = 15.0
_HTTP_TIMEOUT_S = 3.0
_POLL_S = 0.2


class RunFailed(Exception):  # noqa: N818  (told to people as it is)
    """A step of the run failed; `str(error)` says which, with the end of the daemon's log."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Sizes and rates of the run. `calm_s` passes before the replay, so that live traffic is first seen alone."""

    backlog_records: int = 40_000
    record_bytes: int = 1_000
    live_records_per_s: float = 200.0
    most_bytes_per_s: int = 8_000_000
    partitions: int = 4
    calm_s: float = 16.0
    scrape_s: float = 1.0
    slo: str = "15s"
    latency_slo: str = "200ms"


class RealRun:
    """Use it as a context manager: daemon, live traffic, group and Prometheus run inside. `tag` keeps names apart on a
    shared broker.
    """

    def __init__(self, bootstrap: str, folder: Path, binaries: Binaries, scene: Scene, tag: str = "") -> None:
        self.scene, self._bootstrap, self._folder = scene, bootstrap, folder
        self.source, self.target, self.group = f"{tag}orders", f"{tag}orders.again", f"{tag}billing"
        self.prefix = f"{tag}recovery."
        self.started_s = time.time()
        self._http = free_ports(1)[0]
        self._binaries = binaries
        self._daemon: subprocess.Popen[bytes] | None = None
        self._children: set[ProcessId] = set()
        self._open = ExitStack()
        self.prometheus: PrometheusServer

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            opened.callback(self._end_daemon)
            _fill(self._bootstrap, self.source, self.scene)
            opened.enter_context(
                LiveProducer(self._bootstrap, self.source, self.scene.live_records_per_s, self.scene.partitions)
            )
            opened.enter_context(_Group(self._bootstrap, self.source, self.group))
            self._start_daemon()
            self.started_s = time.time()
            target = f"127.0.0.1:{self._http}"
            server = PrometheusServer(self._binaries, self._folder / "prometheus", [target], self.scene.scrape_s)
            self.prometheus = opened.enter_context(server)
            self._open = opened.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._open.close()

    def replay(
        self, recovery: str, deadline_s: float = 240.0, while_running: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Wait for `calm_s`, start a replay with `recoveryctl`, call `while_running` about each second, and
        return the final status.
        """
        time.sleep(self.scene.calm_s)
        self._ctl(
            "replay", "--source", self.source, "--target", self.target, "--from", "earliest", "--to", "latest", "--id",
            recovery, "--create", "--yes", "--reason", "orders were booked with a wrong rate",
            "--max-bytes-per-s", str(self.scene.most_bytes_per_s),
        )  # fmt: skip
        return self._await(lambda: self._ended(recovery, while_running), deadline_s, f"the end of {recovery}")

    def metrics(self) -> bytes:
        return self._get("/metrics")

    def _ended(self, recovery: str, while_running: Callable[[], None]) -> dict[str, Any] | None:
        self._note_children()
        while_running()
        try:
            status: dict[str, Any] = json.loads(self._get(f"/api/v1/recoveries/{recovery}"))
        except OSError:
            return None
        return status if status["state"] in ENDED else None

    def _start_daemon(self) -> None:
        scene = self.scene
        config = self._folder / "recoveryd.yaml"
        options = {
            "clusters": {"main": {"bootstrap.servers": self._bootstrap}},
            "scope": self.prefix.strip(".").replace(".", "-"),
            "topics": {"prefix": self.prefix},
            "http": {"listen": f"127.0.0.1:{self._http}"},
            "work_dir": str(self._folder / "work"),
            "chunk": {"max_interval": "1s"},
            "lease": {"ttl": "10s", "renew_every": "3s"},
            "profiles": {"default": {"warm": 1}},
            "monitor": {
                "interval": "1s",
                "topics": [{"topic": self.source, "group": self.group, "slo": scene.slo}],
                "canary": {"latency_slo": scene.latency_slo},
            },
            "control": {"max_bytes_per_s": scene.most_bytes_per_s, "period": "1s", "loop_delay": "5s"},
        }
        config.write_text(yaml.safe_dump(options), encoding="utf-8")
        self._ctl("topics", "apply")
        with (self._folder / "daemon.log").open("wb") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "recoveryd", "run", "--config", str(config)],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._await(lambda: self._get("/readyz"), _READY_DEADLINE_S, "a daemon that leads")

    def _ctl(self, *words: str) -> None:
        code = "from recoveryd.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *words, "--config", str(self._folder / "recoveryd.yaml")],
            cwd=ROOT, capture_output=True, text=True, timeout=_READY_DEADLINE_S, check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        if done.returncode != 0:
            raise RunFailed(f"recoveryctl {' '.join(words)}: {done.stdout}{done.stderr}\n{self._tail()}")

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._http}{path}", timeout=_HTTP_TIMEOUT_S) as reply:
            body: bytes = reply.read()
            return body

    def _await(self, question: Callable[[], T | None], deadline_s: float, about: str) -> T:
        give_up_at_s = time.monotonic() + deadline_s
        while True:
            try:
                found = question()
            except OSError:
                found = None
            if found is not None:
                return found
            is_gone = self._daemon is not None and self._daemon.poll() is not None
            if is_gone or time.monotonic() >= give_up_at_s:
                raise RunFailed(f"waited {deadline_s:.0f} s for {about}\n{self._tail()}")
            time.sleep(_POLL_S)

    def _tail(self) -> str:
        log = self._folder / "daemon.log"
        return log.read_text(errors="replace")[-2_000:] if log.exists() else ""

    def _note_children(self) -> None:
        """Remember the drivers, which outlive a daemon on purpose; they are found by the folder that only this run
        names.
        """
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if str(self._folder / "work").encode() in command and int(entry.name) != os.getpid():
                    known = identify(int(entry.name))
                    self._children |= {known} if known else set()

    def _end_daemon(self) -> None:
        if self._daemon is not None:
            self._note_children()
            self._daemon.terminate()
            try:
                self._daemon.wait(_STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait(_STOP_DEADLINE_S)
        for child in self._children:
            end(child, _STOP_DEADLINE_S / 3)


class _Group:
    """A consumer group that reads the live topic and commits each second, as an application would."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "latest",
                "enable.auto.commit": True,
                "auto.commit.interval.ms": 1_000, "log_level": 0,
            }
        )  # fmt: skip
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"group-{group}", daemon=True)

    def __enter__(self) -> Self:
        self._consumer.subscribe([self._topic])
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join(_STOP_DEADLINE_S)
        self._consumer.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._consumer.consume(500, 0.2)


def _fill(bootstrap: str, topic: str, scene: Scene) -> None:
    """The backlog: records that do not compress, spread over the last two days of event time."""
    Topics(bootstrap).create(topic, scene.partitions, {"retention.ms": "-1"})
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0, "queue.buffering.max.messages": 200_000}
    )
    now_ms, span_ms = int(time.time() * 1000), 2 * 86_400_000
    body = os.urandom(scene.record_bytes + 4_096)
    for number in range(scene.backlog_records):
        at_ms = now_ms - span_ms + number * span_ms // scene.backlog_records
        cut = number % 4_096
        key = uuid.uuid5(uuid.NAMESPACE_OID, str(number % 5_000)).hex[:12].encode()
        while True:
            try:
                producer.produce(topic, body[cut : cut + scene.record_bytes], key, timestamp=at_ms)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_READY_DEADLINE_S):
        raise RunFailed("the backlog could not be written")
