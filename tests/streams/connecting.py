"""Asks workers of Kafka Connect what may be refused."""

from http import HTTPStatus
from typing import Any

from recoveryd_sandbox.connect_worker import ConnectWorker
from tests.e2e.processes import wait_for


def answer(worker: ConnectWorker, method: str, path: str) -> tuple[int, Any]:
    """HTTP status and JSON, once the group does not rebalance any more: until then Connect answers nothing else."""

    def look() -> tuple[int, Any] | None:
        found = worker.request(method, path)
        return None if found[0] == HTTPStatus.CONFLICT else found

    found = wait_for(look, 60.0, lambda: "the group of the workers does not settle")
    assert found is not None
    return found
