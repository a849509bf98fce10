"""A password is changed while the daemon runs: it reads the file again, goes on leading, and copies as the same user.
A certificate that is away for a moment ends no leader either.

The broker ends connections that logged in some seconds ago, so that every client has to log in again.
"""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from recoveryd_sandbox.access import RECOVERYD, make_credentials
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.users import Users
from tests.e2e.data import fill_plain
from tests.e2e.guarded_node import GuardedNode
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

_LOGGED_IN_MS = 5_000
PARTITIONS, EACH = 2, 2_000
_FREEZE_S = 11.0  # longer than half a session
_WAITS = "the control topic cannot be read, will try again"
REFUSED, LEADS = "the secret of before stays", '"message": "leads'


@dataclass(frozen=True)
class Guarded:
    """A broker that wants a password, the daemons that have it from `file`, and the listener of the test."""

    plain: str
    file: Path
    authority: Path
    stack: Stack

    def set_password(self, password: str) -> None:
        Users({"bootstrap.servers": self.plain}).set_password(RECOVERYD, password)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    credentials = make_credentials(tmp_path_factory.mktemp("access"))
    listener, certificates = "listener.name.client", credentials.certificates
    node = GuardedNode(
        "SASL_SSL",
        {
            f"{listener}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{listener}.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            f"{listener}.scram-sha-512.connections.max.reauth.ms": str(_LOGGED_IN_MS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.node),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
        },
    )
    with Broker(tmp_path_factory.mktemp("guarded"), layout=node) as broker:
        password = credentials.password(RECOVERYD)
        Users({"bootstrap.servers": node.plain}).set_password(RECOVERYD, password)
        access = credentials.java_properties(RECOVERYD, broker.bootstrap)
        with Stack(node.plain, tmp_path_factory.mktemp("stack"), None, access) as stack:
            yield Guarded(node.plain, credentials.folder / f"{RECOVERYD}.password", certificates.authority, stack)


def test_a_changed_password_is_taken_over_and_a_bad_one_is_refused(guarded: Guarded) -> None:
    stack, source = guarded.stack, f"{guarded.stack.mark}-source"
    fill_plain(guarded.plain, source, PARTITIONS, EACH)
    with stack.running(settings={"faust": {"session_timeout": "90s"}}) as daemon:  # it shall lead once
        started = daemon.pid

        def refused() -> float:
            return max(daemon.metrics("recoveryd_secret_refused").values(), default=-1.0)  # nothing told it yet

        daemon.wait_for(lambda: refused() == 0.0, "tell that nothing was refused", 30)
        guarded.file.write_text("")  # half-written
        daemon.wait_for(lambda: refused() == 1.0, "refuse the empty file", 30)
        guarded.file.write_text("not the password\n")
        os.kill(daemon.pid, signal.SIGHUP)
        daemon.wait_for(
            lambda: daemon.log.read_text(encoding="utf-8").count(REFUSED) >= 2, "refuse the wrong password", 30
        )

        guarded.set_password("the next one")
        guarded.file.write_text("the next one\n")
        os.kill(daemon.pid, signal.SIGHUP)
        daemon.wait_for(lambda: refused() == 0.0, "take the new password", 30)
        # By then the broker has ended all that logged in with the old one.
        stack.control.replay("after", source, f"{stack.mark}-after", target_create=True)
        done = stack.completed("after", 120)
        assert done["state"] == "completed"
        stack.control.replay("later", source, f"{stack.mark}-later", target_create=True)
        assert stack.completed("later", 120)["state"] == "completed"
        assert (daemon.is_running(), daemon.pid, daemon.is_leader()) == (True, started, True)
        assert daemon.log.read_text(encoding="utf-8").count(LEADS) == 1


def test_a_leader_that_must_connect_while_its_certificate_is_away_waits_for_it(guarded: Guarded) -> None:
    stack, away = guarded.stack, guarded.authority.with_suffix(".away")
    with stack.running(name="without", settings={"faust": {"session_timeout": "20s"}}) as daemon:
        daemon.await_leader()
        guarded.authority.rename(away)
        try:
            daemon.freeze()
            time.sleep(_FREEZE_S)  # it asks the journal who leads, and reads the control topic again
            daemon.thaw()
            daemon.wait_for(lambda: _WAITS in daemon.log.read_text(encoding="utf-8"), "miss its certificate", 60)
        finally:
            away.rename(guarded.authority)
        stack.follower.wait_answer(stack.control.command("pause", "nothing"))
        assert (daemon.is_running(), daemon.is_leader()) == (True, True)
