"""Questions to HTTP APIs of the config, each bounded in time and size; redirects are not followed.

A redirect could lead where the config never pointed, with its credentials; compressed answers could grow without end,
so none are asked for.
"""

import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp

from recoveryd.adapters.http.failures import is_passing, why_unanswered

TIMEOUT_S: Final = 10.0
BODY_MOST: Final = 1024 * 1024
_PASSING: Final = frozenset({408, 409, 429})
_TOLD_MOST: Final = 300


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    body: bytes


class HttpRefusal(Exception):  # noqa: N818  (named for what happened)
    """A sentence without any address. `is_passing`: asking again may help without anybody changing something."""

    def __init__(self, why: str, *, is_passing: bool, status: int | None = None) -> None:
        self.why = why
        self.is_passing = is_passing
        self.status = status
        super().__init__(why)

    @classmethod
    def of(cls, status: int, told: str = "") -> "HttpRefusal":
        """`told`: what the other side said to it, any text; one short line of it is shown."""
        if 300 <= status < 400:
            why = f"{status}: it redirects, which is not followed; put the right address into the config"
        elif status == 401:
            why = "401: it does not accept who asks"
        elif status == 403:
            why = "403: whoever asks may not do this"
        else:
            why = f"it answered {status}"
        line = " ".join("".join(c if c.isprintable() else " " for c in told[:_TOLD_MOST]).split())
        why += f": {line}" if line else ""
        return cls(why, is_passing=status >= 500 or status in _PASSING, status=status)


class HttpQuestions:
    """One pool of connections, made at the first question. `tls` None: certificates that the system trusts."""

    def __init__(
        self, tls: ssl.SSLContext | None = None, *, timeout_s: float = TIMEOUT_S, body_most: int = BODY_MOST
    ) -> None:
        self._tls = tls
        self._timeout_s = timeout_s
        self._body_most = body_most
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        answers: Collection[int] = (),
        timeout_s: float | None = None,
        proxy: str | None = None,
    ) -> HttpAnswer:
        """Any 2xx, or one of `answers`. Raises `HttpRefusal`."""
        limit_s = timeout_s or self._timeout_s
        try:
            async with self._opened().request(
                method,
                url,
                headers=headers,
                data=body,
                allow_redirects=False,
                proxy=proxy,
                ssl=self._tls or True,
                timeout=aiohttp.ClientTimeout(total=limit_s),
            ) as response:
                found = HttpAnswer(response.status, await self._read(response))
        except (aiohttp.ClientError, OSError) as error:
            raise HttpRefusal(why_unanswered(error, limit_s), is_passing=is_passing(error)) from None
        if 200 <= found.status < 300 or found.status in answers:
            return found
        raise HttpRefusal.of(found.status)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers={"User-Agent": "recoveryd", "Accept": "application/json", "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for part in response.content.iter_any():
            body += part
            if len(body) > self._body_most:
                raise HttpRefusal(f"its answer is longer than {self._body_most} bytes", is_passing=False)
        return bytes(body)
