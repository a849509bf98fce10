"""Tokens for aiokafka (under Faust, and for client quotas): asked for by client credentials as librdkafka does by
itself, and kept until they are nearly used up.
"""

import asyncio
import base64
import json
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, Final

from aiokafka.abc import AbstractTokenProvider

from recoveryd.adapters.http.asking import HttpQuestions, HttpRefusal
from recoveryd.settings.oauth_properties import OAuth, shown_endpoint

DEADLINE_S: Final = 10.0
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


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """One per client. `token` may be called at once by several connections: they wait for one answer."""

    def __init__(self, oauth: OAuth, now_s: Callable[[], float] = _awake_or_not_s) -> None:
        self._oauth = oauth
        self._now_s = now_s
        self._token = ""
        self._until_s = 0.0
        self._forgotten = 0  # how often
        self._asking = asyncio.Lock()

    def take(self, oauth: OAuth) -> None:
        """Ask for tokens as this client from now on."""
        if oauth != self._oauth:
            self._oauth = oauth
            self.forget()

    def forget(self) -> None:
        """Ask for a token before the next connection: the one of now may not hold any more, nor one that is asked for
        just now.
        """
        self._until_s = 0.0
        self._forgotten += 1

    async def token(self) -> str:
        """A token that holds for a while. Raises `TokenProblem`."""
        async with self._asking:
            for _ in range(_TRIES):
                if self._now_s() < self._until_s:
                    break
                forgotten = self._forgotten
                self._token, life_s = await fetch_token(self._oauth)
                if forgotten == self._forgotten:
                    self._until_s = self._now_s() + life_s * _USED_SHARE
                    break
            return self._token

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
