"""A single node with two listeners: one for clients that must authenticate, and a plain one for the node itself and for
the tools of a test.
"""

from collections.abc import Mapping
from pathlib import Path

from recoveryd_sandbox.ports import free_ports
from recoveryd_sandbox.probe import answers
from recoveryd_sandbox.properties import HABITS, HOST, QUICK_START, new_cluster_id, text_of


class GuardedNode:
    """A layout of `recoveryd_sandbox.broker`. `protocol` is that of the guarded listener, named CLIENT; `guard` are
    broker properties for it.
    """

    def __init__(self, protocol: str, guard: Mapping[str, str]) -> None:
        self._protocol = protocol
        self._guard = guard
        self._plain_port = free_ports(1)[0]
        self._cluster_id = new_cluster_id()

    @property
    def plain(self) -> str:
        return f"{HOST}:{self._plain_port}"

    def properties(self, data_dir: Path, port: int, inner_port: int) -> str:
        clients = f"CLIENT://{HOST}:{port},INNER://{self.plain}"
        return text_of({
            **QUICK_START, **HABITS, **self._guard,
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"{clients},CONTROLLER://{HOST}:{inner_port}",
            "advertised.listeners": clients,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{HOST}:{inner_port}",
            "listener.security.protocol.map": f"CLIENT:{self._protocol},INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "log.dirs": str(data_dir),
        })  # fmt: skip

    def format_options(self) -> list[str]:
        return ["-t", self._cluster_id]

    def format_settings(self) -> None:
        """Few nodes are guarded, and each in its own way."""

    def is_ready(self, port: int, inner_port: int) -> bool:
        return answers(self.plain)
