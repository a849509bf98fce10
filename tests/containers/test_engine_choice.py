"""When the suite uses or installs an engine or is skipped, and which parts of the host's network it takes for Docker's.
No engine is needed.
"""

import os

import pytest

from tests.containers import docker_engine, host_network
from tests.containers.docker_engine import SWITCH, EngineUnavailable, running_engine
from tests.containers.host_network import HostNetwork

BEFORE = HostNetwork(
    {("iptables", "filter"): ("-P INPUT ACCEPT", "-P FORWARD ACCEPT", "-A INPUT -p tcp -j ACCEPT")}, frozenset(), "0"
)


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")


def reason() -> str:
    with pytest.raises(EngineUnavailable) as refused, running_engine():
        pass
    return str(refused.value)


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert reason() == "RECOVERYD_CONTAINERS=0 switches the container tests off"


def test_without_leave_nothing_is_installed_and_the_reason_names_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert reason() == "no Docker engine answers; RECOVERYD_CONTAINERS=1 installs and starts one (root on Debian)"


@pytest.mark.parametrize(("switch", "outcome"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_suite_that_cannot_run_fails_where_it_was_asked_for_and_is_skipped_elsewhere(
    monkeypatch: pytest.MonkeyPatch, switch: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv(SWITCH, switch)
    with pytest.raises(outcome, match="no disk"):
        docker_engine.do_without(EngineUnavailable("no disk"))


def test_only_root_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert reason() == "no Docker engine answers, and installing one needs root"


def test_a_socket_that_nobody_serves_is_no_engine() -> None:
    assert docker_engine.answers() is False
    assert docker_engine.answers("unix:///nowhere/at/all.sock") is False


def test_what_docker_left_is_told_line_by_line() -> None:
    after = HostNetwork(
        {("iptables", "filter"): ("-P INPUT ACCEPT", "-P FORWARD DROP", "-N DOCKER", "-A FORWARD -o br-1 -j ACCEPT")},
        frozenset({"br-1"}),
        "1",
    )
    assert host_network.differences(BEFORE, after) == [
        "bridge br-1 is still there",
        "iptables -t filter -N DOCKER",
        "iptables -t filter -A FORWARD -o br-1 -j ACCEPT",
        "iptables -t filter -P FORWARD DROP",
        "ip_forward is 1, was 0",
    ]


def test_rules_of_others_that_came_meanwhile_are_not_docker_s() -> None:
    [(table, rules)] = BEFORE.rules.items()
    after = HostNetwork({table: (*rules, "-N MINE", "-A INPUT -i eth0 -j MINE")}, frozenset(), "0")
    assert host_network.differences(BEFORE, after) == []
