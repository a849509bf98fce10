"""HTTP shows the daemon's state, and offers nothing to change it."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.slice import RECOVERY
from recoveryd.runtime.health import PAGE_LIMIT, Health, HealthServer, Sources
from recoveryd.runtime.http_bounds import AT_ONCE, READER_LIMIT_S
from tests.builders.core import STATUS, command, to_document
from tests.builders.world import World
from tests.runtime.fakes import DEADLINE_S, until, within
from tests.wire.of_types import filled_recoveries

LEADS = Health("leader", is_loaded=True, loop_age_s=0.2, round_age_s=None, journal_failing_for_s=None)


def short(recovery: Any) -> dict[str, Any]:
    return {"recovery": recovery.id, "state": recovery.state.value}


class Rig:
    def __init__(
        self, document: Callable[[Any], dict[str, Any]] = short, reader_limit_s: float = READER_LIMIT_S
    ) -> None:
        self.health = LEADS
        self.recoveries: dict[str, Recovery] = {}
        sources = Sources(
            health=lambda: self.health,
            recoveries=lambda: self.recoveries,
            metrics=lambda: b"recoveryd_leader 1.0\n",
            document=document,
            metrics_content_type="text/plain; version=0.0.4; charset=utf-8",
        )
        self.server = HealthServer(sources, "127.0.0.1", 0, reader_limit_s)

    async def get(self, path: str, method: str = "GET") -> tuple[int, Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"http://127.0.0.1:{self.server.port}{path}") as answer,
        ):
            is_json = answer.content_type == "application/json"
            return answer.status, await answer.json() if is_json else await answer.text()


@pytest.fixture
async def rig():
    made = Rig()
    await made.server.start()
    yield made
    await made.server.close()


@pytest.mark.parametrize(
    ("health", "status"),
    [
        (LEADS, 200),
        (replace(LEADS, role="standby", is_loaded=False), 200),
        (replace(LEADS, loop_age_s=15.1), 503),
        (replace(LEADS, round_age_s=121.0), 503),
        (replace(LEADS, round_age_s=121.0, journal_failing_for_s=121.0), 200),
        (replace(LEADS, round_age_s=700.0, journal_failing_for_s=700.0, journal_try_age_s=30.0), 200),
        (replace(LEADS, round_age_s=700.0, journal_failing_for_s=700.0, journal_try_age_s=601.0), 503),
    ],
)
async def test_live_means_that_the_loop_turns(rig: Rig, health: Health, status: int) -> None:
    rig.health = health
    found, body = await rig.get("/livez")
    assert found == status
    assert body == {"live": status == 200, "loop_age_seconds": health.loop_age_s, "role": health.role}


@pytest.mark.parametrize(
    ("health", "status", "role", "is_writable"),
    [
        (LEADS, 200, "leader", True),
        (replace(LEADS, role="standby", is_loaded=False), 503, "standby", False),
        (replace(LEADS, role="taking_over", is_loaded=False), 503, "taking_over", False),
        (replace(LEADS, journal_failing_for_s=3.0), 503, "leader", False),
        (replace(LEADS, is_main_reachable=False), 503, "leader", False),
    ],
)
async def test_ready_means_leading_with_a_journal(
    rig: Rig, health: Health, status: int, role: str, *, is_writable: bool
) -> None:
    rig.health = health
    assert await rig.get("/readyz") == (
        status,
        {"ready": status == 200, "role": role, "status_loaded": health.is_loaded, "journal_writable": is_writable},
    )


class Looked:
    """A noun that counts how often it is asked when it was made."""

    looks = 0
    state = State.COMPLETED

    def __init__(self, number: int) -> None:
        self.id = f"r{number}"
        self._created_ms = number

    @property
    def created_ms(self) -> int:
        Looked.looks += 1
        return self._created_ms


async def test_for_all_pages_of_a_state_each_recovery_is_looked_at_once(rig: Rig) -> None:
    state = object()
    rig.server._sources = replace(rig.server._sources, state=lambda: state)

    async def listed() -> tuple[list[str], int]:
        """All ids, page by page, and how many looks that took."""
        Looked.looks = 0
        pages = [(await rig.get(f"/api/v1/recoveries?limit=2&offset={at}"))[1] for at in range(0, 8, 2)]
        return [row["recovery"] for page in pages for row in page["recoveries"]], Looked.looks

    rig.recoveries = {f"r{n}": Looked(n) for n in range(6)}
    assert await listed() == (["r5", "r4", "r3", "r2", "r1", "r0"], 6)
    state, rig.recoveries = object(), {f"r{n}": Looked(n) for n in range(1, 8)}
    assert await listed() == (["r7", "r6", "r5", "r4", "r3", "r2", "r1"], 7)
    assert await listed() == (["r7", "r6", "r5", "r4", "r3", "r2", "r1"], 0)


async def test_recoveries_are_listed_newest_first_in_pages(rig: Rig) -> None:
    world = World()
    for i in range(3):
        world.now_ms += 1_000
        world.feed(command("replay", f"r{i}", offset=i))
    rig.recoveries = dict(world.state.of(RECOVERY).recoveries)
    status, body = await rig.get("/api/v1/recoveries?limit=2&offset=0")
    assert (status, body) == (
        200,
        {
            "recoveries": [{"recovery": f"r{i}", "state": rig.recoveries[f"r{i}"].state.value} for i in (2, 1)],
            "total": 3,
            "limit": 2,
            "offset": 0,
        },
    )
    _, rest = await rig.get("/api/v1/recoveries?limit=2&offset=2")
    assert [r["recovery"] for r in rest["recoveries"]] == ["r0"]


async def test_who_looks_again_and_again_asks_for_the_last_few_that_ended(rig: Rig) -> None:
    world = World()
    for i in range(6):
        world.now_ms += 1_000
        world.feed(command("replay", f"r{i}", offset=i))
    known = world.state.of(RECOVERY).recoveries
    now = [
        (State.COMPLETED, 9), (State.RUNNING, 1), (State.FAILED, 7), (State.PLANNED, 8), (State.PAUSED, 2), (State.STOPPED, 6),
    ]  # fmt: skip
    rig.recoveries = {f"r{i}": replace(known[f"r{i}"], state=state, updated_ms=at) for i, (state, at) in enumerate(now)}

    async def listed(query: str) -> list[str]:
        _, body = await rig.get(f"/api/v1/recoveries?{query}")
        assert body["total"] == len(body["recoveries"])
        return [row["recovery"] for row in body["recoveries"]]

    assert await listed("ended=0") == ["r4", "r1"]
    assert await listed("ended=2") == ["r4", "r3", "r1", "r0"]
    assert await listed("ended=9") == await listed("") == ["r5", "r4", "r3", "r2", "r1", "r0"]


@pytest.mark.parametrize("path", ["", "?limit=2", "/r0", "/none", "/r0/logs"])
@pytest.mark.parametrize(("role", "is_loaded"), [("standby", False), ("taking_over", False), ("standby", True)])
async def test_a_daemon_that_does_not_know_what_is_known_says_neither_nothing_nor_what_was(
    rig: Rig, role: str, path: str, *, is_loaded: bool
) -> None:
    many(rig, 2)
    rig.health = replace(LEADS, role=role, is_loaded=is_loaded)
    status, body = await rig.get(f"/api/v1/recoveries{path}")
    assert (status, body["error"]["code"]) == (503, "RCV-4017")


async def test_a_leader_that_begins_anew_still_answers(rig: Rig) -> None:
    many(rig, 2)
    rig.health = replace(LEADS, role="taking_over")
    assert (await rig.get("/api/v1/recoveries"))[1]["total"] == 2


async def test_a_page_that_there_is_not_is_not_told_to_be_unread(rig: Rig) -> None:
    rig.health = replace(LEADS, role="standby", is_loaded=False)
    assert (await rig.get("/api/v1/recoveriesfoo"))[0] == 404


async def test_a_list_without_a_limit_has_as_many_as_one_page_may_have(rig: Rig) -> None:
    many(rig, PAGE_LIMIT + 1)
    _, body = await rig.get("/api/v1/recoveries")
    assert (len(body["recoveries"]), body["total"], body["limit"]) == (PAGE_LIMIT, PAGE_LIMIT + 1, PAGE_LIMIT)


def many(rig: Rig, count: int = PAGE_LIMIT) -> None:
    world = World()
    world.feed(command("replay", "r0"))
    rig.recoveries = {f"r{i}": replace(world.recovery("r0"), id=f"r{i}") for i in range(count)}


async def test_the_loop_turns_between_the_rows_of_a_page() -> None:
    turns, seen_at = 0, list[int]()

    def document(noun: Any) -> dict[str, Any]:
        seen_at.append(turns)
        return short(noun)

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    rig = Rig(document)
    many(rig)
    await rig.server.start()
    running = asyncio.create_task(others())
    try:
        status, body = await rig.get(f"/api/v1/recoveries?limit={PAGE_LIMIT}")
    finally:
        running.cancel()
        await rig.server.close()
    assert (status, len(body["recoveries"])) == (200, PAGE_LIMIT)
    assert len(set(seen_at)) == PAGE_LIMIT, "each row in a turn of its own"


async def test_a_page_is_as_it_was_when_it_was_asked_for() -> None:
    rig: Rig

    def document(noun: Any) -> dict[str, Any]:
        rig.recoveries = {}
        return short(noun)

    rig = Rig(document)
    many(rig, 3)
    await rig.server.start()
    try:
        _, body = await rig.get("/api/v1/recoveries")
    finally:
        await rig.server.close()
    assert ([r["recovery"] for r in body["recoveries"]], body["total"]) == (["r0", "r1", "r2"], 3)


async def test_whoever_leaves_in_the_middle_of_a_page_disturbs_nobody(rig: Rig) -> None:
    many(rig)
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.server.port)
    writer.write(b"GET /api/v1/recoveries?limit=1000 HTTP/1.1\r\nHost: a\r\n\r\n")
    await reader.readuntil(b'"recovery"')
    writer.transport.abort()
    status, body = await rig.get("/api/v1/recoveries?limit=2")
    assert (status, len(body["recoveries"])) == (200, 2)


@pytest.mark.parametrize(("count", "query"), [(0, ""), (3, "?offset=3"), (3, "?offset=1")])
async def test_a_page_says_how_many_there_are_also_when_it_has_none(rig: Rig, count: int, query: str) -> None:
    many(rig, count)
    status, body = await rig.get(f"/api/v1/recoveries{query}")
    rows = {"": 0, "?offset=3": 0, "?offset=1": 2}[query]
    assert (status, len(body["recoveries"]), body["total"]) == (200, rows, count)
    assert await rig.get(f"/api/v1/recoveries{query}", "HEAD") == (200, None)


async def test_one_recovery_is_its_status_document(rig: Rig) -> None:
    world = World()
    world.feed(command("replay"))
    rig.recoveries = {"r1": replace(world.recovery(), state=State.RUNNING)}
    assert await rig.get("/api/v1/recoveries/r1") == (200, {"recovery": "r1", "state": "running"})


@settings(max_examples=30, deadline=None)
@given(filled_recoveries())
def test_whatever_a_status_record_holds_is_served_as_the_status_topic_has_it(recovery: Recovery) -> None:
    async def ask() -> tuple[int, object]:
        made = Rig(to_document)
        made.recoveries = {"r1": recovery}
        await made.server.start()
        try:
            return await made.get("/api/v1/recoveries/r1")
        finally:
            await made.server.close()

    assert asyncio.run(ask()) == (200, json.loads(STATUS.encode(recovery)[1]))


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/recoveries/none", 404, "RCV-1010"),
        ("GET", "/api/v1/recoveries?limit=many", 400, "RCV-1005"),
        ("GET", "/api/v1/recoveries?limit=0", 400, "RCV-1005"),
        ("GET", "/api/v1/recoveries?offset=-1", 400, "RCV-1005"),
        ("GET", "/api/v1/recoveries?ended=-1", 400, "RCV-1005"),
        ("GET", "/api/v1/recoveries?ended=few", 400, "RCV-1005"),
        ("POST", "/api/v1/recoveries", 405, "RCV-4008"),
        ("GET", "/elsewhere", 404, "RCV-4008"),
    ],
)
async def test_refusals_are_json_with_a_code(rig: Rig, method: str, path: str, status: int, code: str) -> None:
    found, body = await rig.get(path, method)
    assert found == status
    assert body["error"]["code"] == code
    assert set(body["error"]) == {"code", "message", "hint"}
    assert all(body["error"].values())


async def test_metrics_are_served_as_text(rig: Rig) -> None:
    assert await rig.get("/metrics") == (200, "recoveryd_leader 1.0\n")


LARGE = 20_000_000  # more than the system keeps for a connection


async def asks_and_reads_nothing(port: int, path: str) -> socket.socket:
    """A connection that takes next to nothing from the server."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, ("127.0.0.1", port))
    await loop.sock_sendall(connection, f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    return connection


async def all_of(connection: socket.socket) -> bytes:
    """What comes until the other side ends it."""
    found = bytearray()
    with contextlib.suppress(ConnectionError):
        while piece := await within(asyncio.get_running_loop().sock_recv(connection, 1_000_000)):
            found += piece
    return bytes(found)


@asynccontextmanager
async def served_large(reader_limit_s: float, rows: int = 1) -> AsyncIterator[Rig]:
    """Pages of `rows` that are large together."""
    rig = Rig(lambda noun: {**short(noun), "text": "x" * (LARGE // rows)}, reader_limit_s)
    world = World()
    for i in range(rows):
        world.feed(command("replay", f"r{i}", offset=i))
    rig.recoveries = dict(world.state.of(RECOVERY).recoveries)
    await rig.server.start()
    try:
        yield rig
    finally:
        await rig.server.close()


@pytest.mark.parametrize(("path", "rows"), [("/api/v1/recoveries?limit=1000", 20), ("/api/v1/recoveries/r0", 1)])
async def test_a_reader_that_stops_reading_is_let_go(path: str, rows: int) -> None:
    async with served_large(0.5, rows) as rig:
        with contextlib.closing(await asks_and_reads_nothing(rig.server.port, path)) as connection:
            await until(lambda: rig.server._runner.server.connections)
            await until(lambda: not rig.server._runner.server.connections)
            assert len(await all_of(connection)) < LARGE
        _, whole = await rig.get(path)
        assert len(json.dumps(whole)) > LARGE, "who reads gets all of it"


async def test_who_holds_pages_keeps_nobody_from_probes_and_the_next_one_is_told() -> None:
    async with served_large(DEADLINE_S * 10) as rig, AsyncExitStack() as connections:
        for _ in range(AT_ONCE["/api/"]):
            held = await asks_and_reads_nothing(rig.server.port, "/api/v1/recoveries?limit=1000")
            connections.enter_context(contextlib.closing(held))

        async def lag_until(wanted: int) -> Any:
            async with asyncio.timeout(DEADLINE_S):
                while (found := await rig.get("/api/v1/lag"))[0] != wanted:
                    pass
                return found[1]

        assert (await lag_until(503))["error"]["code"] == Code.DAEMON_BUSY.value
        probes = [(await rig.get(path))[0] for path in ("/livez", "/readyz", "/metrics")]
        assert probes == [200, 200, 200]
        await connections.aclose()
        assert await lag_until(200) == {}
