"""A real replay next to real live traffic, small enough for a laptop: a topic that is written and read while its past
is replayed, a protected consumer group, a daemon with Spark, a Prometheus that scrapes it.

Topics get names of their own, and everything that was started is ended by its process id. The broker is the caller's.
"""

import os
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

from grafana.pictures.binaries import Binaries
from grafana.pictures.prometheus_server import PrometheusServer
from recoveryd_sandbox.control import ENDED
from recoveryd_sandbox.daemon_process import PATIENT, DaemonProcess, run_tool
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.live import LiveProducer, LiveReader
from recoveryd_sandbox.topics import Topics

_FILL_DEADLINE_S = 300.0
_LOOK_S = 0.2
Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scene:
    """Sizes and rates of the run. `calm_s` passes before the replay, so that live traffic is first seen alone. The
    group reads no more than `reader_records_per_s`, None = as it can. `to` is the end of the replay's range.
    """

    backlog_records: int = 40_000
    record_bytes: int = 1_000
    live_records_per_s: float = 200.0
    reader_records_per_s: float | None = None
    to: str = "latest"
    most_bytes_per_s: int = 8_000_000
    partitions: int = 4
    calm_s: float = 16.0
    scrape_s: float = 1.0
    slo: str = "15s"
    latency_slo: str = "200ms"


class RealRun:
    """Use it as a context manager: daemon, live traffic, group and Prometheus run inside. `tag` keeps names apart on a
    shared broker. Raises `SandboxError`, with the end of the daemon's log, when a step of the run fails.
    """

    def __init__(self, bootstrap: str, folder: Path, binaries: Binaries, scene: Scene, tag: str = "") -> None:
        self.scene, self._bootstrap, self._folder = scene, bootstrap, folder
        self.source, self.target, self.group = f"{tag}orders", f"{tag}orders.again", f"{tag}billing"
        self.prefix = f"{tag}recovery."
        self.started_s = time.time()
        self._binaries = binaries
        self.daemon = DaemonProcess(folder)
        self.live = LiveProducer(bootstrap, self.source, scene.live_records_per_s, scene.partitions)
        self._reader = LiveReader(bootstrap, self.source, self.group)
        self._open = ExitStack()
        self.prometheus: PrometheusServer

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            opened.callback(self.daemon.close)
            _fill(self._bootstrap, self.source, self.scene)
            opened.enter_context(self.live)
            opened.callback(self._reader.stop)
            if self.scene.reader_records_per_s is not None:
                self._reader.slow_down(self.scene.reader_records_per_s)
            self._reader.start()
            self._start_daemon()
            self.started_s = time.time()
            server = PrometheusServer(
                self._binaries, self._folder / "prometheus", [self.daemon.http], self.scene.scrape_s
            )
            self.prometheus = opened.enter_context(server)
            self._open = opened.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._open.close()

    def replay(
        self, recovery: str, deadline_s: float = 240.0, while_running: Callable[[Status], None] = lambda _: None
    ) -> Status:
        """Wait for `calm_s`, start a replay with `recoveryctl`, call `while_running` with its status a few times a
        second, and return the final one.
        """
        time.sleep(self.scene.calm_s)
        run_tool(
            "recoveryctl", "replay", "--source", self.source, "--target", self.target, "--from", "earliest",
            "--to", self.scene.to, "--id", recovery, "--create", "--yes", "--reason", "orders were booked with a wrong rate",
            "--max-bytes-per-s", str(self.scene.most_bytes_per_s), "--config", str(self.daemon.config),
        )  # fmt: skip
        found: Status = {}

        def has_ended() -> bool:
            found.update(self.daemon.status(recovery) or {})
            if found:
                while_running(found)
            return found.get("state") in ENDED

        self.daemon.wait_for(has_ended, f"end {recovery}", deadline_s, _LOOK_S)
        return found

    def _start_daemon(self) -> None:
        scene = self.scene
        self.daemon.configure(
            {
                **PATIENT,
                "clusters": {"main": {"bootstrap.servers": self._bootstrap}},
                "scope": self.prefix.strip(".").replace(".", "-"),
                "topics": {"prefix": self.prefix},
                "chunk": {"max_interval": "1s"},
                "lease": {"ttl": "10s", "renew_every": "3s"},
                "profiles": {"default": {"warm": 1, "nice": 0}},
                "monitor": {
                    "interval": "1s",
                    "topics": [{"topic": self.source, "group": self.group, "slo": scene.slo}],
                    "canary": {"latency_slo": scene.latency_slo},
                },
                "control": {"max_bytes_per_s": scene.most_bytes_per_s, "period": "1s", "loop_delay": "5s"},
            }
        )
        run_tool("recoveryctl", "topics", "apply", "--config", str(self.daemon.config))
        self.daemon.start()
        self.daemon.await_leader()


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
    if producer.flush(_FILL_DEADLINE_S):
        raise SandboxError("the backlog could not be written")
