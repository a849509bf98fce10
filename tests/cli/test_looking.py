"""list, get, describe, watch, wait: nothing is sent, stdout is data."""

import json
from dataclasses import replace

import pytest
import yaml

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State, Stop, StopReason
from recoveryd.recovery.model import CompletenessRow
from tests.builders.core import to_document
from tests.cli.recoveries import COMPLETED, MISMATCHED, NOW_MS, PLAN_HASH, RUNNING, in_state, make_notice
from tests.cli.scripted import ScriptedBackend, run

ID = "flights-rerun"
LOST_RACE = Stop(StopReason.RETENTION_RACE, None, NOW_MS, {"loss_in_s": 60.0})


def three() -> ScriptedBackend:
    """B is the newest, then c, then a."""
    made = {
        "a": replace(RUNNING, id="a", created_ms=NOW_MS),
        "b": replace(COMPLETED, id="b", created_ms=NOW_MS + 2_000),
        "c": replace(RUNNING, id="c", state=State.PAUSED, created_ms=NOW_MS + 1_000),
    }
    return ScriptedBackend({name: to_document(recovery) for name, recovery in made.items()})


def test_list_is_sorted_newest_first() -> None:
    result = run(three(), "list", "-o", "name")

    assert (result.exit_code, result.stdout) == (0, "b\nc\na\n")


def test_list_can_be_narrowed_to_states() -> None:
    result = run(three(), "list", "--state", "paused", "--state", "running", "-o", "name")

    assert result.stdout == "c\na\n"


def test_list_refuses_a_state_that_does_not_exist() -> None:
    result = run(three(), "list", "--state", "flying")

    assert result.exit_code == 2
    assert result.stderr.startswith("RCV-4008 ")


def test_list_shows_progress_in_a_table() -> None:
    result = run(three(), "list")

    header, *rows = result.stdout.splitlines()
    assert header.split() == ["RECOVERY", "STATE", "DONE", "RECORDS", "RATE", "LAG", "ETA", "AGE", "WHY"]
    assert [row.split()[:4] for row in rows] == [
        ["b", "completed", "100%", "133,990"],
        ["c", "paused", "50%", "67,000"],
        ["a", "running", "50%", "67,000"],
    ]


def test_an_empty_list_is_empty_data_and_a_hint() -> None:
    as_json = run(ScriptedBackend(), "list", "-o", "json")
    as_table = run(ScriptedBackend(), "list")

    assert json.loads(as_json.stdout) == []
    assert "recoveryctl replay" in as_table.stderr


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_get_gives_the_status_record_without_the_daemons_internals(form: str) -> None:
    document = to_document(RUNNING)

    result = run(ScriptedBackend({ID: document}), "get", ID, "-o", form)

    printed = json.loads(result.stdout) if form == "json" else yaml.safe_load(result.stdout)
    expected = {name: value for name, value in document.items() if name != "internal"}
    assert printed == expected


@pytest.mark.parametrize("verb", ["get", "describe", "watch", "wait"])
def test_an_unknown_id_is_exit_code_3(verb: str) -> None:
    result = run(ScriptedBackend(), verb, "nobody")

    assert (result.exit_code, result.stdout) == (3, "")
    assert (
        result.stderr == "RCV-1010 Nothing has the id `nobody`.\n  next: List the known ones with `recoveryctl list`.\n"
    )


def test_describe_shows_everything_in_its_order() -> None:
    backend = ScriptedBackend(
        {ID: to_document(COMPLETED)},
        timeline=[
            make_notice("recovery_running", {"from": "starting", "to": "running", "why": "First heartbeat."}),
            make_notice("recovery_completed", {"from": "verifying", "to": "completed", "why": "All match."}),
            make_notice("recovery_running", {"why": "of somebody else"}, subject="other"),
        ],
    )

    result = run(backend, "describe", ID)

    assert result.exit_code == 0
    marks = [
        "wrong delay unit",
        PLAN_HASH,
        "no record is so new: the end",
        "target_retention",
        "Progress",
        "zero_lag (bounded); lag_records 0.",
        "Completeness",
        "134,000 offsets = 133,990 copied + 0 filtered + 10 skipped + 0 lost + 0 unexplained. It adds up.",
        "Verification: match.",
        "starting -> running: First heartbeat.",
        "verifying -> completed: All match.",
    ]
    places = [result.stdout.find(mark) for mark in marks]
    assert -1 not in places
    assert places == sorted(places)
    assert "of somebody else" not in result.stdout


def test_describe_as_json_holds_the_events_too() -> None:
    event = make_notice("recovery_running", {"why": "x"})

    result = run(ScriptedBackend({ID: to_document(RUNNING)}, timeline=[event]), "describe", ID, "-o", "json")

    assert json.loads(result.stdout)["events"] == [event]


def test_the_totals_row_is_the_sum_of_the_partitions() -> None:
    result = run(ScriptedBackend({ID: to_document(COMPLETED)}), "describe", ID)

    rows = {
        line.split()[0]: line.split()[1:]
        for line in result.stdout.split("Completeness")[1].splitlines()
        if line.strip()
    }
    assert rows["total"] == ["134,000", "133,990", "0", "10", "0", "0"]


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ((CompletenessRow(0, 0, 10, 7, 0, 2, 0),), "1 unexplained. It adds up, but 1 offsets are unexplained."),
        ((CompletenessRow(0, 0, 10, 11, 0, 0, 0), CompletenessRow(1, 0, 10, 9, 0, 0, 0)), "0 unexplained. It adds up."),
    ],
)
def test_unexplained_offsets_are_said(rows: tuple[CompletenessRow, ...], verdict: str) -> None:
    backend = ScriptedBackend({ID: to_document(replace(COMPLETED, completeness=rows))})

    assert verdict in run(backend, "describe", ID).stdout


def test_a_record_whose_numbers_contradict_each_other_is_not_believed() -> None:
    document = to_document(COMPLETED)
    document["completeness"][0]["copied"] += 1
    document["completeness"][1]["copied"] -= 1

    assert "IT DOES NOT ADD UP" in run(ScriptedBackend({ID: document}), "describe", ID).stdout


def test_describe_lists_the_differences_of_a_failed_verification() -> None:
    result = run(ScriptedBackend({ID: to_document(MISMATCHED)}), "describe", ID)

    assert result.exit_code == 0
    assert "Verification: mismatch." in result.stdout
    assert "1 record is missing." in result.stdout


def test_watch_prints_one_line_per_change_and_ends_with_the_recovery() -> None:
    same = in_state(State.RUNNING, why="half")
    backend = ScriptedBackend(
        {ID: in_state(State.STARTING, why="soon")}, becomes=[same, dict(same), to_document(COMPLETED)]
    )

    result = run(backend, "watch", ID)

    assert result.exit_code == 0
    assert [line.split(" ", 1)[1] for line in result.stdout.splitlines()] == [
        "starting 67,000 records: soon",
        "running 50% 67,000 records, 41.0 MB/s, lag 67,000, 12 s left: half",
        "completed 100% 133,990 records: All 133,990 records arrived and match.",
    ]


@pytest.mark.parametrize("args", [("list",), ("get", ID), ("describe", ID), ("watch", ID), ("wait", ID)])
def test_what_failed_is_shown_with_its_code_in_front_of_why(args: tuple[str, ...]) -> None:
    told = run(ScriptedBackend({ID: to_document(MISMATCHED)}), *args).stdout

    assert "RCV-3007: The target does not hold exactly what was copied." in told


def test_ctrl_c_leaves_a_watched_recovery_alone() -> None:
    backend = ScriptedBackend({ID: to_document(RUNNING)}, becomes=[KeyboardInterrupt()])

    result = run(backend, "watch", ID)

    assert result.exit_code == 130
    assert "Attach again with `recoveryctl watch flights-rerun`" in result.stderr
    assert backend.sent == []


@pytest.mark.parametrize(
    ("ending", "exit_code"),
    [
        (to_document(COMPLETED), 0),
        (in_state(State.PLANNED), 0),
        (in_state(State.STOPPED), 0),
        (in_state(State.STOPPED, stop=Stop(StopReason.MAX_RECORDS, None, NOW_MS, {})), 0),
        (in_state(State.STOPPED, stop=LOST_RACE, error_code=Code.RETENTION_RACE.value), 1),
        (in_state(State.STOPPED, stop=LOST_RACE), 1),  # as 0.1.0 wrote it
        (in_state(State.FAILED, error_code=Code.DATA_LOST.value), 1),
        (in_state(State.REJECTED, error_code=Code.TARGET_NOT_EMPTY.value), 4),
        (in_state(State.FAILED, error_code=Code.NOT_AUTHORISED.value), 5),
        (in_state(State.REJECTED, error_code=Code.STALE_PLAN.value), 6),
        (in_state(State.AWAITING_APPROVAL), 7),
        (to_document(MISMATCHED), 9),
    ],
)
def test_wait_says_by_its_exit_code_how_it_ended(ending: dict[str, object], exit_code: int) -> None:
    backend = ScriptedBackend({ID: to_document(RUNNING)}, becomes=[dict(ending)])

    result = run(backend, "wait", ID, "-o", "name")

    assert (result.exit_code, result.stdout) == (exit_code, f"{ID}\n")


@pytest.mark.scenario("S-WIKI-C1b")
def test_wait_for_a_state_ends_there() -> None:
    backend = ScriptedBackend({ID: to_document(RUNNING)}, becomes=[in_state(State.PAUSING), in_state(State.PAUSED)])

    assert run(backend, "wait", ID, "--for", "paused").exit_code == 0


def test_wait_for_a_state_that_cannot_come_any_more_fails() -> None:
    result = run(ScriptedBackend({ID: to_document(COMPLETED)}), "wait", ID, "--for", "paused")

    assert result.exit_code == 1
    assert "ended as completed and cannot become paused" in result.stderr


def test_wait_gives_up_after_its_timeout() -> None:
    result = run(ScriptedBackend({ID: to_document(RUNNING)}), "wait", ID, "--timeout", "30ms")

    assert (result.exit_code, result.stdout) == (8, "")
    assert result.stderr.splitlines()[-2].startswith("RCV-4009 ")
    assert result.stderr.splitlines()[-2].endswith(f" It is running: {RUNNING.why}")


def test_tables_in_a_pipe_have_no_colour_and_no_cut_values() -> None:
    long_why = "why " * 60
    backend = ScriptedBackend({ID: in_state(State.RUNNING, why=long_why)})

    printed = run(backend, "get", ID).stdout

    assert "\x1b" not in printed
    assert "…" not in printed
    assert printed.count("why") == 60
