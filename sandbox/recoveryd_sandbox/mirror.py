"""Runs Kafka's own MirrorMaker 2 from one cluster to another, as a plain process: a real mirror to try `recoveryctl
verify` on.

Topics keep their names (`IdentityReplicationPolicy`), only committed records are mirrored, and nothing else is: no
ACLs, checkpoints or heartbeats.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from recoveryd_sandbox.jars import MIRROR_MAKER, kafka_jars
from recoveryd_sandbox.java import find_java
from recoveryd_sandbox.jvm import Jvm, log_text

_STOP_S = 20.0
_INNER_TOPICS = (
    "offset-syncs.topic",
    "checkpoints.topic",
    "heartbeats.topic",
    "config.storage",
    "offset.storage",
    "status.storage",
)
_HEAP = "384m"


class MirrorMaker:
    """Mirrors while the context lasts. `folder` gets its config and log."""

    def __init__(self, source: str, target: str, topics: Sequence[str], folder: Path) -> None:
        self._source, self._target, self._topics = source, target, tuple(topics)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        jvm = Jvm(find_java(), kafka_jars(bundle=MIRROR_MAKER))
        self._folder.mkdir(parents=True, exist_ok=True)
        properties = self._folder / "mm2.properties"
        properties.write_text(self._properties(), encoding="utf-8")
        self._process = jvm.launch("org.apache.kafka.connect.mirror.MirrorMaker", properties, self.log_file, _HEAP)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        process = self._process
        assert process is not None
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def log_file(self) -> Path:
        return self._folder / "mirror.log"

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log_tail(self, characters: int = 3_000) -> str:
        """The end of its log, for the message of a test that waited in vain."""
        return log_text(self.log_file, characters)

    def _properties(self) -> str:
        settings = {
            "clusters": "a, b",
            "a.bootstrap.servers": self._source,
            "b.bootstrap.servers": self._target,
            "a->b.enabled": "true",
            "b->a.enabled": "false",
            "a->b.topics": ", ".join(self._topics),
            "a->b.emit.heartbeats.enabled": "false",
            "b->a.emit.heartbeats.enabled": "false",
            "emit.checkpoints.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "replication.factor": "1",
            "a.consumer.isolation.level": "read_committed",
            "a.consumer.auto.offset.reset": "earliest",
            "refresh.topics.interval.seconds": "5",
            "offset.flush.interval.ms": "1000",
            "tasks.max": "2",
        } | {f"{name}.replication.factor": "1" for name in _INNER_TOPICS}
        return "".join(f"{name} = {value}\n" for name, value in settings.items())
