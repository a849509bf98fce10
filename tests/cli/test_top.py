"""`recoveryctl top`: one screen, drawn from what the daemon says, and its keys, through a pseudo-terminal."""

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from recoveryd.cli.render import top as top_render
from recoveryd.cli.render.top import Frame, Screen, rates, read_counters, shown_recoveries, window
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
from tests.cli.terminal import Terminal

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
    console.print(Screen(now, before, chosen, told))
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


def test_what_failed_is_shown_with_its_code() -> None:
    failed = in_state(State.FAILED, why="the source is gone", error_code="RCV-3003")

    assert "RCV-3003: the source is gone" in text_of(Frame(1.0, [failed], CONTROL))


def test_rates_are_what_counters_grew_by() -> None:
    later = frame(12.0, METRICS.replace("1000.0", "1400.0"))

    assert rates(later, frame(), "live") == (200.0, None)
    assert rates(later, frame(), "replay") == (None, 0.0)


def test_a_counter_that_began_anew_gives_no_rate() -> None:
    assert rates(frame(12.0, METRICS.replace("1000.0", "1.0")), frame(), "live")[0] is None


def test_those_that_go_on_come_first_and_few_that_ended() -> None:
    """Ended last, not begun last: the daemon lists the newest first, and a long one may outlive many short ones."""
    ended = [
        to_document(COMPLETED) | {"recovery": f"old-{n}", "updated": f"2026-11-27T09:00:{(n * 7) % 10:02}.000Z"}
        for n in range(9)
    ]

    rows = shown_recoveries(Frame(0.0, [*ended, in_state(State.PAUSED)], {}))

    assert [row["recovery"] for row in rows] == ["flights-rerun", "old-7", "old-4", "old-1"]


@pytest.mark.parametrize(
    ("count", "chosen", "lines", "shown"),
    [
        (4, 3, 4, range(4)),
        (40, 0, 12, range(10)),
        (40, 20, 12, range(15, 25)),
        (40, 39, 12, range(30, 40)),
        (40, 7, 1, range(7, 8)),
    ],
)
def test_the_chosen_row_is_among_those_that_fit(count: int, chosen: int, lines: int, shown: range) -> None:
    assert window(count, chosen, lines) == shown


def test_a_key_is_for_the_recovery_that_was_chosen_wherever_it_stands_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(*names: str) -> Frame:
        return Frame(1.0, [to_document(RUNNING) | {"recovery": name} for name in names], CONTROL)

    backend = ScriptedBackend()
    connection = Connection("a:1", None, None, Tools(open_backend=lambda _: backend))
    shown = top._Watching(connection, HttpReader("http://a:1", no_kafka), of("a", "b"))
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


def test_keys_are_heard_on_a_terminal_and_q_leaves_it_as_it_was(url: str) -> None:
    with Terminal("top", "--http", url, "--every", "200ms") as terminal:
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


def test_forty_recoveries_on_24_lines_leave_the_chosen_one_the_keys_and_the_answer_in_sight() -> None:
    many = {f"copy-{number:02}": replace(RUNNING, id=f"copy-{number:02}") for number in range(40)}
    sources = Sources(lambda: LEADER, lambda: many, METRICS.encode, to_document, "text/plain", control=lambda: CONTROL)
    with served(sources) as url, Terminal("top", "--http", url, "--every", "200ms", lines=24) as terminal:
        terminal.until(lambda seen: "copy-00" in seen)
        for number in range(1, 40):
            terminal.type("j")
            terminal.until(lambda _, name=f"copy-{number:02}": chosen_on(terminal.screen) == name)
            assert top_render.KEYS in terminal.screen
            assert len(terminal.screen.splitlines()) <= 24
        terminal.type("p")
        terminal.until(lambda _: "RCV-2011" in terminal.screen)
        assert chosen_on(terminal.screen) == "copy-39"
        assert "more above" in terminal.screen
        terminal.type("q")
        assert terminal.close() == 0


def chosen_on(screen: str) -> str:
    return next((line.split()[1] for line in screen.splitlines() if line.startswith("> ")), "")
