"""Tells webhooks of transitions: signed and retried as those of watches (`signed_posts.py`), in order for each webhook.

What is told is already journaled and on the events topic. Here it waits in memory only, in a bounded queue: when a
receiver is away for long, the oldest are left out and counted, and so is what is not delivered soon after a daemon was
asked to end. What a daemon had not delivered when it died is lost.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from recoveryd.adapters.http.signed_posts import SignedPosts, WebhookTarget
from recoveryd.wire.transitions import BodyForm, Transition, encode_transition

log = structlog.stdlib.get_logger(__name__)

WAITING_MOST: Final = 1_000  # of each webhook, besides the one that is being tried
DRAIN_S: Final = 3.0
_NAMED_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class Route:
    """What a webhook hears of. An empty filter takes all."""

    form: BodyForm
    verbs: Collection[str] = ()
    states: Collection[str] = ()

    def takes(self, transition: Transition) -> bool:
        return (not self.verbs or transition.verb in self.verbs) and (
            not self.states or transition.state in self.states or self._resolves(transition)
        )

    def _resolves(self, transition: Transition) -> bool:
        """Whether an alert that was raised ends with it, which an Alertmanager hears whatever the new state is."""
        return self.form is BodyForm.ALERTMANAGER and transition.before in self.states


@dataclass(slots=True)
class _Line:
    waiting: deque[Transition] = field(default_factory=deque)
    trying: Transition | None = None
    is_there: asyncio.Event = field(default_factory=asyncio.Event)
    is_empty: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def untold(self) -> list[Transition]:
        return [*([] if self.trying is None else [self.trying]), *self.waiting]


class TransitionPosts:
    """`targets` by name, as they are at the time of a call; `count` is told webhook and outcome of each. Call from the
    event loop.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        targets: Mapping[str, WebhookTarget],
        scope: str,
        posts: SignedPosts,
        count: Callable[[str, str], None],
    ) -> None:
        self._routes = routes
        self._targets = targets
        self._scope = scope
        self._posts = posts
        self._count = count
        self._lines = {name: _Line() for name in routes}

    @property
    def waiting(self) -> Mapping[str, int]:
        """By webhook: how many are not delivered yet, with the one that is being tried."""
        return {name: len(line.untold()) for name, line in self._lines.items()}

    def tell(self, transitions: Iterable[Transition]) -> None:
        """Deliver them soon. Returns at once and raises nothing."""
        for transition in transitions:
            for name, route in self._routes.items():
                if route.takes(transition):
                    self._put(name, transition)

    async def close(self, drain_s: float = DRAIN_S) -> None:
        """Go on delivering for so long. What waits then is left out, counted and logged; it is on the events topic."""
        lines = {name: line for name, line in self._lines.items() if line.task is not None}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                for line in lines.values():
                    await line.is_empty.wait()
        untold = {name: line.untold() for name, line in lines.items()}
        tasks = [line.task for line in lines.values() if line.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name, left_out in untold.items():
            self._give_up(name, left_out)

    def _give_up(self, name: str, left_out: Sequence[Transition]) -> None:
        self._lines[name] = _Line()
        for _ in left_out:
            self._count(name, "left_out")
        if left_out:
            log.error(
                "the daemon ends before a webhook heard of all transitions",
                webhook=name,
                left_out=len(left_out),
                recovery_ids=[transition.id for transition in left_out[:_NAMED_MOST]],
            )

    def _put(self, name: str, transition: Transition) -> None:
        line = self._lines[name]
        if len(line.waiting) >= WAITING_MOST:
            left_out = line.waiting.popleft()
            self._count(name, "left_out")
            log.error("a webhook is too far behind, a transition is left out", webhook=name, recovery_id=left_out.id)
        line.waiting.append(transition)
        line.is_empty.clear()
        line.is_there.set()
        if line.task is None:
            line.task = asyncio.create_task(self._work(name, line))

    async def _work(self, name: str, line: _Line) -> None:
        while True:
            await line.is_there.wait()
            line.is_there.clear()
            while line.waiting:
                line.trying = line.waiting.popleft()
                await self._deliver(name, line.trying)
                line.trying = None
            line.is_empty.set()

    async def _deliver(self, name: str, transition: Transition) -> None:
        route = self._routes[name]
        try:
            body, content_type = encode_transition(transition, route.form, self._scope, route.states)
            about = {"webhook": name, "recovery_id": transition.id, "delivery": transition.delivery}
            outcome, _tries = await self._posts.deliver(
                self._targets[name], transition.delivery, body, about, content_type
            )
            self._count(name, "delivered" if outcome.is_delivered else "failed")
        except Exception:  # the next ones must still be told
            log.exception("a webhook broke", webhook=name, recovery_id=transition.id)
            self._count(name, "failed")
