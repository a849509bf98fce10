"""The gate itself: the whole matrix on seeds with which the controller was not tuned."""

from recoveryd.simulation.gate import expectations, gate
from recoveryd.simulation.matrix import TEST_SEEDS, run_matrix
from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.policies import BUDGET
from recoveryd.simulation.report import check_rows

CORES = 2


def test_the_budget_controller_passes_the_gate_and_the_baselines_behave_as_known() -> None:
    nominal = run_matrix(seeds=TEST_SEEDS, processes=CORES)
    scaled = run_matrix((BUDGET,), seeds=TEST_SEEDS, params=ModelParams(scale=5.0), processes=CORES)
    checks = [*gate(nominal, scaled), *expectations(nominal)]
    assert [row for row in check_rows(checks) if row[0] != "pass"] == []
