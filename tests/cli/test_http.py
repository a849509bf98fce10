"""`--http`: status from the daemon's own HTTP server, commands and events from Kafka as always."""

import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from recoveryd.cli.send.connect import Tools, open_backend
from recoveryd.kernel.states import State
from recoveryd.recovery.model import Recovery
from recoveryd.runtime import http_bounds
from recoveryd.runtime.health import Health, Sources
from tests.builders.core import to_document
from tests.cli.recoveries import COMPLETED, RUNNING
from tests.cli.scripted import run_with
from tests.cli.served import LEADER, served


@dataclass
class Daemon:
    """The real HTTP server of a daemon, with data of the test."""

    recoveries: dict[str, Recovery] = field(default_factory=dict)
    health: Health = LEADER
    url: str = ""
    later: list[dict[str, Recovery]] = field(
        default_factory=list
    )  # what the server answers, one more each time it is asked

    def answer(self) -> dict[str, Recovery]:
        known = self.recoveries
        if self.later:
            self.recoveries = self.later.pop(0)
        return known


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    with served(Sources(lambda: made.health, made.answer, lambda: b"", to_document, "text/plain")) as made.url:
        yield made


def run(*args: str) -> tuple[int, str, str]:
    result = run_with(Tools(open_backend=open_backend, is_interactive=lambda: False), *args)
    return result.exit_code, result.stdout, result.stderr


def test_get_and_list_read_what_the_api_says(daemon: Daemon) -> None:
    daemon.recoveries = {r.id: r for r in (RUNNING, replace(COMPLETED, id="other", created_ms=0))}

    got = run("get", "flights-rerun", "--http", daemon.url, "-o", "json")
    listed = run("list", "--http", daemon.url.removeprefix("http://"), "-o", "name")

    expected = {name: value for name, value in to_document(RUNNING).items() if name != "internal"}
    assert (got[0], json.loads(got[1])) == (0, expected)
    assert listed == (0, "flights-rerun\nother\n", "")


def test_list_reads_all_pages(daemon: Daemon) -> None:
    names = [f"r-{number:04}" for number in range(1_201)]
    daemon.recoveries = {name: replace(RUNNING, id=name) for name in names}

    code, printed, _ = run("list", "--http", daemon.url, "-o", "name")

    assert (code, sorted(printed.split())) == (0, names)


def test_a_daemon_that_dies_in_the_middle_of_a_page_is_not_taken_for_one_with_less() -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), HalfAPage) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        code, printed, said = run("list", "--http", f"http://127.0.0.1:{server.server_address[1]}", "-o", "name")

    assert (code, printed) == (1, "")
    assert "No daemon answers" in said


class HalfAPage(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(65_536)
        rows = b'{"recoveries":[{"recovery":"a"}'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.request.sendall(head + f"{len(rows):x}\r\n".encode() + rows + b"\r\n")


def test_an_unknown_id_is_exit_code_3(daemon: Daemon) -> None:
    assert run("get", "nobody", "--http", daemon.url)[0] == 3


@pytest.mark.parametrize("args", [("get", "nobody"), ("list",)])
def test_a_standby_is_not_taken_for_an_empty_daemon(daemon: Daemon, args: tuple[str, ...]) -> None:
    daemon.health = replace(LEADER, role="standby", is_loaded=False)

    code, printed, said = run(*args, "--http", daemon.url)

    assert (code, printed) == (1, "")
    assert "is not ready (role standby)" in said


def test_wait_follows_the_api_until_the_end(daemon: Daemon) -> None:
    running, completed = {RUNNING.id: RUNNING}, {RUNNING.id: COMPLETED}
    daemon.recoveries, daemon.later = (
        running,
        [running, completed],
    )  # the first request only checks that the recovery exists

    code, printed, said = run("wait", RUNNING.id, "--http", daemon.url, "-o", "name", "--timeout", "20s")

    assert (code, printed) == (0, "flights-rerun\n")
    assert [line.split()[1] for line in said.splitlines()] == ["running", "completed"]


def test_describe_does_without_events_and_says_so(daemon: Daemon) -> None:
    daemon.recoveries = {RUNNING.id: replace(RUNNING, state=State.PAUSED)}

    code, printed, said = run("describe", RUNNING.id, "--http", daemon.url)

    assert code == 0
    assert "paused" in printed
    assert said == "Without events, which stand on a topic: give --bootstrap too to see them.\n"


def test_a_command_still_needs_kafka(daemon: Daemon) -> None:
    code, _, said = run("pause", RUNNING.id, "--reason", "r", "--http", daemon.url)

    assert code == 2
    assert said.startswith("RCV-4004 ")


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("ftp://x", 2, "RCV-4008"),
        ("http://[::1", 2, "RCV-4008"),
        ("[::1", 2, "RCV-4008"),
        ("http://", 2, "RCV-4008"),
        ("", 2, "RCV-4008"),
        ("http://127.0.0.1:1", 1, "RCV-2011"),
    ],
)
def test_an_address_that_is_none_or_does_not_answer_is_told(url: str, code: int, said: str) -> None:
    told = run("list", "--http", url)
    assert (told[0], told[2].split()[0]) == (code, said)


def test_a_daemon_that_is_asked_for_too_much_at_once_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_bounds, "AT_ONCE", {"/api/": 0})
    with served(Sources(lambda: LEADER, dict, lambda: b"", to_document, "text/plain")) as url:
        code, _, said = run("list", "--http", url)
    assert (code, said.split()[0]) == (1, "RCV-4016")
    assert "Ask again in a moment" in said


def test_something_else_at_the_address_is_told(daemon: Daemon) -> None:
    code, _, said = run("list", "--http", f"{daemon.url}/elsewhere")

    assert code == 1
    assert "answered 404, which no recoveryd does" in said
