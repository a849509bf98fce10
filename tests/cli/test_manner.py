"""How every verb speaks: forms of output, quiet, verbose, without colour, errors as JSON; and the aliases."""

import json
from typing import Any

import pytest
import yaml

from recoveryd.cli.failure import Failure
from recoveryd.cli.render.json_path import select
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from tests.builders.core import to_document
from tests.cli.recoveries import COMPLETED, RUNNING, in_state, make_answer
from tests.cli.scripted import ScriptedBackend, refuse_with, run

ID = "flights-rerun"


def of(*names: str, state: State = State.RUNNING) -> ScriptedBackend:
    return ScriptedBackend({name: in_state(state) | {"recovery": name} for name in names})


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        ("{.a.b}", [1]),
        ("$.a.b", [1]),
        ("a.b", [1]),
        (".rows[*].n", [1, 2]),
        (".rows.*.n", [1, 2]),
        (".rows[-1].n", [2]),
        (".rows[7].n", []),
        (".a.c", []),
        (".a.b.c", []),
        ("['a']['b']", [1]),
        (".", [{"a": {"b": 1}, "rows": [{"n": 1}, {"n": 2}]}]),
    ],
)
def test_a_path_selects_what_stands_there(path: str, found: list[object]) -> None:
    assert select({"a": {"b": 1}, "rows": [{"n": 1}, {"n": 2}]}, path) == found


@pytest.mark.parametrize("path", ["", "..", ".a[", ".a[?(@.b)]", "a b", ".a]", "{range .items[*]}", ".rows[0]n"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    if not path:
        assert select(1, path) == [1]
        return
    with pytest.raises(Failure, match="cannot be read from"):
        select({"a": 1}, path)


def test_a_part_of_a_record_is_printed_so_that_a_shell_can_use_it() -> None:
    backend = ScriptedBackend({ID: to_document(COMPLETED)})

    assert run(backend, "status", ID, "-o", "jsonpath={.stop.reason}").stdout == "zero_lag\n"
    assert run(backend, "ls", "-o", "jsonpath=[*].plan.source.partitions[0].stop").stdout == "84000\n"
    nothing = run(backend, "get", ID, "-o", "jsonpath=.waiting_for")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "Nothing stands at .waiting_for" in nothing.stderr


def test_a_list_can_be_had_as_one_record_per_line() -> None:
    lines = run(of("a", "b"), "ls", "-o", "jsonl").stdout.splitlines()

    assert [json.loads(line)["recovery"] for line in lines] == ["b", "a"]


def test_a_wide_list_says_what_is_copied_by_whom_under_which_rule() -> None:
    header, row = run(of("a"), "list", "-o", "wide").stdout.splitlines()

    assert header.split()[-6:] == ["KIND", "ABOUT", "ATTEMPT", "BY", "RULE", "WHY"]
    assert "flights -> flights.v42" in row
    assert "//ops/alice" in row


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (
            {"kind": "watch", "watch": {"group": "app", "topics": ["cold"], "until": "caught_up"}},
            ("app on cold", "until caught up: zero lag that stays"),
        ),
        (
            {"kind": "hold", "hold": {"topics": ["orders", "bills"], "expires": "2027-01-15T09:00:00.000Z"}},
            ("orders, bills", "expires 2027-01-15 09:00:00"),
        ),
        (
            {"kind": "schedule", "schedule": {"command": {"verb": "replay"}, "next_run": "2027-01-16T02:00:00.000Z"}},
            ("replay", "next run 2027-01-16 02:00:00"),
        ),
        ({"kind": "workflow", "workflow": "reset", "unit": "order-processor"}, ("reset", "order-processor")),
    ],
)
def test_it_also_says_what_a_watch_a_hold_a_schedule_and_a_workflow_are_about(
    part: dict[str, Any], told: tuple[str, str]
) -> None:
    document = to_document(RUNNING)
    backend = of()
    backend.documents["one"] = {name: document[name] for name in ("state", "why", "created", "command", "version")} | {
        "recovery": "one",
        **part,
    }

    row = run(backend, "list", "-o", "wide").stdout.splitlines()[1]

    assert all(text in row for text in told), row


def test_help_promises_more_columns_only_where_there_are_some() -> None:
    assert "|wide|" in run(of(), "list", "--help", env={"COLUMNS": "200"}).stdout
    assert "|wide|" not in run(of(), "lag", "--help", env={"COLUMNS": "200"}).stdout


def test_throttle_all_gives_each_copy_the_rate() -> None:
    backend = of("a", "b")
    backend.documents["ended"] = to_document(COMPLETED) | {"recovery": "ended"}

    result = run(backend, "throttle", "--all", "--max-bytes-per-s", "1MB", "--reason", "month end")

    assert result.exit_code == 0
    assert [(command["subject"], command["data"]["limits"]) for command in backend.sent] == [
        (name, {"max_bytes_per_s": 1_000_000}) for name in ("a", "b")
    ]


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (("--limit", "2"), ["c", "b"]),
        (("--sort", "name"), ["a", "b", "c"]),
        (("--sort", "name", "--limit", "1"), ["a"]),
        (("--sort", "state"), ["b", "a", "c"]),
        (("--sort", "updated", "--state", "running"), ["c", "a"]),
    ],
)
def test_a_list_is_sorted_and_cut_as_wished(args: tuple[str, ...], names: list[str]) -> None:
    backend = of("a", "c")
    backend.documents["b"] = in_state(State.COMPLETED) | {"recovery": "b"}

    assert run(backend, "list", *args, "-o", "name").stdout.split() == names


def test_a_limit_below_one_is_refused() -> None:
    assert run(of("a"), "list", "--limit", "0").exit_code == 2


@pytest.mark.parametrize("where", [("-q", "pause", ID), ("pause", ID, "-q"), ("pause", "--quiet", ID)])
def test_quiet_leaves_out_hints_wherever_it_stands(where: tuple[str, ...]) -> None:
    result = run(of(ID), *where, "--reason", "r")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_quiet_never_hides_an_error_or_a_question() -> None:
    refused = run(ScriptedBackend(answer=refuse_with(Code.NOT_IN_THIS_STATE)), "pause", ID, "--reason", "r", "-q")
    asked = run(of(ID), "stop", ID, "--reason", "r", "-q", interactive=True, typed="n\n")

    assert refused.stderr.startswith("RCV-1011 No.")
    assert asked.stderr.startswith(f"End {ID} for good? [y/N]: ")


def test_verbose_says_where_a_command_lies() -> None:
    assert "Sent as offset 42 of recovery.control.v1" in run(of(ID), "pause", ID, "--reason", "r", "-v").stderr


@pytest.mark.parametrize("form", [("-o", "json"), ("-ojson",), ("--output=jsonl",), ("--output", "json")])
def test_where_results_are_json_errors_are_so_too(form: tuple[str, ...]) -> None:
    result = run(ScriptedBackend(), "get", "nobody", *form)

    assert (result.exit_code, result.stdout) == (3, "")
    error = json.loads(result.stderr)["error"]
    assert (error["code"], error["message"], error["exit_code"]) == ("RCV-1010", "Nothing has the id `nobody`.", 3)
    assert error["next"]


def test_an_error_of_the_parser_is_json_too() -> None:
    assert json.loads(run(None, "list", "--nope", "-o", "json").stderr)["error"]["code"] == "RCV-4008"


def test_a_form_that_does_not_exist_gets_the_nearest_one() -> None:
    result = run(None, "list", "-o", "jsnl")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "Did you mean `jsonl`?" in result.stderr


def test_a_path_that_is_none_is_refused_before_anything_is_sent() -> None:
    backend = of(ID)

    result = run(backend, "pause", ID, "--reason", "r", "-o", "jsonpath=.a[")

    assert (result.exit_code, backend.sent) == (2, [])
    assert result.stderr.startswith("RCV-4008 -o jsonpath=.a[ cannot be read from `[` on.")


def test_watch_gives_a_line_of_json_per_change() -> None:
    backend = ScriptedBackend({ID: in_state(State.STARTING)}, becomes=[in_state(State.RUNNING), to_document(COMPLETED)])

    result = run(backend, "watch", ID, "-o", "json")

    assert [json.loads(line)["state"] for line in result.stdout.splitlines()] == ["starting", "running", "completed"]
    assert "internal" not in result.stdout


def test_watch_all_follows_every_recovery_until_ctrl_c() -> None:
    backend = of("a", "b")
    backend.becomes = [to_document(COMPLETED) | {"recovery": "a"}, KeyboardInterrupt()]

    result = run(backend, "watch", "--all")

    assert result.exit_code == 130
    assert [line.split()[1:3] for line in result.stdout.splitlines()] == [
        ["a", "running"],
        ["b", "running"],
        ["a", "completed"],
    ]
    assert "recoveryctl watch --all" in result.stderr


@pytest.mark.parametrize("args", [("watch",), ("watch", "a", "--all"), ("pause",), ("stop", "a", "--all")])
def test_one_id_or_all_of_them_has_to_be_said(args: tuple[str, ...]) -> None:
    backend = of("a")

    assert run(backend, *args).exit_code == 2
    assert backend.sent == []


@pytest.mark.parametrize(
    ("verb", "meant"),
    [
        ("pause", ["runs", "a-runs", "a-waits"]),
        ("stop", ["pauses", "runs"]),
        ("resume", ["pauses", "a-pauses"]),
    ],
)
def test_all_means_every_one_for_which_it_changes_something_and_ends_no_workflow(verb: str, meant: list[str]) -> None:
    backend = of("runs")
    backend.documents["pauses"] = in_state(State.PAUSED) | {"recovery": "pauses"}
    backend.documents["ended"] = to_document(COMPLETED) | {"recovery": "ended"}
    backend.documents["watch"] = to_document(RUNNING) | {"recovery": "watch", "kind": "watch"}
    for state in (State.RUNNING, State.WAITING, State.PAUSED, State.PLANNING, State.COMPLETED):
        name = {State.RUNNING: "a-runs", State.WAITING: "a-waits", State.PAUSED: "a-pauses"}.get(state, f"a-{state}")
        backend.documents[name] = in_state(state) | {"recovery": name, "kind": "workflow", "workflow": "reset"}

    result = run(backend, verb, "--all", "--reason", "incident")

    assert result.exit_code == 0
    assert [command["subject"] for command in backend.sent] == meant


def test_a_workflow_is_paused_without_an_application_to_let_go() -> None:
    backend = of("runs")
    backend.documents["w"] = in_state(State.RUNNING) | {"recovery": "w", "kind": "workflow", "workflow": "reset"}

    run(backend, "pause", "--all", "--release", "--reason", "r")

    assert [(command["subject"], command["data"]) for command in backend.sent] == [
        ("runs", {"reason": "r", "release": True}), ("w", {"reason": "r"}),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("names", [(), ("a",), ("a", "b")])
def test_answers_to_all_are_one_list(form: str, names: tuple[str, ...]) -> None:
    told = run(of(*names), "stop", "--all", "--reason", "r", "-o", form).stdout

    found = yaml.safe_load(told)  # JSON too
    assert [(answer["subject"], answer["data"]["verb"]) for answer in found] == [(name, "stop") for name in names]
    assert form == "yaml" or json.loads(told) == found


def test_what_all_came_to_and_what_would_be_sent_are_one_list_too() -> None:
    backend = of("a", "b")
    backend.becomes = [in_state(State.PAUSED) | {"recovery": name} for name in ("a", "b")]
    ended = json.loads(run(backend, "pause", "--all", "--wait", "--reason", "r", "-o", "json").stdout)
    printed = json.loads(run(of("a", "b"), "stop", "--all", "--reason", "r", "--print-record", "-o", "json").stdout)

    assert [(document["recovery"], document["state"]) for document in ended] == [("a", "paused"), ("b", "paused")]
    assert "internal" not in ended[0]
    assert [record["key"] for record in printed] == ["a", "b"]


def test_answers_to_all_as_lines_of_json_are_one_per_line() -> None:
    lines = run(of("a", "b"), "stop", "--all", "--reason", "r", "-o", "jsonl").stdout.splitlines()

    assert [json.loads(line)["subject"] for line in lines] == ["a", "b"]


def test_what_was_answered_before_nobody_answered_is_told() -> None:
    backend = of("a", "b")
    backend.answer = lambda command: make_answer(command) if command["subject"] == "a" else None

    result = run(backend, "throttle", "--all", "--lift", "--reason", "r", "-o", "json")

    assert (result.exit_code, [answer["subject"] for answer in json.loads(result.stdout)]) == (8, ["a"])


def test_one_that_is_refused_keeps_none_of_the_others_from_their_command() -> None:
    backend = of("a", "b", "c")
    refuse = refuse_with(Code.NOT_IN_THIS_STATE)
    backend.answer = lambda command: refuse(command) if command["subject"] == "b" else make_answer(command)

    result = run(backend, "pause", "--all", "--reason", "incident", "-o", "name")

    assert (result.exit_code, result.stdout.split()) == (4, ["a", "c"])
    assert [command["subject"] for command in backend.sent] == ["a", "b", "c"]
    assert "RCV-1011 No." in result.stderr


def test_all_are_told_before_one_is_waited_for() -> None:
    backend = of("a", "b")
    backend.becomes = [in_state(State.PAUSED) | {"recovery": name} for name in ("a", "b")]

    result = run(backend, "pause", "--all", "--wait", "--reason", "incident", "-o", "name")

    assert result.exit_code == 0
    assert [command["subject"] for command in backend.sent] == ["a", "b"]


def test_one_command_id_can_not_be_that_of_all() -> None:
    backend = of("a", "b")

    assert run(backend, "pause", "--all", "--reason", "r", "--command-id", "x").exit_code == 2
    assert backend.sent == []


@pytest.mark.parametrize(("typed", "flags", "sent"), [("y\n", (), 1), ("n\n", (), 0), ("", (), 0), ("", ("--yes",), 1)])
def test_stop_asks_on_a_terminal_since_it_can_not_be_taken_back(typed: str, flags: tuple[str, ...], sent: int) -> None:
    backend = of(ID)

    run(backend, "stop", ID, "--reason", "r", *flags, interactive=True, typed=typed)

    assert len(backend.sent) == sent


def test_stop_in_a_script_needs_no_flag() -> None:
    backend = of(ID)

    assert run(backend, "stop", ID, "--reason", "r").exit_code == 0
    assert len(backend.sent) == 1
