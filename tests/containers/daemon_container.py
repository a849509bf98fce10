"""The product's image as a running daemon, hardened exactly as config/deploy/compose.yaml has it.

The compose file is read, not repeated: what a user copies from there is what runs here.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

COMPOSE = Path(__file__).resolve().parents[2] / "config" / "deploy" / "compose.yaml"

_HTTP_PORT = 8712
_HTTP_TIMEOUT_S = 120.0
_POLL_S = 0.2


def compose_service(name: str = "recoveryd") -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"][name]
    return found


class DaemonContainer(DockerContainer):
    """`environment`: options as `RECOVERYD_...` variables; `command`: arguments of `recoveryd`, `run` by default."""

    def __init__(
        self, image: str, network: Network, environment: Mapping[str, str], command: list[str] | None = None
    ) -> None:
        super().__init__(image)
        service = compose_service()
        self.with_network(network).with_exposed_ports(_HTTP_PORT).with_envs(**environment)
        for mount in service["tmpfs"]:
            path, _, options = mount.partition(":")
            self.with_tmpfs_mount(path, options)
        self.with_kwargs(
            read_only=service["read_only"],
            cap_drop=service["cap_drop"],
            security_opt=service["security_opt"],
            mem_limit=service["mem_limit"],
            pids_limit=service["pids_limit"],
        )
        if command is not None:
            self.with_command(command)

    def get(self, path: str) -> tuple[int, str]:
        """HTTP status and body, from the host through the mapped port; status 0 when nothing answers."""
        url = f"http://{self.get_container_host_ip()}:{self.get_exposed_port(_HTTP_PORT)}{path}"
        try:
            with urllib.request.urlopen(url, timeout=_HTTP_TIMEOUT_S) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()
        except OSError:
            return 0, ""

    def recovery(self, recovery: str) -> Mapping[str, Any]:
        status, body = self.get(f"/api/v1/recoveries/{recovery}")
        assert status == 200, (status, body)
        found: Mapping[str, Any] = json.loads(body)
        return found

    @property
    def health(self) -> str:
        """The engine's verdict by the image's HEALTHCHECK: starting | healthy | unhealthy."""
        self.reload()
        return str(self.get_wrapped_container().attrs["State"]["Health"]["Status"])

    def await_leader(self, deadline_s: float = 240.0) -> None:
        self._await(lambda: self.get("/readyz")[0] == 200, deadline_s, "ready")

    def await_healthy(self, deadline_s: float = 180.0) -> None:
        self._await(lambda: self.health == "healthy", deadline_s, "healthy")

    def end(self, grace_s: int = 90) -> int:
        """End it as `docker stop` does. Returns the exit code."""
        container = self.get_wrapped_container()
        container.stop(timeout=grace_s)
        return int(container.wait(timeout=grace_s)["StatusCode"])

    def kill(self) -> None:
        """Send SIGKILL to everything in the container: daemon, Spark, lanes."""
        self.get_wrapped_container().kill()
        self.get_wrapped_container().wait(timeout=60)

    def tail(self, lines: int = 40) -> str:
        return str(self.get_wrapped_container().logs(tail=lines).decode(errors="replace"))

    def _await(self, question: Any, deadline_s: float, about: str) -> None:
        give_up_at_s = time.monotonic() + deadline_s
        while not question():
            self.reload()
            if self.status != "running" or time.monotonic() >= give_up_at_s:
                raise AssertionError(f"the daemon in the container is {self.status} and not {about}:\n{self.tail()}")
            time.sleep(_POLL_S)
