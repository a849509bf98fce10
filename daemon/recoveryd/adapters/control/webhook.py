"""`control: webhook`: something else stops and starts the application; it is sent what is wanted, and asked how far it
is.

What counts is the state that the status address tells, not what the webhook answers: a call that came through and was
forgotten changes nothing, and neither does one that came twice. So one wish is sent until it was taken, once, and the
status is asked until it fits or its time is over; afterwards too, since answers may come late.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from recoveryd.adapters.http.asking import HttpQuestions, HttpRefusal
from recoveryd.adapters.http.signed_posts import CallOutcome, SignedPosts, WebhookTarget
from recoveryd.units.control import ApplicationState, Desired, Needs, Report, Wish
from recoveryd.units.wire.control import NoStatus, delivery_of, encode_wish, read_status
from recoveryd.wire.signing import webhook_headers

log = structlog.stdlib.get_logger(__name__)

_VERBS = {Desired.RUNNING: "start", Desired.STOPPED: "stop"}


@dataclass(frozen=True, slots=True)
class WebhookApplication:
    """`webhook` is its name in the config; `target` and `status_url` may hold secrets."""

    unit: str
    webhook: str
    target: WebhookTarget = field(repr=False)
    status_url: str = field(repr=False)
    timeout_ms: int


@dataclass(slots=True)
class _Call:
    """The last one of a unit."""

    delivery: str
    at_ms: int
    task: asyncio.Task[tuple[CallOutcome, int]]


class WebhookApplications:
    """Call from the event loop."""

    def __init__(
        self, applications: Sequence[WebhookApplication], scope: str, posts: SignedPosts, now_ms: Callable[[], int]
    ) -> None:
        self._applications = {a.unit: a for a in applications}
        self._questions = {a.unit: HttpQuestions(a.target.tls) for a in applications}
        self._scope = scope
        self._posts = posts
        self._now_ms = now_ms
        self._calls: dict[str, _Call] = {}

    async def ask(self, wish: Wish) -> Report:
        application = self._applications[wish.unit]
        seen = await self._seen(application)
        if seen.fulfils(wish.desired) or seen.needs is Needs.MENDING:
            return seen
        call = self._called(application, wish)
        verb = _VERBS[wish.desired]
        if not call.task.done():
            return replace(seen, why=f"its webhook is being called to {verb} it; {seen.why}", needs=Needs.TIME)
        outcome, tries = call.task.result()
        if not outcome.is_delivered:
            times = "once" if tries == 1 else f"{tries} times"
            why = f"its webhook was called {times} to {verb} it: {outcome.message}; {seen.why}"
            return replace(seen, why=why, needs=Needs.MENDING)
        waited_ms = wish.waited_ms(self._now_ms(), call.at_ms)
        if waited_ms < application.timeout_ms:
            return replace(seen, why=f"its webhook was told to {verb} it; {seen.why}", needs=Needs.TIME)
        why = f"its webhook was told to {verb} it, and {waited_ms / 1000:.0f} s after that was wanted {seen.why}"
        return replace(seen, why=why, needs=Needs.MENDING)

    async def renew(self, application: WebhookApplication) -> None:
        before = self._questions[application.unit]
        self._applications[application.unit] = application
        self._questions[application.unit] = HttpQuestions(application.target.tls)
        await before.close()

    async def look(self, unit: str) -> Report:
        return await self._seen(self._applications[unit])

    async def start(self) -> None: ...

    async def close(self) -> None:
        """A call that was not taken yet is made anew by whoever asks next."""
        tasks = [call.task for call in self._calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for questions in self._questions.values():
            await questions.close()

    def _called(self, application: WebhookApplication, wish: Wish) -> _Call:
        """The call of this wish; an earlier wish is not wanted any more."""
        delivery = delivery_of(wish)
        last = self._calls.get(wish.unit)
        if last is not None and last.delivery == delivery:
            return last
        if last is not None:
            last.task.cancel()
        about = {"webhook": application.webhook, "unit": wish.unit, "delivery": delivery}
        task = asyncio.create_task(
            self._posts.deliver(application.target, delivery, encode_wish(wish, self._scope), about)
        )
        call = self._calls[wish.unit] = _Call(delivery, self._now_ms(), task)
        return call

    async def _seen(self, application: WebhookApplication) -> Report:
        """What its status says. Signed like a call, over an empty body, so that it need not answer everybody."""
        now_ms = self._now_ms()
        delivery = hashlib.sha256(f"{application.unit}\n{now_ms}".encode()).hexdigest()[:32]
        headers = webhook_headers(delivery, b"", application.target.secret, now_ms // 1000)
        try:
            answer = await self._questions[application.unit].ask("GET", application.status_url, headers=headers)
            state, told = read_status(answer.body)
        except HttpRefusal as problem:
            needs = Needs.TIME if problem.is_passing else Needs.MENDING
            return _unknown(application, problem.why, needs)
        except NoStatus as problem:
            return _unknown(application, str(problem), Needs.MENDING)
        why = f"its status is {state.value}" + (f": {told}" if told else "")
        return Report(application.unit, state, why, {"status": state.value})


def _unknown(application: WebhookApplication, why: str, needs: Needs) -> Report:
    return Report(application.unit, ApplicationState.UNKNOWN, f"its status could not be read: {why}", needs=needs)
