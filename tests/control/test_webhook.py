"""`control: webhook` against a real HTTP server that stops and starts something, early, late, twice or never."""

import asyncio
import hashlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from recoveryd.adapters.control.webhook import WebhookApplication, WebhookApplications
from recoveryd.adapters.http.signed_posts import SignedPosts, WebhookTarget
from recoveryd.units.control import ApplicationState, Desired, Needs
from recoveryd_sandbox.pki import Certificates, make_certificates
from tests.control.asking import asked, until, until_it_says, wish
from tests.control.serving import Answering, Asked, serving

NOW_MS = 1_800_000_000_123
SECRET = b"0123456789abcdef"


class Controller:
    """Takes calls and tells a state; a test changes what it does."""

    def __init__(self, state: str = "running") -> None:
        self.state: object = state
        self.why: object = None
        self.is_obeying = True
        self.statuses = [200]
        self.server: Answering | None = None
        self.looks = 0
        self.status: Callable[[], Awaitable[web.StreamResponse]] = self._status

    async def answer(self, request: Asked) -> web.StreamResponse:
        self._check(request)
        if request.method == "GET":
            self.looks += 1
            return await self.status()
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status == 200 and self.is_obeying:
            self.state = json.loads(request.body)["data"]["desired"]
        return web.Response(status=status)

    async def _status(self) -> web.StreamResponse:
        return web.json_response({"state": self.state, "why": self.why})

    @property
    def calls(self) -> list[Asked]:
        assert self.server is not None
        return [request for request in self.server.asked if request.method == "POST"]

    @staticmethod
    def _check(request: Asked) -> None:
        signed = request.headers["X-Recoveryd-Timestamp"].encode() + b"." + request.body
        expected = hmac.new(SECRET, signed, hashlib.sha256).hexdigest()
        assert request.headers["X-Recoveryd-Signature"] == f"v1={expected}"


@asynccontextmanager
async def controlled(
    controller: Controller, certificates: Certificates | None = None, *, is_trusted: bool = True, now_ms: int = NOW_MS
) -> AsyncIterator[WebhookApplications]:
    async with serving(controller.answer, certificates) as controller.server:
        tls = None
        if certificates is not None and is_trusted:
            tls = ssl.create_default_context(cafile=certificates.authority)
        target = WebhookTarget(f"{controller.server.url}/hook/private-path", SECRET, tls)
        status_url = f"{controller.server.url}/status/private-path?token=s3cret"
        application = WebhookApplication("app", "deploy", target, status_url, 60_000)
        posts = SignedPosts(lambda: now_ms, backoff_first_s=0.01)
        control = WebhookApplications([application], "test", posts, lambda: now_ms)
        try:
            yield control
        finally:
            await control.close()


async def test_it_is_sent_what_is_wanted_and_asked_how_far_it_is() -> None:
    controller = Controller()
    async with controlled(controller) as control:
        wanted = wish(Desired.STOPPED, key="w1/stop", since_ms=NOW_MS)
        assert (await control.ask(wanted)).needs is Needs.TIME
        report = await asked(control, wanted)
        assert (report.state, report.why) == (ApplicationState.STOPPED, "its status is stopped")
    (call,) = controller.calls
    event = json.loads(call.body)
    assert call.headers["Content-Type"].startswith("application/cloudevents+json")
    assert event.pop("id") == call.headers["X-Recoveryd-Delivery"]
    assert event == {
        "specversion": "1.0",
        "source": "//recoveryd/test",
        "type": "io.recoveryd.webhook.application_wanted.v1",
        "subject": "w1",
        "time": "2027-01-15T08:00:00.123Z",
        "datacontenttype": "application/json",
        "data": {
            "unit": "app",
            "desired": "stopped",
            "workflow": "w1",
            "idempotency_key": "w1/stop",
            "since": "2027-01-15T08:00:00.123Z",
        },
    }


async def test_what_is_so_already_is_not_called_for() -> None:
    controller = Controller("stopped")
    async with controlled(controller) as control:
        assert (await control.ask(wish(Desired.STOPPED))).state is ApplicationState.STOPPED
    assert controller.calls == []


async def test_one_wish_is_sent_once_and_the_next_daemon_sends_the_same() -> None:
    controller = Controller()
    controller.is_obeying = False
    wanted = wish(Desired.STOPPED, since_ms=NOW_MS)
    async with controlled(controller) as control:
        for _ in range(20):
            assert (await control.ask(wanted)).needs is Needs.TIME
            await asyncio.sleep(0)
        await until_it_says(control, wanted, "was told to stop it; its status is running")
        assert len(controller.calls) == 1
        first = controller.calls[0]
    async with controlled(controller) as control:
        await control.ask(wanted)
        await until(lambda: bool(controller.calls), "the next daemon calls too")
        (second,) = controller.calls
    assert second.body == first.body
    assert second.headers["X-Recoveryd-Delivery"] == first.headers["X-Recoveryd-Delivery"]


async def test_a_webhook_that_fails_for_a_while_is_called_again() -> None:
    controller = Controller()
    controller.statuses = [503, 429, 200]
    async with controlled(controller) as control:
        assert (await asked(control, wish(Desired.STOPPED, since_ms=NOW_MS))).state is ApplicationState.STOPPED
    assert len(controller.calls) == 3


@pytest.mark.parametrize(
    ("status", "says"),
    [(401, "once to stop it: 401"), (403, "once to stop it: 403"), (307, "it redirects"), (500, "6 times to stop it")],
)
async def test_a_webhook_that_refuses_is_told_to_a_person(status: int, says: str) -> None:
    controller = Controller()
    controller.statuses = [status]
    async with controlled(controller) as control:
        wanted = wish(Desired.STOPPED, since_ms=NOW_MS)
        report = await asked(control, wanted)
        assert (report.state, report.needs) == (ApplicationState.RUNNING, Needs.MENDING)
        assert says in report.why
        calls = len(controller.calls)
        await asked(control, wanted)
        assert len(controller.calls) == calls, "a wish that was refused is not sent again and again"
        controller.statuses = [200]
        assert (await asked(control, wish(Desired.STOPPED, since_ms=NOW_MS))).state is ApplicationState.STOPPED


async def test_what_never_comes_is_told_when_its_time_is_over_and_late_is_not_too_late() -> None:
    controller = Controller()
    controller.is_obeying = False
    async with controlled(controller) as control:
        wanted = wish(Desired.STOPPED, since_ms=NOW_MS - 61_000)
        report = await asked(control, wanted)
        assert (report.state, report.needs) == (ApplicationState.RUNNING, Needs.MENDING)
        says = "its webhook was told to stop it, and 61 s after that was wanted its status is running"
        assert report.why == says
        controller.state = "stopped"
        assert (await asked(control, wanted)).state is ApplicationState.STOPPED


async def test_one_that_is_told_to_start_long_after_it_was_wanted_has_its_time_all_the_same() -> None:
    controller = Controller("stopped")
    controller.is_obeying = False
    async with controlled(controller) as control:
        wanted = wish(Desired.RUNNING, since_ms=NOW_MS - 3_600_000)
        report = await until_it_says(control, wanted, "was told to start it; its status is stopped")
    assert report.needs is Needs.TIME


async def test_one_that_is_changing_needs_time() -> None:
    controller = Controller("changing")
    controller.is_obeying = False
    controller.why = "2 of 3\ninstances\x1b[2J"
    async with controlled(controller) as control:
        report = await control.ask(wish(Desired.STOPPED, since_ms=NOW_MS))
    assert (report.state, report.needs) == (ApplicationState.CHANGING, Needs.TIME)
    assert report.why.endswith("its status is changing: 2 of 3 instances [2J")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"stopped", "it is not JSON"),
        (b'{"state": "stoped"}', "its state is none of running, stopped, changing, unknown; is stopped meant?"),
        (b'{"state": true}', 'it is no object with a text "state"'),
        (b"[]", 'it is no object with a text "state"'),
        (b'{"state": "stopped", "state": "running"}', "twice"),
        (b"\xff", "it is not UTF-8"),
        (b" " * 2_000_000, "longer than"),
    ],
    ids=["text", "misspelt", "no text", "no object", "twice", "bytes", "huge"],
)
async def test_a_status_that_says_nothing_is_never_taken_for_stopped(body: bytes, says: str) -> None:
    controller = Controller()

    async def status() -> web.Response:
        return web.Response(body=body)

    controller.status = status
    async with controlled(controller) as control:
        report = await control.ask(wish(Desired.STOPPED, since_ms=NOW_MS))
    assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.MENDING)
    assert says in report.why
    assert controller.calls == [], "nothing is begun of which the end could not be seen"


async def test_a_status_that_fails_for_a_while_holds_up_nothing() -> None:
    controller = Controller()

    async def status() -> web.StreamResponse:
        return web.Response(status=503) if controller.looks < 4 else await controller._status()

    controller.status = status
    async with controlled(controller) as control:
        report = await asked(control, wish(Desired.STOPPED, since_ms=NOW_MS))
    assert report.state is ApplicationState.STOPPED
    assert len(controller.calls) == 1


async def test_an_authority_of_ones_own_is_trusted_where_the_config_names_it(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "pki")
    controller = Controller()
    async with controlled(controller, certificates) as control:
        assert (await asked(control, wish(Desired.STOPPED, since_ms=NOW_MS))).state is ApplicationState.STOPPED
    async with controlled(Controller(), certificates, is_trusted=False) as control:
        report = await control.ask(wish(Desired.STOPPED, since_ms=NOW_MS))
    assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.MENDING)
    assert "its certificate is not trusted" in report.why


async def test_secrets_are_in_no_log_and_no_report() -> None:
    controller = Controller()
    controller.statuses = [500, 404]
    with capture_logs() as logs:
        async with controlled(controller) as control:
            report = await asked(control, wish(Desired.STOPPED, since_ms=NOW_MS))
            told = f"{logs} {report} {control._applications}"
    assert [line["event"] for line in logs] == ["a webhook will be tried again", "a webhook was given up"]
    for secret in ("private-path", "s3cret", SECRET.decode()):
        assert secret not in told
