"""The judge counts only harm by the replay, and results do not depend on the number of processes."""

import pytest

from recoveryd.simulation.gate import GateCheck, gate, measured_gate
from recoveryd.simulation.judge import Score, judge
from recoveryd.simulation.matrix import TEST_SEEDS, Matrix, run_cell, run_matrix
from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.policies import BUDGET, POLICIES
from recoveryd.simulation.report import (
    SUMMARY_HEADER,
    check_rows,
    curve,
    scenario_header,
    scenario_rows,
    summary_rows,
    text_table,
)
from recoveryd.simulation.run import Trace
from recoveryd.simulation.scenarios import Scenario

SMALL = ModelParams(backlog=6_000.0, horizon_s=1_500)
PARAMS = ModelParams()


def trace(finished_s: int | None, latency: list[float], lag: list[float]) -> Trace:
    return Trace(finished_s, latency, lag, [0.0] * len(lag), 5)


def test_only_what_the_world_alone_does_not_show_is_attributed() -> None:
    run = trace(100, [0.3, 0.3, 0.1, 0.3, 0.1], [40.0, 5.0, 40.0, 5.0, 5.0])
    alone = trace(None, [0.1, 0.3, 0.1, 0.1, 0.1], [5.0, 5.0, 5.0, 5.0, 5.0])
    oracle = trace(50, [0.1] * 5, [5.0] * 5)
    assert judge(run, alone, oracle, PARAMS) == Score(
        violation=0.03,
        violation_latency=0.02,
        violation_lag=0.02,
        slow=2.0,
        most_lag_s=40.0,
        excess_lag_s2=20.0,
        updates_per_h=180.0,
        finished=True,
    )


def test_an_unfinished_run_is_judged_over_the_horizon_and_says_so() -> None:
    score = judge(trace(None, [0.1], [1.0]), trace(None, [0.1], [1.0]), trace(900, [0.1], [1.0]), PARAMS)
    assert (score.finished, score.slow) == (False, 10.0)


def test_runs_are_the_same_in_one_process_and_in_two() -> None:
    scenarios, seeds = (Scenario.MIXED, Scenario.OUTAGE), (1, 2)
    one = run_matrix(("fixed 50 %", BUDGET), seeds, scenarios, SMALL, processes=1)
    two = run_matrix(("fixed 50 %", BUDGET), seeds, scenarios, SMALL, processes=2)
    assert one == two
    assert one.policies == ("fixed 50 %", BUDGET)


def test_every_policy_runs_in_every_scenario() -> None:
    for scenario in Scenario:
        assert set(run_cell(scenario, 1, tuple(POLICIES), SMALL)) == set(POLICIES)


def test_the_gate_runs_on_none_of_the_seeds_that_the_defaults_were_chosen_on() -> None:
    assert len(TEST_SEEDS) >= 12
    assert not set(range(12)) & set(TEST_SEEDS)


def score(violation: float, slow: float, lag: float = 0.0, *, finished: bool = True) -> Score:
    return Score(violation, violation, lag, slow, 10.0, 0.0, 200.0, finished)


def matrix(budget: Score, half: Score, seeds: int = 12, outage: Score | None = None) -> Matrix:
    cells = {(p, s): (found,) * seeds for s in Scenario for p, found in ((BUDGET, budget), ("fixed 50 %", half))}
    if outage is not None:
        cells[BUDGET, Scenario.OUTAGE] = (outage,) * seeds
    return Matrix(cells)


GOOD, HALF = score(0.03, 1.25), score(0.2, 1.8)


def failed(nominal: Matrix, scaled: Matrix) -> list[str]:
    return [check.name for check in gate(nominal, scaled) if not check.passed]


@pytest.mark.parametrize(
    ("nominal", "scaled", "missed"),
    [
        (matrix(GOOD, HALF), matrix(GOOD, HALF), []),
        (matrix(GOOD, HALF, seeds=11), matrix(GOOD, HALF), ["seeds"]),
        (matrix(score(0.041, 1.25), HALF), matrix(score(0.04, 1.25), HALF), ["budget: violation"]),
        (matrix(GOOD, HALF, outage=score(0.051, 1.25)), matrix(GOOD, HALF), ["budget: violation in outages"]),
        (matrix(score(0.03, 1.25, 0.004), HALF), matrix(GOOD, HALF), ["budget: lag violation"]),
        (matrix(score(0.03, 1.31), HALF), matrix(GOOD, HALF), ["budget: time / oracle"]),
        (matrix(GOOD, score(0.2, 1.2)), matrix(GOOD, HALF), ["budget: time against fixed 50 %"]),
        (matrix(GOOD, score(0.02, 1.8)), matrix(GOOD, HALF), ["budget: violation against fixed 50 %"]),
        (matrix(score(0.03, 1.25, finished=False), HALF), matrix(GOOD, HALF), ["budget: unfinished runs"]),
        (matrix(GOOD, HALF), matrix(score(0.03, 1.39), HALF), ["budget at capacity x5: time / oracle"]),
        (matrix(GOOD, HALF), matrix(score(0.034, 1.25), HALF), ["budget at capacity x5: violation"]),
    ],
)
def test_the_gate_names_what_is_missed(nominal: Matrix, scaled: Matrix, missed: list[str]) -> None:
    assert failed(nominal, scaled) == missed


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (matrix(score(0.04, 1.5), HALF), []),
        (matrix(score(0.041, 1.5), HALF), ["violation"]),
        (matrix(score(0.04, 1.51), HALF), ["time / oracle"]),
        (matrix(score(0.04, 1.5, finished=False), HALF), ["unfinished runs"]),
    ],
)
def test_the_gate_on_the_measured_plant_names_what_is_missed(found: Matrix, missed: list[str]) -> None:
    names = [check.name for check in measured_gate(found) if not check.passed]
    assert names == [f"budget on the measured plant: {name}" for name in missed]


def test_tables_have_a_row_per_policy_and_a_column_per_scenario() -> None:
    found = matrix(GOOD, HALF)
    assert summary_rows(found)[0] == (BUDGET, "1.25x", "3.0%", "3.0%", "0.00%", "steady 3.0%", "10 s", "200", "0")
    assert len(SUMMARY_HEADER) == len(summary_rows(found)[0])
    assert scenario_header(found) == ("policy", *(str(s) for s in Scenario))
    assert scenario_rows(found)[1] == ("fixed 50 %", *["1.80x 20.0%"] * len(Scenario))
    assert check_rows([GateCheck("a", "1", "2", passed=False)]) == [("FAIL", "a", "1", "2")]
    assert text_table(("a", "b"), [("xx", "1")]) == "a   b\n-----\nxx  1"


def test_a_curve_has_a_point_per_second() -> None:
    found = curve(BUDGET, Scenario.STEADY, 1, SMALL)
    assert found.finished_s is not None
    assert len(found.rate) == len(found.latency_s) == len(found.lag_s) >= found.finished_s
