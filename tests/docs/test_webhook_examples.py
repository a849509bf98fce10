"""Each example of docs/webhooks.md, as a config, with a receiver that takes only what the real one takes."""

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from recoveryd.adapters.http.signed_posts import SignedPosts, WebhookTarget
from recoveryd.adapters.http.transition_posts import TransitionPosts
from recoveryd.kernel.decision import Notice
from recoveryd.settings import load
from recoveryd.telling import transition_routes
from recoveryd.wire.transitions import transition_of
from tests.runtime.fakes import until

_PAGE: Final = Path(__file__).parents[2] / "docs/webhooks.md"
EXAMPLES: Final = re.findall(r"^```yaml\n(.*?)^```$", _PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
NOW_MS: Final = 1_800_000_000_000


def takes_cloud_events(body: Any, content_type: str) -> bool:
    return content_type == "application/cloudevents+json" and {"specversion", "id", "source", "type", "data"} <= set(
        body
    )


def takes_messages(body: Any, content_type: str) -> bool:
    """As Slack: only JSON, only fields it knows, and a text that is not empty."""
    return content_type == "application/json" and set(body) == {"text"} and bool(body["text"])


def takes_alerts(body: Any, content_type: str) -> bool:
    """As the OpenAPI description of Alertmanager's `POST /api/v2/alerts`: texts for names, times in RFC 3339."""
    for alert in body:
        if not set(alert) <= {"labels", "annotations", "startsAt", "endsAt", "generatorURL"} or not alert["labels"]:
            return False
        for name, text in {**alert["labels"], **alert.get("annotations", {})}.items():
            if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) or not isinstance(text, str):
                return False
        for at in {"startsAt", "endsAt"} & set(alert):
            datetime.fromisoformat(alert[at])
    return content_type == "application/json" and isinstance(body, list) and bool(body)


RECEIVERS: Final[dict[str, Callable[[Any, str], bool]]] = {
    "ops": takes_cloud_events,
    "chat": takes_messages,
    "alerts": takes_alerts,
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: next(iter(yaml.safe_load(text)["webhooks"])))
async def test_an_example_reaches_its_receiver(example: str, tmp_path: Path) -> None:
    [(name, written)] = yaml.safe_load(example)["webhooks"].items()
    outcomes: list[bool] = []

    async def handle(request: web.Request) -> web.Response:
        outcomes.append(RECEIVERS[name](await request.json(), request.content_type))
        return web.Response(status=200 if outcomes[-1] else 400)

    app = web.Application()
    [address] = re.findall(r"https?://[^\s\"]+", example)
    path = re.sub(r"^https?://[^/]+", "", address)
    app.router.add_post(path, handle)
    server = TestServer(app)
    await server.start_server()
    key = tmp_path / "key"
    key.write_text("0123456789abcdef\n")
    config = tmp_path / "recoveryd.yaml"
    text = example.replace(written["secret_file"], str(key))
    here = str(server.make_url("")).rstrip("/")
    text = text.replace(address, f"{here}{path}")
    if isinstance(written["url"], dict):
        (tmp_path / "address").write_text(f"{here}{path}\n")
        text = text.replace(written["url"]["file"], str(tmp_path / "address"))
    config.write_text(f"clusters: {{main: {{bootstrap.servers: 'a:1'}}}}\n{text}", encoding="utf-8")
    settings = load(config, env={})
    counted: list[tuple[str, str]] = []
    posts = TransitionPosts(
        transition_routes(settings),
        {name: WebhookTarget(*target) for name, target in settings.webhook_targets().items()},
        "docs",
        SignedPosts(lambda: NOW_MS, backoff_first_s=0.01),
        lambda *what: counted.append(what),
    )
    told = {"from": "running", "to": "failed", "why": "the target is gone", "attempt": 3}
    failed = transition_of(Notice("recovery_failed", "r1", told), "replay", NOW_MS)
    assert failed is not None
    posts.tell([failed])
    await until(lambda: bool(counted))
    await posts.close()
    await server.close()
    assert (counted, outcomes) == ([(name, "delivered")], [True])


def test_the_page_has_an_example_for_each_receiver() -> None:
    names = {name for example in EXAMPLES for name in yaml.safe_load(example)["webhooks"]}
    assert names == set(RECEIVERS)
