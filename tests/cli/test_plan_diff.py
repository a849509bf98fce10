"""`diff` of two plans."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

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


def planned(folder: Path, name: str, **plan: Any) -> str:
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"plan": {"hash": "sha256:1", **plan}}))
    return str(file)


def told(left: str, right: str) -> tuple[int, dict[str, tuple[Any, Any]]]:
    result = run(None, "diff", left, right, "-o", "json")
    rows = json.loads(result.stdout)
    fields = {row["field"]: (row["left"], row["right"]) for row in rows}
    assert len(fields) == len(rows)
    return result.exit_code, fields


def change(what: str, name: str, partition: int | None, before: Any, after: Any) -> dict[str, Any]:
    return {"what": what, "name": name, "partition": partition, "from": before, "to": after}


def test_each_change_of_a_workflow_is_compared_with_that_of_the_same_thing(tmp_path: Path) -> None:
    behind = [change("offset", "payments", 0, 1, 2), change("unit", "app", None, "running", "stopped")]
    a = planned(
        tmp_path, "a", changes=[change("offset", "orders", 0, 7, 5), change("topic", "out-a", None, 1, None), *behind]
    )
    b = planned(
        tmp_path,
        "b",
        changes=[change("offset", "orders", 0, 7, 900_000), change("topic", "out-a", None, 1, 1), *behind],
    )

    assert told(a, b) == (
        9,
        {"changes.offset.orders.0.to": (5, 900_000), "changes.topic.out-a.to": (None, 1)},
    )


def finding(code: str, message: str) -> dict[str, str]:
    return {"code": code, "severity": "info", "message": message}


def test_findings_of_one_code_are_all_compared_in_whatever_order_they_stand(tmp_path: Path) -> None:
    of_a, of_b, of_c = (finding("impact", f"{group} reads it.") for group in "abc")
    both, turned = planned(tmp_path, "1", findings=[of_a, of_b]), planned(tmp_path, "2", findings=[of_b, of_a])
    one, none = planned(tmp_path, "3", findings=[of_b]), planned(tmp_path, "4", findings=[])
    other = planned(tmp_path, "5", findings=[of_b, of_a, of_c, of_c])

    gone = {"findings.impact.severity": ("info", None), "findings.impact.message": ("a reads it.", None)}
    assert told(both, turned) == (0, {})
    assert told(both, one) == (9, gone)
    assert len(told(both, none)[1]) == 4
    assert told(both, other)[1]["findings.impact.2.message"] == (None, "c reads it.")


def test_a_row_that_has_nothing_but_its_name_is_not_left_out(tmp_path: Path) -> None:
    left, right = (
        planned(tmp_path, str(len(rows)), rows=rows) for rows in ([{"name": "x"}], [{"name": "x"}, {"name": "y"}])
    )

    assert told(left, right) == (9, {"rows.y.name": (None, "y")})


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
    found = [run(backend, "diff", "flights-rerun", other) for other in ("new", "nobody", str(tmp_path / "bad.json"))]
    assert [(r.exit_code, r.stderr.split()[0]) for r in found] == [(2, "RCV-1011"), (3, "RCV-1010"), (2, "RCV-4008")]
