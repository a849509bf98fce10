"""The gate itself: the whole matrix on seeds with which the controller was not tuned."""

import pytest

from recoveryd.simulation.gate import VIOLATION_MOST, expectations, gate, measured_gate
from recoveryd.simulation.matrix import TEST_SEEDS, run_matrix
from recoveryd.simulation.measured import measured_params
from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.policies import BUDGET
from recoveryd.simulation.report import check_rows
from recoveryd.simulation.response import packaged_response
from tests.simulation.response_example import example_response

CORES = 2


def test_the_budget_controller_passes_the_gate() -> None:
    nominal = run_matrix((BUDGET, "fixed 50 %"), seeds=TEST_SEEDS, processes=CORES)
    scaled = run_matrix((BUDGET,), seeds=TEST_SEEDS, params=ModelParams(scale=5.0), processes=CORES)
    assert [row for row in check_rows(gate(nominal, scaled)) if row[0] != "pass"] == []


@pytest.mark.wide("tests/simulation/test_gate.py::test_the_budget_controller_passes_the_gate")
def test_the_baselines_behave_as_known() -> None:
    """They say what the numbers of the gate are worth, and change only with the models."""
    nominal = run_matrix(("none", "fixed 50 %", "AIMD x0.7"), seeds=TEST_SEEDS, processes=CORES)
    assert [row for row in check_rows(expectations(nominal)) if row[0] != "pass"] == []


def test_noise_of_a_machine_is_not_taken_for_pressure() -> None:
    """One latency sample in ten is over the SLO, with a replay and without."""
    noisy = run_matrix((BUDGET,), seeds=TEST_SEEDS, params=ModelParams(spikes=0.1), processes=CORES)
    found = noisy.summary(BUDGET)
    assert found.slow <= 1.5
    assert found.violation <= VIOLATION_MOST
    assert found.unfinished == 0


def test_the_budget_controller_passes_the_gate_on_a_measured_broker() -> None:
    """On the measurement that comes with recoveryd; on an example where none does."""
    params = measured_params(packaged_response() or example_response())
    measured = run_matrix((BUDGET,), seeds=TEST_SEEDS, params=params, processes=CORES)
    assert [row for row in check_rows(measured_gate(measured)) if row[0] != "pass"] == []
