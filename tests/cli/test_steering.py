"""pause, resume, stop, throttle, approve, reject."""

import json

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from tests.builders.core import to_document
from tests.cli.recoveries import COMPLETED, PLAN_HASH, RUNNING, in_state
from tests.cli.scripted import ScriptedBackend, refuse_with, run

ID = "flights-rerun"


@pytest.mark.parametrize("verb", ["pause", "resume", "stop"])
def test_sends_one_command_and_tells_the_answer_on_stderr(verb: str) -> None:
    backend = ScriptedBackend({ID: to_document(RUNNING)})

    result = run(backend, verb, ID, "--reason", "dinner")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "accepted: fine\n")
    assert [(c["type"], c["subject"], c["data"]) for c in backend.sent] == [
        (f"io.recoveryd.command.{verb}.v1", ID, {"reason": "dinner"})
    ]


@pytest.mark.parametrize(
    ("flags", "limits"),
    [
        (("--max-bytes-per-s", "5MB"), {"max_bytes_per_s": 5_000_000}),
        (("--max-records-per-s", "100"), {"max_records_per_s": 100}),
        (("--max-records-per-s", "none"), {"max_records_per_s": None}),
        (("--lift",), {"max_bytes_per_s": None, "max_records_per_s": None}),
        (("--weight", "2"), {"weight": 2.0}),
        (("--tier", "0"), {"tier": 0}),
        (
            ("--lift", "--mode", "controller", "--weight", "0.5", "--tier", "3"),
            {"max_bytes_per_s": None, "max_records_per_s": None, "mode": "controller", "weight": 0.5, "tier": 3},
        ),
    ],
)
def test_throttle_sends_what_is_named(flags: tuple[str, ...], limits: dict[str, object]) -> None:
    backend = ScriptedBackend()

    result = run(backend, "throttle", ID, "--reason", "r", *flags)

    assert result.exit_code == 0, result.stderr
    assert backend.sent[0]["data"] == {"reason": "r", "limits": limits}


@pytest.mark.parametrize(
    "flags",
    [
        (), ("--lift", "--max-bytes-per-s", "1MB"), ("--max-bytes-per-s", "0"), ("--weight", "0"), ("--tier", "10"),
    ],
)  # fmt: skip
def test_throttle_without_one_clear_rate_is_a_usage_error(flags: tuple[str, ...]) -> None:
    backend = ScriptedBackend()

    result = run(backend, "throttle", ID, "--reason", "r", *flags)

    assert (result.exit_code, backend.sent) == (2, [])


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [(Code.NO_SUCH_RECOVERY, 3), (Code.NOT_IN_THIS_STATE, 4), (Code.NOT_AUTHORISED, 5)],
)
def test_a_refusal_is_the_exit_code(code: Code, exit_code: int) -> None:
    result = run(ScriptedBackend(answer=refuse_with(code)), "pause", ID, "--reason", "r")

    assert result.exit_code == exit_code
    assert result.stderr.startswith(f"{code.value} No.\n  next: ")


def test_the_answer_can_be_had_as_json() -> None:
    result = run(ScriptedBackend(), "stop", ID, "--reason", "r", "-o", "json")

    answer = json.loads(result.stdout)
    assert (answer["type"], answer["subject"]) == ("io.recoveryd.event.command_accepted.v1", ID)


@pytest.mark.parametrize("verb", ["pause", "resume", "stop", "throttle"])
def test_a_reason_is_required(verb: str) -> None:
    more = ["--lift"] if verb == "throttle" else []

    result = run(None, verb, ID, *more)

    assert result.exit_code == 2
    assert result.stderr.startswith("RCV-4008 --reason is missing.")


def test_every_command_can_be_printed_instead_of_sent() -> None:
    lines = [
        run(None, *args, "--reason", "r", "--print-record", "-o", "json").stdout
        for args in (
            ("pause", ID),
            ("resume", ID),
            ("stop", ID),
            ("throttle", ID, "--lift"),
            ("approve", ID, "--plan-hash", "h"),
            ("reject", ID, "--plan-hash", "h"),
        )
    ]

    verbs = [json.loads(json.loads(line)["value"])["type"].split(".")[3] for line in lines]
    assert verbs == ["pause", "resume", "stop", "throttle", "approve", "reject"]


@pytest.mark.scenario("S-WIKI-C1b")
def test_pause_wait_stays_until_no_chunk_is_open() -> None:
    backend = ScriptedBackend({ID: to_document(RUNNING)}, becomes=[in_state(State.PAUSING), in_state(State.PAUSED)])

    result = run(backend, "pause", ID, "--reason", "r", "--wait")

    assert result.exit_code == 0
    assert "paused" in result.stdout
    assert backend.becomes == []


def test_pause_wait_fails_when_the_recovery_ended_before() -> None:
    backend = ScriptedBackend({ID: to_document(RUNNING)}, becomes=[to_document(COMPLETED)])

    result = run(backend, "pause", ID, "--reason", "r", "--wait")

    assert result.exit_code == 1
    assert "ended as completed before pause could take effect" in result.stderr


@pytest.mark.parametrize(("ending", "exit_code"), [(State.STOPPED, 0), (State.FAILED, 1)])
def test_stop_wait_tells_how_it_ended(ending: State, exit_code: int) -> None:
    backend = ScriptedBackend({ID: to_document(RUNNING)}, becomes=[in_state(State.STOPPING), in_state(ending)])

    result = run(backend, "stop", ID, "--reason", "r", "--wait", "-o", "name")

    assert (result.exit_code, result.stdout) == (exit_code, f"{ID}\n")


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_judging_a_plan_takes_its_hash_from_the_status_with_yes(verb: str) -> None:
    backend = ScriptedBackend({ID: in_state(State.AWAITING_APPROVAL)})

    result = run(backend, verb, ID, "--reason", "seen", "--yes")

    assert result.exit_code == 0, result.stderr
    assert backend.sent[0]["data"] == {"plan_hash": PLAN_HASH, "reason": "seen"}


@pytest.mark.parametrize(("typed", "sent"), [("yes\n", 1), ("no\n", 0)])
def test_judging_a_plan_on_a_terminal_shows_it_and_asks(typed: str, sent: int) -> None:
    backend = ScriptedBackend({ID: in_state(State.AWAITING_APPROVAL)})

    result = run(backend, "approve", ID, "--reason", "seen", interactive=True, typed=typed)

    assert len(backend.sent) == sent
    assert "134,000 records" in result.stderr
    assert result.stdout == ""


def test_judging_a_plan_without_a_terminal_names_the_flags() -> None:
    backend = ScriptedBackend({ID: in_state(State.AWAITING_APPROVAL)})

    result = run(backend, "approve", ID, "--reason", "seen")

    assert (result.exit_code, backend.sent) == (2, [])
    assert f"--plan-hash {PLAN_HASH} or --yes" in result.stderr


@pytest.mark.parametrize(("documents", "exit_code"), [({}, 3), ({ID: to_document(RUNNING)}, 4)])
def test_nothing_to_judge_is_told(documents: dict[str, dict[str, object]], exit_code: int) -> None:
    backend = ScriptedBackend(documents)

    result = run(backend, "reject", ID, "--reason", "r", "--yes")

    assert (result.exit_code, backend.sent) == (exit_code, [])


def test_a_stale_approval_is_exit_code_6() -> None:
    backend = ScriptedBackend({ID: in_state(State.AWAITING_APPROVAL)}, answer=refuse_with(Code.STALE_PLAN))

    result = run(backend, "approve", ID, "--reason", "r", "--plan-hash", "sha256:old")

    assert result.exit_code == 6
