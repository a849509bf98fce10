"""The broker's configuration as text, and free ports."""

import base64
import socket
from pathlib import Path

import pytest

from recoveryd_sandbox.ports import free_ports, is_free, take_part
from recoveryd_sandbox.properties import new_cluster_id, server_properties


def parsed(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_overrides_win_over_the_sandboxs_habits_but_not_over_the_addresses() -> None:
    overrides = {
        "auto.create.topics.enable": "true",
        "log.segment.bytes": "1048576",
        "listeners": "PLAINTEXT://0.0.0.0:1",
    }

    found = parsed(server_properties(Path("/data"), 19092, 19093, overrides))

    assert {name: found[name] for name in [*overrides, "advertised.listeners", "log.dirs"]} == {
        "auto.create.topics.enable": "true",
        "log.segment.bytes": "1048576",
        "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:19092",
        "log.dirs": "/data",
    }


def test_a_cluster_id_is_sixteen_bytes_and_never_looks_like_an_option() -> None:
    ids = {new_cluster_id() for _ in range(500)}

    assert len(ids) == 500
    assert {len(base64.urlsafe_b64decode(text + "==")) for text in ids} == {16}
    assert not any(text.startswith("-") for text in ids)


def test_free_ports_are_different_free_and_outside_the_range_of_outgoing_connections() -> None:
    ports = free_ports(20)

    assert len(set(ports)) == 20
    assert all(15_000 <= port < 32_000 and is_free(port) for port in ports)


def test_no_port_is_given_twice_before_its_server_may_have_bound_it() -> None:
    given = [port for _ in range(40) for port in free_ports(5)]
    assert len(set(given)) == len(given)


def test_two_that_have_parts_of_the_ports_give_none_of_the_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_PORTS", "")  # so that it is put back
    parts = []
    for number in range(2):
        take_part(number, 2)
        parts.append(free_ports(50))
    assert max(parts[0]) < 23_500 <= min(parts[1])


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", free_ports(1)[0])) as taken:
        assert not is_free(taken.getsockname()[1])
