"""Whether a broker is there: the cheap test (an open port) and the real one (an answer)."""

import logging
import socket
from collections.abc import Mapping
from types import MappingProxyType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

_CONNECT_TIMEOUT_S = 1.0
_METADATA_TIMEOUT_S = 2.0
PLAIN: Mapping[str, str] = MappingProxyType({})  # for a client without certificates and login


def answers(bootstrap: str, timeout_s: float = _METADATA_TIMEOUT_S, client: Mapping[str, str] = PLAIN) -> bool:
    """True when a broker at `bootstrap` answers a metadata request and names itself. `client`: librdkafka's properties
    for the login.
    """
    quiet = logging.getLogger("recoveryd.sandbox.probe")
    quiet.setLevel(logging.CRITICAL)  # refused connections are expected while one waits
    admin = AdminClient({**client, "bootstrap.servers": bootstrap, "socket.timeout.ms": "2000"}, logger=quiet)
    try:
        return len(admin.list_topics(timeout=timeout_s).brokers) > 0
    except KafkaException:
        return False


def is_open(bootstrap: str) -> bool:
    """True when something listens at `host:port`, even if it does not serve yet."""
    host, _, port = bootstrap.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        return probe.connect_ex((host, int(port))) == 0
