"""`--http` at what is slow, strange, away for a while, or behind a proxy."""

import contextlib
import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from recoveryd.cli.send import http_following, http_reader
from recoveryd.cli.send.connect import Tools, open_backend
from recoveryd.cli.send.http_asking import ask
from recoveryd.cli.verbs import doctor_machine
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.runtime.health import Sources
from tests.builders.core import to_document
from tests.cli.recoveries import COMPLETED, RUNNING
from tests.cli.scripted import run_with
from tests.cli.served import LEADER, served

Send = Callable[[bytes], object]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def run(*args: str, **env: str) -> tuple[int, str, str]:
    tools = Tools(open_backend=open_backend, is_interactive=lambda: False)
    result = run_with(tools, *args, env={"no_proxy": None, "NO_PROXY": None, **env})
    return result.exit_code, result.stdout, result.stderr


@contextlib.contextmanager
def speaking(answer: Callable[[Send, str], object]) -> Iterator[str]:
    """The address of a server that `answer` speaks for; it is given the first line of each request."""

    class Speaking(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asked = self.request.recv(65_536).decode().partition("\r\n")[0]
            with contextlib.suppress(OSError):  # nobody listens any more
                answer(self.request.sendall, asked)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Speaking) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def whole(body: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()


def refused(send: Send, _asked: str) -> None:
    send(whole("no such host", "503 Service Unavailable"))


def test_a_daemon_on_this_machine_is_not_asked_through_a_proxy() -> None:
    daemon = served(Sources(lambda: LEADER, lambda: {RUNNING.id: RUNNING}, dict, to_document, "text/plain"))
    with daemon as url, speaking(refused) as proxy:
        for near in (url, url.replace("127.0.0.1", "localhost")):
            assert run("list", "--http", near, "-o", "name", http_proxy=proxy) == (0, f"{RUNNING.id}\n", "")


def test_a_daemon_elsewhere_is_asked_through_the_proxy_and_that_is_said_without_its_login(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with speaking(refused) as proxy:
        behind = proxy.replace("http://", "http://u:hunter2@")
        code, _, said = run("list", "--http", "recoveryd.invalid:8712", http_proxy=behind)
        monkeypatch.setenv("http_proxy", behind)
        monkeypatch.delenv("no_proxy", raising=False)
        (checked, _) = doctor_machine.check_daemon("http://recoveryd.invalid:8712", 10.0)

    through = f"through the proxy {proxy.removeprefix('http://')}"
    assert (code, said.split()[0]) == (1, "RCV-2011")
    assert f"asked {through}, answered 503, which no recoveryd does" in said
    assert checked.found.startswith("no daemon at http://recoveryd.invalid:8712 ")
    assert through in checked.found
    assert "hunter2" not in said + checked.found


def test_a_proxy_whose_address_cannot_be_read_is_told_without_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = "http:/u:hunter2@proxy:3128"
    code, _, said = run("--debug", "list", "--http", "recoveryd.invalid:8712", http_proxy=proxy)
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    (checked, _) = doctor_machine.check_daemon("http://recoveryd.invalid:8712", 10.0)

    assert (code, "that of the proxy, cannot be read" in said) == (1, True)
    assert "through the proxy proxy:3128: this address" in checked.found
    assert "hunter2" not in said + checked.found


@pytest.mark.parametrize("behind_h", [0, 2])
def test_the_clock_of_what_is_no_daemon_is_not_judged(behind_h: int) -> None:
    date = format_datetime(datetime.now(UTC) - timedelta(hours=behind_h), usegmt=True)
    page = whole("<html>no such host</html>", "503 Service Unavailable")
    page = page.replace(b"\r\n", f"\r\nDate: {date}\r\n".encode(), 1)
    with speaking(lambda send, _asked: send(page)) as url:
        daemon, clock = doctor_machine.check_daemon(url, 10.0)

    assert (daemon.verdict.value, daemon.found.startswith("no daemon at ")) == ("warn", True)
    assert (clock.name, clock.verdict.value) == ("clock of the daemon", "skipped")


def test_a_daemon_that_begins_to_lead_while_it_is_asked_is_worth_asking_again() -> None:
    asked_for: list[str] = []

    def answer(send: Send, asked: str) -> None:
        asked_for.append(asked.split()[1])
        if "readyz" in asked:
            send(whole('{"ready": true, "role": "leader"}'))
        else:
            send(whole('{"error": {"code": "RCV-4017", "message": "loads"}}', "503 Service Unavailable"))

    with speaking(answer) as url:
        code, printed, said = run("get", "x", "--http", url)

    assert (code, printed, said.split()[0]) == (1, "", "RCV-4017")
    assert asked_for == ["/api/v1/recoveries/x", "/readyz"]


@pytest.fixture
def trickling() -> Iterator[str]:
    """Each answer begins at once, and goes on byte by byte until the test is over."""
    is_over = threading.Event()

    def answer(send: Send, asked: str) -> None:
        send(HEAD[:-2] if "headers" in asked else HEAD + b"\r\n")
        while not is_over.wait(0.05):
            send(b" ")

    with speaking(answer) as url:
        yield url
        is_over.set()


@pytest.mark.parametrize("where", ["", "/headers"])
def test_an_answer_that_never_ends_is_given_up(trickling: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_reader, "_TIMEOUT_S", 0.4)

    code, _, said = run("list", "--http", trickling + where)

    assert (code, said.split()[0]) == (1, "RCV-2011")
    assert "no whole answer within 0.4 s" in said


def test_a_wait_ends_by_its_timeout_while_the_daemon_has_not_answered(trickling: str) -> None:
    code, _, said = run("wait", "x", "--timeout", "300ms", "--http", trickling)

    assert (code, said.split()[0]) == (8, "RCV-4009")
    assert "within 0.3 s" in said


def test_a_wait_ends_by_its_timeout_while_a_later_answer_hangs() -> None:
    is_over, count = threading.Event(), iter(range(100))

    def answer(send: Send, _asked: str) -> None:
        if next(count) < 2:
            send(whole(json.dumps(to_document(RUNNING))))
        else:
            is_over.wait(60)

    with speaking(answer) as url:
        code, _, said = run("wait", RUNNING.id, "--timeout", "4s", "--http", url)
        is_over.set()

    assert (code, " within " in said) == (8, True)


def slow(status: bytes) -> Callable[[Send, str], None]:
    """Whoever answers so needs more than half of five seconds for each answer."""

    def answer(send: Send, _asked: str) -> None:
        time.sleep(2.6)
        send(status)

    return answer


def test_a_wait_that_is_over_already_needs_one_answer_however_slow_it_is() -> None:
    with speaking(slow(whole(json.dumps(to_document(COMPLETED))))) as url:
        code, printed, said = run("wait", COMPLETED.id, "--timeout", "5s", "--http", url, "-o", "name")

    assert (code, printed) == (0, f"{COMPLETED.id}\n"), said


def test_a_wait_that_took_too_long_names_the_time_that_was_given_and_how_it_is() -> None:
    with speaking(slow(whole(json.dumps(to_document(RUNNING))))) as url:
        code, _, said = run("wait", RUNNING.id, "--timeout", "5s", "--http", url)

    assert (code, f"{RUNNING.id} did not get there within 5 s. It is running: " in said) == (8, True), said


def test_an_answer_without_end_is_not_kept() -> None:
    def answer(send: Send, _asked: str) -> None:
        send(HEAD + b"\r\n")
        while True:
            send(b" " * 65_536)

    with speaking(answer) as url, pytest.raises(OSError, match="longer than 1000000 bytes"):
        ask(url, 30.0, 1_000_000)


@pytest.mark.parametrize("body", ['"ok"', "[1]", "17", "null", "<html>", "[" * 100_000])
@pytest.mark.parametrize("args", [("list",), ("get", "x"), ("lag",), ("logs", "x"), ("top",)])
def test_an_answer_that_is_no_object_is_told_as_one_of_no_daemon(args: tuple[str, ...], body: str) -> None:
    with speaking(lambda send, _asked: send(whole(body))) as url:
        code, printed, said = run(*args, "--http", url)

    assert (code, printed, said.split()[0]) == (1, "", "RCV-2011")


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        (("list",), whole('{"recoveries": [1]}')),
        (("list",), whole('{"recoveries": [{"recovery": "x"}], "total": "many"}')),
        (("get", "x"), whole('{"hello": "world"}')),
        (("get", "x"), whole('{"error": "gone"}', "404 Not Found")),
    ],
)
def test_what_has_not_the_fields_of_a_daemon_is_told_so(args: tuple[str, ...], answer: bytes) -> None:
    with speaking(lambda send, _asked: send(answer)) as url:
        code, _, said = run(*args, "--http", url)

    assert (code, said.split()[0]) == (1, "RCV-2011")
    assert "which no recoveryd does" in said


def test_who_waits_is_told_that_the_daemon_is_silent_and_that_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_following, "SILENT_S", 0.0)
    status = [whole(json.dumps(to_document(each))) for each in (RUNNING, RUNNING, COMPLETED)]
    away = whole("", "502 Bad Gateway")
    later = iter([*status[:2], away, away, status[2]])

    with speaking(lambda send, _asked: send(next(later))) as url:
        code, _, said = run("wait", RUNNING.id, "--http", url, "-o", "name")

    told = [line for line in said.splitlines() if line.endswith((f"({url})", f"({url})."))]
    assert code == 0
    assert len(told) == 2
    assert told[0].startswith("No answer for ")
    assert "answered 502" in told[0]
    assert told[1] == f"The daemon answers again ({url})."


def test_a_short_absence_is_not_told_and_what_no_patience_mends_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    later: Iterator[int | RecoverydError] = iter(
        [1, RecoverydError(Code.CLUSTER_UNREACHABLE, retriable=True), 2, RecoverydError(Code.NOT_AUTHORISED)]
    )

    def question() -> int:
        found = next(later)
        if isinstance(found, RecoverydError):
            raise found
        return found

    seen = http_following.answers(question, "here")
    values = (each.value for each in seen if each is not None)  # None: not yet, or away

    assert (next(values), next(values)) == (1, 2)
    with pytest.raises(RecoverydError) as ended:
        next(values)
    assert ended.value.code == Code.NOT_AUTHORISED
    assert capsys.readouterr().err == ""
