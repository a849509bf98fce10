"""The gate itself: the whole matrix on seeds the controller was not tuned on, in under a minute of two cores."""

import resource

from daemon.simulation.gate import expectations, gate
from daemon.simulation.matrix import TEST_SEEDS, run_matrix
from daemon.simulation.model import ModelParams
from daemon.simulation.policies import BUDGET
from daemon.simulation.report import check_rows

CORES, MOST_S = 2, 60.0


def worked_s() -> float:
    """Processor time of the worker processes so far: unlike the clock on the wall it does not count what other programs take."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_budget_controller_passes_the_gate_and_the_baselines_behave_as_known() -> None:
    before_s = worked_s()
    nominal = run_matrix(seeds=TEST_SEEDS, processes=CORES)
    scaled = run_matrix((BUDGET,), seeds=TEST_SEEDS, params=ModelParams(scale=5.0), processes=CORES)
    took_s = (worked_s() - before_s) / CORES
    checks = [*gate(nominal, scaled), *expectations(nominal)]
    assert [row for row in check_rows(checks) if row[0] != "pass"] == []
    assert took_s < MOST_S
