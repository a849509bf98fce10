"""A receiver of webhooks as a user would write it: keeps requests, checks signatures with its own code, and answers
unless held.
"""

import hashlib
import hmac
import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

SECRET = "a-secret-of-the-test-only"
_HOLD_AT_MOST_S = 120.0


@dataclass(frozen=True, slots=True)
class Delivery:
    id: str
    body: bytes
    is_signed: bool

    @property
    def event(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed


class WebhookReceiver:
    """Use as a context manager. While `held`, requests are received but not answered."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self._may_answer = threading.Event()
        self._may_answer.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.deliveries.append(_delivery(self.headers, body))
                receiver._may_answer.wait(_HOLD_AT_MOST_S)
                try:
                    self.send_response(204)
                    self.end_headers()
                except OSError:
                    return  # the daemon died meanwhile

            def log_message(self, *_args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hooks/stop"

    def hold(self) -> None:
        self._may_answer.clear()

    def release(self) -> None:
        self._may_answer.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()


def _delivery(headers: Any, body: bytes) -> Delivery:
    signed = f"{headers['X-Recoveryd-Timestamp']}.".encode() + body
    expected = "v1=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    is_signed = hmac.compare_digest(expected, headers["X-Recoveryd-Signature"])
    return Delivery(headers["X-Recoveryd-Delivery"], body, is_signed)
