"""What `replay` sends, shows and returns."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from recoveryd.cli.render.output import confirm
from recoveryd.cli.verbs.flag_table import FlagTable
from recoveryd.cli.verbs.flags import REPLAY, VERIFY
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.replay.spec import Replay
from tests.builders.core import CODEC, to_document
from tests.cli.recoveries import COMPLETED, MISMATCHED, NOW_MS, PLAN_HASH, in_state, make_answer
from tests.cli.scripted import ScriptedBackend, refuse_with, replay_args, run


def test_sends_exactly_what_the_flags_say() -> None:
    backend = ScriptedBackend(becomes=[in_state(State.STARTING)])

    result = run(
        backend, "replay", "--source", "flights", "--from", "offsets:0=5,1=7", "--to", "2026-11-21T06:00:00Z",
        "--partitions", "0-1", "--target", "flights.v42", "--create", "--on-existing", "append", "--mapping", "key_hash",
        "--add-header", "run=2", "--add-header", "why=a=b", "--drop-header", "old", "--source-cluster", "east",
        "--target-cluster", "west", "--max-bytes-per-s", "10MB", "--max-records-per-s", "5000", "--max-bytes", "1GiB",
        "--max-records", "1_000_000", "--max-runtime", "2h", "--deadline", "2099-01-01T00:00:00Z", "--on-data-loss",
        "continue", "--verify", "count", "--profile", "big", "--plan-hash", "sha256:1", "--reason", "why not",
        "--id", "r-1", "--command-id", "c-9", "--yes",
    )  # fmt: skip

    assert result.exit_code == 0, result.stderr
    assert backend.sent[0]["data"] == {
        "source": {
            "topic": "flights", "from": {"offsets": {"0": 5, "1": 7}}, "to": "2026-11-21T06:00:00Z",
            "partitions": [0, 1], "cluster": "east",
        },
        "target": {
            "topic": "flights.v42", "create": True, "cluster": "west", "on_existing": "append", "mapping": "key_hash",
            "headers": {"add": {"run": "2", "why": "a=b"}, "drop": ["old"]},
        },
        "on_data_loss": "continue", "verify": "count", "job": {"profile": "big"}, "plan_hash": "sha256:1",
        "limits": {
            "max_bytes_per_s": 10_000_000, "max_records_per_s": 5000, "max_bytes": 2**30, "max_records": 1_000_000,
            "max_runtime": "2h", "deadline": "2099-01-01T00:00:00Z",
        },
        "reason": "why not",
    }  # fmt: skip
    assert (backend.sent[0]["id"], backend.sent[0]["subject"]) == ("c-9", "r-1")


def test_a_zero_is_sent_like_any_number() -> None:
    backend = ScriptedBackend(becomes=[in_state(State.STARTING)])

    result = run(backend, *replay_args("--yes", "--tier", "0"))

    assert result.exit_code == 0, result.stderr
    assert backend.sent[0]["data"]["limits"] == {"tier": 0}


@pytest.mark.parametrize(
    ("flag", "text", "value"),
    [
        ("--from", "earliest", "earliest"),
        ("--from", "offset:123", {"offset": 123}),
        ("--from", "-2h", "-2h"),
        ("--from", "-PT2H", "-PT2H"),
        ("--to", "latest", "latest"),
        ("--to", "caught_up", "caught_up"),
        ("--to", "never", "never"),
        ("--to", "offsets:0=9,1=9", {"offsets": {"0": 9, "1": 9}}),
    ],
)
def test_each_form_of_position_reaches_the_record(flag: str, text: str, value: object) -> None:
    backend = ScriptedBackend(becomes=[in_state(State.STARTING)])

    result = run(backend, *replay_args("--yes", flag, text))

    assert result.exit_code == 0, result.stderr
    assert backend.sent[0]["data"]["source"][flag.removeprefix("--")] == value


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        (("--to", "latst"), "RCV-1005", "Did you mean `latest`?"),
        (("--from", "latest"), "RCV-1005", "--from `latest` is no position. Did you mean `-1s`?"),
        (("--from", "Latest"), "RCV-1005", "Did you mean `-1s`?"),
        (("--to", "earliest"), "RCV-1005", "--to `earliest` is the beginning, and no range can end there."),
        (("--to", "EARLIEST"), "RCV-1005", "is the beginning, and no range can end there."),
        (("--to", "beginning"), "RCV-1005", "is the beginning, and no range can end there."),
        (("--to", "head"), "RCV-1005", "--to `head` is no position.\n"),
        (("--to", "realtime"), "RCV-1005", "--to `realtime` is no position.\n"),
        (("--from", "head"), "RCV-1005", "--from `head` is no position.\n"),
        (("--from", "rest"), "RCV-1005", "--from `rest` is no position.\n"),
        (("--from", "2026-11-21T06:00:00"), "RCV-1015", "has no time zone"),
        (("--from", "offset:-1"), "RCV-1005", "no whole number"),
        (("--target", "flights"), "RCV-1019", "flights"),
        (("--target", "__consumer_offsets"), "RCV-1018", "internal topic"),
        (("--id", "Upper"), "RCV-1007", "Upper"),
        (("--max-bytes-per-s", "fast"), "RCV-1005", "not a size"),
        (("--partitions", "0,0"), "RCV-1005", "twice"),
        (("--add-header", "novalue"), "RCV-1005", "name=value"),
        (("--timeout", "soon"), "RCV-1005", "not a duration"),
        (("--weight", "0"), "RCV-1005", "weight"),
        (("--tier", "10"), "RCV-1005", "tier"),
        (("--mapping", "hash"), "RCV-4008", "--mapping"),
        (("--frm", "earliest"), "RCV-4008", "--frm"),
    ],
)
def test_a_wrong_flag_is_told_before_anything_is_sent(wrong: tuple[str, ...], code: str, said: str) -> None:
    backend = ScriptedBackend()

    result = run(backend, *replay_args("--yes", *wrong))

    assert (result.exit_code, result.stdout, backend.sent) == (2, "", [])
    assert result.stderr.startswith(code)
    assert said in result.stderr
    assert "\n  next: " in result.stderr


@pytest.mark.parametrize("table", [REPLAY, VERIFY])
def test_the_time_to_run_is_told_to_go_on_in_a_pause(table: FlagTable) -> None:
    (told,) = [flag.help for flag in table.rows if flag.name == "max-runtime"]
    assert all(word in told for word in ("first attempt", "pauses", "restarts"))
    assert "of running" not in told


@pytest.mark.parametrize("flag", ["--source", "--from", "--to", "--target", "--reason"])
def test_what_every_replay_needs_is_asked_for_by_its_flag(flag: str) -> None:
    args = list(replay_args("--yes"))
    at = args.index(flag)

    result = run(ScriptedBackend(), *args[:at], *args[at + 2 :])

    assert result.exit_code == 2
    assert result.stderr.startswith(f"RCV-4008 {flag} is missing.\n  next: ")


def test_prints_the_record_without_any_connection() -> None:
    result = run(None, *replay_args("--print-record"))

    lines = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    value = lines["value"].encode()
    decoded = CODEC.decode(lines["key"].encode(), value, (), NOW_MS, 0)
    assert result.exit_code == 0, result.stderr
    assert isinstance(decoded, Replay)
    assert (lines["topic"], lines["key"]) == ("recovery.control.v1", "flights-rerun")
    assert (decoded.spec.source.topic, decoded.spec.target.topic, decoded.spec.target.create) == (
        "flights",
        "flights.v42",
        True,
    )
    assert "| kcat -P -b " in lines["kcat"]


def test_the_printed_record_as_json_holds_the_same_parts() -> None:
    result = run(None, *replay_args("--print-record", "-o", "json"))

    printed = json.loads(result.stdout)
    assert set(printed) == {"topic", "key", "headers", "value", "kcat"}
    assert json.loads(printed["value"])["data"]["target"] == {"topic": "flights.v42", "create": True}
    assert printed["headers"]["content-type"].startswith("application/cloudevents+json")


def test_flags_win_over_the_file_and_yaml_times_stay_text(tmp_path: Path) -> None:
    file = tmp_path / "recovery.yaml"
    file.write_text(
        "reason: from the file\n"
        "source: {topic: flights, from: 2026-11-21T06:00:00Z, to: {offsets: {0: 10}}}\n"
        "target: {topic: flights.v42}\n"
    )
    backend = ScriptedBackend(becomes=[in_state(State.STARTING)])

    result = run(backend, "replay", "-f", str(file), "--target", "elsewhere", "--yes", "--id", "r-1")

    assert result.exit_code == 0, result.stderr
    assert backend.sent[0]["data"] == {
        "reason": "from the file",
        "source": {"topic": "flights", "from": "2026-11-21T06:00:00Z", "to": {"offsets": {"0": 10}}},
        "target": {"topic": "elsewhere"},
    }


def test_the_document_can_come_from_stdin_as_json() -> None:
    document = {
        "reason": "r",
        "source": {"topic": "flights", "from": "earliest", "to": "latest"},
        "target": {"topic": "flights.v42"},
    }
    backend = ScriptedBackend(becomes=[in_state(State.STARTING)])

    result = run(backend, "replay", "-f", "-", "--yes", typed=json.dumps(document))

    assert result.exit_code == 0, result.stderr
    assert backend.sent[0]["data"] == document
    assert backend.sent[0]["subject"].startswith("flights-")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("reason: r\nb: c: d\n", "recovery.yaml:2"),
        ("- a\n", "no mapping"),
        ("sorce: {}\n", "RCV-1004"),
        ("source: x\n", "`source`"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "recovery.yaml"
    file.write_text(text)

    result = run(ScriptedBackend(), "replay", "-f", str(file), "--source", "s", "--reason", "r", "--yes")

    assert result.exit_code == 2
    assert said in result.stderr


def test_without_an_id_one_is_made_from_the_topic() -> None:
    backend = ScriptedBackend(becomes=[in_state(State.STARTING)])
    args = [arg for arg in replay_args("--yes", "-o", "name") if arg not in {"--id", "flights-rerun"}]

    result = run(backend, *args)

    made = backend.sent[0]["subject"]
    assert made.startswith("flights-")
    assert len(made) == len("flights-") + 5
    assert result.stdout == f"{made}\n"


@pytest.mark.parametrize(
    "args",
    [
        ("replay", "--source", "flights", "--target", "flights.v2"),
        ("retry", "r1"),
        ("hold", "place", "flights"),
        ("hold", "release", "flights"),
        ("reset", "shop", "--to", "earliest"),
        ("reprocess", "shop"),
        ("watch-group", "shop", "--topic", "flights"),
        ("runbook", "run", "shop"),
        ("savepoint", "create", "shop"),
    ],
    ids=lambda args: args[0] + args[1],
)
def test_an_id_of_a_variable_that_is_not_set_is_refused(args: tuple[str, ...]) -> None:
    """One made up in its place would be a new one at each try."""
    result = run(None, *args, "--reason", "r", "--id", " ")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("RCV-4008 Invalid value for '--id': it is empty.")


def test_without_a_terminal_it_does_not_ask_but_names_the_flag() -> None:
    backend = ScriptedBackend()

    result = run(backend, *replay_args())

    assert (result.exit_code, result.stdout, backend.sent) == (2, "", [])
    assert "--yes" in result.stderr


@pytest.mark.parametrize(("typed", "sent", "exit_code"), [("y\n", 2, 0), ("n\n", 1, 1), ("\n", 1, 1)])
def test_on_a_terminal_it_shows_the_plan_that_the_daemon_made_and_asks(typed: str, sent: int, exit_code: int) -> None:
    backend = ScriptedBackend(becomes=[in_state(State.PLANNED), in_state(State.STARTING)])

    result = run(backend, *replay_args("-o", "name"), interactive=True, typed=typed)

    assert (len(backend.sent), result.exit_code) == (sent, exit_code)
    assert [command["data"].get("dry_run") for command in backend.sent] == [True, None][:sent]
    for shown in (PLAN_HASH, "84,000", "134,000 records, 41.2 MB", "target_retention", "Start this replay as"):
        assert shown in result.stderr
    assert result.stdout == ("flights-rerun\n" if sent == 2 else "")


def test_where_there_is_no_plan_there_is_nothing_to_ask() -> None:
    backend = ScriptedBackend(becomes=[in_state(State.FAILED, why="the source is gone")])

    result = run(backend, *replay_args(), interactive=True, typed="y\n")

    assert (len(backend.sent), result.exit_code) == (1, 4)
    assert "has no plan: the source is gone" in result.stderr


def test_plan_only_shows_the_plan_and_the_command_that_runs_exactly_it() -> None:
    backend = ScriptedBackend(becomes=[in_state(State.PLANNING), in_state(State.PLANNED)])

    result = run(backend, *replay_args("--plan-only"))

    assert result.exit_code == 0, result.stderr
    assert backend.sent[0]["data"]["dry_run"] is True
    for shown in (
        PLAN_HASH,
        "134,000 records, 41.2 MB",
        "about 12 s (2 s to 3 min 20 s)",
        "84,000",
        "target_retention",
    ):
        assert shown in result.stdout
    assert result.stderr.endswith(
        "recoveryctl replay --id flights-rerun --source flights --from earliest --to latest --target flights.v42 --create "
        f"--reason 'wrong delay unit' --plan-hash {PLAN_HASH}\n"
    )


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (("--bootstrap", "a:1"), " --bootstrap a:1"),
        (("-b", "a:1", "--http", "http://d:1"), " --bootstrap a:1 --http http://d:1"),
        (("--config", "my config.yaml"), " --config 'my config.yaml'"),
        (("--context", "prod"), " --context prod"),
    ],
)
def test_the_command_that_runs_a_plan_says_where_as_it_was_typed(
    tmp_path: Path, places: tuple[str, ...], said: str
) -> None:
    home: dict[str, str | None] = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert run(None, "context", "add", "prod", "-b", "b:1", env=home).exit_code == 0
    backend = ScriptedBackend(becomes=[in_state(State.PLANNED)])
    if places[0] == "--config":
        file = tmp_path / places[1]
        file.write_text("clusters: {main: {bootstrap.servers: 'a:1'}}\n")
        places, said = ("--config", str(file)), f" --config '{file}'"

    result = run(backend, *replay_args("--plan-only", *places), env=home)

    assert result.stderr.endswith(f" --reason 'wrong delay unit'{said} --plan-hash {PLAN_HASH}\n"), result.stderr


def test_what_a_variable_says_of_the_place_is_not_typed_again() -> None:
    backend = ScriptedBackend(becomes=[in_state(State.PLANNED)])

    result = run(backend, *replay_args("--plan-only"), env={"RECOVERYD_BOOTSTRAP_SERVERS": "a:1"})

    assert "--bootstrap" not in result.stderr


def test_a_document_of_stdin_is_asked_for_again() -> None:
    backend = ScriptedBackend(becomes=[in_state(State.PLANNED)])
    document = (
        "source: {topic: flights, from: earliest, to: latest}\ntarget: {topic: flights.v42, create: true}\nreason: r\n"
    )

    result = run(backend, "replay", "-f", "-", "--id", "r-1", "--plan-only", typed=document)

    assert result.stderr.endswith(
        f"with the same document:\n  recoveryctl replay --id r-1 -f - --plan-hash {PLAN_HASH} < DOCUMENT\n"
    ), result.stderr


def test_plan_only_does_not_take_the_plan_of_an_earlier_dry_run() -> None:
    old = in_state(State.PLANNED, why="old")
    backend = ScriptedBackend(
        documents={"flights-rerun": old}, becomes=[in_state(State.PLANNING), in_state(State.PLANNED, why="new")]
    )

    result = run(backend, *replay_args("--plan-only", "-o", "json"))

    assert json.loads(result.stdout)["why"] == "new"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (Code.ID_IN_USE, 4),
        (Code.TARGET_NOT_EMPTY, 4),
        (Code.NOT_AUTHORISED, 5),
        (Code.STALE_PLAN, 6),
    ],
)
def test_a_refusal_carries_the_daemons_words_and_its_exit_code(code: Code, exit_code: int) -> None:
    backend = ScriptedBackend(answer=refuse_with(code, "It cannot be."))

    result = run(backend, *replay_args("--yes"))

    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert result.stderr.startswith(f"{code.value} It cannot be.\n  next: ")


def test_an_expired_command_is_a_refusal() -> None:
    backend = ScriptedBackend(answer=lambda command: make_answer(command, "expired", Code.EXPIRED, "Too late."))

    result = run(backend, *replay_args("--yes", "--expires", "15m"))

    assert result.exit_code == 4
    assert "expirytime" in backend.sent[0]


def test_a_code_of_a_newer_daemon_is_shown_as_it_is() -> None:
    def answer(command: dict[str, object]) -> dict[str, object]:
        made = make_answer(command, "rejected", Code.ID_IN_USE, "Something new.", "Do this.")
        made["data"]["code"] = "RCV-7777"
        return made

    result = run(ScriptedBackend(answer=answer), *replay_args("--yes"))

    assert result.exit_code == 4
    assert "RCV-7777 Something new.\n  next: Do this.\n" in result.stderr


def test_a_duplicate_is_success() -> None:
    backend = ScriptedBackend(
        answer=lambda command: make_answer(command, "duplicate", None, "Done before."),
        becomes=[in_state(State.RUNNING)],
    )

    result = run(backend, *replay_args("--yes", "--command-id", "again"))

    assert result.exit_code == 0
    assert "duplicate: Done before." in result.stderr


def test_a_duplicate_shows_the_recovery_as_it_is_by_now() -> None:
    backend = ScriptedBackend(
        {"flights-rerun": in_state(State.PAUSED)}, answer=lambda c: make_answer(c, "duplicate", None, "Done before.")
    )

    result = run(backend, *replay_args("--yes", "-o", "json"))

    assert (result.exit_code, json.loads(result.stdout)["state"]) == (0, "paused")


def test_silence_of_the_daemon_is_a_time_out_that_tells_where_the_command_is() -> None:
    backend = ScriptedBackend(answer=lambda _: None)

    result = run(backend, *replay_args("--yes", "--timeout", "20ms"))

    assert result.exit_code == 8
    assert result.stderr.startswith(
        "RCV-4010 No daemon answered in 0.02 s; the command is offset 42 of recovery.control.v1."
    )


def test_waiting_for_approval_is_exit_code_7_and_says_how_to_approve() -> None:
    backend = ScriptedBackend(becomes=[in_state(State.AWAITING_APPROVAL)])

    result = run(backend, *replay_args("--yes"))

    assert result.exit_code == 7
    assert f"recoveryctl approve flights-rerun --plan-hash {PLAN_HASH}" in result.stderr


def test_wait_ends_with_the_proof_on_stdout_and_the_progress_on_stderr() -> None:
    backend = ScriptedBackend(becomes=[in_state(State.STARTING), in_state(State.RUNNING), to_document(COMPLETED)])

    result = run(backend, *replay_args("--yes", "--wait"))

    assert result.exit_code == 0, result.stderr
    assert "running 50% 67,000 records, 41.0 MB/s, lag 67,000, 12 s left: because" in result.stderr
    assert (
        "134,000 offsets = 133,990 copied + 0 filtered + 10 skipped + 0 lost + 0 unexplained. It adds up."
        in result.stdout
    )
    assert "Verification: match. 133,990 source records, 133,990 found in the target." in result.stdout
    assert backend.closed


@pytest.mark.parametrize(
    ("ending", "exit_code"),
    [
        (to_document(MISMATCHED), 9),
        (in_state(State.FAILED, error_code=Code.ATTEMPTS_EXHAUSTED.value), 1),
        (in_state(State.STOPPED), 0),
        (in_state(State.REJECTED, error_code=Code.REJECTED_BY_OPERATOR.value), 4),
        (in_state(State.REJECTED, error_code=Code.STALE_PLAN.value), 6),
        (in_state(State.EXPIRED, error_code=Code.APPROVAL_EXPIRED.value), 4),
        (in_state(State.AWAITING_APPROVAL), 7),
    ],
)
def test_the_end_of_a_wait_is_the_exit_code(ending: dict[str, object], exit_code: int) -> None:
    backend = ScriptedBackend(becomes=[in_state(State.STARTING), dict(ending)])

    result = run(backend, *replay_args("--yes", "--wait", "-o", "name"))

    assert (result.exit_code, result.stdout) == (exit_code, "flights-rerun\n")


def test_a_wait_that_takes_too_long_is_exit_code_8_and_leaves_the_recovery_alone() -> None:
    backend = ScriptedBackend(becomes=[in_state(State.STARTING), in_state(State.RUNNING)])

    result = run(backend, *replay_args("--yes", "--wait", "--timeout", "50ms"))

    assert result.exit_code == 8
    assert "recoveryctl wait flights-rerun" in result.stderr
    assert len(backend.sent) == 1


def test_ctrl_c_before_the_answer_says_where_the_command_lies() -> None:
    def interrupted(_command: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    backend = ScriptedBackend(answer=interrupted)

    result = run(backend, *replay_args("--yes", "--wait"))

    assert result.exit_code == 130
    assert "the command is offset 42 of recovery.control.v1, and a daemon will handle it" in result.stderr
    assert "recoveryctl describe flights-rerun" in result.stderr
    assert len(backend.sent) == 1


def test_ctrl_c_at_the_question_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def readline(self) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Interrupted())
    assert confirm("Start this replay as r1?") is False


def test_ctrl_c_detaches_and_says_how_to_come_back() -> None:
    backend = ScriptedBackend(becomes=[in_state(State.STARTING), KeyboardInterrupt()])

    result = run(backend, *replay_args("--yes", "--wait"))

    assert result.exit_code == 130
    assert result.stderr.endswith(
        "Detached; flights-rerun goes on. Attach again with `recoveryctl watch flights-rerun`.\n"
    )
    assert len(backend.sent) == 1
