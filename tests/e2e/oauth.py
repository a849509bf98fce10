"""An identity provider and a broker that trusts it: signed tokens over HTTP for client credentials, checked by Kafka's
own validator.
"""

import base64
import json
import shutil
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from recoveryd_sandbox.properties import HOST
from tests.e2e.guarded_node import GuardedNode

CLIENT_ID, CLIENT_SECRET, SCOPE, AUDIENCE = "recoveryd", "p:ss w/rd%", "kafka.read kafka.write", "kafka"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer"


class TokenEndpoint:
    """Use as a context manager. `granted` counts tokens, `refused` requests with unknown credentials."""

    def __init__(self, folder: Path, life_s: int = 3600) -> None:
        self._key = folder / "signing.pem"
        self._life_s = life_s
        self.granted = 0
        self.refused = 0
        openssl = shutil.which("openssl")
        if openssl is None:
            pytest.skip("needs the openssl program to sign tokens")
        self._openssl = openssl
        self._run("genrsa", "-out", str(self._key), "2048")
        modulus = self._run("rsa", "-in", str(self._key), "-noout", "-modulus").decode().strip().partition("=")[2]
        self._keys = {"keys": [{"kty": "RSA", "kid": "k1", "use": "sig", "alg": "RS256", "e": "AQAB", "n": _b64(bytes.fromhex(modulus))}]}  # fmt: skip

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_port}/token"

    @property
    def keys_url(self) -> str:
        return f"http://{HOST}:{self._server.server_port}/keys"

    def __enter__(self) -> Self:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, endpoint._keys)

            def do_POST(self) -> None:
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self._answer(*endpoint._grant(self.headers.get("Authorization", ""), form))

            def log_message(self, *_args: Any) -> None:
                pass

            def _answer(self, status: int, document: Mapping[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _grant(self, authorization: str, form: Mapping[str, list[str]]) -> tuple[int, Mapping[str, Any]]:
        login = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        # RFC 6749 demands both parts form-encoded; not every client does it, and most providers accept both forms.
        known = {f"{CLIENT_ID}:{CLIENT_SECRET}", f"{CLIENT_ID}:{urllib.parse.quote_plus(CLIENT_SECRET)}"}
        if login not in known or form.get("grant_type") != ["client_credentials"] or form.get("scope") != [SCOPE]:
            self.refused += 1
            return 401, {"error": "invalid_client"}
        self.granted += 1
        now_s = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": CLIENT_ID, "scope": SCOPE, "iat": now_s, "exp": now_s + self._life_s}  # fmt: skip
        signed = f"{_b64(json.dumps({'alg': 'RS256', 'kid': 'k1', 'typ': 'JWT'}).encode())}.{_b64(json.dumps(claims).encode())}"
        signature = self._run("dgst", "-sha256", "-sign", str(self._key), given=signed.encode())
        token = f"{signed}.{_b64(signature)}"
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self._life_s}

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        return subprocess.run([self._openssl, *arguments], input=given, capture_output=True, timeout=60, check=True).stdout  # fmt: skip


class OAuthNode(GuardedNode):
    """A node whose guarded listener takes tokens of the endpoint."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint
        checks = {
            "sasl.oauthbearer.jwks.endpoint.url": endpoint.keys_url,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": endpoint.url,
        }
        guard = {
            "listener.name.client.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.client.oauthbearer.sasl.jaas.config": f"{_PACKAGE}.OAuthBearerLoginModule required;",
            "listener.name.client.oauthbearer.sasl.server.callback.handler.class": f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
        }
        super().__init__("SASL_PLAINTEXT", guard | checks)

    def client(self, bootstrap: str) -> dict[str, str]:
        """Kafka's own property names, as a config of recoveryd has them."""
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self._endpoint.url,
            "sasl.login.callback.handler.class": f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": (
                f'{_PACKAGE}.OAuthBearerLoginModule required clientId="{CLIENT_ID}" '
                f'clientSecret="{CLIENT_SECRET}" scope="{SCOPE}";'
            ),
        }


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
