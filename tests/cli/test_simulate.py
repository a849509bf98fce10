"""`recoveryctl simulate`: tables and JSON of the gate's own matrix, names as people type them, and a picture."""

import json
from pathlib import Path

import pytest

from recoveryd.simulation.matrix import TEST_SEEDS, run_matrix
from recoveryd.simulation.response import response_text
from recoveryd.simulation.scenarios import Scenario
from tests.cli.scripted import run
from tests.simulation.response_example import example_response

SMALL = ("simulate", "--scenario", "steady", "--seeds", "1", "--processes", "1")


def test_the_numbers_are_those_of_the_matrix() -> None:
    result = run(None, *SMALL, "--policy", "budget", "--policy", "Fixed 50", "-o", "json")
    matrix = run_matrix(("budget", "fixed 50 %"), TEST_SEEDS[:1], (Scenario.STEADY,), processes=1)

    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["scenarios"] == {
        policy: {"steady": dict(zip(("slow", "violation"), matrix.scenario_mean(policy, Scenario.STEADY), strict=True))}
        for policy in ("budget", "fixed 50 %")
    }
    assert (found["seeds"], found["passed"], found["gate"]) == ([TEST_SEEDS[0]], None, [])
    assert [row["policy"] for row in found["summary"]] == ["budget", "fixed 50 %"]


def test_a_part_of_the_matrix_is_shown_but_not_judged() -> None:
    result = run(None, *SMALL, "--policy", "none")

    assert result.exit_code == 0
    assert result.stdout.startswith("policy  time/oracle")
    assert "gate" not in result.stdout
    assert result.stderr.startswith("Not judged")


def test_the_whole_matrix_is_judged_and_a_missed_gate_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd.simulation.response.packaged_response", lambda: None)  # twelve seeds judge that one
    monkeypatch.setattr("recoveryd.simulation.study.SEEDS_LEAST", 1)  # the gate itself still asks for twelve
    monkeypatch.setattr("recoveryd.simulation.gate.SCALED_MOST", 1.5)  # of one seed, a tenth is chance
    missed = run(None, "simulate", "--seeds", "1", "-o", "json")
    found = json.loads(missed.stdout)
    assert (missed.exit_code, found["passed"]) == (1, False)
    assert [check["name"] for check in found["gate"] if not check["passed"]] == ["seeds"]
    assert {check["name"] for check in found["gate"]} >= {
        "budget: violation",
        "budget: violation in outages",
        "budget: lag violation",
        "budget: time / oracle",
        "budget: time against fixed 50 %",
        "budget: violation against fixed 50 %",
        "budget at capacity x5: time / oracle",
    }

    monkeypatch.setattr("recoveryd.simulation.gate.SEEDS_LEAST", 1)
    passed = run(None, "simulate", "--seeds", "1")
    assert passed.exit_code == 0
    assert [line.split()[:3] for line in passed.stdout.splitlines() if " seeds " in line] == [["pass", "seeds", "1"]]


def test_a_picture_is_drawn_of_the_policies_compared(tmp_path: Path) -> None:
    file = tmp_path / "run.png"
    result = run(None, *SMALL, "--policy", "budget", "--png", str(file))

    assert result.exit_code == 0, result.stderr
    assert file.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--policy", "bugdet"), "--policy `bugdet` is not known. Did you mean `budget`?"),
        (("--scenario", "flood"), "--scenario `flood` is not known."),
        (("--seeds", "0"), "--seeds"),
        (("--png", "none/none.png", "--policy", "none"), "cannot be written"),
    ],
)
def test_what_is_not_known_is_exit_code_2_and_named(args: tuple[str, ...], said: str) -> None:
    result = run(None, *SMALL, *args)

    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_measured_broker_is_judged_beside_the_formula(tmp_path: Path) -> None:
    file = tmp_path / "response.json"
    file.write_text(response_text(example_response()), encoding="utf-8")
    done = run(None, *SMALL, "--response", str(file), "-o", "json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["policy"] for row in found["measured"]] == [row["policy"] for row in found["summary"]]
    assert found["measured"] != found["summary"]


@pytest.mark.parametrize(("text", "why"), [("{}", "format is None"), (None, "cannot be read")])
def test_a_file_that_is_no_measurement_is_refused(tmp_path: Path, text: str | None, why: str) -> None:
    file = tmp_path / "response.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    done = run(None, *SMALL, "--response", str(file))
    assert done.exit_code == 2
    assert "RCV-1005" in done.stderr
    assert why in done.stderr
    assert "make response" in done.stderr
