"""Tokens for aiokafka (under Faust, and for client quotas): asked for by client credentials as librdkafka does by
itself, and kept until they are nearly used up.
"""

import asyncio
import base64
import json
import ssl
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka.abc import AbstractTokenProvider

from recoveryd.adapters.http.asking import HttpQuestions, HttpRefusal
from recoveryd.settings.oauth_properties import OAuth, shown_endpoint

DEADLINE_S: Final = 10.0
WAIT_S: Final = 12.0  # of a connection, whoever asks for it
_ANSWER_BYTES_MAX: Final = 256 * 1024
_USED_SHARE: Final = 0.8  # of a token's life; what is left is for the broker to see it
_LIFE_UNKNOWN_S: Final = 60.0
_TRIES: Final = 3  # of one connection, while what it asks for is forgotten meanwhile; the next one asks again
# The life of a token goes on while the machine sleeps, and so does this clock, where there is one.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _awake_or_not_s() -> float:
    return time.clock_gettime(_CLOCK)


class TokenProblem(ConnectionError):  # noqa: N818  (named for what happened)
    """No token came; the message names the endpoint and what it said, never a secret. aiokafka takes it as a broker
    that cannot be reached, tries again, and logs it.
    """

    def __init__(self, endpoint: str, said: str) -> None:
        super().__init__(f"The token endpoint {shown_endpoint(endpoint)} {said}.")


@dataclass(frozen=True, slots=True)
class _TokenQuestion:
    """One that is under way. Who asks has ended by `until_s`, or its loop has. The answer is None when it was cut
    short.
    """

    until_s: float
    answer: Future[str | None] = field(default_factory=Future)


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """`token` may be called at once by several connections, also of clients that run in loops and threads of their own,
    as those under Faust do: one asks, and the others wait for its answer.
    """

    def __init__(self, oauth: OAuth, now_s: Callable[[], float] = _awake_or_not_s) -> None:
        self._oauth = oauth
        self._now_s = now_s
        self._lock = threading.Lock()  # of all below; held for moments only
        self._token = ""
        self._until_s = 0.0
        self._forgotten = 0  # how often
        self._question: _TokenQuestion | None = None

    def take(self, oauth: OAuth) -> None:
        """Ask for tokens as this client from now on."""
        with self._lock:
            if oauth != self._oauth:
                self._oauth = oauth
                self._forget()

    def forget(self) -> None:
        """Ask for a token before the next connection: the one of now may not hold any more, nor one that is asked for
        just now.
        """
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._until_s = 0.0
        self._forgotten += 1

    async def token(self) -> str:
        """A token that holds for a while. Raises `TokenProblem`."""
        try:
            async with asyncio.timeout(WAIT_S) as limit:
                while (token := await self._kept_or_asked()) is None:
                    pass
                return token
        except TimeoutError:
            if not limit.expired():
                raise
            raise TokenProblem(self._oauth.endpoint, f"did not answer within {WAIT_S:.0f} s") from None

    async def _kept_or_asked(self) -> str | None:
        """None = whoever asked for all of them was cut short."""
        mine = _TokenQuestion(time.monotonic() + WAIT_S)
        with self._lock:
            if self._now_s() < self._until_s:
                return self._token
            asked = self._question
            if asked is None or asked.until_s < time.monotonic():
                asked = self._question = mine
        if asked is mine:
            return await self._ask(mine)
        return await asyncio.shield(asyncio.wrap_future(asked.answer))

    async def _ask(self, question: _TokenQuestion) -> str:
        """All that wait hear the same, a problem too."""
        token: str | None = None
        problem: TokenProblem | None = None
        try:
            token = await self._fetch()
        except TokenProblem as found:
            problem = found
            raise
        finally:
            with self._lock:
                if self._question is question:
                    self._question = None
            if problem is None:
                question.answer.set_result(token)
            else:
                question.answer.set_exception(problem)
        return token

    async def _fetch(self) -> str:
        token = ""
        for _ in range(_TRIES):
            with self._lock:
                oauth, forgotten = self._oauth, self._forgotten
            token, life_s = await fetch_token(oauth)
            with self._lock:
                if forgotten == self._forgotten:
                    self._token, self._until_s = token, self._now_s() + life_s * _USED_SHARE
                    break
        return token

    def extensions(self) -> dict[str, str]:
        return dict(self._oauth.extensions)


async def fetch_token(oauth: OAuth) -> tuple[str, float]:
    """A new token and its life in seconds. Raises `TokenProblem`."""
    form = {"grant_type": "client_credentials"} | ({"scope": oauth.scope} if oauth.scope else {})
    login = base64.b64encode(f"{oauth.client_id}:{oauth.client_secret}".encode()).decode("ascii")
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/x-www-form-urlencoded"}
    asking = None
    try:
        tls = ssl.create_default_context(cafile=oauth.ca_file) if oauth.endpoint.startswith("https:") else None
        asking = HttpQuestions(tls, timeout_s=DEADLINE_S, body_most=_ANSWER_BYTES_MAX)
        body = urllib.parse.urlencode(form).encode("ascii")
        answer = await asking.ask("POST", oauth.endpoint, headers=headers, body=body, proxy=_proxy(oauth.endpoint))
    except HttpRefusal as refusal:
        told = refusal.why.removeprefix("it answered ")
        said = f"cannot be asked: {told}" if refusal.status is None else f"answered {told}"
        raise TokenProblem(oauth.endpoint, said) from None
    except (OSError, ValueError) as error:
        raise TokenProblem(oauth.endpoint, f"cannot be asked: {error}") from None
    finally:
        if asking is not None:
            await asking.close()
    return _read(oauth.endpoint, answer.body)


def _proxy(endpoint: str) -> str | None:
    """Of the environment, as librdkafka takes it for its own tokens."""
    parts = urllib.parse.urlsplit(endpoint)
    is_near = urllib.request.proxy_bypass(parts.hostname or "")
    return None if is_near else urllib.request.getproxies().get(parts.scheme)


def _read(endpoint: str, body: bytes) -> tuple[str, float]:
    try:
        document: Any = json.loads(body)
    except ValueError:
        document = None
    token = document.get("access_token") if isinstance(document, dict) else None
    if not isinstance(token, str) or not token:
        raise TokenProblem(endpoint, "sent no access_token")
    life = document.get("expires_in")
    return token, float(life) if isinstance(life, int | float) and life > 0 else _LIFE_UNKNOWN_S
