"""A broker behind a proxy that can hold or lose single frames, chosen by api key and by the transactional id in them,
hold all replies, or take requests out of what the broker says that it answers.

A client that asks for the cluster's addresses gets the proxy's own, so all its traffic goes through the proxy. Tests
themselves use the broker's plain listener. Kafka's frames are a length, then for requests api key, version and
correlation id, for replies the correlation id.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.ports import free_ports
from recoveryd_sandbox.properties import HOST
from tests.e2e.processes import wait_for

_CONNECT_S = 120.0
_FLEXIBLE = 3  # the first version of ApiVersions with compact lists
_MORE = 0x80


class Api(IntEnum):
    """Kafka's api keys of the requests that tests trap."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    OFFSET_FETCH = 9
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    END_TXN = 26


class Trap:
    """Catches requests of one api that contain `needle`. `loses`: what is lost, the "reply" or "nothing"; None = the
    request is held, for `held_s` seconds at most.
    """

    def __init__(
        self, api: Api, needle: str, loses: str | None, times: int | None, held_s: float | None = None
    ) -> None:
        self.api, self.needle, self.loses, self._held_s = api, needle.encode(), loses, held_s
        self.met = 0
        self._left = times
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._dropped = False

    def catches(self, api: int, frame: bytes) -> bool:
        with self._lock:
            if api != self.api or self.needle not in frame or self._released.is_set() or self._left == 0:
                return False
            if self._left is not None:
                self._left -= 1
            self.met += 1
            return True

    def await_met(self, times: int = 1, deadline_s: float = 60.0) -> None:
        wait_for(lambda: self.met >= times, deadline_s, lambda: f"only {self.met} of {times} frames came")

    def release(self) -> None:
        """Let held frames go on, late, and catch no more."""
        self._released.set()

    def drop(self) -> None:
        """Lose held frames with their connections, and catch no more."""
        self._dropped = True
        self._released.set()

    def hold(self) -> bool:
        """Wait for `release` or `drop`. True when the frame goes on."""
        self._released.wait(self._held_s)
        return not self._dropped


class Proxy:
    """A proxy from `port` to the broker's `upstream` port. Use as a context manager."""

    def __init__(self, port: int, upstream: int) -> None:
        self.port, self.upstream = port, upstream
        self._server = socket.create_server((HOST, port), backlog=128)
        self.lacking: frozenset[int] = frozenset()  # api keys that no client hears of
        self._traps: list[Trap] = []
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._replies_flow = threading.Event()
        self._replies_flow.set()

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.close()
        for trap in self._traps:
            trap.drop()
        self.let_go()
        with self._lock:
            left = list(self._sockets)
        for each in left:
            _close(each)

    def hold(self, api: Api, needle: str, times: int | None = None) -> Trap:
        """Hold such requests until `release` or `drop`. Later frames of the same connection wait too, because Kafka
        keeps their order.
        """
        return self._add(Trap(api, needle, None, times))

    def delay(self, api: Api, needle: str, held_s: float) -> Trap:
        """Hold each of such requests for so long."""
        return self._add(Trap(api, needle, None, None, held_s))

    def lose_replies(self, api: Api, needle: str, times: int) -> Trap:
        """Let the broker do what is requested, but end the connection instead of sending its reply."""
        return self._add(Trap(api, needle, "reply", times))

    def see(self, api: Api, needle: str) -> Trap:
        """Count such requests, and let them go on."""
        return self._add(Trap(api, needle, "nothing", None))

    def hold_replies(self) -> None:
        """From now on hold all replies: the broker gets requests and acts on them, but clients get no answer."""
        self._replies_flow.clear()

    def let_go(self) -> None:
        """Let held replies go on, late."""
        self._replies_flow.set()

    def _add(self, trap: Trap) -> Trap:
        self._traps.append(trap)
        return trap

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            broker = socket.create_connection((HOST, self.upstream), _CONNECT_S)
        except OSError:  # the broker is away, so the client's connection ends too
            _close(client)
            return
        broker.settimeout(None)
        with self._lock:
            self._sockets |= {client, broker}
        lost: set[int] = set()
        versions: dict[int, int] = {}  # of questions which requests are answered, by correlation id
        threading.Thread(target=self._replies, args=(broker, client, lost, versions), daemon=True).start()
        try:
            self._requests(client, broker, lost, versions)
        finally:
            _close(client)
            _close(broker)
            with self._lock:
                self._sockets -= {client, broker}

    def _requests(self, client: socket.socket, broker: socket.socket, lost: set[int], versions: dict[int, int]) -> None:
        for frame in _frames(client):
            api, version, correlation = struct.unpack_from(">hhi", frame)
            if api == Api.API_VERSIONS:
                versions[correlation] = version
            for trap in self._traps:
                if not trap.catches(api, frame):
                    continue
                if trap.loses == "reply":
                    lost.add(correlation)
                elif trap.loses is None and not trap.hold():
                    return
            try:
                broker.sendall(struct.pack(">i", len(frame)) + frame)
            except OSError:
                return

    def _replies(self, broker: socket.socket, client: socket.socket, lost: set[int], versions: dict[int, int]) -> None:
        for frame in _frames(broker):
            correlation = struct.unpack_from(">i", frame)[0]
            if correlation in lost:
                break
            if self.lacking and correlation in versions:
                frame = _without(frame, self.lacking, is_compact=versions.pop(correlation) >= _FLEXIBLE)  # noqa: PLW2901
            self._replies_flow.wait()
            try:
                client.sendall(struct.pack(">i", len(frame)) + frame)
            except OSError:
                break
        _close(client)


def _frames(source: socket.socket) -> Iterator[bytes]:
    """Whole frames without their length, until the connection ends."""
    with contextlib.suppress(OSError), source.makefile("rb", buffering=1 << 18) as stream:
        while len(head := stream.read(4)) == 4:
            frame = stream.read(struct.unpack(">i", head)[0])
            yield frame


def _without(frame: bytes, keys: frozenset[int], *, is_compact: bool) -> bytes:
    """What a broker says of the requests that it answers (ApiVersions), without some: its correlation id and an error
    code, then rows of a key and two versions, which from version 3 on end with an empty list of tags.
    """
    if struct.unpack_from(">h", frame, 4)[0]:
        return frame  # it does not know the version of the question, and is asked again
    if is_compact:
        (count, at), size = _unsigned(frame, 6), 7
        count -= 1
    else:
        count, at, size = struct.unpack_from(">i", frame, 6)[0], 10, 6
    rows = [frame[at + n * size : at + (n + 1) * size] for n in range(count)]
    left = [row for row in rows if struct.unpack_from(">h", row)[0] not in keys]
    head = _varint(len(left) + 1) if is_compact else struct.pack(">i", len(left))
    return frame[:6] + head + b"".join(left) + frame[at + count * size :]


def _unsigned(frame: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = frame[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < _MORE:
            return value, at


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= _MORE:
        found.append(value & 0x7F | _MORE)
        value >>= 7
    return bytes((*found, value))


def _close(which: socket.socket) -> None:
    with contextlib.suppress(OSError):
        which.shutdown(socket.SHUT_RDWR)
    which.close()


class ProxiedBroker(Broker):
    """A broker with a second listener, whose advertised address is the proxy's: `through`."""

    def __init__(self, folder: Path, **more: Any) -> None:
        super().__init__(folder, **more)
        self._inner, outer = free_ports(2)
        self.through = Proxy(outer, self._inner)

    def __enter__(self) -> Self:
        super().__enter__()
        self.through.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.through.__exit__(kind, error, tb)
        super().__exit__(kind, error, tb)

    def _write_config(self, port: int, controller_port: int) -> None:
        super()._write_config(port, controller_port)
        file = self._folder / "server.properties"
        told = dict(line.split("=", 1) for line in file.read_text(encoding="utf-8").splitlines())
        told["listeners"] += f",THROUGH://{HOST}:{self._inner}"
        told["advertised.listeners"] += f",THROUGH://{self.through.bootstrap}"
        told["listener.security.protocol.map"] += ",THROUGH:PLAINTEXT"
        file.write_text("".join(f"{name}={value}\n" for name, value in told.items()), encoding="utf-8")
