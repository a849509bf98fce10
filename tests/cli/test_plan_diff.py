"""`diff` of two plans."""

import json
from dataclasses import replace
from pathlib import Path

from recoveryd.kernel.states import State
from recoveryd.recovery.model import EtaSeconds, Finding, Severity
from tests.builders.core import to_document
from tests.cli.recoveries import PLAN, RUNNING, in_state
from tests.cli.scripted import ScriptedBackend, run

OTHER = replace(
    RUNNING,
    id="other",
    plan=replace(
        PLAN,
        hash="sha256:99",
        eta_seconds=EtaSeconds(1.0, 2.0, 3.0),
        partitions=(PLAN.partitions[0], replace(PLAN.partitions[1], stop=52_000)),
        findings=(Finding("target_in_use", Severity.WARN, "Somebody writes there."),),
    ),
)
BACKEND = ScriptedBackend({"flights-rerun": to_document(RUNNING), "other": to_document(OTHER)})


def test_what_differs_is_told_by_partition_and_finding_and_estimates_are_left_out() -> None:
    result = run(BACKEND, "diff", "flights-rerun", "other", "-o", "json")
    assert result.exit_code == 9, result.stderr
    rows = {row["field"]: (row["left"], row["right"]) for row in json.loads(result.stdout)}
    assert rows == {
        "hash": ("sha256:4f2c", "sha256:99"),
        "source.partitions.1.stop": (51_000, 52_000),
        "findings.target_retention.severity": ("warn", None),
        "findings.target_retention.message": ("Records older than 7 days vanish soon after they land.", None),
        "findings.target_in_use.severity": (None, "warn"),
        "findings.target_in_use.message": (None, "Somebody writes there."),
    }


def test_a_plan_is_the_same_as_the_file_that_was_written_of_it(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(to_document(RUNNING)))
    result = run(BACKEND, "diff", str(file), "flights-rerun")
    assert result.exit_code == 0
    assert "are the same" in result.stderr


def test_what_has_no_plan_and_what_is_not_there_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    known = {"flights-rerun": to_document(RUNNING), "new": {**in_state(State.PLANNING), "plan": None}}
    backend = ScriptedBackend(known)
    told = [run(backend, "diff", "flights-rerun", other) for other in ("new", "nobody", str(tmp_path / "bad.json"))]
    assert [(r.exit_code, r.stderr.split()[0]) for r in told] == [(2, "RCV-1011"), (3, "RCV-1010"), (2, "RCV-4008")]
