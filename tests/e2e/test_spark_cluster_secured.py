"""Keys and certificates on a Spark cluster: they travel only when Spark protects them, and are found nowhere
afterwards.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.pki import Certificates, make_certificates
from tests.e2e.case import Case
from tests.e2e.data import fill_plain
from tests.e2e.guarded_node import GuardedNode
from tests.e2e.processes import snapshot, wait_for
from tests.e2e.spark_cluster import SparkCluster
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

SPARK_SECRET = "of-master-workers-and-driver"
PROTECTED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": SPARK_SECRET,
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark"), workers=1, cores=2, conf=PROTECTED) as made:
        yield made


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory, cluster: SparkCluster, certificates: Certificates
) -> Iterator[Stack]:
    """A broker that admits clients with a certificate of its authority, and a daemon that has one."""
    node = GuardedNode(
        "SSL",
        {
            "listener.name.client.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.node),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
        },
    )
    history = tmp_path_factory.mktemp("history")
    told = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": history.as_uri(),
        "spark.eventLog.compress": "false",
    }
    profiles: dict[str, Any] = {
        "secured": {"master": cluster.master, "task_slots": 2, "conf": cluster.profile | told},
        "careless": {
            "master": cluster.master,
            "task_slots": 2,
            "conf": cluster.profile | {"spark.io.encryption.enabled": "false"},
        },
    }
    with Broker(tmp_path_factory.mktemp("kafka"), layout=node) as broker:
        client = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SSL",
            "ssl.truststore.location": str(certificates.authority),
            "ssl.keystore.location": str(certificates.node),
        }
        settings = {"clusters": {"main": client}, "profiles": profiles}
        with Stack(node.plain, tmp_path_factory.mktemp("stack"), settings) as made, made.running():
            fill_plain(node.plain, f"{made.mark}-source", 2, 3_000)
            yield made


def secrets_of(certificates: Certificates) -> list[bytes]:
    """A line of the private key, plain and as it travels, which is in its file as base64, and Spark's own secret."""
    file = certificates.node.read_bytes()
    lines = file.splitlines()
    key = lines[lines.index(b"-----BEGIN PRIVATE KEY-----") + 1]
    begin = file.index(key)
    stop = begin + len(key)
    travels = base64.b64encode(file)[-(-begin // 3) * 4 : stop // 3 * 4]  # three bytes are four letters
    return [key, travels, SPARK_SECRET.encode()]


def test_certificates_and_keys_travel_to_machines_and_stay_on_no_disk_and_in_no_log(
    stack: Stack, cluster: SparkCluster, certificates: Certificates, tmp_path: Path
) -> None:
    case = Case(stack, "secured", f"{stack.mark}-source", f"{stack.mark}-copy")
    case.start(job={"profile": "secured"}, records_per_s=100)
    case.copying(deadline_s=240)
    *keys, spark_secret = secrets_of(certificates)
    commands = [p.command.encode() for p in snapshot().values()]
    assert not any(secret in command for command in commands for secret in (*keys, spark_secret))
    on_machines = [path for path in cluster.folder.rglob("*") if path.is_file() and "venv" not in path.parts]
    assert len(on_machines) > 5
    assert [path for path in on_machines if any(key in content_of(path) for key in keys)] == []
    done = case.finish(240)
    assert done["attempt"] == 1

    def logged() -> list[bytes]:
        """What the event logs hold, once the application has ended: the recovery is completed a moment before."""
        found = [content_of(path) for path in tmp_path.parent.glob("history*/**/*") if path.is_file()]
        return found if any(b"SparkListenerApplicationEnd" in content for content in found) else []

    logs = wait_for(logged, 60, lambda: "an event log was written")
    assert not any(secret in content for content in logs for secret in (*keys, spark_secret))


def content_of(path: Path) -> bytes:
    """Nothing of a file that the application took away meanwhile."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def test_secrets_do_not_travel_when_spark_leaves_something_open(stack: Stack) -> None:
    case = Case(stack, "careless", f"{stack.mark}-source", f"{stack.mark}-careless")
    case.start(job={"profile": "careless"})
    failed = case.failed(240)
    assert failed["error_code"] == "RCV-3042"
    assert "secrets (ssl.key.location)" in failed["why"]
    assert "and spark.io.encryption.enabled is not true" in failed["why"]
