"""The gate: what the budget controller must reach on seeds it was not tuned on, or the build fails.

`gate` is what the controller must reach on the formula, `measured_gate` on a measured plant. `expectations` is what the
other policies must show; otherwise the model has changed, and the limits of the gate mean nothing.
"""

from dataclasses import dataclass

from recoveryd.simulation.matrix import Matrix
from recoveryd.simulation.policies import BUDGET
from recoveryd.simulation.scenarios import Scenario

VIOLATION_MOST = 0.04
OUTAGE_VIOLATION_MOST = 0.05
SLOW_MOST = 1.30
MEASURED_SLOW_MOST = 1.50
LAG_VIOLATION_MOST = 0.003
SCALED_MOST = 1.10
SEEDS_LEAST = 12


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One line of the gate: what is wanted, what was found, whether it passed."""

    name: str
    found: str
    wanted: str
    passed: bool


def gate(nominal: Matrix, scaled: Matrix) -> tuple[GateCheck, ...]:
    """`nominal` needs the budget and the fixed 50 % policy in all scenarios; `scaled` is the budget policy at five
    times the capacity.
    """
    budget, half, large = nominal.summary(BUDGET), nominal.summary("fixed 50 %"), scaled.summary(BUDGET)
    outage = nominal.scenario_mean(BUDGET, Scenario.OUTAGE)[1]
    seeds = min(len(cell) for cell in nominal.scores.values())
    return (
        GateCheck("seeds", str(seeds), f">= {SEEDS_LEAST}", seeds >= SEEDS_LEAST),
        _at_most("budget: violation", budget.violation, VIOLATION_MOST),
        _at_most("budget: violation in outages", outage, OUTAGE_VIOLATION_MOST),
        _at_most("budget: lag violation", budget.violation_lag, LAG_VIOLATION_MOST),
        _times("budget: time / oracle", budget.slow, SLOW_MOST),
        _times("budget: time against fixed 50 %", budget.slow, half.slow),
        _at_most("budget: violation against fixed 50 %", budget.violation, half.violation),
        GateCheck("budget: unfinished runs", str(budget.unfinished), "0", budget.unfinished == 0),
        _times("budget at capacity x5: time / oracle", large.slow, SCALED_MOST * budget.slow),
        _at_most("budget at capacity x5: violation", large.violation, SCALED_MOST * budget.violation),
        GateCheck("budget at capacity x5: unfinished runs", str(large.unfinished), "0", large.unfinished == 0),
    )


def measured_gate(measured: Matrix) -> tuple[GateCheck, ...]:
    """`measured` is the budget policy in all scenarios on the measured plant."""
    budget = measured.summary(BUDGET)
    return (
        _at_most("budget on the measured plant: violation", budget.violation, VIOLATION_MOST),
        _times("budget on the measured plant: time / oracle", budget.slow, MEASURED_SLOW_MOST),
        GateCheck("budget on the measured plant: unfinished runs", str(budget.unfinished), "0", budget.unfinished == 0),
    )


def expectations(nominal: Matrix) -> tuple[GateCheck, ...]:
    """What the simple policies must show, so that the comparison means something."""
    none, half, aimd = (nominal.summary(p) for p in ("none", "fixed 50 %", "AIMD x0.7"))
    return (
        _times("none: time / oracle", none.slow, 1.0),
        GateCheck("none: violation", f"{none.violation:.1%}", "> 90%", none.violation > 0.9),
        GateCheck("fixed 50 %: time / oracle", f"{half.slow:.2f}x", "1.6x to 2.0x", 1.6 <= half.slow <= 2.0),
        GateCheck("fixed 50 %: violation", f"{half.violation:.1%}", "> 15%", half.violation > 0.15),
        GateCheck("AIMD x0.7: time / oracle", f"{aimd.slow:.2f}x", "1.3x to 1.6x", 1.3 <= aimd.slow <= 1.6),
        GateCheck("AIMD x0.7: violation", f"{aimd.violation:.1%}", "3% to 6%", 0.03 <= aimd.violation <= 0.06),
    )


def _at_most(name: str, found: float, most: float) -> GateCheck:
    return GateCheck(name, f"{found:.2%}", f"<= {most:.2%}", found <= most)


def _times(name: str, found: float, most: float) -> GateCheck:
    return GateCheck(name, f"{found:.2f}x", f"<= {most:.2f}x", found <= most)
