"""The image's health check as the engine runs it: a process with an exit code, asked against real HTTP servers."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from recoveryd_sandbox.ports import free_ports

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "containers" / "healthcheck.py"
_TIMEOUT_S = 120


@contextmanager
def serving(status: int, host: str = "127.0.0.1") -> Iterator[int]:
    """A server that answers `/livez` with `status` and everything else with 404; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/livez" else 404)
            self.end_headers()
            self.wfile.write(b"told by the loop")

        def log_message(self, *_: object) -> None: ...

    class Server(HTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    with Server((host, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join(_TIMEOUT_S)


def check(listen: str) -> tuple[int, str]:
    """Exit code and output, with that value of the daemon's option."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT)],
        env={**os.environ, "RECOVERYD_HTTP__LISTEN": listen},
        capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.strip()


def test_it_passes_when_the_daemon_says_it_lives() -> None:
    with serving(200) as port:
        assert check(f"0.0.0.0:{port}") == (0, "200 told by the loop")


@pytest.mark.parametrize(
    ("serves", "listen"), [("127.0.0.2", "127.0.0.2"), ("::1", "[::1]"), ("::1", "[::]"), ("127.0.0.1", "localhost")]
)
def test_it_asks_where_the_daemon_listens(serves: str, listen: str) -> None:
    with serving(200, serves) as port:
        assert check(f"{listen}:{port}") == (0, "200 told by the loop")


def test_it_fails_with_the_answer_when_the_loop_stands_still() -> None:
    with serving(503) as port:
        assert check(f"0.0.0.0:{port}") == (1, "503 told by the loop")


def test_it_fails_with_the_port_when_nobody_answers() -> None:
    [port] = free_ports(1)
    code, said = check(f"0.0.0.0:{port}")
    assert (code, said.partition(":")[0]) == (1, f"no answer on port {port} of 127.0.0.1")


def test_it_fails_without_a_traceback_when_the_option_is_no_address() -> None:
    code, said = check("nowhere")
    assert (code, said.partition(":")[0]) == (1, "no answer on port nowhere of 127.0.0.1")
