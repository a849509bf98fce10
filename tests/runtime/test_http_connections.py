"""Who is connected and asks for nothing, or for half of something, goes in time and keeps nobody out."""

import asyncio
import contextlib
import socket
from contextlib import AsyncExitStack

import pytest

from recoveryd.runtime.http_bounds import CONNECTED_MOST
from tests.runtime.fakes import until, within
from tests.runtime.test_health import Rig, all_of, asks_and_reads_nothing, served_large

WHOLE = b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n"


async def connected(rig: Rig, sent: bytes = b"") -> socket.socket:
    connection = socket.socket()
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await within(loop.sock_connect(connection, ("127.0.0.1", rig.server.port)))
    await within(loop.sock_sendall(connection, sent))
    return connection


@pytest.mark.parametrize("sent", [b"", WHOLE[:20], WHOLE, WHOLE + WHOLE[:20]], ids=["none", "half", "one", "more"])
async def test_who_asks_for_nothing_more_is_let_go(sent: bytes) -> None:
    async with served_large(0.3) as rig:
        with contextlib.closing(await connected(rig, sent)) as connection:
            said = await all_of(connection)
            assert said.startswith(b"HTTP/1.1 200" if sent.startswith(WHOLE) else b"")
        assert (await rig.get("/livez"))[0] == 200


async def test_however_many_are_connected_probes_are_answered_and_so_is_who_was_asked_for_first() -> None:
    async with served_large(600) as rig, AsyncExitStack() as connections:
        server = rig.server._runner.server
        page = "/api/v1/recoveries?limit=1000"
        reads_late = connections.enter_context(contextlib.closing(await asks_and_reads_nothing(rig.server.port, page)))
        await until(lambda: len(rig.server._bounds._answering) == 1)
        many = [await connected(rig, WHOLE[:20]) for _ in range(2 * CONNECTED_MOST)]
        for each in many:
            connections.enter_context(contextlib.closing(each))
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await rig.get(path))[0] == 200
        await until(lambda: len(server.connections) <= CONNECTED_MOST)
        assert await all_of(many[0]) == b"", "the oldest that asked for nothing"
        await within(asyncio.get_running_loop().sock_sendall(many[-1], WHOLE[20:]))
        assert (await within(asyncio.get_running_loop().sock_recv(many[-1], 12))) == b"HTTP/1.1 200"
        loop, found = asyncio.get_running_loop(), bytearray()
        while not found.endswith(b"\r\n0\r\n\r\n"):
            piece = await within(loop.sock_recv(reads_late, 1_000_000))
            assert piece, "it was in the middle of its answer"
            found += piece
