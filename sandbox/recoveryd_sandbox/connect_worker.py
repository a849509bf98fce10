"""A real worker of Kafka Connect with the connectors for files, and its REST interface: to try recoveries of connectors
on.
"""

import http.client
import json
import time
from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any

from recoveryd_sandbox.jars import TOOLS, kafka_jars
from recoveryd_sandbox.java import find_java
from recoveryd_sandbox.java_program import JavaProgram
from recoveryd_sandbox.jvm import Jvm
from recoveryd_sandbox.ports import free_ports
from recoveryd_sandbox.properties import HOST, text_of

_HEAP = "256m"
_REQUEST_S = 90.0  # Connect itself gives up a request after this time
_PROBE_S = 5.0
_POLL_S = 0.1
_SESSION_MS = "6000"  # so long do the work and the connectors of a killed worker wait for another
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
_NO_SETTINGS: Mapping[str, str] = {}


class Connector(StrEnum):
    """Connectors that the worker has."""

    FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


class ConnectWorker(JavaProgram):
    """A worker on the cluster at `bootstrap`: of the group `group`, in topics named after it, or, without one,
    standalone with its offsets in a file. `settings` are properties of the worker. Its address stays the same over
    restarts; a stop ends it with 143, as signals end a JVM.
    """

    def __init__(
        self, folder: Path, bootstrap: str, group: str | None = None, settings: Mapping[str, str] = _NO_SETTINGS
    ) -> None:
        super().__init__(folder, "connect")
        self._bootstrap, self._group, self._settings = bootstrap, group, dict(settings)
        self._port = free_ports(1)[0]
        self.url = f"http://{HOST}:{self._port}"

    def command(self) -> list[str]:
        jvm = Jvm(find_java(), kafka_jars(bundle=TOOLS))
        properties = self.folder / "connect.properties"
        properties.write_text(text_of(self._properties()), encoding="utf-8")
        main = "ConnectStandalone" if self._group is None else "ConnectDistributed"
        return jvm.logged(f"org.apache.kafka.connect.cli.{main}", str(properties), log_file=self.log_file, heap=_HEAP)

    def is_ready(self) -> bool:
        """It serves connectors only after it has joined its group and read its topics."""
        try:
            return self.request("GET", "/connectors", timeout_s=_PROBE_S)[0] == HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False

    def request(self, method: str, path: str, body: Any = None, timeout_s: float = _REQUEST_S) -> tuple[int, Any]:
        """HTTP status and JSON (None where there is none) of its answer. Raises `OSError` or `HTTPException`
        when it gives none.
        """
        connection = http.client.HTTPConnection(
            HOST, self._port, timeout=timeout_s
        )  # by no proxy, whatever the environment says
        try:
            connection.request(method, path, None if body is None else json.dumps(body), _HEADERS)
            answer = connection.getresponse()
            return answer.status, _json(answer.read())
        finally:
            connection.close()

    def put_connector(self, name: str, config: Mapping[str, str]) -> None:
        """Makes the connector or changes it. Raises `ValueError` with the worker's reason."""
        self.change("PUT", f"/connectors/{name}/config", {"tasks.max": "1", **config})

    def change(self, method: str, path: str, body: Any = None) -> Any:
        """As `request`, for what must succeed: asks again while the group rebalances, which is no answer. Raises
        `ValueError` with the worker's reason.
        """
        give_up_at_s = time.monotonic() + _REQUEST_S
        status, answer = self.request(method, path, body)
        while status == HTTPStatus.CONFLICT and time.monotonic() < give_up_at_s:
            time.sleep(_POLL_S)
            status, answer = self.request(method, path, body)
        if status >= HTTPStatus.MULTIPLE_CHOICES:
            raise ValueError(f"{status}: {answer}")
        return answer

    def states(self, name: str) -> tuple[str, list[str]]:
        """State of the connector and of each of its tasks, in capitals as Connect says them; `("", [])` while it is not
        known.
        """
        status, answer = self.request("GET", f"/connectors/{name}/status")
        if status != HTTPStatus.OK:
            return "", []
        return answer["connector"]["state"], [task["state"] for task in answer["tasks"]]

    def _properties(self) -> dict[str, str]:
        plain = "org.apache.kafka.connect.storage.StringConverter"
        common = {
            "bootstrap.servers": self._bootstrap,
            "listeners": self.url,
            "key.converter": plain,
            "value.converter": plain,
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "service_load",
            "consumer.session.timeout.ms": _SESSION_MS,
        }
        if self._group is None:
            own = {"offset.storage.file.filename": str(self.folder / "connect.offsets")}
        else:
            own = {"group.id": self._group, "session.timeout.ms": _SESSION_MS, "heartbeat.interval.ms": "1000"}
            own |= {"offset.storage.partitions": "1", "status.storage.partitions": "1"}
            for what in ("config", "offset", "status"):
                own[f"{what}.storage.topic"] = f"{self._group}-{what}"
                own[f"{what}.storage.replication.factor"] = "1"
        return {**common, **own, **self._settings}


def _json(answer: bytes) -> Any:
    return json.loads(answer) if answer.strip() else None
