"""What is told of a command whose sending, answer or status does not come to its end: what is known of it, and how the
same command is sent once more.
"""

import getpass
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recoveryd.capabilities import make_codec
from recoveryd.cli.send.backend import OutgoingRecord, Sent
from recoveryd.errors import ClusterProblem, PerhapsWritten
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from tests.builders.core import to_document
from tests.cli.recoveries import RUNNING, in_state, make_answer
from tests.cli.scripted import ScriptedBackend, replay_args, run

ID = "flights-rerun"
PERHAPS = PerhapsWritten("Could not write to recovery.control.v1: Local: Message timed out")
GONE = ClusterProblem("Could not read recovery.events.v1: no answer within 30 s")
STOP = ("stop", ID, "--reason", "leak")


@dataclass
class Broken(ScriptedBackend):
    """Keeps what it is sent, and breaks then: in the writing, before an answer, or before a status."""

    at_write: BaseException | None = None
    at_answer: BaseException | None = None
    at_status: BaseException | None = None

    def send(self, record: OutgoingRecord) -> Sent:
        sent = super().send(record)
        if self.at_write is not None:
            raise self.at_write
        return sent

    def answers(self, sent: Sequence[Sent], timeout_s: float) -> Iterator[tuple[Sent, dict[str, Any]]]:
        if self.at_answer is not None:
            raise self.at_answer
        yield from super().answers(sent, timeout_s)

    def follow(self, recovery: str) -> Iterator[dict[str, Any] | None]:
        if self.at_status is not None:
            raise self.at_status
        yield from super().follow(recovery)


def same_command(backend: ScriptedBackend, told: str) -> bool:
    return f"--command-id {backend.sent[0]['id']}" in told


@pytest.mark.parametrize("more", [(), ("-q",)])
def test_ctrl_c_while_the_broker_has_not_answered_says_that_the_command_may_be_there(more: tuple[str, ...]) -> None:
    backend = Broken(at_write=KeyboardInterrupt())

    result = run(backend, *replay_args("--yes", *more))

    told = f"`--yes --command-id {backend.sent[0]['id']} --id {ID}` sends the same command, which is carried out once."
    assert (result.exit_code, len(backend.sent)) == (130, 1)
    assert "the command may have been written to recovery.control.v1" in result.stderr
    assert told in result.stderr


def test_ctrl_c_is_told_as_json_where_results_are() -> None:
    backend = Broken(at_write=KeyboardInterrupt())

    told = json.loads(run(backend, *STOP, "-o", "json").stderr)["detached"]

    assert told["commands"] == [
        {"recovery": ID, "id": backend.sent[0]["id"], "topic": "recovery.control.v1", "fate": "unsure"}
    ]
    assert same_command(backend, told["message"])


def test_a_write_without_a_word_of_the_broker_is_not_to_be_sent_again_as_another_command() -> None:
    backend = Broken(at_write=PERHAPS)

    result = run(backend, *STOP)

    assert result.exit_code == 1
    assert "RCV-2011 Could not write" in result.stderr
    assert "may have been written" in result.stderr
    assert f"`recoveryctl stop {ID} --command-id {backend.sent[0]['id']} --reason leak` sends" in result.stderr
    assert "can be sent again" not in result.stderr


R = ("--reason", "it's late")
# Every verb that the daemon knows, with all that its content depends on.
TYPED: dict[str, list[tuple[str, ...]]] = {
    "replay": [tuple(word for word in replay_args("--yes") if word not in {"--id", ID})],
    "verify": [("verify", "--source", "a", "--target", "b", "--yes", *R)],
    "watch": [("watch-group", "g", "--topic", "t", *R)],
    "hold": [("hold", "flights", "--ttl", "2h", *R)],
    "release": [],  # which says that it may be sent again as it is
    "reset": [("reset", "--group", "g", "--to", "earliest", *R)],
    "reprocess": [("reprocess", "shop", "--outputs", "out=keep", *R)],
    "savepoint": [("savepoint", "create", "cut", "--unit", "shop", *R)],
    "restore_savepoint": [("restore-savepoint", "cut", "--to-unit", "shop", *R)],
    "upgrade": [("upgrade", "shop", "--to-unit", "shop2", *R)],
    "runbook": [("runbook", "run", "shop", *R)],
    "schedule": [("schedule", "add", "nightly", "--cron", "0 3 * * *", "-f", "command.yaml", *R)],
    "unschedule": [("schedule", "remove", "nightly", *R)],
    "pause": [("pause", ID, "--release", *R), ("pause", "--all", "--yes", *R)],
    "resume": [("resume", ID, *R), ("resume", "--all", *R)],
    "stop": [("stop", ID, "--yes", *R), ("stop", "--all", "--yes", *R)],
    "throttle": [
        ("throttle", ID, "--max-bytes-per-s", "10MB", "--max-records-per-s", "none", *R),
        ("throttle", ID, "--lift", "--mode", "controller", "--weight", "2.5", "--tier", "0", *R),
        ("throttle", "--all", "--max-records-per-s", "1,000", *R),
    ],
    "approve": [("approve", ID, "--plan-hash", "sha256:4f2c", *R), ("approve", ID, "--yes", *R)],
    "reject": [("reject", ID, "--plan-hash", "sha256:4f2c", *R)],
    "rollback": [("rollback", "w", *R)],
    "ack": [("ack", "w", "stop-the-app", "--note", "did it", *R)],
    "promote": [("runbook", "promote", "w", *R)],
    "discard": [("runbook", "discard", "w", *R)],
    "escalate": [("runbook", "escalate", "w", *R)],
}


def test_how_it_is_sent_again_is_known_of_every_verb() -> None:
    assert set(TYPED) == set(make_codec().verbs)


@pytest.mark.parametrize(("verb", "args"), [(verb, args) for verb, lines in TYPED.items() for args in lines])
def test_what_is_told_is_the_same_command_for_the_daemon(
    verb: str, args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is typed as it stands there, by somebody at a terminal who is asked nothing, while the first one is carried
    out. The daemon knows a command by its id, source and content.
    """
    monkeypatch.chdir(tmp_path)
    data = {"source": {"topic": "a", "from": "earliest", "to": "latest"}, "target": {"topic": "b"}, "reason": "r"}
    Path("command.yaml").write_text(json.dumps({"verb": "replay", "data": data}))
    state = {"approve": State.AWAITING_APPROVAL, "resume": State.PAUSED}.get(verb, State.RUNNING)
    first = Broken({ID: in_state(state)}, at_write=PERHAPS)
    told = run(first, *args).stderr
    assert len(first.sent) == 1, told
    [said] = re.findall(r"`([^`]+)` sends the same command", told)
    words = shlex.split(said)
    typed = words[1:] if words[0] == "recoveryctl" else [*args, *words]
    assert "--all" not in typed

    second = Broken({ID: in_state(State.RUNNING)}, at_write=PERHAPS)
    run(second, *typed, interactive=True, typed="y\n" if verb == "stop" else "")

    assert [_identity(command) for command in second.sent] == [_identity(first.sent[0])]


def _identity(command: dict[str, Any]) -> dict[str, Any]:
    return {name: command[name] for name in ("id", "source", "type", "subject", "data")}


@pytest.mark.parametrize(
    ("args", "told"),
    [(("release", "flights"), "what is released stays so"), (replay_args("--plan-only"), "It asks for a plan only")],
)
def test_what_can_be_sent_again_as_it_is_says_so(args: tuple[str, ...], told: str) -> None:
    assert told in run(Broken(at_write=PERHAPS), *args, "--reason", "r").stderr


def begun(command_id: str) -> ScriptedBackend:
    """The daemon has begun the recovery, and knows this command for it."""
    status = in_state(State.RUNNING) | {
        "command": {"id": command_id, "source": f"//recoveryctl/{getpass.getuser()}", "reason": "r"}
    }

    def answer(command: dict[str, Any]) -> dict[str, Any]:
        if command["id"] == command_id:
            return make_answer(command, "duplicate")
        return make_answer(command, "rejected", Code.ID_IN_USE, f"recovery {ID} exists already and is running")

    return ScriptedBackend({ID: status}, answer=answer)


def test_a_command_that_has_begun_is_sent_again_without_a_plan_of_what_runs() -> None:
    backend = begun("C")

    result = run(backend, *replay_args("--command-id", "C"), interactive=True)

    assert result.exit_code == 0, result.stderr
    assert [command["id"] for command in backend.sent][1:] == ["C"]


def test_another_command_for_what_runs_is_refused() -> None:
    backend = begun("C")

    result = run(backend, *replay_args("--command-id", "D"), interactive=True, typed="y\n")

    assert (result.exit_code, [command["data"]["dry_run"] for command in backend.sent]) == (4, [True])


def test_a_write_that_was_refused_is_no_riddle() -> None:
    denied = ClusterProblem("Could not write.", "Grant Write.", code=Code.NOT_AUTHORISED, retriable=False)

    result = run(Broken(at_write=denied), *STOP)

    assert (result.exit_code, result.stderr) == (5, "RCV-2012 Could not write.\n  next: Grant Write.\n")


def test_a_broker_that_goes_before_the_answer_leaves_the_command_where_it_is() -> None:
    backend = Broken(at_answer=GONE)

    result = run(backend, *STOP, "-o", "json")

    error = json.loads(result.stderr)["error"]
    assert (result.exit_code, error["code"]) == (1, "RCV-2011")
    assert "the command is offset 42 of recovery.control.v1, and a daemon will handle it" in error["message"]
    assert "do not send it again" in error["next"]
    assert "can be sent again" not in result.stderr
    assert [(one["fate"], one["offset"]) for one in error["commands"]] == [("sent", 42)]


@pytest.mark.parametrize("more", [(), ("--wait",)])
@pytest.mark.parametrize("args", [replay_args("--yes"), ("reset", "--group", "g", "--to", "earliest", "--reason", "r")])
def test_a_broker_that_goes_after_the_answer_leaves_what_was_accepted(
    args: tuple[str, ...], more: tuple[str, ...]
) -> None:
    result = run(Broken(at_status=GONE), *args, *more)

    assert result.exit_code == 1
    assert "the daemon has taken the command, which goes on" in result.stderr
    assert "Do not send it again" in result.stderr
    assert "can be sent again" not in result.stderr


def test_no_answer_is_told_with_the_place_as_json_too() -> None:
    backend = ScriptedBackend({ID: to_document(RUNNING)}, answer=lambda _: None)

    result = run(backend, *STOP, "-o", "json", "-q")

    error = json.loads(result.stderr)["error"]
    assert (result.exit_code, error["code"], [one["offset"] for one in error["commands"]]) == (8, "RCV-4010", [42])


def four(kind: type[ScriptedBackend] = ScriptedBackend, **more: Any) -> Any:
    return kind({name: to_document(RUNNING) | {"recovery": name} for name in "abcd"}, **more)


STOP_ALL = ("stop", "--all", "--reason", "leak", "--yes")


def test_all_are_told_before_one_answer_is_awaited() -> None:
    backend = four(answer=lambda _: None)

    result = run(backend, *STOP_ALL)

    assert (result.exit_code, [command["subject"] for command in backend.sent]) == (8, ["a", "b", "c", "d"])
    for name, offset in zip("abcd", (42, 43, 44, 45), strict=True):
        assert f"{name} (offset {offset} of recovery.control.v1)" in result.stderr
    assert "do not send them again" in result.stderr


def test_who_of_all_has_no_answer_is_told_as_json() -> None:
    backend = four(answer=lambda command: None if command["subject"] in "bd" else make_answer(command))

    result = run(backend, *STOP_ALL, "-o", "json", "-q")

    assert [answer["subject"] for answer in json.loads(result.stdout)] == ["a", "c"]
    commands = json.loads(result.stderr)["error"]["commands"]
    assert [(one["recovery"], one["fate"], one["offset"]) for one in commands] == [("b", "sent", 43), ("d", "sent", 45)]


def test_all_answers_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, asked = four(answer=lambda _: None), []
    monkeypatch.setattr(backend, "answers", lambda sent, timeout_s: iter(asked.append((len(sent), timeout_s)) or ()))

    run(backend, *STOP_ALL, "--timeout", "3s")

    assert asked == [(4, 3.0)]


@dataclass
class Second(ScriptedBackend):
    """The broker fails at the second record."""

    at_second: BaseException = PERHAPS

    def send(self, record: OutgoingRecord) -> Sent:
        sent = super().send(record)
        if len(self.sent) == 2:
            raise self.at_second
        return sent


def test_a_write_that_fails_among_all_names_who_was_told_who_perhaps_and_who_was_not() -> None:
    backend = four(Second)

    result = run(backend, *STOP_ALL, "-o", "json", "-q")

    error = json.loads(result.stderr)["error"]
    assert (result.exit_code, error["code"]) == (1, "RCV-2011")
    assert [(one["recovery"], one["fate"]) for one in error["commands"]] == [
        ("a", "sent"), ("b", "unsure"), ("c", "not_sent"), ("d", "not_sent"),
    ]  # fmt: skip
    for told in ("a (offset 42 of recovery.control.v1)", "perhaps written: b;", "not sent: c, d."):
        assert told in error["message"]
    assert f"`recoveryctl stop b --command-id {backend.sent[1]['id']} --reason leak`" in error["next"]
    assert [answer["subject"] for answer in json.loads(result.stdout)] == ["a"], "what was sent is heard all the same"


def test_what_was_not_sent_weighs_more_than_a_daemon_that_does_not_answer() -> None:
    refused = ClusterProblem("Could not write.", "Grant Write.", code=Code.NOT_AUTHORISED, retriable=False)
    backend = four(Second, at_second=refused, answer=lambda _: None)

    result = run(backend, *STOP_ALL)

    assert result.exit_code == 5
    assert "not sent: b, c, d." in result.stderr
    assert "RCV-4010" in result.stderr


@pytest.mark.parametrize("form", ["table", "json"])
def test_ctrl_c_among_all_names_them_too(form: str) -> None:
    backend = four(Second, at_second=KeyboardInterrupt())

    result = run(backend, *STOP_ALL, "-q", "-o", form)

    assert result.exit_code == 130
    assert "perhaps written: b; not sent: c, d." in result.stderr
    assert f"--command-id {backend.sent[1]['id']}" in result.stderr
    assert form == "table" or len(json.loads(result.stderr)["detached"]["commands"]) == 4


@pytest.mark.parametrize(("breaks", "exit_code"), [(KeyboardInterrupt(), 130), (GONE, 1)])
def test_what_ends_the_wait_for_all_answers_says_where_each_command_lies(breaks: BaseException, exit_code: int) -> None:
    backend = four(Broken, at_answer=breaks)

    result = run(backend, *STOP_ALL)

    assert (result.exit_code, len(backend.sent)) == (exit_code, 4)
    assert "d (offset 45 of recovery.control.v1)" in result.stderr
    assert "can be sent again" not in result.stderr
