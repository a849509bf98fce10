"""One study: policies in scenarios over seeds, and the gate if everything that it judges was run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from recoveryd.simulation.gate import SEEDS_LEAST, GateCheck, expectations, gate, measured_gate
from recoveryd.simulation.matrix import TEST_SEEDS, Matrix, run_matrix
from recoveryd.simulation.measured import measured_params
from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.policies import BUDGET, POLICIES
from recoveryd.simulation.response import Response
from recoveryd.simulation.scenarios import JUDGED, Scenario

SCALE = 5.0  # capacity at which the controller runs again, without new tuning


@dataclass(frozen=True, slots=True)
class Study:
    """`scaled` is None, and there are no checks, when the study is too small to be judged. `measured` is None when
    there is no measured plant.
    """

    seeds: tuple[int, ...]
    nominal: Matrix
    scaled: Matrix | None = None
    checks: tuple[GateCheck, ...] = ()
    baselines: tuple[GateCheck, ...] = ()
    measured: Matrix | None = None

    @property
    def passed(self) -> bool:
        """Whether the gate holds; True for a study that is not judged."""
        return all(check.passed for check in self.checks)


def run_study(
    policies: Sequence[str] = tuple(POLICIES),
    scenarios: Sequence[Scenario] = tuple(Scenario),
    seeds: int = len(TEST_SEEDS),
    processes: int = 2,
    response: Response | None = None,
) -> Study:
    """Run the study on the first `seeds` of the test seeds, on the formula and on `response`. Deterministic."""
    chosen = tuple(range(TEST_SEEDS[0], TEST_SEEDS[0] + seeds))
    nominal = run_matrix(policies, chosen, scenarios, processes=processes)
    measured = (
        run_matrix(policies, chosen, scenarios, measured_params(response), processes) if response is not None else None
    )
    if not is_judged(policies, scenarios, seeds):
        return Study(chosen, nominal, measured=measured)
    scaled = run_matrix((BUDGET,), chosen, scenarios, ModelParams(scale=SCALE), processes)
    checks = (*gate(nominal, scaled), *(() if measured is None else measured_gate(measured)))
    return Study(chosen, nominal, scaled, checks, expectations(nominal), measured)


def is_judged(policies: Sequence[str], scenarios: Sequence[Scenario], seeds: int) -> bool:
    """Whether it has all policies in all scenarios over enough seeds; the gate judges only such a study."""
    return seeds >= SEEDS_LEAST and set(policies) >= set(POLICIES) and set(scenarios) >= set(JUDGED)


def as_document(study: Study) -> dict[str, object]:
    """The study as plain JSON values. Violations are parts of the replay's time, `slow` is time / oracle."""
    return {
        "seeds": list(study.seeds),
        "summary": [_summary(study.nominal, policy) for policy in study.nominal.policies],
        "scenarios": {policy: _cells(study.nominal, policy) for policy in study.nominal.policies},
        "capacity_x5": None if study.scaled is None else _summary(study.scaled, BUDGET),
        "measured": None if study.measured is None else [_summary(study.measured, p) for p in study.measured.policies],
        "gate": [asdict(check) for check in study.checks],
        "baselines": [asdict(check) for check in study.baselines],
        "passed": study.passed if study.checks else None,
    }


def _summary(matrix: Matrix, policy: str) -> Mapping[str, object]:
    return {**asdict(matrix.summary(policy)), "worst_scenario": str(matrix.summary(policy).worst_scenario)}


def _cells(matrix: Matrix, policy: str) -> Mapping[str, object]:
    scenarios = [scenario for name, scenario in matrix.scores if name == policy]
    means = {str(scenario): matrix.scenario_mean(policy, scenario) for scenario in scenarios}
    return {name: {"slow": slow, "violation": violation} for name, (slow, violation) in means.items()}
