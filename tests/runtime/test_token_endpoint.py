"""What a token endpoint may do with a client: nothing that sends its secret elsewhere, and nothing that it does not
expect.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from recoveryd.adapters.kafka import oauth_tokens
from recoveryd.adapters.kafka.oauth_tokens import TokenProblem, TokenProvider, fetch_token
from recoveryd.settings.oauth_properties import OAuth
from tests.patience import patient_s

TOKEN = b'HTTP/1.0 200 OK\r\n\r\n{"access_token": "a-token", "expires_in": 60}'


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def served(answer: bytes) -> Iterator[tuple[str, list[str]]]:
    """The address, and by request the login that came with it."""
    heard: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _told(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            heard.append(self.headers.get("Authorization", ""))
            self.wfile.write(answer)
            self.close_connection = True

        do_GET = do_POST = _told  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        server.server_close()


async def test_the_secret_of_a_client_goes_where_the_config_points() -> None:
    with served(TOKEN) as (endpoint, heard):
        assert await fetch_token(OAuth(f"{endpoint}/token", "me", "my-secret")) == ("a-token", 60.0)
    assert heard == ["Basic bWU6bXktc2VjcmV0"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_the_secret_of_a_client_goes_nowhere_else(status: int) -> None:
    with served(TOKEN) as (elsewhere, heard):
        moved = f"HTTP/1.0 {status} Moved\r\nLocation: {elsewhere}/token\r\nContent-Length: 0\r\n\r\n"
        with served(moved.encode()) as (endpoint, _):
            with pytest.raises(TokenProblem, match=f"answered {status}: it redirects, which is not followed") as caught:
                await fetch_token(OAuth(f"{endpoint}/token", "me", "my-secret"))
            assert "my-secret" not in str(caught.value)
    assert heard == [], f"another address was sent {heard}"


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9.6\r\n", b"", b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{", b"HTTP/1.0 500 Oh\r\n\r\n"],
)
async def test_what_is_no_answer_is_a_token_problem(answer: bytes) -> None:
    with served(answer) as (endpoint, _), pytest.raises(TokenProblem, match=r"cannot be asked|answered 500"):
        await fetch_token(OAuth(f"{endpoint}/token", "me", "my-secret"))


@pytest.mark.parametrize("answer", [b"HTTP/1.0 200 OK\r\n\r\n{}", b"HTTP/1.0 500 Oh\r\n\r\n", b""])
async def test_a_problem_names_the_endpoint_without_what_may_be_secret_in_it(answer: bytes) -> None:
    with served(answer) as (endpoint, _), pytest.raises(TokenProblem) as caught:
        await fetch_token(OAuth(f"{endpoint}/token?key=hunter2", "me", "my-secret"))
    assert f"The token endpoint {endpoint}/token?*** " in str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_an_endpoint_behind_a_proxy_of_the_environment_is_asked_through_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served(TOKEN) as (proxy, heard):
        monkeypatch.setenv("http_proxy", proxy)
        assert (await fetch_token(OAuth("http://tokens.invalid/token", "me", "my-secret")))[0] == "a-token"
    assert len(heard) == 1


async def test_a_token_is_asked_for_again_once_most_of_its_life_is_over_or_somebody_wants_it() -> None:
    now_s = [1_000.0]
    with served(TOKEN) as (endpoint, heard):
        provider = TokenProvider(OAuth(f"{endpoint}/token", "me", "my-secret"), lambda: now_s[0])
        asked = []
        for passes_s in (0.0, 47.0, 1.1):
            now_s[0] += passes_s
            assert await provider.token() == "a-token"
            asked.append(len(heard))
        provider.forget()
        await provider.token()
        asked.append(len(heard))
    assert asked == [1, 1, 2, 3]


@pytest.mark.parametrize("is_taken", [False, True])
async def test_a_token_that_was_asked_for_before_somebody_wants_a_new_one_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, *, is_taken: bool
) -> None:
    """As when the endpoint answers just while the secret is replaced, or SIGHUP comes."""
    old, new = OAuth("http://tokens.invalid", "me", "old"), OAuth("http://tokens.invalid", "me", "new")
    provider, asked = TokenProvider(old), list[str]()

    async def fetch(oauth: OAuth) -> tuple[str, float]:
        asked.append(oauth.client_secret)
        if len(asked) == 1:
            if is_taken:
                provider.take(new)
            else:
                provider.forget()
        return f"{oauth.client_secret}-{len(asked)}", 3_600.0

    monkeypatch.setattr(oauth_tokens, "fetch_token", fetch)
    secret = "new" if is_taken else "old"
    assert [await provider.token(), await provider.token()] == [f"{secret}-2"] * 2
    assert asked == ["old", secret]


async def test_a_token_that_is_forgotten_again_and_again_is_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    provider, asked = TokenProvider(OAuth("http://tokens.invalid", "me", "my-secret")), list[str]()

    async def fetch(_oauth: OAuth) -> tuple[str, float]:
        asked.append("")
        provider.forget()
        return f"token-{len(asked)}", 3_600.0

    monkeypatch.setattr(oauth_tokens, "fetch_token", fetch)
    assert [await provider.token(), await provider.token()] == ["token-3", "token-6"]


@contextmanager
def loop_of_its_own() -> Iterator[asyncio.AbstractEventLoop]:
    """In a thread of its own, as that of Faust's consumer."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(patient_s(10))
        loop.close()


class SlowEndpoint:
    """Stands in for `fetch_token`: says when it is asked, and answers once it `may`, with a problem if it has one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = self.at_once = self.most_at_once = 0
        self.is_asked, self.may = threading.Event(), threading.Event()
        self.problem: TokenProblem | None = None
        monkeypatch.setattr(oauth_tokens, "fetch_token", self.fetch)

    async def fetch(self, _oauth: OAuth) -> tuple[str, float]:
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        token = f"token-{self.asked}"
        self.is_asked.set()
        try:
            while not self.may.is_set():  # noqa: ASYNC110  (set by another thread)
                await asyncio.sleep(0.001)
        finally:
            self.at_once -= 1
        if self.problem is not None:
            raise self.problem
        return token, 3_600.0

    def both_wait(
        self, provider: TokenProvider, first: asyncio.AbstractEventLoop, second: asyncio.AbstractEventLoop
    ) -> tuple[Future[str], Future[str]]:
        """Two connections want a token; the first one has asked for it, and the second one found that."""
        self.is_asked.clear()
        self.may.clear()
        one = asyncio.run_coroutine_threadsafe(provider.token(), first)
        assert self.is_asked.wait(patient_s(10))
        other = asyncio.run_coroutine_threadsafe(provider.token(), second)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), second).result(patient_s(10))
        return one, other


def make_provider() -> TokenProvider:
    return TokenProvider(OAuth("http://tokens.invalid", "me", "my-secret"))


def test_clients_with_loops_of_their_own_wait_for_one_answer_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the consumer and the producer under Faust, when a broker drops the connections of both."""
    endpoint, provider = SlowEndpoint(monkeypatch), make_provider()
    with loop_of_its_own() as one_loop, loop_of_its_own() as other_loop:
        for nth in range(1, 11):
            provider.forget()
            loops = (one_loop, other_loop) if nth % 2 else (other_loop, one_loop)
            both = endpoint.both_wait(provider, *loops)
            endpoint.may.set()
            assert [answer.result(patient_s(10)) for answer in both] == [f"token-{nth}"] * 2
    assert (endpoint.asked, endpoint.most_at_once) == (10, 1)


def test_who_waits_hears_of_the_problem_of_the_one_that_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, provider = SlowEndpoint(monkeypatch), make_provider()
    with loop_of_its_own() as one_loop, loop_of_its_own() as other_loop:
        both = endpoint.both_wait(provider, one_loop, other_loop)
        endpoint.problem = TokenProblem("http://tokens.invalid", "answered 500")
        endpoint.may.set()
        for answer in both:
            with pytest.raises(TokenProblem, match="answered 500"):
                answer.result(patient_s(10))
        endpoint.problem = None
        again = asyncio.run_coroutine_threadsafe(provider.token(), other_loop)
        assert again.result(patient_s(10)) == "token-2"


def test_who_waits_asks_itself_when_the_one_that_asked_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, provider = SlowEndpoint(monkeypatch), make_provider()
    with loop_of_its_own() as one_loop, loop_of_its_own() as other_loop:
        one, other = endpoint.both_wait(provider, one_loop, other_loop)
        endpoint.is_asked.clear()
        one.cancel()
        assert endpoint.is_asked.wait(patient_s(10))
        endpoint.may.set()
        assert other.result(patient_s(10)) == "token-2"
    assert endpoint.most_at_once == 1


def test_an_answer_that_never_comes_is_waited_for_until_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the loop of the one that asked has ended, as when Faust's consumer stops."""
    monkeypatch.setattr(oauth_tokens, "WAIT_S", 0.3)
    endpoint, provider = SlowEndpoint(monkeypatch), make_provider()
    with loop_of_its_own() as loop:
        with loop_of_its_own() as gone:
            _one, other = endpoint.both_wait(provider, gone, loop)
        with pytest.raises(TokenProblem, match="did not answer within 0 s"):
            other.result(patient_s(10))
        monkeypatch.setattr(oauth_tokens, "WAIT_S", patient_s(10))
        endpoint.may.set()
        again = asyncio.run_coroutine_threadsafe(provider.token(), loop)
        assert again.result(patient_s(10)) == f"token-{endpoint.asked}"


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that goes on in sleep")
async def test_the_life_of_a_token_goes_on_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    slept_s = [0.0]
    read = time.clock_gettime
    monkeypatch.setattr(
        time, "clock_gettime", lambda clock: read(clock) + (slept_s[0] if clock == time.CLOCK_BOOTTIME else 0.0)
    )
    with served(TOKEN) as (endpoint, heard):
        provider = TokenProvider(OAuth(f"{endpoint}/token", "me", "my-secret"))
        await provider.token()
        slept_s[0] = 3_600.0
        await provider.token()
    assert len(heard) == 2
