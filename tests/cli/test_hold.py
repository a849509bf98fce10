"""`hold` and `release`, and how the other verbs show a hold."""

import json
from dataclasses import replace
from typing import Any

import pytest

from recoveryd.holds.model import HeldMember, Hold, Obeys
from recoveryd.holds.signals import HeldPosition
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import CommandRef, State
from tests.builders.core import to_document
from tests.cli.recoveries import NOW_MS
from tests.cli.scripted import ScriptedBackend, refuse_with, run

ID = "airports-hold"
HELD = Hold(
    id=ID,
    state=State.RUNNING,
    why="airports, flights.v42 held by //ops/alice: being corrected",
    version=1,
    created_ms=NOW_MS,
    updated_ms=NOW_MS,
    command=CommandRef("c-1", "//ops/alice", "being corrected"),
    cluster="main",
    topics=("airports", "flights.v42"),
)
BROKER: dict[str, str | None] = {"RECOVERYD_BOOTSTRAP_SERVERS": "a:1", "COLUMNS": "200"}


def printed(*args: str) -> dict[str, Any]:
    """The control record that a line prints."""
    result = run(None, *args, "--reason", "r", "--print-record", "-o", "json", env=BROKER)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(json.loads(result.stdout)["value"])
    return found


@pytest.mark.parametrize(
    ("args", "data"),
    [
        (("hold", "a"), {"cluster": "main", "topics": ["a"]}),
        (("hold", "a", "b", "--cluster", "other"), {"cluster": "other", "topics": ["a", "b"]}),
        (("hold", "a", "--reads", "--ttl", "2h"), {"cluster": "main", "topics": ["a"], "reads": True, "ttl": "2h"}),
        (("release", "a", "b"), {"cluster": "main", "topics": ["a", "b"]}),
        (("release", "a", "--cluster", "west"), {"cluster": "west", "topics": ["a"]}),
        (("release", "--id", "h1"), {}),
        (("release", "a", "--id", "h1"), {"topics": ["a"]}),
    ],
)
def test_each_line_has_its_record(args: tuple[str, ...], data: dict[str, Any]) -> None:
    record = printed(*args)
    assert (record["type"], record["data"]) == (f"io.recoveryd.command.{args[0]}.v1", {"reason": "r"} | data)
    assert record["subject"] == "h1" if "--id" in args else record["subject"].startswith(f"a-{args[0]}")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("release", "--reason", "r"), "There is nothing to release"),
        (("release", "--id", "h1", "--cluster", "west", "--reason", "r"), "RCV-4008 --cluster says where topics are"),
        (("hold", "--reason", "r"), "TOPIC..."),
        (("hold", "a"), "--reason is missing"),
        (("hold", "_a", "--reason", "r"), "internal topic"),
        (("hold", "a", "a", "--reason", "r"), "twice"),
        (("hold", "a", "--ttl", "tomorrow", "--reason", "r"), "data.ttl"),
    ],
)
def test_a_line_that_says_nothing_good_is_a_usage_error_and_sends_nothing(args: tuple[str, ...], says: str) -> None:
    backend = ScriptedBackend()
    result = run(backend, *args, env=BROKER)
    assert (result.exit_code, backend.sent) == (2, []), result.stderr
    assert says in result.stderr


def test_hold_sends_one_command_shows_the_hold_and_says_how_to_let_go() -> None:
    backend = ScriptedBackend(becomes=[to_document(HELD)])
    result = run(backend, "hold", "airports", "--id", ID, "--reason", "r", env=BROKER)
    assert (result.exit_code, [c["type"] for c in backend.sent]) == (0, ["io.recoveryd.command.hold.v1"])
    assert ID in result.stdout
    assert f"`recoveryctl release --id {ID} --reason TEXT`" in result.stderr


def test_release_says_what_became_of_it() -> None:
    backend = ScriptedBackend({ID: to_document(HELD)})
    result = run(backend, "release", "--id", ID, "--reason", "r", env=BROKER)
    assert (result.exit_code, [c["subject"] for c in backend.sent]) == (0, [ID]), result.stderr


def test_a_topic_that_somebody_else_holds_is_exit_code_4() -> None:
    backend = ScriptedBackend(answer=refuse_with(Code.NOT_THE_HOLDER, "airports is held by h1 of //ops/bob: r"))
    result = run(backend, "release", "airports", "--reason", "r", env=BROKER)
    assert result.exit_code == 4
    assert "RCV-1062" in result.stderr
    assert "//ops/bob" in result.stderr


def test_describe_shows_who_holds_what_why_and_until_when() -> None:
    hold = replace(HELD, reads=True, released=("gone",), missing=("airports",), expires_ms=NOW_MS + 3_600_000)
    shown = run(ScriptedBackend({ID: to_document(hold)}), "describe", ID, env=BROKER).stdout
    for part in (
        "//ops/alice",
        "being corrected",
        "airports, flights.v42 on main",
        "copying from there",
        "no such topic",
        "gone",
    ):
        assert part in shown, shown
    assert "never by itself" not in shown
    assert "no limit" not in shown
    plain = run(ScriptedBackend({ID: to_document(HELD)}), "describe", ID, env=BROKER).stdout
    assert "never by itself" in plain


def test_describe_shows_which_consumers_obey_and_who_is_silent_since_when() -> None:
    at = (HeldPosition("airports", 0, 3210), HeldPosition("airports", 1, None))
    members = (
        HeldMember("jobs", "j1", Obeys.PAUSED, NOW_MS, "", ()),
        HeldMember("reports", "m1", Obeys.PAUSED, NOW_MS, "reports-1", at),
        HeldMember("reports", "m2", Obeys.DRAINING, NOW_MS + 1_000, "reports-2"),
        HeldMember("reports", "m3", Obeys.SILENT, NOW_MS + 5_000, "reports-3"),
        HeldMember("reports", "m4", Obeys.SILENT, NOW_MS + 4_000, "reports-4"),
    )
    shown = run(ScriptedBackend({ID: to_document(replace(HELD, members=members))}), "describe", ID, env=BROKER).stdout
    lines = [line.strip() for line in shown.splitlines()]
    assert any(line.startswith("1 of 1 members of jobs have paused") for line in lines), shown
    (line,) = [line for line in lines if line.startswith("1 of 4 members of reports have paused")]
    assert ", 1 draining since " in line
    assert ", 2 silent since " in line
    assert "airports 0: 3,210, airports 1: -" in shown
    assert "j1" in shown  # which has no client id


def test_list_and_get_know_holds() -> None:
    backend = ScriptedBackend({ID: to_document(HELD)})
    listed = run(backend, "list", env=BROKER)
    assert (ID in listed.stdout, "running" in listed.stdout) == (True, True), listed.stdout
    got = json.loads(run(backend, "get", ID, "-o", "json").stdout)
    assert (got["kind"], got["hold"]["topics"], "internal" in got) == ("hold", ["airports", "flights.v42"], False)
