"""Questions to HTTP APIs of others: every way in which an answer fails is a sentence, and says whether time may
help.
"""

import asyncio
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from recoveryd.adapters.http.asking import HttpQuestions, HttpRefusal
from recoveryd_sandbox.pki import make_certificates
from tests.control.serving import Asked, serving


async def refusal(url: str, **options) -> HttpRefusal:
    questions = HttpQuestions(**options)
    try:
        with pytest.raises(HttpRefusal) as caught:
            await questions.ask("GET", f"{url}/private-path?token=s3cret")
    finally:
        await questions.close()
    assert "private-path" not in caught.value.why
    assert "s3cret" not in caught.value.why
    return caught.value


@pytest.mark.parametrize(
    ("status", "says", "is_passing"),
    [
        (401, "401: it does not accept who asks", False),
        (403, "403: whoever asks may not do this", False),
        (404, "it answered 404", False),
        (409, "it answered 409", True),
        (429, "it answered 429", True),
        (500, "it answered 500", True),
        (503, "it answered 503", True),
    ],
)
async def test_a_refusal_says_its_status(status: int, says: str, is_passing: bool) -> None:
    async def answer(_: Asked) -> web.Response:
        return web.Response(status=status, text="a long page")

    async with serving(answer) as server:
        found = await refusal(server.url)
    assert (found.why, found.is_passing, found.status) == (says, is_passing, status)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    async def answer(_: Asked) -> web.Response:
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    async with serving(answer) as server:
        found = await refusal(server.url)
        assert len(server.asked) == 1
    assert found.why == f"{status}: it redirects, which is not followed; put the right address into the config"
    assert not found.is_passing


async def test_a_body_without_end_is_cut_off() -> None:
    async def answer(_: Asked) -> web.Response:
        return web.Response(body=b"x" * 100_000)

    async with serving(answer) as server:
        found = await refusal(server.url, body_most=10_000)
    assert (found.why, found.is_passing) == ("its answer is longer than 10000 bytes", False)


async def test_one_that_does_not_answer_is_given_up() -> None:
    may_end = asyncio.Event()

    async def answer(_: Asked) -> web.Response:
        await may_end.wait()
        return web.Response()

    async with serving(answer) as server:
        found = await refusal(server.url, timeout_s=0.2)
        may_end.set()
    assert (found.why, found.is_passing) == ("no answer within 0.2 s", True)


async def test_nobody_there_is_a_sentence(unused_tcp_port: int) -> None:
    found = await refusal(f"http://127.0.0.1:{unused_tcp_port}")
    assert found.why.startswith("no connection: ")
    assert found.is_passing


async def test_a_name_that_nobody_has_is_a_sentence() -> None:
    found = await refusal("http://no-such-host.invalid", timeout_s=60)
    assert found.why.startswith("no connection: ")
    assert found.is_passing


async def test_only_a_known_authority_is_trusted(tmp_path: Path) -> None:
    async def answer(_: Asked) -> web.Response:
        return web.Response(text="here")

    certificates = make_certificates(tmp_path / "pki")
    async with serving(answer, certificates) as server:
        found = await refusal(server.url)
        assert found.why.startswith("its certificate is not trusted: ")
        assert not found.is_passing
        assert server.asked == []
        trusting = HttpQuestions(ssl.create_default_context(cafile=certificates.authority))
        assert (await trusting.ask("GET", server.url)).body == b"here"
        await trusting.close()


async def test_one_that_speaks_no_tls_is_a_sentence() -> None:
    async def answer(_: Asked) -> web.Response:
        return web.Response()

    async with serving(answer) as server:
        found = await refusal(server.url.replace("http://", "https://"))
    assert found.why == "no connection: it does not speak TLS as it should"
