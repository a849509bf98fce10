"""One question to the HTTP API of a daemon: one deadline for the whole answer, from the name of the host to the last
byte, and one bound for its size. Plain `urllib`, because a few small requests need no more.

A question runs beside whoever asks (`Later`), for there are waits that no time-out of a socket ends: a name that does
not resolve, an answer that comes byte by byte. What hangs is left alone then; few can hang at once.
"""

import http.client
import ipaddress
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

ANSWER_MOST: Final = 256 * 1024 * 1024
_PART: Final = 256 * 1024
_UNDER_WAY: Final = threading.BoundedSemaphore(8)

T = TypeVar("T")
UNANSWERED: Final = (OSError, ValueError, http.client.HTTPException)  # also an answer that ends in the middle


@dataclass(frozen=True, slots=True)
class Page:
    """`date`: what it says of the time."""

    status: int
    body: bytes
    date: str | None


class Later(Generic[T]):
    """Work that has begun, and what comes of it. It does not keep the program from ending."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._found: list[T] = []
        self._problem: BaseException | None = None
        self._is_over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        return self._is_over.wait(timeout_s)

    def result(self) -> T:
        """Of work that is over. Raises what it raised."""
        if self._problem is not None:
            raise self._problem
        return self._found[0]

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        except BaseException as problem:  # noqa: BLE001  (whoever waits for it gets it)
            self._problem = problem
        finally:
            self._is_over.set()


def ask(url: str, timeout_s: float, most: int = ANSWER_MOST) -> Page:
    """Whatever its status is. Raises one of `UNANSWERED`."""
    if not _UNDER_WAY.acquire(blocking=False):
        raise TimeoutError("too many questions before this one got no answer yet")
    asked = Later(lambda: _bounded(url, timeout_s, most))
    if not asked.wait(timeout_s):
        raise TimeoutError(f"no whole answer within {timeout_s:g} s")
    return asked.result()


def way_of(url: str) -> str:
    """Through which proxy it is asked, in words; nothing where it is asked directly. A proxy's login is not shown."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return ""
    proxy = urllib.request.getproxies().get(parts.scheme)
    if not proxy or _is_near(parts.netloc) or urllib.request.proxy_bypass(parts.netloc):
        return ""
    return f" through the proxy {proxy.rpartition('@')[2].rpartition('//')[2].rstrip('/')}"


class _FarProxies(urllib.request.ProxyHandler):
    """Those of the environment, but for what is on this machine: a proxy would ask its own."""

    def proxy_open(self, req: urllib.request.Request, proxy: str, type: str) -> object:  # noqa: A002  (urllib's name)
        return None if _is_near(req.host) else super().proxy_open(req, proxy, type)


def _is_near(netloc: str) -> bool:
    host = urllib.parse.urlsplit(f"//{netloc}").hostname or ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def _bounded(url: str, timeout_s: float, most: int) -> Page:
    try:
        return _read(url, time.monotonic() + timeout_s, timeout_s, most)
    finally:
        _UNDER_WAY.release()


def _read(url: str, end_s: float, timeout_s: float, most: int) -> Page:
    opener = urllib.request.build_opener(_FarProxies())
    try:
        answer = opener.open(url, timeout=timeout_s)
    except urllib.error.HTTPError as refusal:
        answer = refusal  # an answer like any other
    except (ValueError, http.client.InvalidURL):
        if not way_of(url):
            raise
        # The library's words repeat the address of the proxy, which may hold a login.
        raise ValueError("this address, or that of the proxy, cannot be read") from None
    with answer:
        body = bytearray()
        while part := answer.read1(_PART):
            body += part
            if len(body) > most:
                raise OSError(f"its answer is longer than {most} bytes")
            if time.monotonic() > end_s:
                raise TimeoutError(f"no whole answer within {timeout_s:g} s")
        if left := getattr(answer, "length", None):
            raise http.client.IncompleteRead(b"", left)
        return Page(answer.status, bytes(body), answer.headers.get("Date"))
