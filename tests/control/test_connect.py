"""`control: connect` against a server that answers as Kafka Connect does, well and badly."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from recoveryd.adapters.control.connect import ConnectApplication, ConnectApplications, _that_read
from recoveryd.adapters.control.connect_api import SinkConnector
from recoveryd.adapters.control.foreign_patterns import fits
from recoveryd.units.control import TOLD, ApplicationState, Desired, Needs
from recoveryd_sandbox.pki import Certificates, make_certificates
from tests.control.asking import asked, late, wish
from tests.control.serving import Answering, Asked, serving

TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: jdbc:x://me:s3cret@host\n\tat com.example.Task.put(Task.java)"
)


class Connect:
    """A connector that does at once what it is told, unless a test says otherwise."""

    def __init__(self, state: str = "RUNNING", *tasks: str) -> None:
        self.state = state
        self.tasks = list(tasks or ["RUNNING"])
        self.is_obeying = True
        self.after_restart = "RUNNING"
        self.answers: dict[str, Callable[[], web.Response]] = {}
        self.server: Answering | None = None

    async def answer(self, request: Asked) -> web.Response:
        assert request.path.startswith("/base/connectors/my sink"), request.path
        what = request.path.removeprefix("/base/connectors/my sink").removeprefix("/") or "connector"
        if what in self.answers:
            return self.answers[what]()
        if what == "status":
            return web.json_response(self.status())
        if self.is_obeying:
            self.do(what)
        return web.Response(status=202)

    def do(self, what: str) -> None:
        if what == "stop":
            self.state, self.tasks = "STOPPED", []
        elif what == "resume":
            self.state, self.tasks = "RUNNING", self.tasks or ["RUNNING"]
        elif what == "restart":
            self.state, self.tasks = "RUNNING", [self.after_restart for _ in self.tasks]

    def status(self) -> dict[str, Any]:
        def told(state: str) -> dict[str, Any]:
            return {"state": state, "worker_id": "w:1"} | ({"trace": TRACE} if state == "FAILED" else {})

        tasks = [{"id": number, **told(state)} for number, state in enumerate(self.tasks)]
        return {"name": "my sink", "connector": told(self.state), "tasks": tasks, "type": "sink"}

    @property
    def changes(self) -> list[str]:
        assert self.server is not None
        return [f"{r.method} {r.path.rpartition('/')[2]}" for r in self.server.asked if r.method != "GET"]


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000


@asynccontextmanager
async def controlled(
    connect: Connect,
    clock: Clock | None = None,
    *,
    certificates: Certificates | None = None,
    is_trusted: bool = True,
    timeout_s: float = 10.0,
) -> AsyncIterator[ConnectApplications]:
    time = clock or Clock()
    async with serving(connect.answer, certificates) as connect.server:
        tls = ssl.create_default_context(cafile=certificates.authority) if certificates and is_trusted else None
        url = f"{connect.server.url}/base/"
        application = ConnectApplication("app", "my sink", url, ("me", "s3cret"), tls, 60_000)
        control = ConnectApplications([application], lambda: time.now_ms, timeout_s=timeout_s)
        try:
            yield control
        finally:
            await control.close()


async def test_it_is_stopped_and_resumed_and_each_is_sent_once() -> None:
    connect = Connect()
    async with controlled(connect) as control:
        assert (await control.look("app")).why == "it runs with 1 task"
        for _ in range(2):
            report = await asked(control, wish(Desired.STOPPED, since_ms=1_000_000))
            assert (report.state, report.why) == (ApplicationState.STOPPED, "it is stopped and has no tasks")
        for _ in range(2):
            report = await asked(control, wish(Desired.RUNNING, since_ms=1_000_000))
            assert report.state is ApplicationState.RUNNING
    assert connect.changes == ["PUT stop", "PUT resume"]
    assert connect.server is not None
    assert {r.headers["Authorization"] for r in connect.server.asked} == {"Basic bWU6czNjcmV0"}


async def test_one_wish_is_sent_once_while_it_takes_its_time() -> None:
    connect, clock = Connect("RUNNING", "RUNNING", "RUNNING"), Clock()
    connect.is_obeying = False
    async with controlled(connect, clock) as control:
        wanted = wish(Desired.STOPPED, since_ms=clock.now_ms)
        assert (await control.ask(wanted)).why == "it was told to stop; it runs with 2 tasks"
        for _ in range(3):
            assert (await control.ask(wanted)).needs is Needs.TIME
        assert connect.changes == ["PUT stop"]
        clock.now_ms += 60_000
        report = await control.ask(wanted)
        assert (report.needs, report.why) == (Needs.MENDING, "it runs with 2 tasks, 60 s after stopped was wanted")
        connect.do("stop")
        assert (await control.ask(wanted)).state is ApplicationState.STOPPED


@pytest.mark.parametrize(
    ("state", "tasks", "why"),
    [
        ("PAUSED", ["PAUSED", "PAUSED"], "the connector is PAUSED with 2 tasks"),
        ("STOPPED", ["RUNNING"], "the connector is STOPPED, of 1 task 0 is RUNNING"),
        ("RUNNING", ["UNASSIGNED", "RUNNING"], "the connector is RUNNING, of 2 tasks 0 is UNASSIGNED"),
        ("RUNNING", ["FAILED"], "the connector is RUNNING, of 1 task 0 is FAILED (ConnectException)"),
        ("FAILED", ["FAILED"], "the connector is FAILED (ConnectException) with 1 task"),
        ("RUNNING", ["FAILED"] * 7, ", 4 is FAILED (ConnectException) and 2 more"),
    ],
)
async def test_what_is_neither_is_never_taken_for_stopped_or_running(state: str, tasks: list[str], why: str) -> None:
    async with controlled(Connect(state, *tasks)) as control:
        report = await control.look("app")
        assert report.state is ApplicationState.CHANGING
        assert report.why.endswith(why)
        assert "s3cret" not in f"{report} {control._applications}"


async def test_a_connector_without_tasks_is_not_yet_running() -> None:
    connect = Connect()
    connect.tasks = []
    async with controlled(connect) as control:
        report = await control.look("app")
    assert (report.state, report.why) == (ApplicationState.CHANGING, "the connector is RUNNING and has no tasks")


async def test_what_failed_is_restarted_once_and_then_told() -> None:
    connect, clock = Connect("RUNNING", "FAILED"), Clock()
    async with controlled(connect, clock) as control:
        wanted = wish(Desired.RUNNING, since_ms=clock.now_ms)
        assert (await asked(control, wanted)).state is ApplicationState.RUNNING
        assert connect.changes == ["PUT resume", "POST restart"]
        connect.tasks, connect.after_restart = ["FAILED"], "FAILED"
        wanted = wish(Desired.RUNNING, since_ms=clock.now_ms)
        for _ in range(4):
            assert (await control.ask(wanted)).needs is Needs.TIME
        clock.now_ms += 10_000
        report = await control.ask(wanted)
    assert report.needs is Needs.MENDING
    assert report.why.endswith("0 is FAILED (ConnectException), also after a restart")
    assert connect.changes[2:] == ["PUT resume", "POST restart"]


@pytest.mark.scenario("S-RUN-12")
async def test_what_failed_of_one_that_appends_is_told_and_not_restarted() -> None:
    connect, clock = Connect("RUNNING", "FAILED"), Clock()
    async with controlled(connect, clock) as control:
        wanted = replace(wish(Desired.RUNNING, since_ms=clock.now_ms), may_restart=False)
        for _ in range(3):
            report = await control.ask(wanted)
    assert report.needs is Needs.MENDING
    assert "not restarted by itself" in report.why
    assert connect.changes == ["PUT resume"]


def refusing(status: int, message: str) -> Callable[[], web.Response]:
    return lambda: web.json_response({"error_code": status, "message": message}, status=status)


@pytest.mark.parametrize(
    ("what", "answer", "needs", "says"),
    [
        ("status", refusing(404, "No status found for connector my sink"), Needs.TIME, "knows no status"),
        ("status", refusing(401, "User cannot access the resource."), Needs.MENDING, "does not accept who asks"),
        ("status", refusing(403, "no"), Needs.MENDING, "may not do this"),
        ("stop", refusing(409, "rebalance in process"), Needs.TIME, "it answered 409"),
        ("stop", refusing(500, "Request timed out. password=s3cret"), Needs.TIME, "it answered 500"),
        ("stop", refusing(404, "HTTP 404 Not Found"), Needs.MENDING, "it has to be 3.5 or newer"),
        ("stop", lambda: web.Response(status=307, headers={"Location": "/x"}), Needs.MENDING, "redirects"),
        ("status", lambda: web.Response(text="<html>"), Needs.MENDING, "not that of Kafka Connect: no JSON object"),
        ("status", lambda: web.json_response({"tasks": []}), Needs.MENDING, "no state of a connector"),
        ("status", lambda: web.json_response({"connector": {}, "tasks": [1]}), Needs.MENDING, "a task without id"),
        ("status", lambda: web.json_response({"connector": {}, "tasks": []}), Needs.MENDING, "no state"),
        ("status", lambda: web.Response(text="[" * 100_000), Needs.MENDING, "no JSON object"),
        ("status", lambda: web.Response(body=b" " * 17_000_000), Needs.MENDING, "longer than"),
    ],
)
async def test_what_connect_cannot_do_is_a_sentence(
    what: str, answer: Callable[[], web.Response], needs: Needs, says: str
) -> None:
    connect = Connect()
    connect.answers[what] = answer
    async with controlled(connect) as control:
        report = await control.ask(wish(Desired.STOPPED, since_ms=1_000_000))
    assert report.needs is needs
    assert not report.fulfils(Desired.STOPPED)
    assert says in report.why
    assert "s3cret" not in report.why


async def test_a_connector_that_is_not_there_is_named() -> None:
    connect = Connect()
    connect.answers["status"] = refusing(404, "No status found for connector my sink")
    connect.answers["connector"] = refusing(404, "Connector my sink not found")
    async with controlled(connect) as control:
        report = await control.ask(wish(Desired.STOPPED, since_ms=1_000_000))
    assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.MENDING)
    assert report.why == "Kafka Connect has no connector my sink"


async def test_one_that_is_told_to_resume_long_after_it_was_wanted_has_its_time_all_the_same() -> None:
    connect, clock = Connect("STOPPED"), Clock()
    connect.tasks, connect.is_obeying = [], False
    async with controlled(connect, clock) as control:
        wanted = wish(Desired.RUNNING, since_ms=clock.now_ms - 3_600_000)
        report = await late(control, wanted, clock, 60_000)
    assert (report.state, report.needs) == (ApplicationState.STOPPED, Needs.MENDING)
    assert report.why.endswith("60 s after running was wanted")


@pytest.mark.scenario("S-RUN-12")
@pytest.mark.parametrize("may_restart", [False, True])
async def test_the_next_daemon_resumes_what_appends_no_second_time_where_somebody_stopped_it(may_restart: bool) -> None:
    connect, clock = Connect("STOPPED"), Clock()
    connect.tasks, connect.is_obeying = [], False
    wanted = wish(Desired.RUNNING, since_ms=clock.now_ms, may_restart=may_restart)
    async with controlled(connect, clock) as control:
        assert (await control.ask(wanted)).evidence[TOLD] == wanted.key
    connect.is_obeying = True
    later = replace(wanted, was_told=True)
    async with controlled(connect, clock) as control:
        assert (await control.ask(later)).needs is Needs.TIME, "what was told may still be on its way"
        clock.now_ms += 60_000
        report = await control.ask(later)
        assert connect.changes == (["PUT resume"] if may_restart else [])
        if not may_restart:
            assert (report.state, report.needs) == (ApplicationState.STOPPED, Needs.MENDING)
            assert report.why == "it is stopped and has no tasks, 60 s after running was wanted"
            await control.ask(replace(wanted, key="once a person decided so"))
            assert connect.changes == ["PUT resume"]


async def test_what_was_not_taken_is_sent_again() -> None:
    connect = Connect()
    connect.answers["stop"] = refusing(409, "rebalance in process")
    async with controlled(connect) as control:
        wanted = wish(Desired.STOPPED, since_ms=1_000_000)
        assert (await control.ask(wanted)).needs is Needs.TIME
        del connect.answers["stop"]
        assert (await asked(control, wanted)).state is ApplicationState.STOPPED
    assert connect.changes == ["PUT stop", "PUT stop"]


async def test_one_that_does_not_answer_needs_time() -> None:
    connect, may_end = Connect(), asyncio.Event()

    async def silent(_: Asked) -> web.Response:
        await may_end.wait()
        return web.Response()

    connect.answer = silent  # type: ignore[method-assign]
    async with controlled(connect, timeout_s=0.2) as control:
        report = await control.ask(wish(Desired.STOPPED, since_ms=1_000_000))
        may_end.set()
    assert (report.needs, report.why) == (Needs.TIME, "Kafka Connect could not be asked: no answer within 0.2 s")


async def test_an_authority_of_ones_own_is_trusted_where_the_config_names_it(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "pki")
    async with controlled(Connect(), certificates=certificates) as control:
        assert (await asked(control, wish(Desired.STOPPED, since_ms=1_000_000))).state is ApplicationState.STOPPED
    async with controlled(Connect(), certificates=certificates, is_trusted=False) as control:
        report = await control.ask(wish(Desired.STOPPED, since_ms=1_000_000))
    assert report.needs is Needs.MENDING
    assert "its certificate is not trusted" in report.why


async def test_offsets_that_are_no_offsets_are_refused() -> None:
    connect = Connect()
    for wrong in ([], {"offsets": [{"partition": 1, "offset": {}}]}, {"offsets": [{"partition": {}}]}):
        connect.answers["offsets"] = lambda wrong=wrong: web.Response(text=json.dumps(wrong))
        async with controlled(connect) as control:
            with pytest.raises(Exception, match="not that of Kafka Connect"):
                await control.offsets("app")


@pytest.mark.scenario("S-RUN-4")
@pytest.mark.parametrize(
    ("sink", "reads"),
    [
        (SinkConnector("a", frozenset({"orders", "bills"})), True),
        (SinkConnector("a", frozenset({"orders.v2"})), False),
        (SinkConnector("a", frozenset(), "ord.*"), True),
        (SinkConnector("a", frozenset(), "ord"), False),
        (SinkConnector("a", frozenset(), "(?<"), None),
        (SinkConnector("a", frozenset(), "[a-z&&[^x]]+"), None),
        (SinkConnector("a", frozenset({"orders"}), "(?<"), True),
    ],
)
def test_a_sink_reads_what_it_names_and_what_its_pattern_may_fit(sink: SinkConnector, reads: bool | None) -> None:
    assert sink.reads("orders") is reads


LONG = "orders.enriched.customer-profile.v2.eu"


@pytest.mark.parametrize(
    "pattern",
    [
        "orders[.].*",
        "^(?:orders|bills)\\.[a-z.]+-profile\\.v[0-9]+\\.eu$",
        "(?i)ORDERS.*",
        "(?!bills).+",
        "[a-z.0-9-]{38}",
        "(?:orders)+[.].*?eu",
        "(.*[.])?[a-z-]+[.]v2[.]eu",
    ],
)
def test_a_pattern_that_is_soon_decided_is_tried(pattern: str) -> None:
    assert fits(pattern, LONG) is True
    assert fits(pattern, "zürich") is (pattern == "(?!bills).+")


@pytest.mark.timeout(60)  # without a bound each of most of these takes years
@pytest.mark.parametrize(
    "pattern",
    [
        "^(?:[a-z]+[.-]?)+_cdc$",
        "([a-z]+[.-]?)+x",
        "(a|a)*b",
        "(a|a)(a|a)" * 20 + "b",
        "a?" * 60 + "a" * 60,
        ".*" * 8 + "x",
        "(?=(a+)+b)a+",
        "(a{0,200}){0,200}b",
        "(){4000000000}",
        "((((){1000}){1000}){1000}){1000}",
        "(?:ab|a){4000000000}",
        "(a+)\\1\\1b",
        "(?:a+)++b",
        "a{5000000000}",
        "(" * 499 + ")" * 499,
        "a" * 1_001,
    ],
)
def test_a_pattern_that_may_take_long_is_not_tried(pattern: str) -> None:
    assert fits(pattern, "a" * 60) is None
    assert fits(pattern, "a" * 249) is None


@pytest.mark.timeout(60)
async def test_a_sink_whose_pattern_is_not_tried_counts_as_a_reader_and_is_named() -> None:
    connect, bad = Connect(), "^(?:[a-z]+[.-]?)+_cdc$"
    configs = {"named": {"topics": LONG}, "apart": {"topics.regex": "bills.*"}, "fits": {"topics.regex": "orders.*"}}
    configs |= {f"bad{i}": {"topics.regex": bad} for i in range(7)}
    told = {name: {"info": {"type": "sink", "config": config}} for name, config in configs.items()}

    async def answer(request: Asked) -> web.Response:
        assert (request.path, request.query) == ("/base/connectors", {"expand": "info"})
        return web.json_response(told)

    connect.answer = answer  # type: ignore[method-assign]
    async with controlled(connect) as control:
        found, (problem,) = await control.sinks_of({"app"}, LONG)
    assert found == (*(f"bad{i}" for i in range(7)), "fits", "named")
    assert problem.startswith("the topics.regex of bad0, bad1, bad2, bad3, bad4 and 2 more was not tried")


async def test_not_all_patterns_of_many_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd.adapters.control.connect._TRIES_S", 0.0)
    sinks = [SinkConnector("a", frozenset({LONG})), SinkConnector("b", frozenset(), "bills.*")]
    assert await _that_read(sinks, LONG) == ({"a"}, {"b"})
