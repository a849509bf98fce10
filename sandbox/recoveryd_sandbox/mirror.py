"""Runs Kafka's own MirrorMaker 2 from one cluster to another, as a plain process: a real mirror to try `recoveryctl
verify` on.

Topics keep their names (`IdentityReplicationPolicy`), only committed records are mirrored, and nothing else is: no
ACLs, checkpoints or heartbeats.
"""

from collections.abc import Sequence
from pathlib import Path

from recoveryd_sandbox.jars import MIRROR_MAKER, kafka_jars
from recoveryd_sandbox.java import find_java
from recoveryd_sandbox.java_program import JavaProgram
from recoveryd_sandbox.jvm import Jvm
from recoveryd_sandbox.properties import text_of

_INNER_TOPICS = (
    "offset-syncs.topic",
    "checkpoints.topic",
    "heartbeats.topic",
    "config.storage",
    "offset.storage",
    "status.storage",
)
_HEAP = "384m"


class MirrorMaker(JavaProgram):
    """Mirrors while the context lasts. `folder` gets its config and log."""

    def __init__(self, source: str, target: str, topics: Sequence[str], folder: Path) -> None:
        super().__init__(folder, "mirror")
        self._source, self._target, self._topics = source, target, tuple(topics)

    def command(self) -> list[str]:
        jvm = Jvm(find_java(), kafka_jars(bundle=MIRROR_MAKER))
        properties = self.folder / "mm2.properties"
        properties.write_text(text_of(self._properties()), encoding="utf-8")
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        return jvm.logged(main, str(properties), log_file=self.log_file, heap=_HEAP)

    def is_ready(self) -> bool:
        """It does not tell; what it mirrored shows."""
        return self.is_running()

    def _properties(self) -> dict[str, str]:
        return {
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
            "plugin.discovery": "service_load",  # looking into every jar takes a minute on a busy machine
        } | {f"{name}.replication.factor": "1" for name in _INNER_TOPICS}
