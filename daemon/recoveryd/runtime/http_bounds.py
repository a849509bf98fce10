"""What one reader of the HTTP server may hold: how many answers are under way at once, how long each may be waited for,
and how many may be connected. There is no login, so whoever reaches the port may ask for much and read nothing of it,
or ask for nothing and stay. Each connection is an open file of the daemon, and those to its brokers are files too.

Probes have no place to wait for: nobody who asks for pages may make the daemon look dead.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

AT_ONCE: Final[Mapping[str, int]] = {"/api/": 32, "/metrics": 8}  # by the beginning of a path
READER_LIMIT_S: Final = 60.0
CONNECTED_MOST: Final = 200

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageReader:
    """Whoever asked. All writes of one answer together may wait for it so long; then it is let go."""

    def __init__(self, request: web.Request, limit_s: float) -> None:
        self._left_s = limit_s
        self._transport = request.transport
        self._socket = None if self._transport is None else self._transport.get_extra_info("socket")
        if self._socket is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            # Of what the system has taken over from us it has to read some too, or the connection ends.
            with contextlib.suppress(OSError):  # it has gone
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limit_s * 1000))

    async def wait(self, writing: Awaitable[None]) -> None:
        """Raises ConnectionError when it has gone, or is let go."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async with asyncio.timeout(self._left_s):
                await writing
        except TimeoutError:
            self._let_go()
            raise ConnectionAbortedError from None
        self._left_s -= loop.time() - began_s

    def _let_go(self) -> None:
        """With what is still to be sent to it, here and in the system."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if self._transport is not None:
            self._transport.abort()


class HttpBounds:
    """The middleware that this makes goes around all others. `refusal` makes the answer to one too many."""

    def __init__(self, refusal: Callable[[], web.Response], limit_s: float = READER_LIMIT_S) -> None:
        self._refusal = refusal
        self._limit_s = limit_s
        self._free = dict(AT_ONCE)
        self._answering: set[object] = set()  # connections with a request that was read whole

    def make_room(self, server: web.Server) -> None:
        """For one more connection: the oldest go that wait for no answer, then those that have not read the end of
        theirs. None goes whose answer is being made or sent; of these there are only so many at once.
        """
        connected = [each for each in server.connections if each.transport is not None]
        too_many = len(connected) + 1 - CONNECTED_MOST
        if too_many <= 0:
            return
        idle = [each for each in connected if each not in self._answering]
        for each in sorted(idle, key=_has_unread)[:too_many]:  # stable: the oldest first
            transport = each.transport
            each.force_close()
            if transport is not None:
                transport.abort()

    def reader(self, request: web.Request) -> PageReader:
        return PageReader(request, self._limit_s)

    def make_middleware(self) -> Middleware:
        @web.middleware
        async def bounded(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._bounded(request, handler)

        return bounded

    async def _bounded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._answering.add(request.protocol)
        try:
            return await self._counted(request, handler)
        finally:
            self._answering.discard(request.protocol)

    async def _counted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        kind = next((kind for kind in self._free if request.path.startswith(kind)), None)
        if kind is None:
            return await self._answered(request, handler)
        if self._free[kind] == 0:
            return self._refusal()
        self._free[kind] -= 1
        try:
            return await self._answered(request, handler)
        finally:
            self._free[kind] += 1

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        with contextlib.suppress(ConnectionError):  # it has gone, as the server will see too
            await self.reader(request).wait(_send(response, request))
        return response


def _has_unread(connection: web.RequestHandler) -> bool:
    transport = connection.transport
    return transport is not None and transport.get_write_buffer_size() > 0


async def _send(response: web.StreamResponse, request: web.Request) -> None:
    """What is sent already is not sent again."""
    await response.prepare(request)
    await response.write_eof()
