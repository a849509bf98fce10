"""A secured sandbox for later commands: left running, reached with its client file only, found again, ended as
a whole.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient

from recoveryd_sandbox import handle
from recoveryd_sandbox.cluster_nodes import BrokerNode, ControllerNode, Shape
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.pki import make_certificates
from recoveryd_sandbox.probe import answers
from recoveryd_sandbox.state import running_state
from tests.e2e.processes import wait_for
from tests.sandbox.test_properties_and_ports import parsed

ONE = Shape(1, secure=True)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", "from recoveryd.cli import main; main()", *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=180, check=False)


def ask(client_file: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return run(*command, "--config", str(client_file))


@pytest.mark.broker
def test_a_secured_sandbox_lets_in_who_has_its_client_file_and_nobody_else(tmp_path: Path) -> None:
    found = handle.up_cluster(ONE, tmp_path)
    try:
        nodes = [tmp_path / ONE.name / name for name in ("controller", "broker-1")]
        running = [running_state(node) for node in nodes]
        up = run("sandbox", "up", "--secure", "--dir", str(tmp_path))
        assert (up.returncode, up.stdout.split()) == (0, [found.bootstrap, str(found.client_file)]), up.stderr
        assert [running_state(node) for node in nodes] == running, "a second up must not start anything again"

        password = next((tmp_path / ONE.name / "access").glob("recoveryd.password"))
        assert password.stat().st_mode & 0o077 == 0
        assert password.read_text().strip() not in "".join(
            Path(f"/proc/{node.process.pid}/cmdline").read_text() for node in running if node is not None
        )
        assert password.read_text().strip() not in found.client_file.read_text()
        authority = {"security.protocol": "sasl_ssl", "ssl.ca.location": str(tmp_path / ONE.name / "access" / "ca.pem")}
        login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "recoveryd"}
        wrong = {**authority, **login, "sasl.password": "wrong"}
        right = {**authority, **login, "sasl.password": password.read_text().strip()}
        wait_for(lambda: answers(found.bootstrap, client=right), 20.0)
        assert [answers(found.bootstrap, client=client) for client in ({}, wrong)] == [False, False]

        applied = ask(found.client_file, "topics", "apply")
        assert applied.returncode == 0, applied.stdout + applied.stderr
    finally:
        assert handle.down(tmp_path)
    assert [running_state(node) for node in nodes] == [None, None]

    again = handle.up_cluster(ONE, tmp_path)
    try:
        assert ask(again.client_file, "topics", "apply").returncode == 0, "users and topics outlive a restart"
        assert len(AdminClient({**right, "bootstrap.servers": again.bootstrap}).list_topics(timeout=60).topics) >= 7
    finally:
        assert handle.down(tmp_path)
    assert not handle.down(tmp_path)


def test_the_client_file_holds_kafkas_own_names_and_no_password(tmp_path: Path) -> None:
    from recoveryd_sandbox.access import make_credentials, write_client_file

    credentials = make_credentials(tmp_path)
    written = yaml.safe_load(
        write_client_file(tmp_path / "client.yaml", credentials.java_properties("recoveryd", "h:1")).read_text()
    )
    assert written == {"clusters": {"main": {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="recoveryd" '
        f'password="${{file:{tmp_path}/recoveryd.password}}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{tmp_path}/ca.pem",
    }}}  # fmt: skip


def test_three_brokers_keep_three_replicas_and_the_controller_stands_apart() -> None:
    shape = Shape(3)
    broker = parsed(BrokerNode(2, "127.0.0.1:7", "id", shape, None, {}).properties(Path("/data"), 8, 9))
    controller = parsed(ControllerNode("id", shape, None, {}).properties(Path("/data"), 7, 10))
    wanted = {"default.replication.factor": "3", "min.insync.replicas": "2", "offsets.topic.replication.factor": "3"}
    assert [{name: node[name] for name in wanted} for node in (broker, controller)] == [wanted, wanted]
    assert [node["process.roles"] for node in (broker, controller)] == ["broker", "controller"]
    assert broker["controller.quorum.voters"] == controller["controller.quorum.voters"] == "100@127.0.0.1:7"


def test_without_openssl_a_secured_sandbox_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="needs `openssl`"):
        make_certificates(tmp_path / "access")
