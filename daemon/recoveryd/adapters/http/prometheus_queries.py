"""One number from a Prometheus server: an instant query by its HTTP API, and what its answer may look like.

Addresses come from the config alone; redirects are not followed. The number's own sample may be older than the answer,
so the look back for one is kept short: what was not scraped for longer is no answer instead of an old number.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import aiohttp

from recoveryd.live.freshness import RejectReason
from recoveryd.ports import QueryAnswer

_API: Final = "/api/v1/query"
_BODY_MOST: Final = 1_000_000
_SHOWN_MOST: Final = 300


class PrometheusQueries:
    """One connection pool for all servers, made at the first question."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, url: str, query: str, lookback_s: float, deadline_s: float) -> QueryAnswer:
        """See the port."""
        if self._session is None:
            self._session = aiohttp.ClientSession(headers={"Accept": "application/json"})
        # Servers that do not know `lookback_delta` ignore it.
        params = {"query": query, "lookback_delta": f"{lookback_s:g}", "timeout": f"{deadline_s:g}"}
        address = url.rstrip("/").removesuffix(_API) + _API
        limit = aiohttp.ClientTimeout(total=deadline_s)
        try:
            async with self._session.get(address, params=params, allow_redirects=False, timeout=limit) as response:
                return _judge(response.status, await _read(response))
        except TimeoutError:
            return _unusable(f"no answer within {deadline_s:g} s")
        except aiohttp.InvalidURL:  # its text is the whole URL, which may hold a password
            return _unusable("its url is no address of a server")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return _unusable(f"{type(error).__name__}: {error}")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The body. Raises ValueError when it is too long for one number."""
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > _BODY_MOST:
            raise ValueError(f"the answer is longer than {_BODY_MOST} bytes")
    return bytes(body)


def _judge(status: int, body: bytes) -> QueryAnswer:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, Mapping):
        return _unusable(f"status {status}, and not the JSON of a Prometheus")
    if status != 200 or answer.get("status") != "success":
        return _unusable(f"status {status}, {answer.get('errorType')}: {answer.get('error')}")
    data = answer.get("data")
    if not isinstance(data, Mapping):
        return _unusable("an answer without data")
    return _number(data.get("resultType"), data.get("result"))


def _number(kind: object, result: Any) -> QueryAnswer:
    """Of a scalar, or of the only element of a vector."""
    if kind == "vector" and isinstance(result, list):
        if len(result) != 1:
            unusable = _unusable(f"the query gives {len(result)} series, it must give one")
            return replace(unusable, is_empty=not result)
        result = result[0].get("value") if isinstance(result[0], Mapping) else None
    elif kind != "scalar":
        return _unusable(f"the query gives a {kind}, it must give a scalar or a vector of one")
    try:
        _, text = result
        value = float(text)
    except (TypeError, ValueError):
        return _unusable("the query gives no plain number")
    if not math.isfinite(value):
        return QueryAnswer(None, RejectReason.NOT_A_NUMBER, f"the query gives {text}")
    return QueryAnswer(value)


def _unusable(why: str) -> QueryAnswer:
    return QueryAnswer(None, RejectReason.NO_ANSWER, why[:_SHOWN_MOST])
