"""A small HTTP server whose answers the test says, over TLS too; it keeps what it was asked."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer

from recoveryd_sandbox.pki import Certificates


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Answering:
    """`answer` is called for each request; what it raises is a 500."""

    answer: Callable[[Asked], Awaitable[web.StreamResponse]]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(request.method, request.path, dict(request.query), dict(request.headers), await request.read())
        self.asked.append(asked)
        return await self.answer(asked)


@asynccontextmanager
async def serving(
    answer: Callable[[Asked], Awaitable[web.StreamResponse]], certificates: Certificates | None = None, port: int = 0
) -> AsyncIterator[Answering]:
    made = Answering(answer)
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", made.handle)
    server = TestServer(app, scheme="http" if certificates is None else "https", host="localhost", port=port or None)
    if certificates is None:
        await server.start_server()
    else:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificates.node)
        await server.start_server(ssl=tls)
    made.url = str(server.make_url("")).rstrip("/")
    try:
        yield made
    finally:
        await server.close()
