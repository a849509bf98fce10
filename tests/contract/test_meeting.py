"""Each client of ours meets its cluster soon, unless the config says otherwise."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from recoveryd.adapters.kafka import client as of_daemon
from recoveryd_jobs import clients as of_jobs

KEY = "reconnect.backoff.ms"
MAKERS: dict[str, tuple[object, Callable[[Mapping[str, str]], object]]] = {
    "consumer": (of_daemon, of_daemon.make_consumer),
    "producer": (of_daemon, lambda properties: of_daemon.make_producer(properties, 1_000)),
    "transactional producer": (of_daemon, lambda properties: of_daemon.make_transactional_producer(properties, "id", 1_000)),
    "admin": (of_daemon, of_daemon.make_admin),
    "reader of a job": (of_jobs, lambda properties: of_jobs.make_reader(properties, "id", 1_000_000)),
    "writer of a lane": (of_jobs, lambda properties: of_jobs.make_writer(properties, "id", "id", 1_000, 1, "none")),
    "sender of a job": (of_jobs, lambda properties: of_jobs.make_sender(properties, "id")),
    "admin of a job": (of_jobs, lambda properties: of_jobs.make_admin(properties, "id")),
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(("given", "wanted"), [({}, "20"), ({KEY: "700"}, "700")])
def test_a_new_client_tries_again_soon_unless_the_config_says_when(
    monkeypatch: pytest.MonkeyPatch, name: str, given: Mapping[str, str], wanted: str
) -> None:
    module, make = MAKERS[name]
    configs: list[Mapping[str, Any]] = []
    for kind in ("Consumer", "Producer", "AdminClient"):
        monkeypatch.setattr(module, kind, configs.append)

    make({"bootstrap.servers": "127.0.0.1:1", **given})

    assert [config[KEY] for config in configs] == [wanted]
