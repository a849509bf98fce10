"""The broker as a real process: it starts, survives, can be frozen, and ends."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from recoveryd_sandbox import handle
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.errors import BrokerFailed, SandboxError
from recoveryd_sandbox.ports import free_ports
from recoveryd_sandbox.probe import answers
from recoveryd_sandbox.topics import Topics
from tests.e2e.processes import wait_for

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that these tests may kill and freeze, unlike the run's own. Each test leaves it running."""
    with Broker(tmp_path_factory.mktemp("own-kafka"), heap="384m") as broker:
        yield broker


def fill(bootstrap: str, topic: str, records: int) -> None:
    Topics(bootstrap).create(topic, 1, {})
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(records):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(60) == 0


def test_each_node_is_a_cluster_of_its_own(own_broker: Broker, bootstrap: str) -> None:
    clusters = [
        AdminClient({"bootstrap.servers": at}).list_topics(timeout=60) for at in (own_broker.bootstrap, bootstrap)
    ]

    assert len({cluster.cluster_id for cluster in clusters}) == 2


@pytest.mark.wide("tests/sandbox/test_broker.py::test_a_paused_broker_can_be_stopped_cleanly")
def test_data_and_address_survive_a_restart(own_broker: Broker, unique: str) -> None:
    address = own_broker.bootstrap
    fill(address, f"{unique}kept", 1_000)

    own_broker.restart()

    assert (own_broker.bootstrap, Topics(address).end_offsets(f"{unique}kept")) == (address, [1_000])


def test_data_and_address_survive_a_kill(own_broker: Broker, unique: str) -> None:
    address = own_broker.bootstrap
    fill(address, f"{unique}kept", 1_000)

    own_broker.kill()
    assert (own_broker.is_running(), answers(address)) == (False, False)
    own_broker.start()

    assert (own_broker.bootstrap, Topics(address).end_offsets(f"{unique}kept")) == (address, [1_000])


def test_a_paused_broker_lives_and_is_silent_until_it_goes_on(own_broker: Broker) -> None:
    own_broker.pause()
    paused = (own_broker.is_running(), answers(own_broker.bootstrap))
    own_broker.cont()

    assert paused == (True, False)
    wait_for(lambda: answers(own_broker.bootstrap), 20.0)


def test_a_paused_broker_can_be_stopped_cleanly(own_broker: Broker, unique: str) -> None:
    fill(own_broker.bootstrap, f"{unique}kept", 10)
    own_broker.pause()

    own_broker.stop()

    assert not own_broker.is_running()
    own_broker.start()
    assert Topics(own_broker.bootstrap).end_offsets(f"{unique}kept") == [10]


def test_a_second_broker_on_the_same_folder_is_refused(own_broker: Broker) -> None:
    with pytest.raises(BrokerFailed, match=f"in use by a broker with pid {own_broker.pid}"):
        Broker(own_broker.log_file.parent).start()

    wait_for(lambda: answers(own_broker.bootstrap), 20.0)


def test_a_setting_kafka_refuses_is_named_in_the_error(tmp_path: Path) -> None:
    broker = Broker(tmp_path, overrides={"num.io.threads": "0"}, heap="256m")

    with pytest.raises(BrokerFailed, match=r"could not format .* Invalid value 0 for configuration num\.io\.threads"):
        broker.start()

    assert not broker.is_running()


def test_a_port_that_is_taken_is_told_with_what_kafka_logged(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", free_ports(1)[0])) as taken:
        broker = Broker(tmp_path, port=taken.getsockname()[1], heap="256m")
        with pytest.raises(BrokerFailed, match=r"(?s)ended while it started\..*broker\.log.*Address already in use"):
            broker.start()

    assert (broker.is_running(), handle.status(tmp_path).state) == (False, "stopped")


def test_up_leaves_a_broker_running_that_later_commands_find_and_end(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    address = handle.up(tmp_path, port)
    try:
        found = handle.status(tmp_path)
        assert (found.state, found.bootstrap, address) == ("running", address, f"127.0.0.1:{port}")
        assert handle.up(tmp_path) == address
        assert handle.status(tmp_path) == found, "a second up must not start a second broker"
        with pytest.raises(SandboxError, match="runs already"):
            handle.up(tmp_path, port + 1)
    finally:
        assert handle.down(tmp_path)

    try:
        assert handle.up(tmp_path) == address, "the same folder is the same node at the same address"
    finally:
        assert handle.down(tmp_path)
    assert handle.status(tmp_path) == handle.SandboxStatus("stopped", tmp_path)
    assert not answers(address)
    assert not handle.down(tmp_path)


def test_ctrl_c_in_the_terminal_does_not_reach_the_broker(own_broker: Broker) -> None:
    """A terminal signals its process group; the broker has a group of its own."""
    shown = subprocess.run(
        ["ps", "-o", "pgid=", "-p", str(own_broker.pid)], capture_output=True, text=True, timeout=60, check=True
    )

    assert int(shown.stdout) == own_broker.pid
