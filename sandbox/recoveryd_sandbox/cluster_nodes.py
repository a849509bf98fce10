"""How each node of a sandbox cluster is configured, and why: one controller of its own, and brokers that may each be
restarted or killed.

The controller is separate, so that losing a broker never costs the quorum: with two of three brokers down the cluster
still has its metadata, and reports that replicas are missing. When secured, clients log in by SASL_SSL with SCRAM,
nodes know each other by certificate, and everything that was not granted is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recoveryd_sandbox.access import ADMIN, Credentials
from recoveryd_sandbox.pki import NODE_NAME
from recoveryd_sandbox.probe import answers, is_open
from recoveryd_sandbox.properties import HABITS, HOST, QUICK_START, text_of

CLUSTER_PREFIX = "brokers-"  # of the folder of a cluster

_SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
_CONTROLLER_ID = 100
_REPLICAS_MAX = 3


@dataclass(frozen=True)
class Shape:
    """How many brokers, and whether clients must log in."""

    brokers: int = 3
    secure: bool = False

    @property
    def name(self) -> str:
        return f"{CLUSTER_PREFIX}{self.brokers}{'-secure' if self.secure else ''}"

    @property
    def replicas(self) -> int:
        return min(self.brokers, _REPLICAS_MAX)

    @property
    def min_isr(self) -> int:
        return max(1, self.replicas - 1)


@dataclass(frozen=True)
class ControllerNode:
    """The node that only keeps the cluster's metadata."""

    cluster_id: str
    shape: Shape
    credentials: Credentials | None
    overrides: Mapping[str, str]

    def properties(self, data_dir: Path, port: int, inner_port: int) -> str:  # noqa: ARG002  (it listens at one port)
        return text_of({
            **QUICK_START, **_shared(self.shape, self.credentials), **self.overrides,
            "process.roles": "controller",
            "node.id": str(_CONTROLLER_ID),
            "listeners": f"CONTROLLER://{HOST}:{port}",
            "controller.quorum.voters": f"{_CONTROLLER_ID}@{HOST}:{port}",
            "log.dirs": str(data_dir),
        })  # fmt: skip

    def format_options(self) -> list[str]:
        return ["-t", self.cluster_id]

    def format_settings(self) -> None:
        """It belongs to a cluster, whose id it has."""

    def is_ready(self, port: int, inner_port: int) -> bool:  # noqa: ARG002
        """Brokers register once the controller leads, so their readiness shows that; here only the open port is asked
        for.
        """
        return is_open(f"{HOST}:{port}")


@dataclass(frozen=True)
class BrokerNode:
    """One broker, number `number` from 1, that finds its controller at `controller` (HOST:PORT)."""

    number: int
    controller: str
    cluster_id: str
    shape: Shape
    credentials: Credentials | None
    overrides: Mapping[str, str]

    def properties(self, data_dir: Path, port: int, inner_port: int) -> str:
        listeners = f"CLIENT://{HOST}:{port},BROKER://{HOST}:{inner_port}"
        return text_of({
            **QUICK_START, **HABITS, **_shared(self.shape, self.credentials), **self.overrides,
            "process.roles": "broker",
            "node.id": str(self.number),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "BROKER",
            "controller.quorum.voters": f"{_CONTROLLER_ID}@{self.controller}",
            "log.dirs": str(data_dir),
        })  # fmt: skip

    def format_options(self) -> list[str]:
        return ["-t", self.cluster_id]

    def format_settings(self) -> None:
        """It belongs to a cluster, whose id it has."""

    def is_ready(self, port: int, inner_port: int) -> bool:
        """Asked as the nodes ask each other, because users exist only after the first start."""
        if not is_open(f"{HOST}:{port}"):
            return False
        as_node = {} if self.credentials is None else self.credentials.as_node()
        return answers(f"{HOST}:{inner_port}", client=as_node)


def _shared(shape: Shape, credentials: Credentials | None) -> dict[str, str]:
    """Controllers create topics and shrink replica sets, so they need the same defaults as brokers."""
    replicas, min_isr = str(shape.replicas), str(shape.min_isr)
    common = {
        "controller.listener.names": "CONTROLLER",
        "default.replication.factor": replicas,
        "min.insync.replicas": min_isr,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min_isr,
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": min_isr,
        "share.coordinator.state.topic.num.partitions": "1",
        # Kafka's defaults: with several brokers, a busy one must not be taken for dead.
        "broker.session.timeout.ms": "9000",
        "broker.heartbeat.interval.ms": "2000",
    }
    if credentials is None:
        return common | {"listener.security.protocol.map": "CLIENT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    return common | {
        "listener.security.protocol.map": "CLIENT:SASL_SSL,BROKER:SSL,CONTROLLER:SSL",
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.client.scram-sha-512.sasl.jaas.config": f"{_SCRAM_LOGIN} required;",
        "listener.name.broker.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(credentials.certificates.node),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(credentials.certificates.authority),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{NODE_NAME};User:{ADMIN}",
    }
