"""What `verify` sends, shows and returns."""

from dataclasses import replace

import pytest

from recoveryd.kernel.states import State, Stop, StopReason
from recoveryd.recovery.model import Progress, Recovery
from recoveryd.recovery.spec import Earliest, Latest, SourceRef
from recoveryd.verification.spec import ComparedRef, VerificationSpec
from recoveryd_jobs.contract import Difference, Verification
from tests.builders.core import to_document
from tests.cli.recoveries import COMPLETED, NOW_MS, PLAN, RUNNING
from tests.cli.scripted import ScriptedBackend, run

SPEC = VerificationSpec(SourceRef("flights", Earliest(), Latest()), ComparedRef("flights", "other"))
ENDED = replace(
    COMPLETED,
    kind="verification",
    spec=SPEC,
    plan=replace(PLAN, lanes=(), target_starts=((0, 7), (1, 0)), target_stops=((0, 84_007), (1, 50_000))),
    why="134,000 source records compared with 134,000 of the target (match)",
    progress=Progress(
        verified_records=268_000, verified_bytes=80_000_000, verified_offsets=268_000, offsets_to_verify=268_000
    ),
    stop=None,
    completeness=(),
    verification=Verification("match", 134_000, 134_000, "d", scope="source"),
)
REPLAY = ("replay", "--source", "flights", "--from", "earliest", "--to", "latest", "--target", "b", "--reason", "r")
DIFFERENCE = Difference("missing", 1, 1_200, None, None, 3, "3 records are not in the target.")
DIFFERING = replace(
    ENDED,
    error_code="RCV-3007",
    verification=Verification("mismatch", 134_000, 133_997, "d", (DIFFERENCE,), scope="source"),
)


def test_two_topics_are_a_whole_command() -> None:
    backend = ScriptedBackend(becomes=[to_document(replace(ENDED, state=State.STARTING, verification=None))])

    result = run(backend, "verify", "--source", "flights", "--target", "flights", "--target-cluster", "other", "--yes")

    assert result.exit_code == 0, result.stderr
    assert backend.sent[0]["type"] == "io.recoveryd.command.verify.v1"
    assert backend.sent[0]["data"] == {
        "source": {"topic": "flights"},
        "target": {"topic": "flights", "cluster": "other"},
        "reason": "is flights a copy of flights?",
    }


def test_sends_exactly_what_the_flags_say() -> None:
    backend = ScriptedBackend(becomes=[to_document(ENDED)])

    result = run(
        backend, "verify", "--source", "a", "--from", "offset:5", "--to", "2026-11-21T06:00:00Z", "--partitions", "0-1", "--target", "b",
        "--target-from", "earliest", "--compare", "latest", "--mapping", "key_hash", "--add-header", "run=2", "--drop-header", "old",
        "--max-bytes-per-s", "10MB", "--max-runtime", "2h", "--profile", "big", "--reason", "why not", "--id", "v-1", "--yes",
    )  # fmt: skip

    assert result.exit_code == 0, result.stderr
    assert backend.sent[0]["data"] == {
        "source": {"topic": "a", "from": {"offset": 5}, "to": "2026-11-21T06:00:00Z", "partitions": [0, 1]},
        "target": {"topic": "b", "from": "earliest"},
        "compare": "latest",
        "mapping": "key_hash",
        "headers": {"add": {"run": "2"}, "drop": ["old"]},
        "job": {"profile": "big"},
        "limits": {"max_bytes_per_s": 10_000_000, "max_runtime": "2h"},
        "reason": "why not",
    }


def test_a_match_is_exit_code_0_and_a_difference_9_although_both_are_completed() -> None:
    args = (
        "verify",
        "--source",
        "flights",
        "--target",
        "flights",
        "--target-cluster",
        "other",
        "--id",
        "flights-rerun",
        "--yes",
        "--wait",
    )
    for ended, code, said in ((ENDED, 0, "Verification: match."), (DIFFERING, 9, "3 records are not in the target.")):
        result = run(ScriptedBackend(becomes=[to_document(ended)]), *args, env={"COLUMNS": "200"})
        assert (result.exit_code, said in result.stdout) == (code, True), result.stdout


NO_VERDICT = replace(ENDED, verification=Verification("skipped", 0, 0, "", (), "ended early"), why="its time was over")
STOPPED = replace(NO_VERDICT, state=State.STOPPED, stop=Stop(StopReason.MAX_RUNTIME, None, NOW_MS))


@pytest.mark.parametrize(
    "ended",
    [
        STOPPED,
        replace(STOPPED, stop=Stop(StopReason.DEADLINE, None, NOW_MS)),
        replace(STOPPED, stop=Stop(StopReason.OPERATOR, None, NOW_MS)),
        replace(STOPPED, verification=None),
        replace(NO_VERDICT, state=State.COMPLETED),
        replace(NO_VERDICT, state=State.FAILED, error_code="RCV-3001"),
    ],
)
@pytest.mark.parametrize("verb", [("verify", "--source", "flights", "--target", "b", "--yes", "--wait"), ("wait",)])
def test_only_a_match_is_exit_code_0(ended: Recovery, verb: tuple[str, ...]) -> None:
    began = {} if verb[0] == "verify" else {ENDED.id: to_document(replace(ENDED, state=State.VERIFYING, version=8))}
    backend = ScriptedBackend(began, becomes=[to_document(ended)])
    result = run(backend, *verb, *(("--id", ENDED.id) if verb[0] == "verify" else (ENDED.id,)))
    assert result.exit_code == 1, result.stderr


def test_a_verification_that_was_to_be_stopped_and_is_stopped_is_success_of_the_stop() -> None:
    began = {ENDED.id: to_document(replace(ENDED, state=State.VERIFYING, version=8))}
    result = run(ScriptedBackend(began, becomes=[to_document(STOPPED)]), "stop", ENDED.id, "--reason", "r", "--wait")
    assert result.exit_code == 0, result.stderr


def test_the_plan_of_a_verification_is_no_verdict_that_is_missing() -> None:
    backend = ScriptedBackend(becomes=[to_document(replace(NO_VERDICT, state=State.PLANNED, verification=None))])
    result = run(backend, "verify", "--source", "flights", "--target", "b", "--id", ENDED.id, "--plan-only")
    assert result.exit_code == 0, result.stderr


def test_a_replay_that_was_stopped_while_it_was_proved_was_stopped_on_purpose() -> None:
    ended = replace(COMPLETED, state=State.STOPPED, stop=STOPPED.stop, verification=NO_VERDICT.verification)
    backend = ScriptedBackend(becomes=[to_document(ended)])
    result = run(backend, *REPLAY, "--id", ended.id, "--yes", "--wait")
    assert (result.exit_code, "skipped" in result.stdout) == (0, True), result.stdout


def test_describe_shows_both_ranges_and_how_far_it_came() -> None:
    backend = ScriptedBackend({"flights-rerun": to_document(ENDED)})
    shown = run(backend, "describe", "flights-rerun", env={"COLUMNS": "200"}).stdout
    assert "Range of the target" in shown
    assert "84,007" in shown
    assert "268,000 of 268,000 offsets, 100%" in shown
    assert "Completeness" not in shown


def test_a_verification_that_goes_on_shows_what_it_has_read() -> None:
    reading = replace(
        ENDED, state=State.VERIFYING, why="2 tasks compare", verification=None,
        progress=Progress(records_per_s=1e5, bytes_per_s=41e6, eta_seconds=12.0, verified_records=67_000, verified_offsets=67_000, offsets_to_verify=268_000),
    )  # fmt: skip
    verifying = replace(
        RUNNING,
        state=State.VERIFYING,
        progress=replace(RUNNING.progress, verified_offsets=67_000, offsets_to_verify=268_000, verified_records=67_000),
    )
    for document in (to_document(reading), to_document(verifying)):
        backend = ScriptedBackend(becomes=[document, to_document(ENDED)])
        said = run(
            backend, "verify", "--source", "flights", "--target", "b", "--id", "flights-rerun", "--yes", "--wait"
        ).stderr
        assert "verifying 25% 67,000 records compared, 41.0 MB/s, 12 s left" in said, said


def test_a_topic_that_is_missing_from_the_line_is_named() -> None:
    result = run(None, "verify", "--source", "a")
    assert (result.exit_code, "--target is missing" in result.stderr) == (2, True)
