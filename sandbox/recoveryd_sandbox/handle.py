"""A sandbox broker, or a cluster of them, that outlives the command that started it: `up`, `up_cluster`, `down`,
`status` on a folder.

Between commands, the notes of `recoveryd_sandbox.state` in that folder tell what runs; each shape of cluster has a
folder of its own in it. Every call can be repeated safely.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.cluster import Cluster, end_cluster
from recoveryd_sandbox.cluster_nodes import CLUSTER_PREFIX, Shape
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.locks import locked
from recoveryd_sandbox.probe import answers
from recoveryd_sandbox.state import end_running, running_state

_UP_DEADLINE_S = 180.0
_LOCK_DEADLINE_S = 200.0
_CLUSTER_LOCK_DEADLINE_S = 300.0
_DOWN_DEADLINE_S = 60.0


@dataclass(frozen=True)
class SandboxStatus:
    """`silent` = the process lives but answers no metadata request (paused, or still starting)."""

    state: Literal["running", "silent", "stopped"]
    folder: Path
    bootstrap: str | None = None
    pid: int | None = None


@dataclass(frozen=True)
class ClusterAddress:
    """The address of a cluster, and a config file for its clients."""

    bootstrap: str
    client_file: Path


def default_folder() -> Path:
    """`$XDG_STATE_HOME/recoveryd/sandbox`, else `~/.local/state/recoveryd/sandbox`. Not created here."""
    xdg = os.environ.get("XDG_STATE_HOME", "").strip()
    return (Path(xdg) if xdg else Path.home() / ".local" / "state") / "recoveryd" / "sandbox"


def up(folder: Path | None = None, port: int | None = None, deadline_s: float = _UP_DEADLINE_S) -> str:
    """Leaves a broker running on `folder` and returns its `127.0.0.1:PORT`; a running one is kept.

    Without `port`: the port the folder had before when it is free, else any free one.
    Raises `SandboxError` when it runs on another port than asked for, or does not start within `deadline_s`.
    """
    folder = _absolute(folder)
    with locked(folder / "sandbox.lock", _LOCK_DEADLINE_S):
        running = running_state(folder)
        if running is None:
            broker = Broker(folder, port)
            broker.start(deadline_s)
            broker.leave_running()
            return broker.bootstrap
        if port is not None and not running.bootstrap.endswith(f":{port}"):
            raise SandboxError(
                f"The sandbox of {folder} runs already, at {running.bootstrap}.",
                "Run `recoveryctl sandbox down` first, or give another --dir.",
            )
        return running.bootstrap


def up_cluster(shape: Shape, folder: Path | None = None, port: int | None = None) -> ClusterAddress:
    """Leaves a cluster running in its part of `folder`: running nodes are kept, missing ones are started. Raises
    `SandboxError`.

    `port` is the first broker's, when it is not running yet.
    """
    folder = _absolute(folder)
    with locked(folder / "sandbox.lock", _CLUSTER_LOCK_DEADLINE_S):
        cluster = Cluster(folder / shape.name, shape, port)
        cluster.start()
        cluster.leave_running()
        return ClusterAddress(cluster.bootstrap, cluster.client_file())


def down(folder: Path | None = None, deadline_s: float = _DOWN_DEADLINE_S) -> bool:
    """End the broker of `folder` and every cluster in it; their data stays. False when none ran."""
    folder = _absolute(folder)
    if not folder.is_dir():
        return False
    with locked(folder / "sandbox.lock", _CLUSTER_LOCK_DEADLINE_S):
        ended = [end_running(folder, deadline_s)]
        ended += [
            end_cluster(found, deadline_s) for found in sorted(folder.glob(f"{CLUSTER_PREFIX}*")) if found.is_dir()
        ]
        return any(ended)


def status(folder: Path | None = None) -> SandboxStatus:
    """What runs on `folder` now, according to the process table and the broker itself."""
    folder = _absolute(folder)
    running = running_state(folder)
    if running is None:
        return SandboxStatus("stopped", folder)
    state: Literal["running", "silent"] = "running" if answers(running.bootstrap) else "silent"
    return SandboxStatus(state, folder, running.bootstrap, running.process.pid)


def _absolute(folder: Path | None) -> Path:
    return (default_folder() if folder is None else folder).expanduser().absolute()
