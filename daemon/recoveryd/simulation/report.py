"""Tables and curves of the simulation as plain values, for the command line, the docs and a picture."""

from collections.abc import Sequence
from dataclasses import dataclass

from recoveryd.simulation.gate import GateCheck
from recoveryd.simulation.matrix import Matrix
from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.policies import POLICIES
from recoveryd.simulation.run import simulate
from recoveryd.simulation.scenarios import Scenario, make_world

SUMMARY_HEADER = (
    "policy",
    "time/oracle",
    "violation",
    "p99",
    "lag",
    "worst scenario",
    "max lag",
    "updates/h",
    "unfinished",
)


@dataclass(frozen=True, slots=True)
class Curve:
    """One run for a picture, per second from the start of the replay: rate in force, p99, time lag, and their SLOs."""

    policy: str
    finished_s: int | None
    rate: Sequence[float]
    latency_s: Sequence[float]
    lag_s: Sequence[float]
    slo_latency_s: float
    slo_lag_s: float


def summary_rows(matrix: Matrix) -> list[tuple[str, ...]]:
    """A row per policy under `SUMMARY_HEADER`, means over the judged scenarios."""
    rows: list[tuple[str, ...]] = []
    for policy in matrix.policies:
        s = matrix.summary(policy)
        rows.append(
            (
                policy,
                f"{s.slow:.2f}x",
                f"{s.violation:.1%}",
                f"{s.violation_latency:.1%}",
                f"{s.violation_lag:.2%}",
                f"{s.worst_scenario} {s.worst_violation:.1%}",
                f"{s.most_lag_s:.0f} s",
                f"{s.updates_per_h:.0f}",
                str(s.unfinished),
            )
        )
    return rows


def scenario_header(matrix: Matrix) -> tuple[str, ...]:
    return ("policy", *dict.fromkeys(str(scenario) for _, scenario in matrix.scores))


def scenario_rows(matrix: Matrix) -> list[tuple[str, ...]]:
    """A row per policy; each scenario's cell is `time/oracle violation`, under `scenario_header`."""
    scenarios = list(dict.fromkeys(scenario for _, scenario in matrix.scores))
    rows: list[tuple[str, ...]] = []
    for policy in matrix.policies:
        cells = [matrix.scenario_mean(policy, scenario) for scenario in scenarios]
        rows.append((policy, *(f"{slow:.2f}x {violation:.1%}" for slow, violation in cells)))
    return rows


def check_rows(checks: Sequence[GateCheck]) -> list[tuple[str, ...]]:
    return [("pass" if c.passed else "FAIL", c.name, c.found, c.wanted) for c in checks]


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table with columns aligned by spaces; the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in (header, *rows)
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def curve(policy: str, scenario: Scenario, seed: int, params: ModelParams | None = None) -> Curve:
    """One run with its curves."""
    model = params or ModelParams()
    trace = simulate(make_world(scenario, seed, model), POLICIES[policy](model), seed, model)
    return Curve(
        policy,
        trace.finished_s,
        trace.rate,
        trace.latency_s,
        trace.lag_s,
        model.slo_latency_s,
        model.slo_lag_s,
    )
