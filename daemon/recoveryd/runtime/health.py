"""HTTP for probes, Prometheus and people: read-only, loopback unless configured otherwise, up before the daemon joins
the group.

`/livez` says whether the loop runs (503: it does not, restart it). `/readyz` says whether this daemon leads and can
write (a standby answers 503 with `"role": "standby"`; that is its normal state, so probe it with `/livez` only). A
daemon that has not read what is known, or leads no more, answers 503 for it, since "nothing" and what was known before
would be wrong. No rule lives here; the documents are those of the status topic.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, Final

from aiohttp import web

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.states import ENDED
from recoveryd.runtime.http_bounds import READER_LIMIT_S, HttpBounds
from recoveryd.runtime.vitals import knows_recoveries
from recoveryd.wire.plain_json import to_json

LOOP_AGE_LIMIT_S: Final = 15.0
ROUND_LIMIT_S: Final = 120.0
TRY_LIMIT_S: Final = 600.0
PAGE_LIMIT = 1_000
LOG_LINES, LOG_LINES_LIMIT = 200, 10_000
LONG_ROW_S: Final = 0.005
RECOVERIES: Final = "/api/v1/recoveries"
JSON_TYPE: Final = "application/json; charset=utf-8"

Handler = Callable[[web.Request], Any]


@dataclass(frozen=True, slots=True)
class Health:
    """The daemon's health at one moment. Ages in seconds; `round_age_s` is None outside a round,
    `journal_failing_for_s` while the journal works, `journal_try_age_s` while nothing is being written to it.
    """

    role: str
    is_loaded: bool
    loop_age_s: float
    round_age_s: float | None
    journal_failing_for_s: float | None
    is_main_reachable: bool = True
    journal_try_age_s: float | None = None

    @property
    def is_live(self) -> bool:
        # A round that only waits for the journal is alive: restarting would not make the broker answer. But each try
        # has an end by itself, so one that goes on far beyond it hangs.
        is_stuck = (self.round_age_s or 0.0) > ROUND_LIMIT_S and self.journal_failing_for_s is None
        is_stuck = is_stuck or (self.journal_try_age_s or 0.0) > TRY_LIMIT_S
        return self.loop_age_s <= LOOP_AGE_LIMIT_S and not is_stuck

    @property
    def is_ready(self) -> bool:
        return self.is_live and self.is_loaded and self.is_journal_writable

    @property
    def knows_recoveries(self) -> bool:
        return knows_recoveries(self.role, is_loaded=self.is_loaded)

    @property
    def is_journal_writable(self) -> bool:
        return self.role == "leader" and self.journal_failing_for_s is None and self.is_main_reachable


@dataclass(frozen=True, slots=True)
class Sources:
    """The functions that answer requests; all are quick and never raise. `log` blocks; None = logs are not given.
    `state` is what `recoveries` are of: the same object as long as none of them is new or changed.
    """

    health: Callable[[], Health]
    recoveries: Callable[[], Mapping[str, Noun]]
    metrics: Callable[[], bytes]
    document: Callable[[Noun], Mapping[str, Any]]
    metrics_content_type: str
    lag: Callable[[], Mapping[str, Any]] = dict
    control: Callable[[], Mapping[str, Any]] = dict
    log: Callable[[str, int | None, int], Mapping[str, Any] | None] | None = None
    state: Callable[[], object] = object


class HealthServer:
    """`start` binds or raises OSError; `port` is the bound port, even when 0 was asked for. `reader_limit_s` is for
    tests.
    """

    def __init__(self, sources: Sources, host: str, port: int, reader_limit_s: float = READER_LIMIT_S) -> None:
        self._sources = sources
        self._host = host
        self.port = port
        self._bounds = HttpBounds(_busy, reader_limit_s)
        app = web.Application(middlewares=[self._bounds.make_middleware(), _errors_as_json, self._when_loaded])
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get(RECOVERIES, self._list)
        app.router.add_get(f"{RECOVERIES}/{{id}}", self._get)
        app.router.add_get(f"{RECOVERIES}/{{id}}/logs", self._logs)
        app.router.add_get("/api/v1/lag", self._lag)
        app.router.add_get("/api/v1/control", self._control)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=reader_limit_s)
        self._listening: asyncio.Server | None = None
        self._listed: tuple[object, Sequence[Noun]] = object(), ()  # the state of which a page was given last, sorted

    async def start(self) -> None:
        await self._runner.setup()
        server = self._runner.server
        assert server is not None  # as it is set up

        def connected() -> asyncio.Protocol:
            self._bounds.make_room(server)
            return server()

        # Not a site of aiohttp, which asks nobody before it takes a connection.
        self._listening = await asyncio.get_running_loop().create_server(connected, self._host, self.port)
        self.port = self._listening.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()

    @web.middleware
    async def _when_loaded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        is_about_them = request.path == RECOVERIES or request.path.startswith(f"{RECOVERIES}/")
        if is_about_them and not self._sources.health().knows_recoveries:
            return _problem(503, Code.DAEMON_NOT_LOADED, Code.DAEMON_NOT_LOADED.sentence)
        response: web.StreamResponse = await handler(request)
        return response

    async def _livez(self, _request: web.Request) -> web.Response:
        health = self._sources.health()
        body = {"live": health.is_live, "loop_age_seconds": round(health.loop_age_s, 3), "role": health.role}
        return _json(body, 200 if health.is_live else 503)

    async def _readyz(self, _request: web.Request) -> web.Response:
        health = self._sources.health()
        body = {
            "ready": health.is_ready,
            "role": health.role,
            "status_loaded": health.is_loaded,
            "journal_writable": health.is_journal_writable,
        }
        return _json(body, 200 if health.is_ready else 503)

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._sources.metrics(), headers={"Content-Type": self._sources.metrics_content_type})

    async def _list(self, request: web.Request) -> web.StreamResponse:
        try:
            limit = int(request.query.get("limit", PAGE_LIMIT))
            offset, ended = (int(request.query.get(name, 0)) for name in ("offset", "ended"))
        except ValueError:
            return _problem(400, Code.INVALID_VALUE, "limit, offset and ended are numbers.")
        if not 1 <= limit <= PAGE_LIMIT or offset < 0 or ended < 0:
            return _problem(400, Code.INVALID_VALUE, f"limit is 1 to {PAGE_LIMIT}, offset and ended are 0 or more.")
        is_few = "ended" in request.query
        newest_first = self._few_newest_first(ended) if is_few else self._newest_first()
        about = {"total": len(newest_first), "limit": limit, "offset": offset}
        return await self._stream(request, newest_first[offset : offset + limit], about)

    def _newest_first(self) -> Sequence[Noun]:
        """Sorted once for all pages of a state: a daemon may know a hundred thousand, of which each page has a few."""
        state = self._sources.state()
        if state is not self._listed[0]:
            self._listed = state, _sorted(self._sources.recoveries().values())
        return self._listed[1]

    def _few_newest_first(self, ended: int) -> Sequence[Noun]:
        return _sorted(_with_few_ended(self._sources.recoveries().values(), ended))

    async def _stream(self, request: web.Request, page: Sequence[Noun], about: Mapping[str, Any]) -> web.StreamResponse:
        """The page row by row, as it was when it was asked for, since nouns never change. A recovery of a thousand
        partitions takes tens of milliseconds and hundreds of kilobytes, so the loop gets its turn after each (after a
        long one for as long as it took), and the answer is never in memory as a whole.
        """
        loop = asyncio.get_running_loop()
        response = web.StreamResponse(headers={"Content-Type": JSON_TYPE})
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        reader = self._bounds.reader(request)
        with contextlib.suppress(ConnectionError):  # whoever asked has gone
            await reader.wait(response.write(b'{"recoveries":['))
            for number, noun in enumerate(page):
                began_s = loop.time()
                row = to_json(self._sources.document(noun))
                took_s = loop.time() - began_s
                await asyncio.sleep(took_s if took_s >= LONG_ROW_S else 0)
                await reader.wait(response.write(b"," + row if number else row))
            await reader.wait(response.write(b"]," + to_json(about)[1:]))
            await reader.wait(response.write_eof())
        return response

    async def _get(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        recovery = self._sources.recoveries().get(name)
        if recovery is None:
            return _problem(404, Code.NO_SUCH_RECOVERY, f"Nothing has the id {name!r}.")
        return _json(self._sources.document(recovery))

    async def _logs(self, request: web.Request) -> web.Response:
        name, read = request.match_info["id"], self._sources.log
        if read is None:
            return _problem(404, Code.NO_LOG, "This daemon gives no logs by HTTP (`http.logs`).")
        if name not in self._sources.recoveries():
            return _problem(404, Code.NO_SUCH_RECOVERY, f"Nothing has the id {name!r}.")
        try:
            lines, attempt = int(request.query.get("lines", LOG_LINES)), request.query.get("attempt")
            number = None if attempt is None else int(attempt)
        except ValueError:
            return _problem(400, Code.INVALID_VALUE, "lines and attempt are numbers.")
        if not 0 <= lines <= LOG_LINES_LIMIT or (number is not None and number < 1):
            return _problem(400, Code.INVALID_VALUE, f"lines is 0 to {LOG_LINES_LIMIT}, attempt is 1 or more.")
        found = await asyncio.to_thread(read, name, number, lines)
        if found is None:
            return _problem(
                404, Code.NO_LOG, f"The daemon has no log of {name}{f', attempt {number}' if number else ''}."
            )
        return _json(found)

    async def _lag(self, _request: web.Request) -> web.Response:
        return _json(self._sources.lag())

    async def _control(self, _request: web.Request) -> web.Response:
        return _json(self._sources.control())


def _sorted(nouns: Iterable[Noun]) -> list[Noun]:
    return sorted(nouns, key=lambda noun: (-noun.created_ms, noun.id))


def _with_few_ended(nouns: Iterable[Noun], most: int) -> list[Noun]:
    """Those that go on, and of the ended ones the few that ended last: whoever looks each second at what goes on would
    keep the daemon busy with a thousand that do not change any more.
    """
    going, ended = list[Noun](), list[Noun]()
    for noun in nouns:
        (ended if noun.state in ENDED else going).append(noun)
    return [*going, *nlargest(most, ended, key=lambda noun: noun.updated_ms)]


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        response: web.StreamResponse = await handler(request)
    except web.HTTPException as refused:
        return _problem(refused.status, Code.USAGE, f"{request.method} {request.path}: {refused.reason}")
    return response


def _busy() -> web.Response:
    return _problem(503, Code.DAEMON_BUSY, Code.DAEMON_BUSY.sentence)


def _problem(status: int, code: Code, message: str) -> web.Response:
    return _json({"error": {"code": code.value, "message": message, "hint": code.next_step}}, status)


def _json(body: Mapping[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=to_json(body), status=status, headers={"Content-Type": JSON_TYPE})
