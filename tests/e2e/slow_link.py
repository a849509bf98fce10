"""A link to a broker that can hold back what the broker answers: requests arrive and are done, nobody hears of it until the link is let go."""

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox.properties import SingleNode

_CHUNK = 1 << 16
_HOST = "127.0.0.1"


class BehindLink(SingleNode):
    """A node that sends its clients to another port than its own."""

    def __init__(self, advertised_port: int) -> None:
        super().__init__({})
        self._advertised_port = advertised_port

    def properties(self, data_dir: Path, port: int, inner_port: int) -> str:
        plain = super().properties(data_dir, port, inner_port)
        own = f"advertised.listeners=PLAINTEXT://{_HOST}:"
        return plain.replace(f"{own}{port}\n", f"{own}{self._advertised_port}\n")


class SlowLink:
    """Listens on `port` and passes everything to and from `to_port`, where a node `BehindLink(port)` runs. A context manager."""

    def __init__(self, port: int, to_port: int) -> None:
        self._to = (_HOST, to_port)
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server((_HOST, port))

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="slow-link", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._flows.set()
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def hold(self) -> None:
        """From now on answers wait."""
        self._flows.clear()

    def let_go(self) -> None:
        self._flows.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(self._to, timeout=5.0)
                except OSError:
                    client.close()
                    continue
                broker.settimeout(None)
                self._sockets += [client, broker]
                for work in ((client, broker, False), (broker, client, True)):
                    threading.Thread(target=self._pump, args=work, name="slow-link", daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                if is_answer:
                    self._flows.wait()
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
