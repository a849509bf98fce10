"""`python -m daemon.simulation`: the whole matrix, the gate, and with --variants the sensitivity of the controller. Exit 1 when the gate is missed."""

import argparse
import sys
import time

from daemon.simulation.gate import expectations, gate
from daemon.simulation.matrix import TEST_SEEDS, run_matrix
from daemon.simulation.model import ModelParams
from daemon.simulation.policies import BUDGET
from daemon.simulation.report import (
    SUMMARY_HEADER,
    check_rows,
    scenario_header,
    scenario_rows,
    summary_rows,
    text_table,
)
from daemon.simulation.variants import VARIANTS


def main() -> int:
    """Print tables to stdout."""
    parser = argparse.ArgumentParser(prog="python -m daemon.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=len(TEST_SEEDS), help="how many of the test seeds' range to use")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--variants", action="store_true", help="run the controller in every variant of the model, too")
    chosen = parser.parse_args()
    seeds = range(TEST_SEEDS[0], TEST_SEEDS[0] + chosen.seeds)
    began_s = time.monotonic()
    nominal = run_matrix(seeds=seeds, processes=chosen.processes)
    scaled = run_matrix((BUDGET,), seeds=seeds, params=ModelParams(scale=5.0), processes=chosen.processes)
    checks = gate(nominal, scaled)
    _show(text_table(SUMMARY_HEADER, summary_rows(nominal)))
    _show(text_table(scenario_header(nominal), scenario_rows(nominal)))
    _show("capacity x5", text_table(SUMMARY_HEADER, summary_rows(scaled)))
    _show("baselines", text_table(("", "expected", "found", "wanted"), check_rows(expectations(nominal))))
    _show("gate", text_table(("", "check", "found", "wanted"), check_rows(checks)))
    _show(f"{len(seeds)} seeds in {time.monotonic() - began_s:.1f} s")
    if chosen.variants:
        rows: list[tuple[str, ...]] = []
        for name, params in VARIANTS.items():
            matrix = run_matrix((BUDGET,), seeds=seeds, params=params, processes=chosen.processes)
            rows.extend((name, *row[1:]) for row in summary_rows(matrix))
        _show("variants", text_table(("variant", *SUMMARY_HEADER[1:]), rows))
    return 0 if all(check.passed for check in checks) else 1


def _show(*parts: str) -> None:
    sys.stdout.write("\n".join(parts) + "\n\n")


if __name__ == "__main__":
    sys.exit(main())
