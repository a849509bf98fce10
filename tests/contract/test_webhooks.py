"""Webhooks against a real HTTP server: what is sent, what is tried again, what is final. The test checks signatures
with its own code.
"""

import asyncio
import hashlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from recoveryd.adapters.http.signed_posts import BACKOFF_MAX_S, TOTAL_S, TRIES, TRY_TIMEOUT_S, WebhookTarget
from recoveryd.adapters.http.webhooks import AT_ONCE, HttpWebhooks
from recoveryd.kernel.events import Event
from recoveryd.watches.effects import CallWebhook
from recoveryd.watches.events import WebhookEnded
from recoveryd_sandbox.pki import make_certificates

NOW_MS = 1_800_000_000_123
SECRET = b"0123456789abcdef"
EFFECT = CallWebhook(
    watch="w1",
    webhook="stop-it",
    delivery="d" * 32,
    body={"watch": "w1", "group": "reports", "reason": "zero_lag", "at_ms": 1_800_000_000_000, "evidence": {"n": 1}},
)
Answer = Callable[[int], Awaitable[web.StreamResponse]]


@dataclass
class Received:
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """A server that answers each try as the test says, and keeps the requests."""

    answer: Answer
    got: list[Received] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.got.append(Received(dict(request.headers), await request.read()))
        return await self.answer(len(self.got))


@pytest.fixture
async def receiver() -> AsyncIterator[tuple[Receiver, str]]:
    made = Receiver(answering(204))
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", made.handle)
    server = TestServer(app)
    await server.start_server()
    yield made, str(server.make_url("/hook/private-path"))
    await server.close()


def answering(*statuses: int, **headers: str) -> Answer:
    """Status of the first try, of the second, and so on; the last for all further ones."""

    async def answer(number: int) -> web.StreamResponse:
        return web.Response(status=statuses[min(number, len(statuses)) - 1], headers=headers)

    return answer


async def deliver(url: str, effect: CallWebhook = EFFECT, *, try_timeout_s: float = 120.0) -> WebhookEnded:
    ended: asyncio.Queue[Event] = asyncio.Queue()
    targets = {"stop-it": WebhookTarget(url, SECRET)}
    webhooks = HttpWebhooks(
        targets, "test", ended.put_nowait, lambda: NOW_MS, backoff_first_s=0.01, try_timeout_s=try_timeout_s
    )
    webhooks.start(effect)
    try:
        event = await asyncio.wait_for(ended.get(), 120)
    finally:
        await webhooks.close()
    assert isinstance(event, WebhookEnded)
    return event


async def test_what_is_sent_is_one_signed_cloud_event(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    assert await deliver(url) == WebhookEnded("w1", True, 204, 1, "204")
    (got,) = server.got
    expected = hmac.new(SECRET, b"1800000000." + got.body, hashlib.sha256).hexdigest()
    assert got.headers["X-Recoveryd-Signature"] == f"v1={expected}"
    assert got.headers["X-Recoveryd-Timestamp"] == "1800000000"
    assert got.headers["X-Recoveryd-Delivery"] == "d" * 32
    assert got.headers["Content-Type"].startswith("application/cloudevents+json")
    assert json.loads(got.body) == {
        "specversion": "1.0",
        "id": "d" * 32,
        "source": "//recoveryd/test",
        "type": "io.recoveryd.webhook.watch_fulfilled.v1",
        "subject": "w1",
        "time": "2027-01-15T08:00:00.000Z",
        "datacontenttype": "application/json",
        "data": {
            "watch": "w1",
            "group": "reports",
            "reason": "zero_lag",
            "evidence": {"n": 1},
            "at": "2027-01-15T08:00:00.000Z",
        },
    }


@pytest.mark.parametrize("status", [500, 503, 429, 408])
async def test_a_passing_failure_is_tried_again_with_the_same_body_and_delivery(
    receiver: tuple[Receiver, str], status: int
) -> None:
    server, url = receiver
    server.answer = answering(status, status, 200)
    assert await deliver(url) == WebhookEnded("w1", True, 200, 3, "200")
    assert len({(r.body, r.headers["X-Recoveryd-Delivery"]) for r in server.got}) == 1


async def test_a_failure_that_stays_is_given_up_after_the_last_try(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    server.answer = answering(502)
    assert await deliver(url) == WebhookEnded("w1", False, 502, TRIES, "502")
    assert len(server.got) == TRIES


async def test_a_webhook_that_does_not_answer_holds_up_no_other_one(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    is_over = asyncio.Event()

    async def answer(_number: int) -> web.StreamResponse:
        if b'"dead' in server.got[-1].body:
            await is_over.wait()
        return web.Response(status=204)

    server.answer = answer
    ended: asyncio.Queue[Event] = asyncio.Queue()
    targets = {name: WebhookTarget(url, SECRET) for name in ("dead", "stop-it")}
    webhooks = HttpWebhooks(targets, "test", ended.put_nowait, lambda: NOW_MS)
    try:
        for number in range(3 * AT_ONCE):
            watch = f"dead{number}"
            body = {**EFFECT.body, "watch": watch}
            webhooks.start(replace(EFFECT, webhook="dead", watch=watch, delivery=watch, body=body))
        webhooks.start(EFFECT)
        assert await asyncio.wait_for(ended.get(), 120) == WebhookEnded("w1", True, 204, 1, "204")
        assert len(server.got) <= AT_ONCE + 1, "and it is not called by all of them at once"
    finally:
        is_over.set()
        await webhooks.close()


def test_there_is_time_for_every_try_and_the_longest_pauses() -> None:
    assert TOTAL_S > TRIES * TRY_TIMEOUT_S + (TRIES - 1) * BACKOFF_MAX_S


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
async def test_a_refusal_is_final(receiver: tuple[Receiver, str], status: int) -> None:
    server, url = receiver
    server.answer = answering(status)
    assert await deliver(url) == WebhookEnded("w1", False, status, 1, str(status))
    assert len(server.got) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_never_followed(receiver: tuple[Receiver, str], status: int) -> None:
    server, url = receiver
    server.answer = answering(status, Location="/elsewhere")
    ended = await deliver(url)
    assert (ended.delivered, ended.status, ended.attempts) == (False, status, 1)
    assert len(server.got) == 1


async def test_a_receiver_that_does_not_answer_is_tried_again(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver

    tried_again = asyncio.Event()

    async def silent_at_first(number: int) -> web.StreamResponse:
        if number > 1:
            tried_again.set()
        await tried_again.wait()
        return web.Response(status=202)

    server.answer = silent_at_first
    assert await deliver(url, try_timeout_s=5.0) == WebhookEnded("w1", True, 202, 2, "202")


async def test_nobody_there_ends_with_a_word_that_does_not_show_the_url(unused_tcp_port: int) -> None:
    ended = await deliver(f"http://127.0.0.1:{unused_tcp_port}/private-path?token=s3cret")
    assert (ended.delivered, ended.status, ended.attempts) == (False, None, TRIES)
    assert "no connection" in ended.message
    assert "private-path" not in ended.message


async def test_a_delivery_under_way_is_not_begun_again(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    arrived, may_end = asyncio.Event(), asyncio.Event()

    async def wait(number: int) -> web.StreamResponse:
        arrived.set()
        await may_end.wait()
        return web.Response(status=204)

    server.answer = wait
    ended: asyncio.Queue[Event] = asyncio.Queue()
    webhooks = HttpWebhooks({"stop-it": WebhookTarget(url, SECRET)}, "test", ended.put_nowait, lambda: NOW_MS)
    for _ in range(3):
        webhooks.start(EFFECT)
    async with asyncio.timeout(60):
        await arrived.wait()
        may_end.set()
        await ended.get()
    assert len(server.got) == 1
    assert ended.empty()
    await webhooks.close()


async def test_a_webhook_the_config_lost_is_given_up_at_once() -> None:
    ended = await deliver("http://127.0.0.1:1/", CallWebhook("w1", "gone", "d1", EFFECT.body))
    assert ended == WebhookEnded("w1", False, None, 0, "the config has no webhook 'gone' any more")


async def test_secrets_are_in_no_log_and_no_repr(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    server.answer = answering(500, 404)
    with capture_logs() as logs:
        await deliver(url)
    assert [line["event"] for line in logs] == ["a webhook will be tried again", "a webhook was given up"]
    told = f"{logs} {WebhookTarget(url, SECRET)!r}"
    assert "private-path" not in told
    assert SECRET.decode() not in told


async def test_a_certificate_that_is_not_trusted_is_named(tmp_path: Path) -> None:
    server = TestServer(web.Application(), scheme="https")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(make_certificates(tmp_path).node)
    await server.start_server(ssl=tls)
    try:
        ended = await deliver(str(server.make_url("/hook/private-path")))
    finally:
        await server.close()
    assert (ended.delivered, ended.status, ended.attempts) == (False, None, TRIES)
    assert ended.message.startswith("its certificate is not trusted: ")
