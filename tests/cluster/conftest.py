"""One secured cluster and one leading daemon for all tests of this folder; each test has recoveries and targets of its
own.

The tests' own clients are the super user; the product is the user `recoveryd` and may do what it was granted.
"""

from collections.abc import Iterator

import pytest

from recoveryd_sandbox.access import ADMIN, RECOVERYD
from recoveryd_sandbox.cluster import Cluster
from recoveryd_sandbox.cluster_nodes import Shape
from tests.cluster.replicas import await_whole, start_all
from tests.cluster.rights import grants_of, needed
from tests.e2e.case import NewCase, observed_cases
from tests.e2e.clients import note_access
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_plain
from tests.e2e.stack import Stack

PARTITIONS = 6  # every broker leads some
RECORDS_EACH = 3_000


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("secured"), Shape(3, secure=True), grants=()) as started:
        note_access(started.bootstrap, started.client(ADMIN))
        yield started


@pytest.fixture(scope="package")
def stack(cluster: Cluster, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose `main` is the secured cluster; `plain` is the run's usual broker."""
    settings = {
        "clusters": {"plain": {"bootstrap.servers": bootstrap}},
        "attempts": {"heartbeat_timeout": "60s"},  # brokers restart, and five JVMs start beside a lane on few cores
    }
    made = Stack(cluster.bootstrap, tmp_path_factory.mktemp("stack"), settings, cluster.java_client())
    cluster.users.grant(RECOVERYD, grants_of(needed(made)))
    with made:
        yield made


@pytest.fixture(scope="package")
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running(settings={"profiles": {"default": {"warm": 1}}}) as leading:
        yield leading


@pytest.fixture(autouse=True)
def same_daemon(daemon: DaemonProcess) -> Iterator[None]:
    """The daemon, which must lead after each test as before it, whatever happens to brokers."""
    yield
    assert daemon.is_running(), daemon.tail()
    daemon.await_leader()


@pytest.fixture(scope="package")
def source(stack: Stack) -> str:
    topic = f"{stack.mark}-source"
    fill_plain(stack.bootstrap, topic, PARTITIONS, RECORDS_EACH)
    return topic


@pytest.fixture
def new_case(stack: Stack, source: str) -> Iterator[NewCase]:
    with observed_cases(stack, source) as make:
        yield make


@pytest.fixture
def whole_afterwards(cluster: Cluster, stack: Stack, source: str) -> Iterator[None]:
    """The cluster, for tests that take brokers away."""
    yield
    start_all(cluster.brokers)
    await_whole(stack.bootstrap, source)
