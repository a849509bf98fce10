"""Signed POSTs to webhooks: retried for a few minutes, redirects never followed.

Only URLs of the config are called. Neither a URL (its path may be a secret) nor a secret is ever logged or told; a
webhook goes by its name. What counts as delivered: any 2xx. Tried again: no answer, 408, 429 and 5xx. Everything else
is final.

The retry loop is written by hand: retry libraries need an exception where a refusal is an answer here, add their own
jitter to the wait that a receiver asks for, and do not end a running try when the time for all tries is over.
"""

import asyncio
import random
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import aiohttp
import structlog

from recoveryd.adapters.http.failures import why_unanswered
from recoveryd.wire.cloudevents import STRUCTURED_CONTENT_TYPE
from recoveryd.wire.signing import webhook_headers

log = structlog.stdlib.get_logger(__name__)

TRIES: Final = 6
TRY_TIMEOUT_S: Final = 10.0
BACKOFF_FIRST_S: Final = 2.0
BACKOFF_MAX_S: Final = 30.0
# So long do they take where none is answered and each pause is the longest that a receiver may ask for.
TOTAL_S: Final = TRIES * TRY_TIMEOUT_S + (TRIES - 1) * BACKOFF_MAX_S + 5.0
_TRY_AGAIN: Final = frozenset({408, 429})


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Where one webhook of the config points to; not shown in full anywhere. `tls` None: as the system trusts."""

    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """Of one try. `status` None = nobody answered; `retry_after_s` is what a receiver asked for."""

    status: int | None
    message: str
    retry_after_s: float = 0.0

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_worth_a_retry(self) -> bool:
        return self.status is None or self.status >= 500 or self.status in _TRY_AGAIN


class SignedPosts:
    """`backoff_first_s` and `try_timeout_s` are for tests."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        *,
        backoff_first_s: float = BACKOFF_FIRST_S,
        try_timeout_s: float = TRY_TIMEOUT_S,
    ) -> None:
        self._now_ms = now_ms
        self._backoff_first_s = backoff_first_s
        self._try_timeout_s = try_timeout_s

    async def deliver(
        self,
        target: WebhookTarget,
        delivery: str,
        body: bytes,
        about: Mapping[str, str],
        content_type: str = STRUCTURED_CONTENT_TYPE,
    ) -> tuple[CallOutcome, int]:
        """The outcome of the last try, and how many there were. `about` goes into the log."""
        tries = 0
        outcome = CallOutcome(None, f"no end within {TOTAL_S:.0f} s")
        try:
            async with asyncio.timeout(TOTAL_S), self._session() as session:
                while True:
                    tries += 1
                    outcome = await self._try(session, target, delivery, body, content_type)
                    if outcome.is_delivered or not outcome.is_worth_a_retry or tries >= TRIES:
                        break
                    wait_s = max(self._backoff_s(tries), outcome.retry_after_s)
                    log.warning("a webhook will be tried again", error=outcome.message, in_s=wait_s, **about)
                    await asyncio.sleep(wait_s)
        except TimeoutError:
            pass  # the outcome of the last try stands
        except Exception as bug:  # what is wanted must come to an end, whatever happens
            log.exception("a webhook broke", **about)
            outcome = CallOutcome(None, f"it could not be called: {type(bug).__name__}")
        told = log.info if outcome.is_delivered else log.error
        told("a webhook was delivered" if outcome.is_delivered else "a webhook was given up", tries=tries, **about)
        return outcome, tries

    def _session(self) -> aiohttp.ClientSession:
        timeout = aiohttp.ClientTimeout(total=self._try_timeout_s)
        return aiohttp.ClientSession(timeout=timeout, headers={"User-Agent": "recoveryd"})

    async def _try(
        self, session: aiohttp.ClientSession, target: WebhookTarget, delivery: str, body: bytes, content_type: str
    ) -> CallOutcome:
        headers = webhook_headers(delivery, body, target.secret, self._now_ms() // 1000, content_type)
        tls = True if target.tls is None else target.tls
        try:
            async with session.post(target.url, data=body, headers=headers, allow_redirects=False, ssl=tls) as answer:
                return _judge(answer)
        except (aiohttp.ClientError, OSError) as error:
            return CallOutcome(None, why_unanswered(error, self._try_timeout_s))

    def _backoff_s(self, tries: int) -> float:
        full_s = min(BACKOFF_MAX_S, self._backoff_first_s * 2.0 ** (tries - 1))
        return full_s * random.uniform(0.5, 1.0)  # noqa: S311  (spreads load, hides nothing)


def _judge(answer: aiohttp.ClientResponse) -> CallOutcome:
    status = answer.status
    if 300 <= status < 400:
        return CallOutcome(status, f"{status}: it redirects, which is not followed; put the right URL into the config")
    asked = answer.headers.get("Retry-After", "")
    retry_after_s = min(BACKOFF_MAX_S, float(asked)) if asked.isascii() and asked.isdigit() else 0.0
    return CallOutcome(status, str(status), retry_after_s)
