"""Copies between two secured clusters with different authorities, users and ways to log in.

`main` admits clients by their certificate, `far` by a password over TLS. Credentials of one are refused by the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from recoveryd.adapters.kafka.client import let_in, shut_out
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd_jobs.contract import PartitionRange
from recoveryd_jobs.lane import life
from recoveryd_jobs.lane.life import run_lane
from recoveryd_sandbox.access import RECOVERYD, Credentials, make_credentials
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.pki import Certificates, make_certificates
from recoveryd_sandbox.users import Users
from tests.builders.copying import Cluster, Recovery
from tests.e2e.data import fill_plain
from tests.e2e.guarded_node import GuardedNode
from tests.e2e.history import check_copy, snapshot
from tests.e2e.log_reader import whole_log
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

PARTITIONS, EACH = 2, 2_000


@dataclass(frozen=True)
class Far:
    """The cluster that demands a password. `plain`: its listener for the tests."""

    broker: Broker
    plain: str
    credentials: Credentials

    def client(self, **changed: str) -> dict[str, str]:
        """Its client properties as in recoveryd's config."""
        return {**self.credentials.java_properties(RECOVERYD, self.broker.bootstrap), **changed}

    def set_password(self, password: str) -> None:
        Users({"bootstrap.servers": self.plain}).set_password(RECOVERYD, password)


def store(certificates: Certificates) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.node),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
    }


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    credentials = make_credentials(tmp_path_factory.mktemp("far-access"))
    login = {
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.client.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    }
    node = GuardedNode("SASL_SSL", login | store(credentials.certificates))
    with Broker(tmp_path_factory.mktemp("far"), layout=node) as broker:
        made = Far(broker, node.plain, credentials)
        made.set_password(credentials.password(RECOVERYD))
        yield made


@pytest.fixture(scope="module")
def near_access(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("near-access"))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, far: Far, near_access: Certificates) -> Iterator[Stack]:
    """`forgotten` is the far cluster with a wrong password."""
    node = GuardedNode("SSL", {"listener.name.client.ssl.client.auth": "required"} | store(near_access))
    wrong = far.client()["sasl.jaas.config"].split("password=")[0] + 'password="wrong";'
    with Broker(tmp_path_factory.mktemp("near"), layout=node) as broker:
        clusters: dict[str, Any] = {
            "main": {"bootstrap.servers": broker.bootstrap, "security.protocol": "SSL", **store(near_access)},
            "far": far.client(),
        }
        refused = {"forgotten": far.client(**{"sasl.jaas.config": wrong})}
        with Stack(node.plain, tmp_path_factory.mktemp("stack"), {"clusters": clusters}) as made:
            fill_plain(node.plain, near_source(made), PARTITIONS, EACH)
            fill_plain(far.plain, far_source(made), PARTITIONS, EACH)
            with made.running(settings={"clusters": refused}):
                yield made


def near_source(stack: Stack) -> str:
    return f"{stack.mark}-near"


def far_source(stack: Stack) -> str:
    return f"{stack.mark}-far"


@pytest.mark.scenario("S-RUN-29")
def test_a_copy_to_the_other_cluster_is_exact_and_proved(stack: Stack, far: Far) -> None:
    source, target = near_source(stack), f"{stack.mark}-there"
    stack.control.replay("there", source, target, target_cluster="far", target_create=True)
    done = stack.completed("there", 120)
    found = check_copy(
        far.plain, source, target, stack.receipts_topic, "there", whole_log(stack.bootstrap, source),
        status=done, source_was=snapshot(stack.bootstrap, source),
    )  # fmt: skip
    assert found == []
    proof = done["verification"]
    assert (proof["result"], proof["scope"], proof["target_records"]) == ("match", "source", PARTITIONS * EACH)


def test_a_copy_from_the_other_cluster_is_exact_and_a_verification_of_its_own_says_the_same(
    stack: Stack, far: Far
) -> None:
    source, target = far_source(stack), f"{stack.mark}-here"
    stack.control.replay("here", source, target, source_cluster="far", target_create=True)
    done = stack.completed("here", 120)
    found = check_copy(
        stack.bootstrap, source, target, stack.receipts_topic, "here", whole_log(far.plain, source),
        status=done, source_was=snapshot(far.plain, source),
    )  # fmt: skip
    assert found == []
    sides = {"source": {"cluster": "far", "topic": source}, "target": {"topic": target}}
    stack.control.command("verify", "again", sides)
    proofs = [status["verification"] for status in (done, stack.completed("again", 120))]
    assert [(p["result"], p["source_records"], p["target_records"]) for p in proofs] == [
        ("match", PARTITIONS * EACH, PARTITIONS * EACH)
    ] * 2


def test_a_login_that_is_refused_is_named_with_its_cluster_before_anything_is_copied(stack: Stack) -> None:
    """It is tried for a while. So both sides are, at the same time."""
    for side, source in (("source", far_source(stack)), ("target", near_source(stack))):
        refused = {f"{side}_cluster": "forgotten"}
        stack.control.replay(f"no-{side}", source, f"{stack.mark}-no-{side}", target_create=True, **refused)
    for side in ("source", "target"):
        ended = stack.follower.wait_state(f"no-{side}", {"rejected", "failed"}, 120)
        assert (ended["state"], ended["error_code"]) == ("rejected", "RCV-2012")
        assert "Cluster forgotten does not let us in" in ended["why"]
        assert "invalid credentials" in ended["why"]


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for wait in ("_KNOCK_S", "_LET_IN_S"):
        monkeypatch.setattr(f"recoveryd.adapters.kafka.client.{wait}", 60.0)


@pytest.mark.usefixtures("_patient")
def test_a_wrong_password_is_final_and_a_strange_certificate_is_only_named(far: Far, near_access: Certificates) -> None:
    login = {**far.credentials.as_user(RECOVERYD), "bootstrap.servers": far.broker.bootstrap}
    forgotten = shut_out({**login, "sasl.password": "wrong"}, "far")
    strange = shut_out({**login, "ssl.ca.location": str(near_access.authority)}, "far")
    assert forgotten is not None
    assert strange is not None
    assert (forgotten.code, forgotten.retriable) == (Code.NOT_AUTHORISED, False)
    assert "restart the daemon" in forgotten.hint
    assert (strange.code, strange.retriable) == (Code.CLUSTER_UNREACHABLE, True)
    assert "certificate verify failed" in strange.message
    assert shut_out(login, "far") is None


@pytest.mark.usefixtures("_patient")
def test_a_new_login_is_good_once_a_broker_has_answered_to_it(far: Far, near_access: Certificates) -> None:
    login = {**far.credentials.as_user(RECOVERYD), "bootstrap.servers": far.broker.bootstrap}
    let_in(login, "far")
    with pytest.raises(ClusterProblem, match="does not let us in"):
        let_in({**login, "sasl.password": "wrong"}, "far")
    with pytest.raises(ClusterProblem, match="certificate verify failed"):
        let_in({**login, "ssl.ca.location": str(near_access.authority)}, "far")


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_lane_whose_login_is_refused_names_the_side(
    far: Far, unique: str, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """The other side is the same cluster by its plain listener."""
    monkeypatch.setattr(life, "TROUBLE_BUDGET_S", 0.0)
    cluster = Cluster(far.plain, unique)
    recovery = Recovery(cluster, cluster.topic("in"), cluster.topic("out"), ranges=[[PartitionRange(0, 0, 0)]])
    login = {**far.credentials.as_user(RECOVERYD), "bootstrap.servers": far.broker.bootstrap, "sasl.password": "wrong"}
    place = replace(getattr(recovery.spec, side), client=login)
    spec = replace(recovery.spec, **{side: place})
    outcome = run_lane(spec, spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", f"{side}_unavailable")
    assert outcome.error_message.startswith(f"The cluster of the {side} does not answer")
    assert "it does not let us in: " in outcome.error_message
    assert "invalid credentials" in outcome.error_message
