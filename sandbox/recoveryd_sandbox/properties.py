"""How a node that stands alone is configured, and why; and the settings that all nodes of the sandbox share.

Nodes of a cluster are configured in `recoveryd_sandbox.cluster_nodes`.
"""

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path

from recoveryd_sandbox.probe import answers, is_open

HOST = "127.0.0.1"

# A single node cannot replicate. Few internal partitions make the first use of groups and transactions quick.
_SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "default.replication.factor": "1",
}

# An election or a registration on a single node waits for no other node and need not take a second.
QUICK_START = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",  # members learn of their tasks with a heartbeat
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",  # who takes over from a killed member waits for this
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.election.backoff.max.ms": "200",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",  # after a SIGKILL the node must wait until its own old session ends
}

HABITS = {
    "auto.create.topics.enable": "false",  # a typing error in a topic's name must be an error
    "delete.topic.enable": "true",
    "num.partitions": "1",
    "num.network.threads": "3",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),  # the default takes 128 MB, most of a small heap
    # A node that is its own controller writes something each half second by default, a quarter of what it does when
    # idle.
    "metadata.max.idle.interval.ms": "5000",
}


def server_properties(data_dir: Path, port: int, controller_port: int, overrides: Mapping[str, str]) -> str:
    """Text of `server.properties`; `overrides` win over everything but the addresses."""
    addresses = {
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": str(data_dir),
    }
    merged = {**_SINGLE_NODE, **QUICK_START, **HABITS, **overrides, **addresses}
    return text_of(merged)


class SingleNode:
    """A broker that is its own controller, in plain text. `overrides` are Kafka's own properties."""

    def __init__(self, overrides: Mapping[str, str]) -> None:
        self._overrides = dict(overrides)

    def properties(self, data_dir: Path, port: int, inner_port: int) -> str:
        return server_properties(data_dir, port, inner_port, self._overrides)

    def format_options(self) -> list[str]:
        return ["-t", new_cluster_id()]

    def format_settings(self) -> str | None:
        """None with paths of its own, which nobody else has."""
        if any("/" in value for value in self._overrides.values()):
            return None
        return server_properties(Path("data"), 0, 1, self._overrides)

    def is_ready(self, port: int, inner_port: int) -> bool:  # noqa: ARG002  (its controller serves itself only)
        """The port opens before the node serves, so an open port is only a first, cheap test."""
        return is_open(f"{HOST}:{port}") and answers(f"{HOST}:{port}")


def text_of(properties: Mapping[str, str]) -> str:
    """Java's properties format, one property a line."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def ports_in(properties: Path) -> list[int]:
    """The ports of `listeners` in a `server.properties` written by this package, in its order; empty when there is
    none.
    """
    if not properties.exists():
        return []
    for line in properties.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name == "listeners":
            return [int(listener.rpartition(":")[2]) for listener in value.split(",")]
    return []


def new_cluster_id() -> str:
    """A random id in the form Kafka wants: 16 bytes, URL-safe base64 without padding, not starting with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text
