"""Instant queries over real HTTP: the answers of a Prometheus, and everything that is not an answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.http.prometheus_queries import PrometheusQueries
from recoveryd.collectors.queries import Query, QueryCollector
from recoveryd.kernel.events import Event
from recoveryd.live.events import ReadingTaken
from recoveryd.live.freshness import RejectReason
from recoveryd.ports import QueryAnswer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

DEADLINE_S = 120.0


class Server:
    """A server with the query address of a Prometheus. `answer`: its next answer; `asked`: requests' parameters."""

    def __init__(self) -> None:
        self.answer: Handler = self.nothing
        self.asked: list[dict[str, str]] = []
        app = web.Application()
        app.router.add_get("/prom/api/v1/query", self._handle)
        self.http = TestServer(app)

    @property
    def url(self) -> str:
        return str(self.http.make_url("/prom"))

    async def nothing(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": []}})

    def says(self, kind: str, result: object) -> None:
        self.responds(lambda: web.json_response({"status": "success", "data": {"resultType": kind, "result": result}}))

    def responds(self, make: Callable[[], web.StreamResponse]) -> None:
        async def answer(_request: web.Request) -> web.StreamResponse:
            return make()

        self.answer = answer

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        return await self.answer(request)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    await made.http.start_server()
    yield made
    await made.http.close()


@pytest.fixture
async def prometheus() -> AsyncIterator[PrometheusQueries]:
    made = PrometheusQueries()
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("kind", "result", "expected"),
    [
        ("scalar", [1_800_000_000.1, "0.25"], QueryAnswer(0.25)),
        ("vector", [{"metric": {"a": "b"}, "value": [1_800_000_000.1, "0.125"]}], QueryAnswer(0.125)),
        ("scalar", [1, "NaN"], QueryAnswer(None, RejectReason.NOT_A_NUMBER, "the query gives NaN")),
        ("vector", [{"metric": {}, "value": [1, "+Inf"]}], QueryAnswer(None, RejectReason.NOT_A_NUMBER, "the query gives +Inf")),
        ("vector", [], QueryAnswer(None, RejectReason.NO_ANSWER, "the query gives 0 series, it must give one", is_empty=True)),
        ("vector", [{"value": [1, "1"]}, {"value": [1, "2"]}], QueryAnswer(None, RejectReason.NO_ANSWER, "the query gives 2 series, it must give one")),
        ("matrix", [], QueryAnswer(None, RejectReason.NO_ANSWER, "the query gives a matrix, it must give a scalar or a vector of one")),
        ("vector", [{"histogram": [1, {}]}], QueryAnswer(None, RejectReason.NO_ANSWER, "the query gives no plain number")),
        ("vector", ["?"], QueryAnswer(None, RejectReason.NO_ANSWER, "the query gives no plain number")),
        ("scalar", [1, "a lot"], QueryAnswer(None, RejectReason.NO_ANSWER, "the query gives no plain number")),
        ("scalar", None, QueryAnswer(None, RejectReason.NO_ANSWER, "the query gives no plain number")),
    ],
)  # fmt: skip
async def test_the_number_of_a_scalar_or_of_a_vector_of_one_and_nothing_else(
    server: Server, prometheus: PrometheusQueries, kind: str, result: object, expected: QueryAnswer
) -> None:
    server.says(kind, result)
    assert await prometheus.ask(server.url, "max(p99)", 90, DEADLINE_S) == expected
    assert server.asked == [{"query": "max(p99)", "lookback_delta": "90", "timeout": f"{DEADLINE_S:g}"}]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: web.json_response({"status": "error", "errorType": "bad_data", "error": "parse error"}, status=400), "status 400, bad_data: parse error"),
        (lambda: web.Response(status=502, text="<html>"), "status 502, and not the JSON of a Prometheus"),
        (lambda: web.Response(text="[]"), "status 200, and not the JSON of a Prometheus"),
        (lambda: web.json_response({"status": "success"}), "an answer without data"),
        (lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), "status 302, and not the JSON of a Prometheus"),
        (lambda: web.Response(body=b" " * 1_000_001), "ValueError: the answer is longer than 1000000 bytes"),
    ],
)  # fmt: skip
async def test_anything_but_a_good_answer_is_none(
    server: Server, prometheus: PrometheusQueries, make: Callable[[], web.StreamResponse], why: str
) -> None:
    server.responds(make)
    assert await prometheus.ask(server.url, "x", 90, DEADLINE_S) == QueryAnswer(None, RejectReason.NO_ANSWER, why)


async def test_a_server_that_does_not_answer_costs_the_deadline_and_one_that_is_not_there_nothing(
    server: Server, prometheus: PrometheusQueries
) -> None:
    ended = asyncio.Event()

    async def hang(_request: web.Request) -> web.StreamResponse:
        await ended.wait()
        return web.Response()

    server.answer = hang
    late = await prometheus.ask(server.url, "x", 90, 0.2)
    ended.set()
    assert late == QueryAnswer(None, RejectReason.NO_ANSWER, "no answer within 0.2 s")
    away = await prometheus.ask("http://127.0.0.1:1", "x", 90, DEADLINE_S)
    assert (away.value, away.reject) == (None, RejectReason.NO_ANSWER)


async def test_an_address_that_the_client_refuses_is_not_repeated_with_its_password(
    prometheus: PrometheusQueries,
) -> None:
    answer = await prometheus.ask("http://u:hunter2@host:99999", "x", 90, DEADLINE_S)
    assert answer == QueryAnswer(None, RejectReason.NO_ANSWER, "its url is no address of a server")


async def test_readings_come_from_a_real_server_and_end_with_it(server: Server) -> None:
    server.says("scalar", [1, "0.25"])
    events, refused, clock = list[Event](), list[RejectReason](), SystemClock()
    query = Query("p99", "main", server.url, "vector(0.25)", 0.05)
    collector = QueryCollector([query], PrometheusQueries(), events.append, refused.append, lambda: True, clock)
    began_ms = clock.now_ms()
    running = asyncio.create_task(collector.run())
    try:
        async with asyncio.timeout(DEADLINE_S):
            while len(events) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert refused == []
            await server.http.close()
            while not refused:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await collector.close()
    told = [e for e in events if isinstance(e, ReadingTaken)]
    assert len(told) == len(events)
    assert {(e.domain, e.reading.name, e.reading.value) for e in told} == {("main", "p99", 0.25)}
    times = [e.reading.sampled_at_ms for e in told]
    assert times == sorted(set(times))
    assert began_ms <= times[0] <= times[-1] <= clock.now_ms()
    assert set(refused) == {RejectReason.NO_ANSWER}
