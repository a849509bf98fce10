"""One Kafka node (KRaft) in a container, reachable from the host by a mapped port and from other containers by a name.

A broker tells its clients where to come back to, so it must know its mapped port before it starts, and the engine picks
that port when the container starts. So the container first waits for a start script, which is written once the port is
known. Works with `apache/kafka` and with every image that takes `KAFKA_*` variables and starts by
`/etc/kafka/docker/run`.
"""

import time
from typing import Self

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.core.transferable import build_transfer_tar

from recoveryd_sandbox.probe import answers
from recoveryd_sandbox.properties import new_cluster_id

ALIAS = "kafka"

_HOST_PORT, _NETWORK_PORT, _CONTROLLER_PORT = 9092, 19092, 9093
_SCRIPT = "/tmp/start.sh"
_START_DEADLINE_S = 240.0
_POLL_S = 0.1

_SETTINGS = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@localhost:{_CONTROLLER_PORT}",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "NETWORK",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,HOST:PLAINTEXT,NETWORK:PLAINTEXT",
    "KAFKA_LISTENERS": f"HOST://:{_HOST_PORT},NETWORK://:{_NETWORK_PORT},CONTROLLER://:{_CONTROLLER_PORT}",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "4",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_LOG_CLEANER_DEDUPE_BUFFER_SIZE": str(16 * 1024 * 1024),
    "KAFKA_LOG_DIRS": "/tmp/kafka-logs",
    "KAFKA_HEAP_OPTS": "-Xmx512m -Xms256m",
}


class KafkaContainer(DockerContainer):
    """`bootstrap`: for clients on the host; `network_bootstrap`: for containers on `network`. Plain text only."""

    def __init__(self, image: str, network: Network) -> None:
        super().__init__(image)
        self.with_network(network).with_network_aliases(ALIAS).with_exposed_ports(_HOST_PORT)
        self.with_command(["sh", "-c", f"while [ ! -s {_SCRIPT} ]; do sleep 0.1; done; exec sh {_SCRIPT}"])
        self.with_envs(CLUSTER_ID=new_cluster_id(), **_SETTINGS)

    @property
    def bootstrap(self) -> str:
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(_HOST_PORT)}"

    @property
    def network_bootstrap(self) -> str:
        return f"{ALIAS}:{_NETWORK_PORT}"

    def start(self) -> Self:
        """Returns once the broker answers a metadata request from the host; else `TimeoutError` with its log."""
        super().start()
        advertised = f"HOST://{self.bootstrap},NETWORK://{self.network_bootstrap}"
        script = f"export KAFKA_ADVERTISED_LISTENERS={advertised}\nexec /etc/kafka/docker/run\n"
        self.get_wrapped_container().put_archive("/", build_transfer_tar(script.encode(), _SCRIPT.lstrip("/")))
        give_up_at_s = time.monotonic() + _START_DEADLINE_S
        while not answers(self.bootstrap):
            self.reload()
            if self.status != "running" or time.monotonic() >= give_up_at_s:
                raise TimeoutError(f"Kafka in the container did not come up:\n{self.log_tail()}")
            time.sleep(_POLL_S)
        return self

    def log_tail(self, lines: int = 20) -> str:
        return str(self.get_wrapped_container().logs(tail=lines).decode(errors="replace"))
