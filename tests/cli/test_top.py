"""`recoveryctl top`: one screen, drawn from what the daemon says, and its keys, through a pseudo-terminal."""

import io
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from recoveryd.cli.render import top as top_render
from recoveryd.cli.render.top import (
    CountersRead,
    Frame,
    Screen,
    rates,
    read_counters,
    shown_recoveries,
    window,
    with_counted,
)
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
                {
                    "signal": "canary", "slo_seconds": 0.1, "value_seconds": 0.04, "sample_age_ms": 900,
                    "is_fresh": True,
                },
                {
                    "signal": "orders-app", "slo_seconds": 60.0, "value_seconds": None, "sample_age_ms": None,
                    "is_fresh": False,
                },
            ],
            "decision": {
                "rule": 4, "why": "pressure 0.11 is far below the target 0.9: slow start", "loop_delay_ms": 8_000,
            },
        }
    ]
}  # fmt: skip


def text_of(now: Frame, chosen: int = 0, told: str = "") -> str:
    from rich.console import Console

    console = Console(width=200, record=True, file=io.StringIO(), color_system=None)
    console.print(Screen(now, with_counted((), now), chosen, told))
    return console.export_text()


def canary(**told: Any) -> dict[str, Any]:
    """As `CONTROL`, with other things told of the canary; None = not told at all."""
    changed = deepcopy(CONTROL)
    signal = changed["domains"][0]["protected"][0]
    signal |= told
    changed["domains"][0]["protected"] = [{name: value for name, value in signal.items() if value is not None}]
    return changed


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


@pytest.mark.parametrize(
    "told",
    [
        {"sample_age_ms": 1_200_000, "is_fresh": False},
        {"sample_age_ms": 1_200_000, "is_fresh": None},  # of a daemon of an earlier release
    ],
)
def test_what_was_measured_too_long_ago_is_not_measured(told: dict[str, Any]) -> None:
    shown = text_of(Frame(1.0, [], canary(**told)))
    [line] = [line.split() for line in shown.splitlines() if "canary" in line]
    assert line == ["canary", "-", "100", "ms", "-", "not", "measured", "for", "20", "min"]


@pytest.mark.parametrize(
    "told", [{"is_fresh": True, "sample_age_ms": 70_000}, {"is_fresh": None, "sample_age_ms": 8_000}]
)
def test_what_the_controller_still_goes_by_is_shown(told: dict[str, Any]) -> None:
    assert "40 ms" in text_of(Frame(1.0, [], canary(**told)))


def test_what_failed_is_shown_with_its_code() -> None:
    failed = in_state(State.FAILED, why="the source is gone", error_code="RCV-3003")

    assert "RCV-3003: the source is gone" in text_of(Frame(1.0, [failed], CONTROL))


LIVE = ("recoveryd_records_total", "live")


def rates_of(every_s: float, values: Iterable[float]) -> list[float | None]:
    """What is shown of live records frame by frame, which come each `every_s` and have these values."""
    counted: tuple[CountersRead, ...] = ()
    shown = []
    for number, value in enumerate(values):
        counted = with_counted(counted, Frame(number * every_s, [], {}, {LIVE: value}))
        shown.append(rates(counted, "live")[0])
    return shown


def test_rates_are_what_counters_grew_by() -> None:
    later = frame(40.0, METRICS.replace("1000.0", "1600.0"))
    counted = with_counted(with_counted((), frame()), later)

    assert rates(counted, "live") == (20.0, None)
    assert rates(counted, "replay") == (None, 0.0)


@pytest.mark.parametrize("every_s", [0.2, 1.0, 1.013, 3.0])
def test_a_counter_that_grows_each_five_seconds_is_a_steady_rate(every_s: float) -> None:
    """As that of live traffic does, by the samples of offsets: a thousand a second."""
    at = [number * every_s for number in range(int(120 / every_s))]
    shown = rates_of(every_s, (5_000.0 * int((at_s + 3.3) / 5) for at_s in at))

    known = [rate for rate in shown if rate is not None]
    assert shown[: len(shown) - len(known)] == [None] * (len(shown) - len(known))
    assert at[len(shown) - len(known)] <= 15.0
    assert [rate for rate in known if not 800 <= rate <= 1_200] == []


def test_the_rate_of_what_stops_falls_to_nothing_and_nothing_is_shown_of_what_is_not_known_yet() -> None:
    shown = rates_of(1.0, (5_000.0 * min(8, second // 5) for second in range(70)))
    falling = [rate for rate in shown[45:] if rate is not None]
    assert len(falling) == 25
    assert falling == sorted(falling, reverse=True)
    assert falling[20] == 0.0
    still = rates_of(1.0, [7.0] * 20)
    assert (still[14], still[15]) == (None, 0.0)


def test_looks_far_from_each_other_give_a_rate_too_and_few_are_kept() -> None:
    assert rates_of(60.0, (60_000.0 * minute for minute in range(4))) == [None, 1_000.0, 1_000.0, 1_000.0]
    counted: tuple[CountersRead, ...] = ()
    for number in range(1_000):
        counted = with_counted(counted, Frame(number * 0.2, [], {}, {}))
    assert len(counted) == 101


def test_a_counter_that_began_anew_gives_no_rate() -> None:
    assert rates_of(30.0, [1_000.0, 1.0, 601.0]) == [None, None, 20.0]


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
