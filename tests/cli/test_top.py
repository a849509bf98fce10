"""`recoveryctl top`: one screen, drawn from what the daemon says, and its keys, through a pseudo-terminal."""

import contextlib
import io
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recoveryd.cli.render.top import Frame, rates, read_counters, screen, shown_recoveries
from recoveryd.cli.send.connect import Connection, Tools
from recoveryd.cli.send.http_reader import HttpReader, no_kafka
from recoveryd.cli.verbs import top
from recoveryd.kernel.states import State
from recoveryd.recovery.model import Recovery
from recoveryd.runtime.health import Sources
from tests.builders.core import to_document
from tests.cli.recoveries import COMPLETED, RUNNING, in_state
from tests.cli.scripted import ScriptedBackend, run_with
from tests.cli.served import LEADER, served
from tests.patience import patient_s

METRICS = (
    'recoveryd_records_total{topic="orders",traffic="live"} 1000.0\n'
    'recoveryd_records_total{topic="clicks",traffic="live"} 500.0\n'
    'recoveryd_bytes_total{topic="flights.v42",traffic="replay"} 4.1e+07\n'
    'recoveryd_recoveries{kind="replay",state="running"} 1.0\n'
)
CONTROL: dict[str, Any] = {
    "domains": [
        {
            "domain": "main",
            "protected": [
                {"signal": "canary", "slo_seconds": 0.1, "value_seconds": 0.04},
                {"signal": "orders-app", "slo_seconds": 60.0, "value_seconds": None},
            ],
            "decision": {"rule": 4, "why": "pressure 0.11 is far below the target 0.9: slow start"},
        }
    ]
}


def text_of(now: Frame, before: Frame | None = None, chosen: int = 0, told: str = "") -> str:
    from rich.console import Console

    console = Console(width=200, record=True, file=io.StringIO(), color_system=None)
    console.print(screen(now, before, chosen, told))
    return console.export_text()


def frame(at_s: float = 10.0, metrics: str = METRICS) -> Frame:
    return Frame(
        at_s, [to_document(RUNNING), to_document(COMPLETED) | {"recovery": "old"}], CONTROL, read_counters(metrics)
    )


def test_the_screen_has_headroom_rule_sentence_and_every_recovery() -> None:
    told = text_of(frame())

    assert "main: slow_start: pressure 0.11 is far below the target 0.9: slow start" in told
    assert ["canary", "40", "ms", "100", "ms", "40%", "########"] in [line.split() for line in told.splitlines()]
    assert "not measured" in next(line for line in told.splitlines() if "orders-app" in line)
    assert "flights-rerun" in told
    assert "live - records/s" in told


def test_rates_are_what_counters_grew_by() -> None:
    later = frame(12.0, METRICS.replace("1000.0", "1400.0"))

    assert rates(later, frame(), "live") == (200.0, None)
    assert rates(later, frame(), "replay") == (None, 0.0)


def test_a_counter_that_began_anew_gives_no_rate() -> None:
    assert rates(frame(12.0, METRICS.replace("1000.0", "1.0")), frame(), "live")[0] is None


def test_those_that_go_on_come_first_and_few_that_ended() -> None:
    ended = [to_document(COMPLETED) | {"recovery": f"old-{n}"} for n in range(9)]

    rows = shown_recoveries(Frame(0.0, [*ended, in_state(State.PAUSED)], {}))

    assert [row["recovery"] for row in rows] == ["flights-rerun", "old-0", "old-1", "old-2"]


def test_a_key_is_for_the_recovery_that_was_chosen_wherever_it_stands_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(*names: str) -> Frame:
        return Frame(1.0, [to_document(RUNNING) | {"recovery": name} for name in names], CONTROL)

    backend = ScriptedBackend()
    connection = Connection("a:1", None, None, Tools(open_backend=lambda _: backend))
    shown = top._Screen(connection, HttpReader("http://a:1", no_kafka), of("a", "b"))
    shown.heed("j")
    monkeypatch.setattr(top, "_read", lambda _: of("new", "a", "b"))

    shown.look()
    shown.heed("p")

    assert [command["subject"] for command in backend.sent] == ["b"]


def test_a_dead_daemon_is_a_code_a_sentence_and_a_next_step() -> None:
    result = run_with(Tools(), "top", "--http", "127.0.0.1:1")

    assert result.exit_code == 1
    first, second = result.stderr.splitlines()
    assert first.startswith("RCV-2011 No daemon answers at http://127.0.0.1:1")
    assert second.startswith("  next: ")


@pytest.fixture
def url() -> Iterator[str]:
    def known() -> dict[str, Recovery]:
        return {RUNNING.id: RUNNING}

    sources = Sources(lambda: LEADER, known, METRICS.encode, to_document, "text/plain", control=lambda: CONTROL)
    with served(sources) as made:
        yield made


def test_without_a_terminal_it_prints_one_screen(url: str) -> None:
    result = run_with(Tools(), "top", "--http", url)

    assert result.exit_code == 0
    assert "flights-rerun" in result.stdout


class Terminal:
    """The program on a pseudo-terminal of its own."""

    def __init__(self, *args: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from recoveryd.cli import main; main()", *args],
            stdin=slave, stdout=slave, stderr=slave, close_fds=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "40", "RECOVERYD_BOOTSTRAP_SERVERS": "127.0.0.1:1"},
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def until(self, is_there: Callable[[str], bool]) -> None:
        give_up_s = time.monotonic() + patient_s(60)
        while not is_there(self.seen):
            assert time.monotonic() < give_up_s, self.seen[-2000:]
            if select.select([self._master], [], [], 0.2)[0]:
                with contextlib.suppress(OSError):  # the program has left
                    self.seen += os.read(self._master, 65536).decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def close(self) -> int:
        code = self.process.wait(patient_s(60))
        os.close(self._master)
        return code


def test_keys_are_heard_on_a_terminal_and_q_leaves_it_as_it_was(url: str) -> None:
    terminal = Terminal("top", "--http", url, "--every", "200ms")
    try:
        terminal.until(lambda seen: "slow_start" in seen and "flights-rerun" in seen)
        terminal.type("t5x")
        terminal.until(lambda seen: "none (Esc leaves it): 5x" in seen)
        terminal.type("\r")
        terminal.until(lambda seen: "is not a size" in seen)
        terminal.type("p")
        terminal.until(lambda seen: "RCV-2011 No broker answers at 127.0.0.1:1" in seen)
        terminal.type("q")
        assert terminal.close() == 0
        assert "Traceback" not in terminal.seen
    finally:
        terminal.process.kill()
        terminal.process.wait()
