"""Calls the webhooks of watches (`signed_posts.py`), each delivery once at a time, and tells the core how it ended."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from recoveryd.adapters.http.signed_posts import (
    BACKOFF_FIRST_S,
    TRY_TIMEOUT_S,
    CallOutcome,
    SignedPosts,
    WebhookTarget,
)
from recoveryd.ports import Emit
from recoveryd.watches.effects import CallWebhook
from recoveryd.watches.events import WebhookEnded
from recoveryd.watches.wire.webhook import encode_webhook

log = structlog.stdlib.get_logger(__name__)

AT_ONCE: Final = 8  # of each webhook: one that does not answer holds its own calls up, and no others


class HttpWebhooks:
    """`targets` by name. Call from the event loop. `backoff_first_s` and `try_timeout_s` are for tests."""

    def __init__(
        self,
        targets: Mapping[str, WebhookTarget],
        scope: str,
        emit: Emit,
        now_ms: Callable[[], int],
        *,
        backoff_first_s: float = BACKOFF_FIRST_S,
        try_timeout_s: float = TRY_TIMEOUT_S,
    ) -> None:
        self._targets = targets
        self._scope = scope
        self._emit = emit
        self._posts = SignedPosts(now_ms, backoff_first_s=backoff_first_s, try_timeout_s=try_timeout_s)
        self._slots: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by delivery

    def start(self, effect: CallWebhook) -> None:
        """Begin to deliver, unless this delivery is under way already."""
        if effect.delivery not in self._tasks:
            task = asyncio.create_task(self._deliver(effect))
            self._tasks[effect.delivery] = task
            task.add_done_callback(lambda _: self._tasks.pop(effect.delivery, None))

    async def close(self) -> None:
        """Break off deliveries and tell nobody: the journal still holds what is wanted."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver(self, effect: CallWebhook) -> None:
        about = {"webhook": effect.webhook, "recovery_id": effect.watch, "delivery": effect.delivery}
        async with self._slots[effect.webhook]:
            outcome, tries = await self._outcome(effect, about)
        ended = WebhookEnded(effect.watch, outcome.is_delivered, outcome.status, tries, outcome.message)
        self._emit(ended)

    async def _outcome(self, effect: CallWebhook, about: Mapping[str, str]) -> tuple[CallOutcome, int]:
        target = self._targets.get(effect.webhook)
        if target is None:  # accepted by a daemon whose config had it
            log.error("a webhook was given up", tries=0, **about)
            return CallOutcome(None, f"the config has no webhook {effect.webhook!r} any more"), 0
        try:
            body = encode_webhook(effect, self._scope)
        except Exception as bug:  # what is wanted must come to an end, whatever happens
            log.exception("a webhook broke", **about)
            return CallOutcome(None, f"it could not be called: {type(bug).__name__}"), 0
        return await self._posts.deliver(target, effect.delivery, body, about)
