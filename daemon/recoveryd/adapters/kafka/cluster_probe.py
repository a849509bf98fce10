"""Asks a cluster for its identity: the first question of `recoveryctl doctor`. Blocking, with a deadline; read-only."""

import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass

from confluent_kafka import KafkaException

from recoveryd.adapters.kafka.client import Properties, make_admin, problem
from recoveryd.errors import ClusterProblem


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """What a cluster says of itself, and how long it took to say so (connecting included)."""

    cluster_id: str
    brokers: int
    answered_ms: float


def identify(properties: Properties, timeout_s: float) -> ClusterIdentity:
    """Raises `ClusterProblem`."""
    started_s = time.monotonic()
    admin = make_admin(properties)  # kept until the answer is here: a dropped client drops its questions
    try:
        found = admin.describe_cluster(request_timeout=timeout_s).result(timeout_s + 1.0)
    except KafkaException as error:
        raise problem(error, f"reach {properties['bootstrap.servers']}") from error
    except FutureTimeoutError as error:
        message = f"Could not reach {properties['bootstrap.servers']}: no answer within {timeout_s:.0f} s"
        raise ClusterProblem(message) from error
    return ClusterIdentity(str(found.cluster_id), len(found.nodes), (time.monotonic() - started_s) * 1000)
