"""Several real brokers and their controller on this machine, with or without logins, started and ended from Python.

Everything is in one folder, with one folder per node in it. Each broker is a `Broker`: it may be restarted, killed and
frozen while the others go on. Nodes that an earlier command left running in the folder are found by their notes and
kept.
"""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from recoveryd_sandbox.access import ADMIN, RECOVERYD, Credentials, make_credentials, write_client_file
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.cluster_nodes import BrokerNode, ControllerNode, Shape
from recoveryd_sandbox.errors import BrokerFailed
from recoveryd_sandbox.probe import answers
from recoveryd_sandbox.properties import HOST, new_cluster_id, ports_in
from recoveryd_sandbox.state import end_running, running_state
from recoveryd_sandbox.users import EVERYTHING, Grant, Users

_START_DEADLINE_S = 240.0
_POLL_S = 0.1
_CONTROLLER_HEAP = "192m"
_NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})


class Cluster:
    """A cluster of `shape` in `folder`. `overrides` are Kafka's own properties of all nodes; `grants` is what the user
    `recoveryd` may do.

    As a context manager it starts on entry and stops on exit. `port` is the first broker's.
    """

    def __init__(
        self,
        folder: Path,
        shape: Shape,
        port: int | None = None,
        overrides: Mapping[str, str] = _NO_OVERRIDES,
        grants: Iterable[Grant] = EVERYTHING,
        heap: str = "384m",
    ) -> None:
        self.folder = folder.absolute()
        self.shape = shape
        self.brokers: list[Broker] = []
        self._port = port
        self._overrides = dict(overrides)
        self._grants = tuple(grants)
        self._heap = heap
        self._controller: Broker | None = None
        self._credentials: Credentials | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:PORT` of all brokers, with commas between. Raises `BrokerFailed` before the first start."""
        addresses = [_address(folder) for folder in self._broker_folders()]
        if None in addresses:
            raise BrokerFailed("The sandbox cluster has not been started.")
        return ",".join(str(address) for address in addresses)

    @property
    def users(self) -> Users:
        """To change users and ACLs of a secured cluster."""
        return Users(self.client(ADMIN))

    def client(self, user: str = RECOVERYD) -> dict[str, str]:
        """Librdkafka's properties of a client; those of `user` where clients must log in."""
        found = {"bootstrap.servers": self.bootstrap}
        return found if self._credentials is None else found | self._credentials.as_user(user)

    def java_client(self, user: str = RECOVERYD) -> dict[str, str]:
        """The same in Kafka's own property names, as recoveryd's config has them."""
        if self._credentials is None:
            return {"bootstrap.servers": self.bootstrap}
        return self._credentials.java_properties(user, self.bootstrap)

    def client_file(self, user: str = RECOVERYD) -> Path:
        """A config for `--config`; written again at each start."""
        return self.folder / f"{'client' if user == RECOVERYD else user}.yaml"

    def start(self, deadline_s: float = _START_DEADLINE_S) -> None:
        """Returns once every broker serves and the users can log in. Running nodes are left alone. Raises
        `SandboxError`.
        """
        give_up_at_s = time.monotonic() + deadline_s
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.shape.secure:
            self._credentials = make_credentials(self.folder / "access")
        cluster_id = self._cluster_id()
        layout = ControllerNode(cluster_id, self.shape, self._credentials, self._overrides)
        self._controller = Broker(self.folder / "controller", heap=_CONTROLLER_HEAP, layout=layout)
        try:
            _start_unless_running(self._controller, deadline_s)
            self._start_brokers(cluster_id, give_up_at_s - time.monotonic())
            if self._credentials is not None:
                self._make_users(self._credentials, give_up_at_s)
        except BaseException:  # Ctrl-C too: no half-started cluster may stay behind
            self.stop()
            raise
        for user in (RECOVERYD, ADMIN) if self.shape.secure else (RECOVERYD,):
            write_client_file(self.client_file(user), self.java_client(user))

    def stop(self) -> None:
        """Ends what this object started: brokers together, then their controller."""
        with ThreadPoolExecutor(max(1, len(self.brokers))) as pool:
            list(pool.map(Broker.stop, self.brokers))
        if self._controller is not None:
            self._controller.stop()

    def leave_running(self) -> None:
        """Let go of the processes without ending them. They are found again by the notes in the folder."""
        for node in (*self.brokers, *([self._controller] if self._controller is not None else [])):
            node.leave_running()

    def _start_brokers(self, cluster_id: str, deadline_s: float) -> None:
        controller = _address(self.folder / "controller")
        assert controller is not None
        self.brokers = [
            Broker(
                folder,
                self._port if number == 1 else None,
                heap=self._heap,
                layout=BrokerNode(number, controller, cluster_id, self.shape, self._credentials, self._overrides),
            )
            for number, folder in enumerate(self._broker_folders(), 1)
        ]
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(lambda broker: _start_unless_running(broker, deadline_s), self.brokers))

    def _make_users(self, credentials: Credentials, give_up_at_s: float) -> None:
        """Once per folder. Brokers learn of users a moment later, so each is asked until recoveryd can log in."""
        made = self.folder / "access" / "users.made"
        if not made.exists():
            users = Users({**credentials.as_node(), "bootstrap.servers": self._inner()})
            for user in (ADMIN, RECOVERYD):
                users.set_password(user, credentials.password(user))
            users.grant(RECOVERYD, self._grants)
            made.touch()
        waiting = self.bootstrap.split(",")
        while waiting:
            waiting = [address for address in waiting if not answers(address, client=credentials.as_user(RECOVERYD))]
            if waiting and time.monotonic() > give_up_at_s:
                raise BrokerFailed(f"The sandbox brokers at {', '.join(waiting)} do not let the user recoveryd in.")

    def _inner(self) -> str:
        ports = [ports_in(folder / "server.properties") for folder in self._broker_folders()]
        return ",".join(f"{HOST}:{found[1]}" for found in ports)

    def _broker_folders(self) -> list[Path]:
        return [self.folder / f"broker-{number}" for number in range(1, self.shape.brokers + 1)]

    def _cluster_id(self) -> str:
        """All nodes are formatted with one id, which is kept in the folder."""
        file = self.folder / "cluster.id"
        if not file.exists():
            file.write_text(new_cluster_id(), encoding="ascii")
        return file.read_text(encoding="ascii").strip()


def end_cluster(folder: Path, deadline_s: float) -> bool:
    """End every node that an earlier command left running in the cluster folder `folder`. False when none ran."""
    brokers = sorted(folder.glob("broker-*"))
    with ThreadPoolExecutor(max(1, len(brokers))) as pool:
        ended = list(pool.map(lambda node: end_running(node, deadline_s), brokers))
    return any([*ended, end_running(folder / "controller", deadline_s)])


def _start_unless_running(node: Broker, deadline_s: float) -> None:
    if node.is_running() or running_state(node.folder) is None:
        node.start(deadline_s)


def _address(folder: Path) -> str | None:
    """The address of the node in `folder` for clients, present or last."""
    ports = ports_in(folder / "server.properties")
    return f"{HOST}:{ports[0]}" if ports else None
