"""Transitions told to real HTTP servers: what a receiver gets, in which order, and what is left out."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from recoveryd.adapters.http import transition_posts
from recoveryd.adapters.http.signed_posts import SignedPosts, WebhookTarget
from recoveryd.adapters.http.transition_posts import Route, TransitionPosts
from recoveryd.kernel.decision import Notice
from recoveryd.wire.transitions import BodyForm, Transition, transition_of
from tests.runtime.fakes import until

NOW_MS = 1_800_000_000_123
SECRET = b"0123456789abcdef"


class Receiver:
    """Answers with these statuses, the last for all further calls; `gate` holds answers back until it is set."""

    def __init__(self) -> None:
        self.statuses = [200]
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.got.append((dict(request.headers), await request.read()))
        status = self.statuses[min(len(self.got), len(self.statuses)) - 1]
        await self.gate.wait()
        return web.Response(status=status)

    def documents(self) -> list[Any]:
        return [json.loads(body) for _headers, body in self.got]


@pytest.fixture
async def receiver() -> AsyncIterator[tuple[Receiver, str]]:
    made = Receiver()
    app = web.Application()
    app.router.add_post("/{rest:.*}", made.handle)
    server = TestServer(app)
    await server.start_server()
    yield made, str(server.make_url("/hook"))
    made.gate.set()
    await server.close()


def moved(id_: str, before: str, state: str, verb: str = "replay") -> Transition:
    told = {"from": before, "to": state, "why": f"it is {state} <now>", "attempt": 2}
    found = transition_of(Notice(f"recovery_{state}", id_, told), verb, NOW_MS)
    assert found is not None
    return found


class Told:
    def __init__(self, url: str, route: Route) -> None:
        self.counted: list[tuple[str, str]] = []
        posts = SignedPosts(lambda: NOW_MS, backoff_first_s=0.01)
        self.posts = TransitionPosts(
            {"ops": route}, {"ops": WebhookTarget(url, SECRET)}, "test", posts, lambda *what: self.counted.append(what)
        )


async def test_a_transition_is_one_signed_cloud_event(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    told = Told(url, Route(BodyForm.CLOUDEVENT))
    transition = moved("r1", "running", "failed")
    told.posts.tell([transition])
    await until(lambda: told.counted == [("ops", "delivered")])
    await told.posts.close()
    [(headers, body)] = server.got
    expected = hmac.new(SECRET, b"1800000000." + body, hashlib.sha256).hexdigest()
    assert headers["X-Recoveryd-Signature"] == f"v1={expected}"
    assert headers["X-Recoveryd-Delivery"] == transition.delivery
    assert headers["Content-Type"].startswith("application/cloudevents+json")
    assert json.loads(body) == {
        "specversion": "1.0",
        "id": transition.delivery,
        "source": "//recoveryd/test",
        "type": "io.recoveryd.webhook.transition.v1",
        "subject": "r1",
        "time": "2027-01-15T08:00:00.123Z",
        "datacontenttype": "application/json",
        "data": {
            "recovery": "r1",
            "verb": "replay",
            "from": "running",
            "to": "failed",
            "why": "it is failed <now>",
            "at": "2027-01-15T08:00:00.123Z",
            "attempt": 2,
        },
    }


async def test_only_what_the_filter_takes_is_told_and_in_order(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    server.statuses = [503, 200]  # the first is tried again before the second goes out
    told = Told(url, Route(BodyForm.CLOUDEVENT, {"replay", "verify"}, {"paused", "failed"}))
    told.posts.tell(
        [
            moved("r1", "pausing", "paused"),
            moved("r2", "starting", "running"),
            moved("r3", "running", "failed", "reset"),
            moved("r4", "verifying", "failed", "verify"),
        ]
    )
    await until(lambda: len(told.counted) == 2)
    await told.posts.close()
    assert [document["subject"] for document in server.documents()] == ["r1", "r1", "r4"]


async def test_a_chat_gets_a_text(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    told = Told(url, Route(BodyForm.SLACK))
    told.posts.tell([moved("r1", "running", "failed")])
    await until(lambda: bool(told.counted))
    await told.posts.close()
    assert server.documents() == [{"text": "replay r1 is failed (was running): it is failed &lt;now&gt;"}]
    assert server.got[0][0]["Content-Type"].startswith("application/json")


async def test_an_alert_of_the_state_that_was_left_is_resolved(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    told = Told(url, Route(BodyForm.ALERTMANAGER, states={"paused", "failed"}))
    told.posts.tell([moved("r1", "pausing", "paused"), moved("r1", "paused", "running")])
    await until(lambda: len(told.counted) == 2)
    await told.posts.close()
    [raised], [resolved] = server.documents()
    labels = {"alertname": "RecoverydTransition", "scope": "test", "recovery": "r1", "verb": "replay"}
    assert raised["labels"] == resolved["labels"] == {**labels, "state": "paused", "severity": "info"}
    assert raised["startsAt"] == resolved["endsAt"] == "2027-01-15T08:00:00.123Z"
    assert "endsAt" not in raised


async def test_beyond_the_bound_the_oldest_are_left_out_and_counted(
    receiver: tuple[Receiver, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, url = receiver
    monkeypatch.setattr(transition_posts, "WAITING_MOST", 3)
    server.gate.clear()
    told = Told(url, Route(BodyForm.SLACK))
    told.posts.tell([moved("r0", "pausing", "paused")])
    await until(lambda: len(server.got) == 1)
    told.posts.tell([moved(f"r{n}", "pausing", "paused") for n in range(1, 6)])
    # Three that wait, and the one that is being tried.
    assert (told.posts.waiting, told.counted) == ({"ops": 4}, [("ops", "left_out")] * 2)
    server.gate.set()
    await until(lambda: len(told.counted) == 6)
    await told.posts.close()
    assert [document["text"].split()[1] for document in server.documents()] == ["r0", "r3", "r4", "r5"]


async def test_a_receiver_that_refuses_does_not_hold_up_the_next(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    server.statuses = [400, 200]
    told = Told(url, Route(BodyForm.SLACK))
    told.posts.tell([moved("r1", "running", "failed"), moved("r2", "running", "failed")])
    await until(lambda: len(told.counted) == 2)
    await told.posts.close()
    assert told.counted == [("ops", "failed"), ("ops", "delivered")]


async def test_one_that_is_being_tried_still_waits(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    server.gate.clear()
    told = Told(url, Route(BodyForm.SLACK))
    told.posts.tell([moved("r0", "pausing", "paused")])
    await until(lambda: len(server.got) == 1)
    assert told.posts.waiting == {"ops": 1}
    server.gate.set()
    await until(lambda: told.posts.waiting == {"ops": 0})
    await told.posts.close()


async def test_who_closes_first_delivers_what_waits(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    told = Told(url, Route(BodyForm.SLACK))
    told.posts.tell([moved(f"r{n}", "running", "failed") for n in range(3)])
    await told.posts.close(drain_s=120.0)
    assert [document["text"].split()[1] for document in server.documents()] == ["r0", "r1", "r2"]
    assert told.counted == [("ops", "delivered")] * 3


async def test_what_cannot_be_delivered_before_the_end_is_counted_as_left_out(receiver: tuple[Receiver, str]) -> None:
    server, url = receiver
    server.gate.clear()
    told = Told(url, Route(BodyForm.SLACK))
    told.posts.tell([moved(f"r{n}", "running", "failed") for n in range(3)])
    await until(lambda: len(server.got) == 1)
    await told.posts.close(drain_s=0.01)
    assert (told.counted, told.posts.waiting) == ([("ops", "left_out")] * 3, {"ops": 0})
    await told.posts.close(drain_s=0.01)
    assert len(told.counted) == 3


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("attempt_lost", {"why": "gone", "attempt": 1}),
        ("forecast_changed", {"from": "ends", "to": "never", "why": "slow"}),
    ],
)
def test_other_events_are_no_transitions(kind: str, data: dict[str, Any]) -> None:
    assert transition_of(Notice(kind, "r1", data), "replay", NOW_MS) is None
